// The arithmetic of the kernels: products with rows of weights of each type, where a token's time
// goes, and what attention and SwiGLU do with vectors.
//
// Every sum has 32 lanes, so that a row's result depends neither on the rows beside it nor on
// whether the processor has AVX-512 or AVX2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace precast::qwen3 {

/// Weights of one type, as rows of a matrix.
enum class RowType { f32, f16, bf16, q8 };

/// Sums take 32 elements at a time; arrays that they read to the end have room for `PaddedSize`.
constexpr size_t PaddedSize(size_t n) { return (n + 31) / 32 * 32; }

/// x in the order in which `MultiplyRows` wants it: such that the two or four weights that share a
/// word meet theirs without being taken apart. Gives x itself or the contents of the buffer.
const float* Arrange(RowType type, const float* x, size_t n, std::vector<float>* buffer);

/// y[r] = W[r] . x, or y[r] += W[r] . x, for `rows` rows that begin `stride` bytes apart. `x` is
/// arranged for `type`; n is a multiple of 32 for q8: blocks of an f16 scale and 32 signed bytes.
void MultiplyRows(RowType type, const void* w, size_t stride, size_t rows, const float* x, size_t n,
                  bool add, float* y);

/// y = x / sqrt(mean of x^2 + eps) * weight
void RmsNorm(const float* x, const float* weight, float eps, size_t n, float* y);
/// Turns the pairs (x[i], x[i + half]) by the angles of these cosines and sines.
void Rotate(const float* cosine, const float* sine, size_t half, float* x);

/// score[i] = scale * q . key[i]; gives the largest. `q` has PaddedSize(n) elements.
float Scores(const float* q, const float* const* key, size_t count, size_t n, float scale,
             float* score);
/// score[i] = exp(score[i] - largest); gives their sum. `score` has room for PaddedSize(count).
float Exponentials(float* score, size_t count, float largest);
/// y = the sum of weight[i] * row[i]
void WeightedSum(const float* weight, const float* const* row, size_t count, size_t n, float* y);
/// y = gate * sigmoid(gate) * up
void SwiGlu(const float* gate, const float* up, size_t n, float* y);

/// A row as floats.
void WidenF16(const uint16_t* row, float* x, size_t n);
void WidenBf16(const uint16_t* row, float* x, size_t n);
void WidenQ8(const uint8_t* row, float* x, size_t n);

}  // namespace precast::qwen3
