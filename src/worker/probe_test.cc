#include "worker/probe.h"

#include "platforms/sim/sim_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace precast {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json ProbeOf(sim::Profile profile, double budget_us = 10) {
  sim::SimDriver driver(std::move(profile), 1);
  Json json = Probe(driver, {.budget_us = budget_us, .iterations = 3, .copy_iterations = 3});
  EXPECT_EQ(driver.held().allocations, 0u);
  EXPECT_EQ(driver.held().host_views, 0u);
  return json;
}

TEST(Probe, ReproducesWhatA2a3Measured) {
  Json clock = ProbeOf(sim::A2a3Profile())["modelled"];
  constexpr double kPairs[] = {5.321, 5.210, 9.000, 18.760, 32.801, 114.061, 1765.027};
  const Json& views = clock["host_view"];
  ASSERT_EQ(views.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(views[i]["pair_us"].get<double>(), kPairs[i], 0.05 * kPairs[i]);
    EXPECT_EQ(views[i]["pair_us"], views[i]["pair_min_us"]) << "the clock is modelled";
  }
  EXPECT_GT(views[3]["register_us"], views[4]["register_us"]) << "the dip";
  const Json& bind = clock["bind"];
  EXPECT_EQ(bind["tensors"][0]["accesses_to_break_even"], 1);
  EXPECT_EQ(bind["tensors"][1]["accesses_to_break_even"], 2);
  EXPECT_GE(bind["rebuild_us"].get<double>(), 23);
  EXPECT_LE(bind["rebuild_us"].get<double>(), 25);
  EXPECT_EQ(clock["allocate_and_copy"][0]["us"], 17.0002);
  EXPECT_EQ(clock["verdict"], "cache");
  EXPECT_THAT(clock["reason"].get<std::string>(),
              HasSubstr("A pair's floor of about 1 us (now 5.14)"));
}

TEST(Probe, FitsBothPageRegimes) {
  Json fit = ProbeOf(sim::A2a3Profile())["modelled"]["fit"];
  EXPECT_NEAR(fit["ordinary_pages"]["floor_us"].get<double>(), 1.475 + 3.67, 1e-6);
  EXPECT_NEAR(fit["ordinary_pages"]["page_us"].get<double>(), 0.157 + 0.0625, 1e-9);
  EXPECT_NEAR(fit["huge_pages"]["floor_us"].get<double>(), 1.475 + 3.67, 1e-6);
  EXPECT_NEAR(fit["huge_pages"]["page_us"].get<double>(), 0.92 + 12.9, 1e-9);
}

TEST(Probe, TheBudgetDecides) {
  Json clock = ProbeOf(sim::A2a3Profile(), 30)["modelled"];
  EXPECT_EQ(clock["verdict"], "rebuild");
  EXPECT_THAT(clock["reason"].get<std::string>(), HasSubstr("within the budget of 30 us"));
}

TEST(Probe, SaysWhenNothingMaps) {
  Json clock = ProbeOf(sim::A5Profile())["modelled"];
  for (const Json& view : clock["host_view"]) EXPECT_TRUE(view["pair_us"].is_null());
  EXPECT_EQ(clock["verdict"], "copy");
  EXPECT_THAT(clock["reason"].get<std::string>(), HasSubstr("nothing maps here"));
  EXPECT_TRUE(clock["bind"]["rebuild_us"].is_null());
  EXPECT_TRUE(clock["fit"]["ordinary_pages"].is_null());
}

TEST(Probe, SaysWhenOnlyLargeAllocationsMap) {
  sim::Profile profile = sim::A2a3Profile();
  sim::ApplyOptions("host_page=64k", &profile);
  Json clock = ProbeOf(profile)["modelled"];
  EXPECT_EQ(clock["verdict"], "copy");
  EXPECT_THAT(clock["reason"].get<std::string>(),
              HasSubstr("3 of 7 sizes map, but not those of the bind"));
  EXPECT_FALSE(clock["fit"]["huge_pages"].is_null());
}

TEST(Probe, LooksAgainWhenTheFloorFalls) {
  static const sim::CostTable cheap = [] {
    sim::CostTable costs = *sim::A2a3Profile().costs;
    costs[static_cast<size_t>(sim::Priced::register_view)].floor = 400'000;
    costs[static_cast<size_t>(sim::Priced::unregister_view)].floor = 500'000;
    return costs;
  }();
  sim::Profile profile = sim::A2a3Profile();
  profile.costs = &cheap;
  Json clock = ProbeOf(profile)["modelled"];
  EXPECT_EQ(clock["verdict"], "cache") << "pages alone are above the budget";
  EXPECT_THAT(clock["reason"].get<std::string>(), HasSubstr("down to 0.9 us: reconsider rebuild"));
}

TEST(Probe, CpuHasNoModelledClock) {
  EXPECT_TRUE(ProbeOf(sim::CpuProfile())["modelled"].is_null());
}

}  // namespace
}  // namespace precast
