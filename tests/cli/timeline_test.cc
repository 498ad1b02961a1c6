// `precast run --timeline model`: what it reports of the examples, exactly, and what it refuses.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

Names Args(const Names& program, const Names& more = {}) {
  Names args = {"run"};
  args.insert(args.end(), program.begin(), program.end());
  args.insert(args.end(), {"--platform", "a2a3sim", "--timeline", "model"});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

Json TimelineOf(const Names& program, const Names& more = {}) {
  Names args = Args(program, more);
  args.insert(args.end(), {"--report", "json"});
  Outcome outcome = Precast(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["execution"], "skipped");
  EXPECT_EQ(json["golden"], "skipped");
  return json["timeline"];
}

TEST(Timeline, OfAChainOfTwoTasks) {
  // 1000 elements in 8 blocks: each moves 1500 bytes at 100 GB/s after a dispatch of 1 us, which
  // takes longer than its 125 additions.
  Json timeline = TimelineOf({"vector_add", "--case", "small"});
  EXPECT_EQ(timeline["span_ps"], 2 * (1'000'000 + 15'000));
  EXPECT_EQ(timeline["tasks"], 2);
  EXPECT_EQ(timeline["blocks"], 16);
  EXPECT_EQ(timeline["bytes"], 2 * 12'000);
  EXPECT_EQ(timeline["operations"]["vector"], 2000);
  EXPECT_EQ(timeline["bounds_ps"]["memory"], 15'000);
  EXPECT_EQ(timeline["bounds_ps"]["chain"], timeline["span_ps"]);
  EXPECT_EQ(timeline["what_if"][0]["change"], "twice the cores");
  EXPECT_EQ(timeline["what_if"][0]["span_ps"], timeline["span_ps"]);
  EXPECT_EQ(timeline["longest_wait"], nullptr);
  EXPECT_THAT(timeline["advice"][0].get<std::string>(), HasSubstr("longest chain of tasks"));
}

TEST(Timeline, CountsTheOperationsOfAProduct) {
  Json timeline = TimelineOf({"bgemm"}, {"--batch", "2", "--m", "100", "--n", "70", "--k", "50"});
  EXPECT_EQ(timeline["operations"]["cube"], 2 * 2 * 100 * 70 * 50);
  EXPECT_EQ(timeline["operations"]["vector"], 0);
}

const std::vector<Names> kExamples = {
    {"vector_add", "--case", "small"},           {"bgemm", "--case", "small"},
    {"paged_attention", "--case", "small1"},     {"qwen3_14b_decode", "--set", "scale=small"},
    {"qwen3", "--prompt", "A", "--tokens", "3"},
};

TEST(Timeline, OfEveryExampleIsTheSameEachTimeAndComplete) {
  for (const Names& example : kExamples) {
    SCOPED_TRACE(example[0]);
    Json timeline = TimelineOf(example);
    EXPECT_EQ(timeline, TimelineOf(example, {"--threads", "1"}));
    EXPECT_TRUE(timeline["kernels_without_cost"].empty());
    EXPECT_EQ(timeline["predicated_tasks"], 0);
    EXPECT_GT(timeline["span_ps"], 0);
    uint64_t path = 0;
    for (const Json& group : timeline["groups"]) path += group["path_ps"].get<uint64_t>();
    EXPECT_EQ(path, timeline["span_ps"]);
    for (const auto& [name, bound] : timeline["bounds_ps"].items()) {
      EXPECT_LE(bound, timeline["span_ps"]) << name;
    }
  }
}

TEST(Timeline, TellsThatTheHeapMakesTheChain) {
  Names program = {"paged_attention", "--case", "ragged"};
  Json tight = TimelineOf(program, {"--heap", "64K"}), wide = TimelineOf(program);
  EXPECT_GT(tight["critical_path"]["heap_edges"], 0);
  EXPECT_THAT(tight["advice"].dump(), HasSubstr("--heap"));
  EXPECT_EQ(wide["critical_path"]["heap_edges"], 0);
  EXPECT_THAT(wide["advice"].dump(), Not(HasSubstr("--heap")));
  EXPECT_GT(tight["span_ps"], wide["span_ps"]);
}

TEST(Timeline, IsShownAsATable) {
  Outcome outcome = Precast(Args({"paged_attention", "--case", "small1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part :
       {"not executed", "Modelled timeline: ", "no run takes less than", "longest chain",
        "Critical path: ", "softmax_of_block", "On another chip", "twice the cores",
        "What bounds the run", "cores idle", "assumed, not measured: all"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  outcome = Precast(Args({"qwen3", "--prompt", "A", "--tokens", "3"}));
  EXPECT_THAT(outcome.out, HasSubstr(", of the last of "));
}

TEST(Timeline, IsWrittenAsATrace) {
  std::string path = ::testing::TempDir() + "precast_timeline.json";
  Json timeline = TimelineOf({"vector_add"}, {"--timeline-out", path});
  std::ifstream file(path);
  Json trace = Json::parse(file);
  std::remove(path.c_str());
  size_t blocks = 0, lanes = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++blocks;
    if (event["name"] == "thread_name") ++lanes;
  }
  EXPECT_EQ(blocks, timeline["blocks"]);
  EXPECT_EQ(lanes, 24 + 48);
}

TEST(Timeline, AFileThatCannotBeWrittenIsAFailure) {
  Outcome outcome =
      Precast(Args({"vector_add", "--case", "small"}, {"--timeline-out", "/dev/full"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write the timeline to '/dev/full'"));
  outcome = Precast(Args({"vector_add", "--case", "small"}, {"--timeline-out", "/no/such/file"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("No such file"));
}

}  // namespace
}  // namespace precast::testing
