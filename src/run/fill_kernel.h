// The kernel behind `Orchestrator::alloc` with a fill value.
#pragma once

#include <precast/dtype.h>
#include <precast/kernel.h>

#include <cstdint>

namespace precast::run {

void FillBody(const KernelContext& k);

/// Tensor 0: what to fill. Scalar 0 (u64): the element's bytes, zero-extended.
inline constexpr Kernel kFill{"fill", Core::vector, &FillBody, "", [](const CostContext& c) {
                                return KernelCost{c.bytes(), c.size(0)};
                              }};

/// The bytes of `value` as an element of `dtype`. Throws `out_of_range` when an integer or bool
/// type cannot represent it exactly.
uint64_t FillBits(DType dtype, double value);

}  // namespace precast::run
