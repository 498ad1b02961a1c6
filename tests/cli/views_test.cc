// `precast graph`, `precast explain` and `precast dump`.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

const std::string kProbe = std::string(PRECAST_TEST_PROGRAMS_DIR) + "/graph_probe.so";

Names Join(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// graph.

TEST(GraphCommand, DrawsEveryExampleOnEveryPlatform) {
  const std::vector<Names> examples = {{"vector_add", "--case", "small"},
                                       {"bgemm", "--case", "small"},
                                       {"paged_attention", "--case", "ragged"},
                                       {"qwen3_14b_decode", "--set", "scale=small"},
                                       {"qwen3", "--prompt", "A"}};
  for (const Names& example : examples) {
    for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
      SCOPED_TRACE(example[0] + " on " + platform);
      Names args = Join(Join({"graph"}, example), {"--platform", platform});
      Outcome outcome = Precast(Join(args, {"--format", "svg", "--critical"}));
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_EQ(outcome.err, "");
      EXPECT_THAT(outcome.out, HasSubstr("</svg>"));
      EXPECT_THAT(outcome.out, HasSubstr(example[0] + ", case "));
      outcome = Precast(Join(args, {"--format", "json"}));
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      Json json = Json::parse(outcome.out);
      ASSERT_FALSE(json["graphs"].empty());
      for (const Json& graph : json["graphs"]) {
        for (const Json& edge : graph["edges"]) {
          EXPECT_FALSE(edge["reasons"].empty()) << graph["name"] << edge;
        }
      }
    }
  }
}

