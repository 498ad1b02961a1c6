// The vectors of every width that this processor has, against plain loops.
#include "common/simd_test.h"

#include "common/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace precast::examples {
namespace {

class SimdTest : public EveryWidth {};
INSTANTIATE_TEST_SUITE_P(Widths, SimdTest, ::testing::Values(4, 8, 16));

struct ExpBody {
  template <size_t N>
  PRECAST_INLINE static void Run(const float* x, float* y, size_t n) {
    for (size_t i = 0; i < n; i += N) Store<N>(y + i, Exp<N>(Load<N>(x + i)));
  }
};

TEST_P(SimdTest, ExponentialsAreThoseOfTheLibrary) {
  constexpr size_t kValues = 1 << 16;
  std::vector<float> x(kValues), y(kValues);
  for (size_t i = 0; i < kValues; ++i) {
    x[i] = -87 + 175 * static_cast<float>(i) / static_cast<float>(kValues);
  }
  Simd<ExpBody>(x.data(), y.data(), kValues);
  for (size_t i = 0; i < kValues; ++i) {
    double expected = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i], expected, 0x1p-21 * expected) << x[i];
  }
}

TEST_P(SimdTest, ExponentialsHaveBounds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float x[16] = {
      -88, -1e30f, -kInfinity, 0, 89, kInfinity, std::numeric_limits<float>::quiet_NaN()};
  float y[16];
  Simd<ExpBody>(x, y, size_t{16});
  for (int i : {0, 1, 2}) EXPECT_LT(y[i], 2e-38f) << i;
  EXPECT_EQ(y[3], 1);
  for (int i : {4, 5}) EXPECT_NEAR(y[i], std::exp(88.0), 1e33) << i;
  EXPECT_TRUE(std::isnan(y[6]));
}

TEST_P(SimdTest, ProductsOfAllSizes) {
  for (size_t m : {1, 3, 4, 9, 17}) {
    for (size_t n : {1, 5, 16, 33, 70}) {
      for (size_t k : {1, 7, 32}) {
        SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
        // Rows are farther apart than they are long; what lies between stays as it is.
        std::vector<float> a(m * (k + 2)), b(k * (n + 1)), c(m * (n + 3), -7);
        for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
        for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
        for (bool add : {false, true}) {
          Simd<Product>(Product::In{a.data(), k + 2}, Product::In{b.data(), n + 1},
                        Product::Out{c.data(), n + 3}, m, n, k, add);
        }
        for (size_t i = 0; i < m; ++i) {
          for (size_t j = 0; j < n + 3; ++j) {
            float sum = 0;
            for (size_t p = 0; p < k && j < n; ++p) sum += a[i * (k + 2) + p] * b[p * (n + 1) + j];
            ASSERT_EQ(c[i * (n + 3) + j], j < n ? 2 * sum : -7) << i << ", " << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace precast::examples
