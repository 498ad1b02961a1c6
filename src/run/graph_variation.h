// What tells the variants of a graph apart, for the warning that there are too many.
//
// Used by the recorder. Threads: a pure function.
#pragma once

#include "run/definition_store.h"

#include <span>
#include <string>

namespace precast::run {

/// "the shape of tensor 0, scalar 2, bytes 8 … 11 of tensor 1": in what the others differ from the
/// last one. Numbers are those of the boundary.
std::string DescribeVariation(std::span<const Variant* const> variants);

}  // namespace precast::run
