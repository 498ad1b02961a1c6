// Tensors of a GGUF file as float32, whatever their type. Exact: every value of the four types is a
// float32 (a Q8_0 element, an 11-bit scale times an 8-bit integer, too).
#pragma once

#include "qwen3/gguf.h"

#include <cstdint>
#include <span>
#include <vector>

namespace precast::qwen3 {

/// Converts `count` rows from `first` on into `out`. Throws `out_of_range` if the tensor lacks
/// these rows or `out` does not hold exactly `count * tensor.cols()` elements.
void DequantizeRows(const GgufTensor& tensor, uint64_t first, uint64_t count, std::span<float> out);

/// Converts a whole tensor.
std::vector<float> Dequantize(const GgufTensor& tensor);

}  // namespace precast::qwen3
