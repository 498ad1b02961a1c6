// The cases of paged_attention: inputs, their placement on the device, and the reference.
#pragma once

#include <precast/program.h>

#include <cstdint>
#include <vector>

namespace precast::examples {

/// How much of the block table and the context lengths one access reads.
enum class Reads : int32_t { element, row, table };

std::vector<Case> PagedAttentionCases();
std::vector<ParamSpec> PagedAttentionParams();

}  // namespace precast::examples
