// What the kernels of a Qwen3 decoder cost, for the modelled timeline. Their tensors and scalars
// are listed in kernels.h.
#pragma once

#include <precast/kernel.h>

#include <algorithm>
#include <cstdint>

namespace precast::qwen3::cost {

/// One row of the matrix.
inline KernelCost Embed(const CostContext& c) {
  return {c.bytes(0) / c.shape(0, 0) + c.bytes(1), c.size(1)};
}

/// Square, sum, and two factors for each number.
inline KernelCost RmsNorm(const CostContext& c) { return {c.bytes(), 4 * c.size(0)}; }

/// All of the matrices and results; every block reads x. `rows`: of all matrices.
inline KernelCost Rows(const CostContext& c, int64_t rows) {
  return {c.bytes() + (c.blocks() - int64_t{1}) * c.bytes(0), 2 * rows * c.size(0)};
}
inline KernelCost MatVec(const CostContext& c) {
  int64_t rows = 0;
  for (size_t i = 2; i < c.tensors(); i += 2) rows += c.size(i);
  return Rows(c, rows);
}
inline KernelCost MatVecAdd(const CostContext& c) { return Rows(c, c.size(2)); }
inline KernelCost GatedMatVec(const CostContext& c) { return Rows(c, 2 * c.size(3)); }

/// Power, product, cosine and sine for each pair.
inline KernelCost Rotation(const CostContext& c) { return {c.bytes(), 2 * c.size(0)}; }

/// Of the cache, the row that is written. RMS norm, then two products and a sum for each number.
inline KernelCost NormRotate(const CostContext& c) {
  int64_t bytes = c.bytes(4) + c.bytes(6) + int64_t{sizeof(int32_t)};
  for (size_t i = 0; i <= 6; ++i) bytes += c.bytes(i);
  return {bytes, 7 * (c.size(1) + c.size(4))};
}

/// Of the cache, the rows of the chunk: each block reads those of its heads.
inline KernelCost AttendChunk(const CostContext& c) {
  int64_t first = c.scalar<int32_t>(0), head_dim = c.scalar<int32_t>(2);
  int64_t count = std::min<int64_t>(c.scalar<int32_t>(1), c.scalar<int32_t>(3) + 1 - first);
  int64_t heads = c.shape(4, 0), kv_heads = c.shape(1, 2) / head_dim;
  int64_t rows = 2 * count * std::max<int64_t>(kv_heads, c.blocks());
  int64_t row_bytes = head_dim * int64_t{sizeof(float)};
  // For each position: a product and a sum with the key, the same with the value, and softmax.
  return {c.bytes(0) + c.bytes(4) + rows * row_bytes, heads * count * (4 * head_dim + 5)};
}

inline KernelCost AttendMerge(const CostContext& c) { return {c.bytes(), 2 * c.size(0)}; }

}  // namespace precast::qwen3::cost
