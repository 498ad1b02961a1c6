// Dot products of a float vector with a row of weights of each type: where a token's time goes.
//
// Sixteen independent sums let the compiler use vector instructions without reordering what the
// source says, so a result is the same in every build for the same instruction set. The functions
// are compiled for AVX2 as well as for the baseline, and the processor decides at start-up; not
// under sanitizers, whose own start-up comes later.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PRECAST_SIMD_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define PRECAST_SIMD_CLONES
#endif

namespace precast::qwen3 {

float Dot(const float* row, const float* x, size_t n);
float DotF16(const uint16_t* row, const float* x, size_t n);
float DotBf16(const uint16_t* row, const float* x, size_t n);
/// n is a multiple of 32; blocks of an f16 scale and 32 signed bytes.
float DotQ8(const uint8_t* row, const float* x, size_t n);
/// y += a * x
void AddScaled(float* y, float a, const float* x, size_t n);

/// A row as floats.
void WidenF16(const uint16_t* row, float* x, size_t n);
void WidenBf16(const uint16_t* row, float* x, size_t n);
void WidenQ8(const uint8_t* row, float* x, size_t n);

}  // namespace precast::qwen3
