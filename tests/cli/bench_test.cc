// `precast bench`: finds precast-bench and hands it what the user asked for.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class Bench : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(PrecastPath()).parent_path() / "precast-bench")) {
      GTEST_SKIP() << "precast-bench is not built here";
    }
  }
};

TEST_F(Bench, GivesADocumentOfItsMeasurements) {
  for (const char* suite : {"submit", "execute", "run"}) {
    Outcome outcome =
        Precast({"bench", suite, "--n", "100", "--reps", "2", "--impl", "precast", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["suite"], suite);
    EXPECT_FALSE(json["machine"].get<std::string>().empty());
    ASSERT_FALSE(json["results"].empty());
    for (const Json& result : json["results"]) {
      std::set<std::string> keys;
      for (const auto& item : result.items()) keys.insert(item.key());
      EXPECT_EQ(keys, (std::set<std::string>{"name", "impl", "ns_per_task", "min_ns_per_task",
                                             "bytes_per_task", "reps", "speed"}));
      EXPECT_THAT(result["name"].get<std::string>(), HasSubstr("/100"));
      EXPECT_EQ(result["impl"], "precast");
      EXPECT_EQ(result["reps"], 2);
      EXPECT_GT(result["min_ns_per_task"].get<double>(), 0);
      EXPECT_GE(result["ns_per_task"].get<double>(), result["min_ns_per_task"].get<double>());
    }
  }
}

TEST_F(Bench, EachSuiteHasItsOwnHelp) {
  Outcome outcome = Precast({"bench", "execute", "--help"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("--workload"));
}

TEST_F(Bench, RefusesWhatItDoesNotKnow) {
  for (const char* option : {"--bogus", "--n=0", "--impl=nobody"}) {
    Outcome outcome = Precast({"bench", "submit", option});
    EXPECT_EQ(outcome.exit_code, 2) << option;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(std::string(option).substr(0, 3)));
  }
}

TEST(BenchHelp, ListsTheSuites) {
  Outcome outcome = Precast({"bench", "--help"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"submit ", "execute ", "run ", "Examples:", "scripts/setup"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST(BenchWithoutItsProgram, SaysHowToBuildIt) {
  std::string folder = ::testing::TempDir() + "/precast-bench-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  fs::path command = PrecastPath();
  ProcessOptions options;
  options.executable = folder + "/precast";
  options.environment["LD_LIBRARY_PATH"] = command.parent_path().parent_path() / "lib";
  fs::copy_file(command, options.executable);
  Outcome outcome = Precast({"bench", "submit"}, options);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("precast-bench is not built: scripts/setup release "
                                     "precast-bench\n"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace precast::testing
