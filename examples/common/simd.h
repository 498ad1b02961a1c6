// Kernels that use the vector instructions of the processor they run on.
//
//   struct Scale {
//     template <size_t N>  // floats in a register
//     PRECAST_INLINE static void Run(float* x, float factor, size_t n) {
//       for (size_t i = 0; i + N <= n; i += N) Store<N>(x + i, Load<N>(x + i) * factor);
//     }
//   };
//   Simd<Scale>(x, 2.0f, n);
//
// `Run` is compiled for AVX-512 (N = 16), for AVX2 (8) and for what every processor has (4), and
// the call picks one. What takes or gives vectors must be PRECAST_INLINE, so that it is compiled
// with its caller: elsewhere they are passed in other registers. A lambda is not. Code that keeps
// the same number of sums whatever N is gives the same bytes with AVX-512 and AVX2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define PRECAST_INLINE [[gnu::always_inline]] inline

namespace precast::examples {

template <size_t N>
struct Vectors {
  using Floats __attribute__((vector_size(4 * N))) = float;
  using Ints __attribute__((vector_size(4 * N))) = int32_t;
  using Words __attribute__((vector_size(4 * N))) = uint32_t;
};
template <size_t N>
using Floats = typename Vectors<N>::Floats;
template <size_t N>
using Ints = typename Vectors<N>::Ints;
template <size_t N>
using Words = typename Vectors<N>::Words;

template <size_t N>
PRECAST_INLINE Floats<N> Load(const float* from) {
  Floats<N> value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <size_t N>
PRECAST_INLINE Words<N> LoadWords(const void* from) {
  Words<N> value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <size_t N>
PRECAST_INLINE void Store(float* to, Floats<N> value) {
  std::memcpy(to, &value, sizeof(value));
}

/// The sum of 32 lanes, halves first.
template <size_t N>
PRECAST_INLINE float Sum(const Floats<N> (&lanes)[32 / N]) {
  Floats<4> part[8];
  std::memcpy(part, lanes, sizeof(part));
  for (size_t width = 4; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) part[i] += part[i + width];
  }
  return (part[0][0] + part[0][2]) + (part[0][1] + part[0][3]);
}

/// e to the power of x, with a relative error below 2^-21; x counts as -87 below that and as 88
/// above that.
template <size_t N>
PRECAST_INLINE Floats<N> Exp(Floats<N> x) {
  const Floats<N> low = Floats<N>{} - 87, high = Floats<N>{} + 88;
  x = x < low ? low : x;
  x = x > high ? high : x;
  // x = n ln 2 + r. Adding and subtracting 1.5 * 2^23 rounds n to an integer; ln 2 is in two parts.
  Floats<N> shifted = x * 0x1.715476p0f + 0x1.8p23f;
  Floats<N> n = shifted - 0x1.8p23f;
  Floats<N> r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
  Floats<N> p = r * (1 / 720.0f) + 1 / 120.0f;
  p = p * r + 1 / 24.0f;
  p = p * r + 1 / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return (Floats<N>)((Words<N>)p + ((Words<N>)shifted << 23));
}

namespace detail {

#if defined(__x86_64__)
/// Floats in the widest registers to be used. Tests lower it.
inline size_t width = __builtin_cpu_supports("x86-64-v4")   ? 16
                      : __builtin_cpu_supports("x86-64-v3") ? 8
                                                            : 4;

template <typename Body, typename... Args>
[[gnu::target("arch=x86-64-v4")]] auto RunWith16(Args... args) {
  return Body::template Run<16>(args...);
}
template <typename Body, typename... Args>
[[gnu::target("arch=x86-64-v3")]] auto RunWith8(Args... args) {
  return Body::template Run<8>(args...);
}
#endif

}  // namespace detail

template <typename Body, typename... Args>
auto Simd(Args... args) {
#if defined(__x86_64__)
  if (detail::width == 16) return detail::RunWith16<Body>(args...);
  if (detail::width == 8) return detail::RunWith8<Body>(args...);
#endif
  return Body::template Run<4>(args...);
}

}  // namespace precast::examples
