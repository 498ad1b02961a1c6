// `precast doctor`: what it says of this machine, and that it fails where a platform does.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Large enough to start the command, too small for the addresses of a simulated chip.
void LimitAddresses() {
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = rlim_t{8} << 30;
  setrlimit(RLIMIT_AS, &limit);
}

TEST(Doctor, FitsOneScreen) {
  Outcome outcome = Precast({"doctor"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::istringstream lines(outcome.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_LE(count, 40);
  for (const char* part : {"Machine", "cores", "clock", "Limits", "open files", "fmt ", "spdlog ",
                           "xxHash ", "Platforms", "a2a3sim"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST(Doctor, TheDocumentHasEveryPlatformAtWork) {
  Outcome outcome = Precast({"doctor", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json json = Json::parse(outcome.out);
  std::vector<std::string> names;
  for (const Json& platform : json["platforms"]) {
    EXPECT_EQ(platform["works"], true);
    names.push_back(platform["name"].get<std::string>());
  }
  std::vector<std::string> listed;
  const Json list = Json::parse(Precast({"list", "--json"}).out);
  for (const Json& platform : list["platforms"]) {
    listed.push_back(platform["name"].get<std::string>());
  }
  EXPECT_EQ(names, listed);
  EXPECT_GE(json["machine"]["usable_cores"].get<int>(), 1);
  EXPECT_EQ(json["machine"]["memory_files"], "yes");
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(json["limits"]["open_files"], limit.rlim_cur);
}

TEST(Doctor, FailsWhereAPlatformDoesAndSaysWhy) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more addresses than that themselves";
#endif
  Outcome outcome = Precast({"doctor", "--json"}, {.before = LimitAddresses});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  Json json = Json::parse(outcome.out);
  for (const Json& platform : json["platforms"]) {
    EXPECT_EQ(platform["works"], false) << platform;
    EXPECT_EQ(platform["error"]["code"], "io");
    EXPECT_THAT(platform["error"]["message"].get<std::string>(),
                HasSubstr("Cannot allocate memory"));
  }
  EXPECT_THAT(json["advice"].dump(), HasSubstr("limited to 8.00 GiB (ulimit -v)"));
  EXPECT_THAT(Precast({"doctor"}, {.before = LimitAddresses}).out, HasSubstr("does not work: "));
}

}  // namespace
}  // namespace precast::testing
