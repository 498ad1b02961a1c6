// --help, --version and list.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>
#include <string>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

std::string Succeed(const std::vector<std::string>& args) {
  Outcome outcome = Precast(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_TRUE(outcome.out.ends_with('\n'));
  return outcome.out;
}

TEST(Help, OfTheCommand) {
  std::string help = Succeed({"--help"});
  for (const char* part :
       {"run", "list", "bench", "ab ", "--version", "Examples:", "precast run vector_add"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  EXPECT_EQ(Succeed({"-h"}), help);
}

TEST(Help, OfRun) {
  std::string help = Succeed({"run", "--help"});
  for (const char* part :
       {"vector_add, bgemm, paged_attention, qwen3_14b_decode, qwen3", "--platform", "--case",
        "--rounds", "--set", "--threads", "1 to 256", "--heap", "--report", "--golden",
        "--skip-device-run", "--oracle", "--log-level", "--upload", "per-submission",
        "Examples:", "Exit code:"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Help, OfAProgramHasItsParametersAndCases) {
  std::string help = Succeed({"run", "--rounds", "3", "bgemm", "--help"});
  for (const char* part :
       {"bgemm: ", "Parameters of bgemm", "--tile", "Cases of bgemm", "small", "Examples:"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  EXPECT_EQ(Succeed({"run", "--help", "bgemm"}), help);
  EXPECT_THAT(Succeed({"run", "qwen3", "--help"}), HasSubstr("--prompt"));
}

TEST(Help, OfProbe) {
  std::string help = Succeed({"probe", "--help"});
  for (const char* part : {"--platform", "--budget-us", "--json", "Break-even", "Examples:"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Help, OfAb) {
  std::string help = Succeed({"ab", "--help"});
  for (const char* part : {"--a ", "--bin-b", "--segments", "--rounds", "--trim", "--json",
                           "not resolved", "Examples:"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Help, OfList) { EXPECT_THAT(Succeed({"list", "--help"}), HasSubstr("Examples:")); }

TEST(Version, IsOneLine) {
  EXPECT_THAT(Succeed({"--version"}), MatchesRegex("precast [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(List, ShowsProgramsCasesParametersAndPlatforms) {
  std::string list = Succeed({"list"});
  for (const char* part : {"vector_add", "bgemm", "paged_attention", "qwen3_14b_decode", "qwen3",
                           "Case1", "ragged", "--prompt", "cpu", "a2a3sim", "a5sim", "host view",
                           "Modelled driver calls", "assumed: all", "assumed: per byte"}) {
    EXPECT_THAT(list, HasSubstr(part));
  }
  EXPECT_EQ(list.find('\x1b'), std::string::npos);
}

TEST(List, AsOneDocument) {
  Json json = Json::parse(Succeed({"list", "--json"}));
  std::set<std::string> programs, platforms;
  for (const Json& program : json["programs"]) {
    programs.insert(program["name"].get<std::string>());
    EXPECT_FALSE(program["summary"].get<std::string>().empty());
    EXPECT_FALSE(program["cases"].empty());
    EXPECT_TRUE(program["params"].is_array());
  }
  for (const Json& platform : json["platforms"]) {
    platforms.insert(platform["name"].get<std::string>());
    EXPECT_GT(platform["memory_bytes"].get<uint64_t>(), 0u);
  }
  EXPECT_EQ(programs, (std::set<std::string>{"vector_add", "bgemm", "paged_attention",
                                             "qwen3_14b_decode", "qwen3"}));
  EXPECT_EQ(platforms, (std::set<std::string>{"cpu", "a2a3sim", "a5sim"}));
  for (const Json& platform : json["platforms"]) {
    if (platform["name"] == "a2a3sim") {
      EXPECT_EQ(platform["cube_cores"], 24);
      EXPECT_EQ(platform["vector_cores"], 48);
    }
    EXPECT_EQ(platform["host_views"], platform["name"] != "a5sim");
    EXPECT_EQ(platform["costs"].size(), platform["name"] == "cpu" ? 0u : 8u);
    EXPECT_EQ(platform["rates"].is_null(), platform["name"] == "cpu");
    if (platform["rates"].is_object()) {
      EXPECT_EQ(platform["rates"]["assumed"], "all");
    }
  }
}

}  // namespace
}  // namespace precast::testing
