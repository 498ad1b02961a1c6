// Shrinker: takes a plan that fails apart for as long as what is left still fails.
//
// Threads: one at a time.
#pragma once

#include "fuzz/fuzzer.h"

#include <functional>

namespace precast::fuzz {

/// The smallest plan found for which `fails` holds; it is asked only about plans that keep the
/// rules. Requires: it holds for `plan`.
Plan Shrink(Plan plan, const std::function<bool(Plan*)>& fails);

/// The same for a difference, in the way it was seen, in a minute at most. What fails by chance is
/// tried several times.
Failure Shrink(Plan plan, Difference difference, const Options& options);

}  // namespace precast::fuzz
