#include "platforms/sim/profile.h"

#include <precast/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace precast::sim {
namespace {

using testing::HasSubstr;

std::string UsageError(std::string_view options, Profile profile) {
  Profile before = profile;
  try {
    ApplyOptions(options, &profile);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(profile.host_page_bytes, before.host_page_bytes);
    EXPECT_EQ(profile.host_view_minimum, before.host_view_minimum);
    return error.message();
  }
  ADD_FAILURE() << "accepted: " << options;
  return "";
}

TEST(Profile, TheChipsAreAsDesigned) {
  Profile a2a3 = A2a3Profile();
  EXPECT_EQ(a2a3.cube_cores, 24);
  EXPECT_EQ(a2a3.vector_cores, 48);
  EXPECT_EQ(a2a3.memory_bytes, uint64_t{64} << 30);
  EXPECT_TRUE(a2a3.host_views());
  EXPECT_FALSE(a2a3.unified);
  EXPECT_FALSE(A5Profile().host_views());
  EXPECT_FALSE(A5Profile().unified);
}

TEST(Profile, CpuIsThisMachine) {
  Profile cpu = CpuProfile();
  EXPECT_TRUE(cpu.unified);
  EXPECT_TRUE(cpu.host_views());
  EXPECT_GE(cpu.cube_cores, 1);
  EXPECT_EQ(cpu.cube_cores, cpu.vector_cores);
  EXPECT_GT(cpu.memory_bytes, 0u);
  EXPECT_EQ(cpu.memory_bytes % (2 << 20), 0u);
}

TEST(Profile, SixtyFourKibibytePagesRefuseSmallViews) {
  Profile profile = A2a3Profile();
  ApplyOptions("host_page=64k", &profile);
  EXPECT_EQ(profile.host_page_bytes, 65536u);
  EXPECT_EQ(profile.host_view_minimum, uint64_t{2} << 20);
  EXPECT_TRUE(profile.host_views());
  ApplyOptions("host_page=4k", &profile);
  EXPECT_EQ(profile.host_page_bytes, 4096u);
  EXPECT_EQ(profile.host_view_minimum, 0u);
}

TEST(Profile, WrongOptionsSayWhatIsAllowed) {
  EXPECT_EQ(UsageError("host_page=16k", A2a3Profile()),
            "platform a2a3sim: option 'host_page' is '16k'; allowed: 4k, 64k");
  EXPECT_EQ(UsageError("pages=64k", A2a3Profile()),
            "platform a2a3sim: unknown option 'pages'; allowed: host_page");
  EXPECT_EQ(UsageError("host_page", A2a3Profile()),
            "platform a2a3sim: option 'host_page' has no value; allowed: host_page=4k|64k");
  EXPECT_THAT(UsageError("", A2a3Profile()), HasSubstr("allowed: host_page=4k|64k"));
  EXPECT_EQ(UsageError("host_page=64k,host_page=4k", A2a3Profile()),
            "platform a2a3sim: option 'host_page' is given twice");
  EXPECT_THAT(UsageError("host_page=64k,", A2a3Profile()), HasSubstr("has no value"));
  EXPECT_EQ(UsageError("host_page=64k", CpuProfile()),
            "platform cpu: takes no options; found 'host_page=64k'");
}

TEST(Profile, CostsAreWithinFivePercentOfWhatWasMeasured) {
  struct Row {
    uint64_t bytes;
    double enter, leave;  // median microseconds on an a2a3 chip
  };
  constexpr Row kMedians[] = {{64, 1.580, 3.741},
                              {4096, 1.610, 3.600},
                              {65536, 4.140, 4.860},
                              {262144, 11.340, 7.420},
                              {4194304, 3.430, 29.371},
                              {16777216, 8.760, 105.301},
                              {268435456, 115.901, 1649.126}};
  Profile profile = A2a3Profile();
  auto us = [&](Priced call, uint64_t bytes) {
    return static_cast<double>(profile.Cost(call, bytes)) / 1e6;
  };
  for (const Row& row : kMedians) {
    SCOPED_TRACE(row.bytes);
    double enter = us(Priced::register_view, row.bytes);
    double leave = us(Priced::unregister_view, row.bytes);
    EXPECT_NEAR(enter, row.enter, 0.05 * row.enter);
    EXPECT_NEAR(leave, row.leave, 0.05 * row.leave);
    EXPECT_NEAR(enter + leave, row.enter + row.leave, 0.05 * (row.enter + row.leave));
  }
  for (auto [bytes, median] : {std::pair(4, 9.740), {8, 9.890}, {64, 9.530}}) {
    EXPECT_NEAR(us(Priced::copy_to_host, static_cast<uint64_t>(bytes)), median, 0.05 * median);
  }
  EXPECT_LT(profile.Cost(Priced::register_view, 4 << 20),
            profile.Cost(Priced::register_view, 256 << 10))
      << "huge pages";
}

TEST(Profile, AssumedCostsSaySo) {
  Profile a2a3 = A2a3Profile(), a5 = A5Profile(), large_pages = A2a3Profile();
  ApplyOptions("host_page=64k", &large_pages);
  auto assumed = [](const Profile& profile, Priced call) {
    return (*profile.costs)[static_cast<size_t>(call)].assumed;
  };
  EXPECT_EQ(assumed(a2a3, Priced::register_view), "");
  EXPECT_EQ(assumed(a2a3, Priced::copy_to_host), "per byte");
  EXPECT_EQ(assumed(a2a3, Priced::launch), "all");
  for (const device::CallCost& cost : *a5.costs) EXPECT_EQ(cost.assumed, "all");
  for (const device::CallCost& cost : *large_pages.costs) EXPECT_EQ(cost.assumed, "all");
  EXPECT_EQ(a2a3.Cost(Priced::copy_to_host, 1000), 9'720'000u + 50'000u) << "20 GB/s";
  EXPECT_EQ(a2a3.Cost(Priced::allocate_pinned, 3 << 20), 768u * 900'000) << "no huge pages there";
  EXPECT_EQ(CpuProfile().Cost(Priced::launch, 0), 0u);
}

TEST(Profile, DescribesItsOptions) {
  EXPECT_EQ(DescribeOptions(A2a3Profile()), "host_page=4k|64k");
  EXPECT_EQ(DescribeOptions(CpuProfile()), "");
}

}  // namespace
}  // namespace precast::sim
