// `precast probe`: its document, its text, its mistakes.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace precast::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Json Probe(std::vector<std::string> args) {
  args.insert(args.begin(), {"probe", "--json"});
  Outcome outcome = Precast(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return Json::parse(outcome.out);
}

TEST(Probe, MeasuresA2a3OnBothClocks) {
  Json json = Probe({});
  EXPECT_EQ(json["platform"], "a2a3sim");
  for (const char* clock : {"wall", "modelled"}) {
    const Json& found = json[clock];
    ASSERT_EQ(found["host_view"].size(), 7u);
    for (const Json& view : found["host_view"]) {
      EXPECT_GT(view["register_us"].get<double>(), 0);
      EXPECT_GT(view["unregister_us"].get<double>(), 0);
      EXPECT_GT(view["pair_us"].get<double>(), 0);
    }
    ASSERT_EQ(found["device_copy"].size(), 3u);
    EXPECT_EQ(found["device_copy"][2]["bytes"], 64);
    EXPECT_EQ(found["bind"]["budget_us"], 10.0);
  }
  const Json& modelled = json["modelled"];
  EXPECT_EQ(modelled["verdict"], "cache");
  EXPECT_EQ(modelled["host_view"][0]["bytes"], 64);
  EXPECT_EQ(modelled["host_view"][0]["pair_us"], 5.3645);
  EXPECT_EQ(modelled["host_view"][3]["accesses_to_break_even"], 2);
  EXPECT_EQ(modelled["bind"]["tensors"][0]["accesses_to_break_even"], 1);
  EXPECT_EQ(modelled["bind"]["rebuild_us"], 24.5575);
  EXPECT_EQ(modelled["device_copy"][0]["us"], 9.7202);
}

TEST(Probe, TheModelledClockIsTheSameEveryTime) {
  EXPECT_EQ(Probe({"--budget-us", "30"})["modelled"], Probe({"--budget-us", "30"})["modelled"]);
}

TEST(Probe, SaysThatNothingMaps) {
  Json json = Probe({"--platform", "a5sim"});
  EXPECT_EQ(json["modelled"]["verdict"], "copy");
  EXPECT_TRUE(json["modelled"]["host_view"][0]["pair_us"].is_null());
  EXPECT_TRUE(json["modelled"]["bind"]["rebuild_us"].is_null());
  Outcome text = Precast({"probe", "--platform", "a5sim"});
  EXPECT_THAT(text.out, HasSubstr("nothing maps here"));
}

TEST(Probe, CpuHasOneClock) {
  Json json = Probe({"--platform", "cpu"});
  EXPECT_TRUE(json["modelled"].is_null());
  EXPECT_FALSE(json["wall"]["verdict"].get<std::string>().empty());
}

TEST(Probe, MistakesAreExplained) {
  Outcome outcome = Precast({"probe", "--platform", "a9"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("unknown platform 'a9'"));
  EXPECT_THAT(outcome.err, HasSubstr("See precast probe --help"));
  EXPECT_EQ(Precast({"probe", "--budget-us", "-1"}).exit_code, 2);
  EXPECT_EQ(Precast({"probe", "--budget-us", "nan"}).exit_code, 2);
}

}  // namespace
}  // namespace precast::testing
