#include "platforms/registry.h"

#include <precast/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace precast::platforms {
namespace {

using testing::HasSubstr;

TEST(Registry, MakesEveryPlatformItLists) {
  std::vector<std::string> names;
  for (const Entry& entry : List()) {
    names.push_back(entry.name);
    EXPECT_FALSE(entry.summary.empty());
    std::unique_ptr<device::Driver> driver = MakeDriver(entry.name, 0);
    device::Properties made = driver->properties();
    EXPECT_EQ(entry.properties.platform, entry.name);
    EXPECT_EQ(made.platform, entry.name);
    EXPECT_EQ(made.cube_cores, entry.properties.cube_cores);
    EXPECT_EQ(made.threads, entry.properties.threads);
    EXPECT_EQ(made.host_views, entry.properties.host_views);
    EXPECT_EQ(made.memory_bytes, entry.properties.memory_bytes);
    driver->Reset();
  }
  EXPECT_THAT(names, testing::ElementsAre("cpu", "a2a3sim", "a5sim"));
}

TEST(Registry, OptionsFollowAColon) {
  auto driver = MakeDriver("a2a3sim:host_page=64k", 1);
  EXPECT_EQ(driver->properties().platform, "a2a3sim:host_page=64k");
  EXPECT_EQ(driver->properties().host_page_bytes, 65536u);
  EXPECT_EQ(BaseName("a2a3sim:host_page=64k"), "a2a3sim");
  EXPECT_EQ(BaseName("cpu"), "cpu");
}

TEST(Registry, UnknownPlatformsGetTheList) {
  for (const char* name : {"a3", "", ":host_page=64k", "CPU", "a2a3sim2"}) {
    try {
      MakeDriver(name, 1);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_THAT(error.message(), HasSubstr("; allowed: cpu, a2a3sim, a5sim"));
    }
  }
}

TEST(Registry, WrongOptionsAreUsageErrors) {
  for (const char* name : {"cpu:", "a5sim:host_page=64k", "a2a3sim:host_page=1k", "a2a3sim:"}) {
    try {
      MakeDriver(name, 1);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage) << error.message();
    }
  }
}

}  // namespace
}  // namespace precast::platforms
