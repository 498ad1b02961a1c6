// Kernels that scenes share. Their tensors hold i64. What they compute depends on the order in
// which tasks run, and the slow ones wait before they touch anything: a missing dependency shows.
#pragma once

#include <precast/kernel.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace precast::scenes {

/// All arithmetic is modulo this prime, so that nothing overflows.
inline constexpr int64_t kPrime = 1'000'003;

/// How `fold` and `bump` join a new value to an old one: not commutative, not associative.
inline int64_t Join(int64_t old_value, int64_t new_value) {
  return (old_value * 3 + new_value) % kPrime;
}

namespace kernels {

inline void Wait() { std::this_thread::sleep_for(std::chrono::microseconds(500)); }

inline void Put(const KernelContext& k) {
  auto target = k.tensor<int64_t>(0);
  auto first = k.scalar<int64_t>(0);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = first + i;
  }
}
inline void Copy(const KernelContext& k) {
  auto source = k.tensor<const int64_t>(0);
  auto target = k.tensor<int64_t>(1);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = source[i];
  }
}
inline void Fold(const KernelContext& k) {
  auto source = k.tensor<const int64_t>(0);
  auto target = k.tensor<int64_t>(1);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = Join(target[i], source[i]);
  }
}
inline void Bump(const KernelContext& k) {
  auto target = k.tensor<int64_t>(0);
  auto value = k.scalar<int64_t>(0);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = Join(target[i], value);
  }
}
inline void Digest(const KernelContext& k) {
  auto source = k.tensor<const int64_t>(0);
  int64_t value = 0;
  for (int64_t i = 0; i < source.size(); ++i) value = Join(value, source[i]);
  k.tensor<int64_t>(1)[0] = value;
}

}  // namespace kernels

/// target[i] = scalar + i
PRECAST_KERNEL(put, Core::vector)(const KernelContext& k) { kernels::Put(k); }
PRECAST_KERNEL(slow_put, Core::vector)(const KernelContext& k) {
  kernels::Wait();
  kernels::Put(k);
}
/// target[i] = source[i]
PRECAST_KERNEL(copy, Core::vector)(const KernelContext& k) { kernels::Copy(k); }
PRECAST_KERNEL(slow_copy, Core::vector)(const KernelContext& k) {
  kernels::Wait();
  kernels::Copy(k);
}
/// target[i] = Join(target[i], source[i])
PRECAST_KERNEL(fold, Core::vector)(const KernelContext& k) { kernels::Fold(k); }
PRECAST_KERNEL(slow_fold, Core::vector)(const KernelContext& k) {
  kernels::Wait();
  kernels::Fold(k);
}
/// target[i] = Join(target[i], scalar)
PRECAST_KERNEL(bump, Core::vector)(const KernelContext& k) { kernels::Bump(k); }
PRECAST_KERNEL(slow_bump, Core::vector)(const KernelContext& k) {
  kernels::Wait();
  kernels::Bump(k);
}
/// target[i] = Join(a[i], b[i])
PRECAST_KERNEL(join, Core::vector)(const KernelContext& k) {
  auto a = k.tensor<const int64_t>(0), b = k.tensor<const int64_t>(1);
  auto target = k.tensor<int64_t>(2);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = Join(a[i], b[i]);
  }
}
/// target[0] = the elements of source joined, in order
PRECAST_KERNEL(digest, Core::vector)(const KernelContext& k) { kernels::Digest(k); }
PRECAST_KERNEL(slow_digest, Core::vector)(const KernelContext& k) {
  kernels::Wait();
  kernels::Digest(k);
}

}  // namespace precast::scenes