TEST(GraphCommand, WritesAFileOfTheKindItsNameSays) {
  std::string path =
      (std::filesystem::path(::testing::TempDir()) / "views_test_graph.svg").string();
  Outcome outcome = Precast({"graph", kProbe, "-o", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(TextOf(path), AllOf(StartsWith("<?xml"), HasSubstr("4 body"), HasSubstr("barrier")));
  outcome = Precast({"graph", kProbe, "-o", path, "--format", "json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(TextOf(path))["title"], "graph_probe, case default, platform cpu");
  std::filesystem::remove(path);
  outcome = Precast({"graph", kProbe, "-o", "/nowhere/graph.svg"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("-o /nowhere/graph.svg: No such file or directory"));
}

TEST(GraphCommand, NamesThePackageWhenGraphvizIsMissing) {
  Outcome outcome = Precast({"graph", kProbe, "--format", "svg"}, {.environment = {{"PATH", ""}}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("install the package graphviz"), HasSubstr("'dot'")));
}

TEST(GraphCommand, FiftyThousandTasksStayReadable) {
  Outcome outcome = Precast({"graph", kProbe, "--set", "tasks=50000"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_LT(outcome.out.size(), 10'000u);
  EXPECT_THAT(outcome.out, HasSubstr("add_one\\n50002 tasks"));
  outcome = Precast({"graph", kProbe, "--set", "tasks=50000", "--focus", "25000", "--depth", "3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("g0t24997 "), HasSubstr("g0t25003 "),
                                 Not(HasSubstr("g0t24996 ")), Not(HasSubstr("g0t25004 "))));
}

// explain.

TEST(ExplainCommand, TellsTheReason) {
  Outcome outcome = Precast({"explain", kProbe, "--from", "first", "--to", "barrier"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "Yes: task 3 'barrier' waits for task 0 'first' (kernel add_one).\n"
            "  it was told to run after task 0 'first' (kernel add_one) (explicit)\n");
  outcome = Precast({"explain", kProbe, "--from", "5.0", "--to", "last"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("Yes: task 6 'last' (kernel copy) waits for task 5"),
                                 HasSubstr("reads bytes 0 … 63 of x (64 bytes)")));
  outcome = Precast({"explain", kProbe, "--from", "count", "--to", "first"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("No: "));
}

// dump.

TEST(DumpCommand, ShowsTensorsBeforeAndAfter) {
  Outcome outcome = Precast({"dump", kProbe, "--task", "0", "--task", "5.0", "--task", "mixed"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "task 0 'first' (kernel add_one), 4 blocks\n"
            "  tensor 0: inout x f32 [16]\n"
            "    before  min 0, max 0, mean 0, no NaN  [0, 0, 0, 0, 0, 0, 0, 0, …]\n"
            "            equal to the oracle in all 16 elements\n"
            "    after   min 1, max 1, mean 1, no NaN  [1, 1, 1, 1, 1, 1, 1, 1, …]\n"
            "            equal to the oracle in all 16 elements\n"
            "task 5 (graph body), task 0 'inside' (kernel add_one), 1 block\n"
            "  tensor 0: inout boundary 0 f32 [16]\n"
            "    before  min 2, max 2, mean 2, no NaN  [2, 2, 2, 2, 2, 2, 2, 2, …]\n"
            "            equal to the oracle in all 16 elements\n"
            "    after   min 3, max 3, mean 3, no NaN  [3, 3, 3, 3, 3, 3, 3, 3, …]\n"
            "            equal to the oracle in all 16 elements\n"
            "task 7 'mixed' (kernels both_cube + both_parts), 1 block\n"
            "  tensor 0: out created 1 f32 [2]\n"
            "    after   min 10, max 20, mean 15, no NaN  [10, 20]\n"
            "            equal to the oracle in all 2 elements\n");
}

TEST(DumpCommand, ShowsTheFirstDifferences) {
  Outcome outcome = Precast({"dump", kProbe, "--task", "count"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("after   min 0, max 1, mean 0.25, no NaN  [1, 0, 0, 0]"));
  EXPECT_THAT(
      outcome.out,
      HasSubstr("differs from the oracle in 1 of all 4 elements: [0]: 1, the oracle has 2"));
  outcome = Precast({"dump", kProbe, "--task", "count", "--bytes", "0"});
  EXPECT_THAT(outcome.out, HasSubstr("differs from the oracle, but not in the first 0 of 4"));
}

TEST(DumpCommand, SaysThatATaskDidNotRun) {
  Outcome outcome = Precast({"dump", kProbe, "--task", "skipped", "--task", "last"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, StartsWith("task 2 'skipped' (kernel add_one)\n"
                                      "  it did not run: its predicate did not hold\n"
                                      "task 6 'last' (kernel copy), 1 block\n"));
  EXPECT_THAT(outcome.err, HasSubstr("nothing was recorded of a task that did not run"));
}

TEST(DumpCommand, EveryExampleGivesWhatTheOracleGives) {
  const std::vector<Names> examples = {{"vector_add", "--case", "small", "--task", "0"},
                                       {"bgemm", "--case", "small", "--task", "5"},
                                       {"paged_attention", "--case", "small1", "--task", "4"},
                                       {"qwen3", "--prompt", "A", "--task", "5.8"}};
  for (const Names& example : examples) {
    for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
      SCOPED_TRACE(example[0] + " on " + platform);
      Outcome outcome = Precast(Join(Join({"dump"}, example), {"--platform", platform}));
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_THAT(outcome.out, AllOf(HasSubstr("equal to the oracle"), Not(HasSubstr("differs"))));
    }
  }
}

// What makes no sense.

TEST(Views, MistakesAreExplained) {
  struct Row {
    Names args;
    std::string part;
  };
  const std::vector<Row> rows = {
      {{"graph"}, "name a program to run: one of vector_add"},
      {{"graph", "softmax"}, "program 'softmax'"},
      {{"graph", kProbe, "--format", "png"}, "png"},
      {{"graph", kProbe, "--focus", "99"}, "there is no task 99: the run has tasks 0 to 7"},
      {{"graph", kProbe, "--focus", "inside"}, "2 tasks are named 'inside': 4.0, 5.0"},
      {{"graph", kProbe, "--weight", "time"}, "time"},
      {{"graph", kProbe, "--depth", "-1"}, "--depth"},
      {{"graph", kProbe, "--round", "3"}, "--round 3: case default has rounds 0 to 0"},
      {{"explain", kProbe, "--from", "first"}, "explain needs two tasks"},
      {{"explain", kProbe, "--from", "first", "--to", "nobody"}, "no task is named 'nobody'"},
      {{"dump", kProbe}, "dump needs a task: --task T"},
      {{"dump", kProbe, "--task", "4"},
       "is a recorded graph, which has no tensors of its own; "
       "name one of the 1 tasks inside, such as 4.0"},
      {{"dump", kProbe, "--task", "barrier"}, "only orders others; it runs no kernel"},
      {{"dump", kProbe, "--task", "9"}, "there is no task 9"},
      {{"dump", kProbe, "--task", "0", "--bytes", "much"}, "--bytes much: allowed"},
      {{"dump", kProbe, "--task", "0", "--skip-device-run"}, "option '--skip-device-run'"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.part);
    Outcome outcome = Precast(row.args);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.part));
  }
}

}  // namespace
}  // namespace precast::testing
