#include "qwen3/sampler.h"

#include "qwen3/testing.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace precast::qwen3 {
namespace {

using ::precast::qwen3::testing::ExpectError;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// How often each of four tokens is chosen in 20000 draws.
std::array<int, 4> Count(const SamplerOptions& options, std::array<float, 4> logits) {
  Sampler sampler(options);
  std::array<int, 4> count{};
  for (int i = 0; i < 20000; ++i) ++count[static_cast<size_t>(sampler.Sample(logits))];
  return count;
}

// Probabilities 1/2, 1/4, 1/8, 1/8 at temperature 1.
const std::array<float, 4> kHalves = {std::log(0.5f), std::log(0.25f), std::log(0.125f),
                                      std::log(0.125f)};

TEST(Qwen3SamplerTest, GreedyTakesTheFirstOfTheLargest) {
  Sampler sampler({});
  EXPECT_EQ(sampler.Sample(std::vector<float>{-1, 3, 2, 3}), 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{0, 0}), 0);
  EXPECT_EQ(sampler.Sample(std::vector<float>{-kInf, -5}), 1);
}

TEST(Qwen3SamplerTest, DrawsByProbability) {
  const auto count = Count({.temperature = 1, .seed = 1}, kHalves);
  EXPECT_NEAR(count[0], 10000, 400);
  EXPECT_NEAR(count[1], 5000, 400);
  EXPECT_NEAR(count[2], 2500, 400);
  EXPECT_NEAR(count[3], 2500, 400);
}

TEST(Qwen3SamplerTest, TemperatureSharpensAndFlattens) {
  // Probabilities become their squares or square roots, scaled to the sum 1.
  EXPECT_NEAR(Count({.temperature = 0.5, .seed = 2}, kHalves)[0], 20000 * 8 / 11, 400);
  EXPECT_NEAR(Count({.temperature = 2, .seed = 2}, kHalves)[0], 20000 * 0.3694, 400);
  EXPECT_EQ(Count({.temperature = 1e-9, .seed = 2}, kHalves)[0], 20000);
}

TEST(Qwen3SamplerTest, TopPKeepsTheFewestThatSuffice) {
  EXPECT_EQ(Count({.temperature = 1, .top_p = 0.4}, kHalves)[0], 20000);
  EXPECT_EQ(Count({.temperature = 1, .top_p = 1e-9}, kHalves)[0], 20000);
  const auto two = Count({.temperature = 1, .top_p = 0.7}, kHalves);
  EXPECT_NEAR(two[0], 20000 * 2 / 3, 400);
  EXPECT_EQ(two[0] + two[1], 20000);
  const auto three = Count({.temperature = 1, .top_p = 0.8}, kHalves);
  EXPECT_GT(three[2], 0);  // of two equal ones the first
  EXPECT_EQ(three[3], 0);
}

TEST(Qwen3SamplerTest, NeverChoosesMinusInfinity) {
  const auto count = Count({.temperature = 100}, {-kInf, 0, -kInf, 0});
  EXPECT_EQ(count[0] + count[2], 0);
  EXPECT_GT(count[3], 0);
}

TEST(Qwen3SamplerTest, SameSeedSameChoices) {
  // Fixed numbers: the choices must be these on every machine.
  std::vector<int32_t> choices;
  Sampler sampler({.temperature = 1, .top_p = 1, .seed = 42});
  for (int i = 0; i < 12; ++i) choices.push_back(sampler.Sample(kHalves));
  EXPECT_EQ(choices, (std::vector<int32_t>{2, 1, 2, 0, 3, 0, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(Count({.temperature = 1, .top_p = 0.9, .seed = 9}, kHalves),
            Count({.temperature = 1, .top_p = 0.9, .seed = 9}, kHalves));
  EXPECT_NE(Count({.temperature = 1, .seed = 9}, kHalves),
            Count({.temperature = 1, .seed = 10}, kHalves));
}

TEST(Qwen3SamplerTest, RefusesOptionsOutOfRange) {
  for (const double temperature : {-0.1, 100.5, kNan, static_cast<double>(kInf)}) {
    ExpectError(ErrorCode::invalid_argument, {"temperature is", "0 to 100"},
                [&] { Sampler({.temperature = temperature}); });
  }
  for (const double top_p : {0.0, -1.0, 1.01, kNan}) {
    ExpectError(ErrorCode::invalid_argument, {"top-p is", "above 0, up to 1"},
                [&] { Sampler({.temperature = 1, .top_p = top_p}); });
  }
}

TEST(Qwen3SamplerTest, RefusesLogitsThatAreNoNumbers) {
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature});
    auto expect = [&](std::vector<float> logits, std::vector<std::string> parts) {
      ExpectError(ErrorCode::invalid_argument, parts, [&] { sampler.Sample(logits); });
    };
    expect({}, {"no logits"});
    expect({0, static_cast<float>(kNan), 1}, {"logit 1 of 3 is nan"});
    expect({static_cast<float>(kNan)}, {"logit 0 of 1 is nan"});
    expect({0, kInf}, {"logit 1 of 2 is inf"});
    expect({-kInf, -kInf}, {"all 2 logits are -inf"});
  }
}

}  // namespace
}  // namespace precast::qwen3
