// What the kernels of a decoder layer cost, for the modelled timeline. Their tensors and scalars
// are listed in kernels.h.
//
// How long the sequences are lies in a tensor, which a cost does not see: attention is taken to go
// over all that its part of the block table has room for.
#pragma once

#include <precast/dtype.h>
#include <precast/kernel.h>

#include <cstdint>

namespace precast::qwen3_14b::cost {

inline constexpr int64_t kBf16 = sizeof(bf16), kI32 = sizeof(int32_t);

/// A row of the table for each sequence.
inline KernelCost Embed(const CostContext& c) {
  return {c.bytes(1) + c.size(2) * kBf16 + c.bytes(2), c.size(2)};
}
inline KernelCost RopeRows(const CostContext& c) {
  return {c.bytes(2) + 2 * (c.bytes(3) + c.bytes(4)), 0};
}
inline KernelCost NewSlots(const CostContext& c) {
  int64_t batch = c.size(2);
  return {c.bytes(1) + c.bytes(2) + batch * kI32, 4 * batch};
}

/// Square, sum, and two factors for each number.
inline KernelCost RmsNorm(const CostContext& c) { return {c.bytes(), 4 * c.size(0)}; }
/// Every block reads x.
inline KernelCost Project(const CostContext& c) {
  return {c.bytes() + (c.blocks() - int64_t{1}) * c.bytes(2), 2 * c.size(0) * c.shape(2, 0)};
}
/// RMS norm, then two products and a sum for each number.
inline KernelCost NormRotate(const CostContext& c) { return {c.bytes(), 7 * c.size(0)}; }
/// Of the pool, the rows that are written.
inline KernelCost StoreKeys(const CostContext& c) {
  int64_t bytes = c.size(0) * kBf16;
  for (size_t i = 0; i <= 4; ++i) bytes += c.bytes(i);
  return {bytes, 7 * c.size(0)};
}
inline KernelCost StoreValues(const CostContext& c) {
  return {c.bytes(0) + c.bytes(1) + c.size(0) * kBf16, c.size(0)};
}

/// Bytes of the pool (tensor 1) that a task reads through its part of the block table (tensor 2).
inline int64_t PoolBytes(const CostContext& c) {
  return c.size(2) * c.shape(1, 1) * c.shape(1, 2) * kBf16;
}
inline KernelCost Scores(const CostContext& c) {
  return {c.bytes(0) + PoolBytes(c) + c.bytes(2) + c.bytes(3) + c.bytes(4),
          2 * c.size(4) * c.shape(0, 2)};
}
/// Maximum, difference, exponential, comparison, sum.
inline KernelCost Softmax(const CostContext& c) { return {c.bytes(), 5 * c.size(0)}; }
inline KernelCost WeightedValues(const CostContext& c) {
  return {c.bytes(0) + PoolBytes(c) + c.bytes(2) + c.bytes(3) + c.bytes(4),
          2 * c.size(0) * c.shape(4, 2)};
}
/// A product and a sum for each number, and a division for each result.
inline KernelCost Merge(const CostContext& c) { return {c.bytes(), 2 * c.size(2) + c.size(3)}; }
/// Sign, exponential, sum, quotient, product.
inline KernelCost SwiGlu(const CostContext& c) { return {c.bytes(), 5 * c.size(2)}; }

inline KernelCost TopOfPart(const CostContext& c) { return {c.bytes(), c.size(0)}; }
inline KernelCost Top(const CostContext& c) { return {c.bytes(), c.size(0)}; }
inline KernelCost Nothing(const CostContext& /*c*/) { return {}; }

}  // namespace precast::qwen3_14b::cost
