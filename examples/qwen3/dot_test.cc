// The arithmetic of the kernels against plain loops, with vectors of every width.
#include "qwen3/dot.h"

#include "common/simd_test.h"
#include "qwen3/gguf_test_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace precast::qwen3 {
namespace {

class DotTest : public examples::EveryWidth {
 protected:
  std::vector<float> Numbers(size_t n) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(n);
    for (float& value : values) value = uniform(random_);
    return values;
  }
  std::mt19937 random_{1};
};

INSTANTIATE_TEST_SUITE_P(Widths, DotTest, ::testing::Values(4, 8, 16));

/// A row as the floats that its bytes stand for.
std::vector<float> Widened(RowType type, const std::string& bytes, size_t n) {
  std::vector<float> row(n);
  const auto* bits = reinterpret_cast<const uint16_t*>(bytes.data());
  if (type == RowType::f32) std::memcpy(row.data(), bytes.data(), 4 * n);
  if (type == RowType::f16) WidenF16(bits, row.data(), n);
  if (type == RowType::bf16) WidenBf16(bits, row.data(), n);
  if (type == RowType::q8) {
    WidenQ8(reinterpret_cast<const uint8_t*>(bytes.data()), row.data(), n);
  }
  return row;
}

TEST_P(DotTest, RowsOfAllTypesAndLengths) {
  constexpr std::pair<RowType, GgufType> kTypes[] = {{RowType::f32, GgufType::f32},
                                                     {RowType::f16, GgufType::f16},
                                                     {RowType::bf16, GgufType::bf16},
                                                     {RowType::q8, GgufType::q8_0}};
  constexpr size_t kRows = 3;
  for (auto [type, gguf] : kTypes) {
    for (size_t n : {1, 16, 31, 32, 33, 96, 128, 160, 1000}) {
      if (type == RowType::q8 && n % 32 != 0) continue;
      SCOPED_TRACE(fmt::format("{}, {} columns", Name(gguf), n));
      std::vector<float> x = Numbers(n), buffer;
      std::string bytes, row;
      std::vector<double> expected;
      for (size_t r = 0; r < kRows; ++r) {
        row = EncodeElements(gguf, Numbers(n));
        bytes += row;
        double sum = 0;
        std::vector<float> weights = Widened(type, row, n);
        for (size_t i = 0; i < n; ++i) sum += static_cast<double>(weights[i]) * x[i];
        expected.push_back(sum);
      }
      std::vector<char> exact(bytes.begin(), bytes.end());  // reads beyond it are found by ASan
      float y[kRows] = {};
      const float* arranged = Arrange(type, x.data(), n, &buffer);
      MultiplyRows(type, exact.data(), row.size(), kRows, arranged, n, false, y);
      for (size_t r = 0; r < kRows; ++r) EXPECT_NEAR(y[r], expected[r], 1e-4) << r;
      MultiplyRows(type, exact.data(), row.size(), kRows, arranged, n, true, y);
      for (size_t r = 0; r < kRows; ++r) EXPECT_NEAR(y[r], 2 * expected[r], 2e-4) << r;
    }
  }
}

TEST_P(DotTest, SmallestNumbersOfF16) {
  // 1, the smallest normal number, the largest subnormal one, the smallest, and negative zero.
  const std::vector<uint16_t> bits = {0x3c00, 0x0400, 0x03ff, 0x0001, 0x8000};
  for (size_t i = 0; i < bits.size(); ++i) {
    std::vector<float> x(bits.size()), buffer;
    x[i] = 1;
    float y;
    MultiplyRows(RowType::f16, bits.data(), 2 * bits.size(), 1,
                 Arrange(RowType::f16, x.data(), x.size(), &buffer), x.size(), false, &y);
    EXPECT_EQ(y, static_cast<float>(f16::FromBits(bits[i]))) << i;
  }
}

TEST_P(DotTest, AttentionIsASoftmaxOfScoresTimesValues) {
  for (size_t n : {2, 16, 32, 80, 128}) {
    for (size_t count : {1, 7, 32, 65}) {
      SCOPED_TRACE(fmt::format("{} positions of {} numbers", count, n));
      std::vector<float> q = Numbers(n), keys = Numbers(n * count), values = Numbers(n * count);
      std::vector<const float*> key, value;
      for (size_t i = 0; i < count; ++i) {
        key.push_back(&keys[i * n]);
        value.push_back(&values[i * n]);
      }
      std::vector<double> weight(count);
      double total = 0;
      for (size_t i = 0; i < count; ++i) {
        double score = 0;
        for (size_t j = 0; j < n; ++j) score += static_cast<double>(q[j]) * key[i][j];
        total += weight[i] = std::exp(score * 0.5);
      }
      std::vector<float> score(PaddedSize(count)), y(n), buffer;
      float largest = Scores(Arrange(RowType::f32, q.data(), n, &buffer), key.data(), count, n,
                             0.5f, score.data());
      float sum = Exponentials(score.data(), count, largest);
      WeightedSum(score.data(), value.data(), count, n, y.data());
      for (size_t j = 0; j < n; ++j) {
        double expected = 0;
        for (size_t i = 0; i < count; ++i) expected += weight[i] / total * value[i][j];
        EXPECT_NEAR(y[j] / sum, expected, 1e-5) << j;
      }
    }
  }
}

TEST_P(DotTest, NormsRotationsAndSwiGlu) {
  for (size_t n : {2, 16, 34, 128}) {
    SCOPED_TRACE(n);
    std::vector<float> x = Numbers(n), weight = Numbers(n), y(n), z(n);
    double squares = 0;
    for (float value : x) squares += static_cast<double>(value) * value;
    RmsNorm(x.data(), weight.data(), 1e-6f, n, y.data());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-6) * weight[i],
                  1e-5);
    }
    size_t half = n / 2;
    z = x;
    Rotate(y.data(), y.data() + half, half, z.data());
    for (size_t i = 0; i < half; ++i) {
      EXPECT_NEAR(z[i], x[i] * y[i] - x[half + i] * y[half + i], 1e-6);
      EXPECT_NEAR(z[half + i], x[half + i] * y[i] + x[i] * y[half + i], 1e-6);
    }
    SwiGlu(x.data(), weight.data(), n, y.data());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-x[i])) * weight[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace precast::qwen3
