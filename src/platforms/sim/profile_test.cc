#include "platforms/sim/profile.h"

#include <precast/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Profile, DescribesItsOptions) {
  EXPECT_EQ(DescribeOptions(A2a3Profile()), "host_page=4k|64k");
  EXPECT_EQ(DescribeOptions(CpuProfile()), "");
}

}  // namespace
}  // namespace precast::sim
