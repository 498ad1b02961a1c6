// A fixed set of random programs, on every platform. `precast fuzz` tries others.
#include "fuzz/fuzzer.h"
#include "scenes/scenes.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace precast::fuzz {
namespace {

constexpr uint64_t kSets = 8, kSeedsPerSet = 12;

class SeedsTest : public testing::TestWithParam<std::tuple<std::string, uint64_t>> {};

TEST_P(SeedsTest, GiveWhatTheOracleGives) {
  const auto& [platform, set] = GetParam();
  Report report =
      Fuzz({.seed = 1 + set * kSeedsPerSet, .programs = kSeedsPerSet, .platforms = {platform}});
  EXPECT_EQ(report.programs, kSeedsPerSet);
  for (const Failure& failure : report.failures) ADD_FAILURE() << ToString(failure);
}

INSTANTIATE_TEST_SUITE_P(All, SeedsTest,
                         testing::Combine(testing::ValuesIn(scenes::TestedPlatforms()),
                                          testing::Range(uint64_t{0}, kSets)),
                         [](const auto& test) {
                           return scenes::TestName(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace precast::fuzz
