#include "qwen3/dot.h"

#include <bit>
#include <cstring>

namespace precast::qwen3 {

namespace {

constexpr size_t kLanes = 16;
constexpr size_t kBlock = 32;       // elements of a Q8_0 block
constexpr size_t kBlockBytes = 34;  // its f16 scale and its elements

[[gnu::always_inline]] inline float FromF16(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
[[gnu::always_inline]] inline float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Sums value(i) * x[i] in sixteen lanes, then the lanes pairwise.
template <typename Value>
[[gnu::always_inline]] inline float DotOf(Value value, const float* x, size_t n) {
  float sum[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sum[lane] += value(i + lane) * x[i + lane];
  }
  for (size_t lane = 0; i < n; ++i, ++lane) sum[lane] += value(i) * x[i];
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) sum[lane] += sum[lane + width];
  }
  return sum[0];
}

[[gnu::always_inline]] inline float ScaleOf(const uint8_t* block) {
  uint16_t bits;
  std::memcpy(&bits, block, sizeof(bits));
  return FromF16(bits);
}

}  // namespace

PRECAST_SIMD_CLONES
float Dot(const float* row, const float* x, size_t n) {
  return DotOf([row](size_t i) { return row[i]; }, x, n);
}

PRECAST_SIMD_CLONES
float DotF16(const uint16_t* row, const float* x, size_t n) {
  return DotOf([row](size_t i) { return FromF16(row[i]); }, x, n);
}

PRECAST_SIMD_CLONES
float DotBf16(const uint16_t* row, const float* x, size_t n) {
  return DotOf([row](size_t i) { return FromBf16(row[i]); }, x, n);
}

PRECAST_SIMD_CLONES
float DotQ8(const uint8_t* row, const float* x, size_t n) {
  float sum[kLanes] = {};
  for (size_t i = 0; i < n; i += kBlock, row += kBlockBytes) {
    float scale = ScaleOf(row);
    const int8_t* q = reinterpret_cast<const int8_t*>(row + 2);
    for (size_t half = 0; half < kBlock; half += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        sum[lane] += scale * static_cast<float>(q[half + lane]) * x[i + half + lane];
      }
    }
  }
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) sum[lane] += sum[lane + width];
  }
  return sum[0];
}

PRECAST_SIMD_CLONES
void AddScaled(float* y, float a, const float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void WidenF16(const uint16_t* row, float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = FromF16(row[i]);
}

void WidenBf16(const uint16_t* row, float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = FromBf16(row[i]);
}

void WidenQ8(const uint8_t* row, float* x, size_t n) {
  for (size_t i = 0; i < n; i += kBlock, row += kBlockBytes) {
    for (size_t j = 0; j < kBlock; ++j) {
      x[i + j] = ScaleOf(row) * static_cast<float>(static_cast<int8_t>(row[2 + j]));
    }
  }
}

}  // namespace precast::qwen3
