#include "device/probe.h"

#include "device/faulty_driver.h"
#include "platforms/sim/sim_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace precast::device {
namespace {

using testing::HasSubstr;

ProbeResult ProbeOf(sim::Profile profile, double budget_us = 10) {
  sim::SimDriver driver(std::move(profile), 1);
  ProbeResult result =
      Probe(driver, {.budget_us = budget_us, .iterations = 3, .copy_iterations = 3});
  EXPECT_EQ(driver.held().allocations, 0u);
  EXPECT_EQ(driver.held().host_views, 0u);
  return result;
}

TEST(Probe, ReproducesWhatA2a3Measured) {
  ProbeClock clock = ProbeOf(sim::A2a3Profile()).modelled.value();
  constexpr double kPairs[] = {5.321, 5.210, 9.000, 18.760, 32.801, 114.061, 1765.027};
  ASSERT_EQ(clock.views.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(clock.views[i].pair.median, kPairs[i], 0.05 * kPairs[i]);
    EXPECT_EQ(clock.views[i].pair.median, clock.views[i].pair.min) << "the clock is modelled";
  }
  EXPECT_GT(clock.views[3].enter.median, clock.views[4].enter.median) << "the dip";
  ASSERT_EQ(clock.bind_views.size(), 2u);
  EXPECT_EQ(clock.bind_views[0].accesses_to_break_even, 1u);
  EXPECT_EQ(clock.bind_views[1].accesses_to_break_even, 2u);
  EXPECT_GE(clock.rebuild_us.value(), 23);
  EXPECT_LE(clock.rebuild_us.value(), 25);
  EXPECT_EQ(clock.allocations[0].us.median, 17.0002);
  EXPECT_EQ(clock.verdict, "cache");
  EXPECT_THAT(clock.reason, HasSubstr("A pair's floor of about 1 us (now 5.14)"));
}

TEST(Probe, FitsBothPageRegimes) {
  ProbeClock clock = ProbeOf(sim::A2a3Profile()).modelled.value();
  EXPECT_NEAR(clock.ordinary->floor_us, 1.475 + 3.67, 1e-9);
  EXPECT_NEAR(clock.ordinary->page_us, 0.157 + 0.0625, 1e-9);
  EXPECT_NEAR(clock.huge->floor_us, 1.475 + 3.67, 1e-6);
  EXPECT_NEAR(clock.huge->page_us, 0.92 + 12.9, 1e-9);
}

TEST(Probe, TheBudgetDecides) {
  ProbeClock clock = ProbeOf(sim::A2a3Profile(), 30).modelled.value();
  EXPECT_EQ(clock.verdict, "rebuild");
  EXPECT_THAT(clock.reason, HasSubstr("within the budget of 30 us"));
}

TEST(Probe, SaysWhenNothingMaps) {
  ProbeClock clock = ProbeOf(sim::A5Profile()).modelled.value();
  for (const ProbeClock::View& view : clock.views) EXPECT_FALSE(view.maps);
  EXPECT_EQ(clock.verdict, "copy");
  EXPECT_THAT(clock.reason, HasSubstr("nothing maps here"));
  EXPECT_FALSE(clock.rebuild_us.has_value());
  EXPECT_FALSE(clock.ordinary.has_value());
}

TEST(Probe, SaysWhenOnlyLargeAllocationsMap) {
  sim::Profile profile = sim::A2a3Profile();
  sim::ApplyOptions("host_page=64k", &profile);
  ProbeClock clock = ProbeOf(profile).modelled.value();
  EXPECT_EQ(clock.verdict, "copy");
  EXPECT_THAT(clock.reason, HasSubstr("3 of 7 sizes map, but not those of the bind"));
  EXPECT_TRUE(clock.huge.has_value());
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
  ProbeClock clock = ProbeOf(profile).modelled.value();
  EXPECT_EQ(clock.verdict, "cache") << "pages alone are above the budget";
  EXPECT_THAT(clock.reason, HasSubstr("down to 0.9 us: reconsider rebuild"));
}

TEST(Probe, CpuHasNoModelledClock) {
  EXPECT_FALSE(ProbeOf(sim::CpuProfile()).modelled.has_value());
}

TEST(Probe, AFailureLeavesNothingAllocated) {
  auto* sim = new sim::SimDriver(sim::A2a3Profile(), 1);
  FaultyDriver driver{std::unique_ptr<Driver>(sim)};
  for (uint64_t n = 1; n < 100; ++n) {
    driver.FailNth(n, ErrorCode::io);
    try {
      Probe(driver, {.iterations = 1, .copy_iterations = 1});
    } catch (const Error&) {
    }
    driver.FailNone();
    // A view whose registration was the last call before a failure goes with its allocation.
    EXPECT_LE(sim->held().allocations, 1u) << n;
    sim->Reset();
  }
}

}  // namespace
}  // namespace precast::device
