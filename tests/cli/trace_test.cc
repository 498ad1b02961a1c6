// `--trace`: the document that it writes, and what it says when it can't.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;
namespace fs = std::filesystem;

int64_t Ns(const Json& microseconds) {
  return static_cast<int64_t>(std::llround(microseconds.get<double>() * 1000));
}

/// A trace, looked through.
struct Document {
  Json json;
  std::map<std::string, std::vector<Json>> by_category;  // complete events
  std::set<std::string> counters, runs;
  size_t flows = 0;

  size_t Count(const std::string& category) const {
    auto found = by_category.find(category);
    return found == by_category.end() ? 0 : found->second.size();
  }
  std::set<std::string> NamesOf(const std::string& category) const {
    std::set<std::string> names;
    auto found = by_category.find(category);
    if (found == by_category.end()) return names;
    for (const Json& event : found->second) names.insert(event["name"].get<std::string>());
    return names;
  }
};

/// Checks what holds for every document.
void Look(const std::string& path, Document* document) {
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  document->json = Json::parse(file);
  using Lane = std::pair<int64_t, int64_t>;
  struct Span {
    int64_t begin, end;
    bool block;
  };
  std::map<Lane, std::vector<Span>> lanes;
  struct Flow {
    int64_t from = -1, to = -1;
    Lane from_lane, to_lane;
  };
  std::map<uint64_t, Flow> flows;
  std::map<std::string, int> open;  // asynchronous spans
  std::set<Lane> named;
  for (const Json& event : document->json["traceEvents"]) {
    for (const char* key : {"ph", "pid", "tid", "ts", "name"}) {
      ASSERT_TRUE(event.contains(key)) << event;
    }
    EXPECT_FALSE(event["name"].get<std::string>().empty()) << event;
    std::string phase = event["ph"];
    Lane lane(event["pid"], event["tid"]);
    if (phase == "X") {
      int64_t begin = Ns(event["ts"]), end = begin + Ns(event["dur"]);
      EXPECT_LE(begin, end);
      std::string category = event["cat"];
      lanes[lane].push_back({begin, end, category.starts_with("block")});
      document->by_category[category].push_back(event);
    } else if (phase == "s") {
      flows[event["id"]].from = Ns(event["ts"]);
      flows[event["id"]].from_lane = lane;
    } else if (phase == "f") {
      flows[event["id"]].to = Ns(event["ts"]);
      flows[event["id"]].to_lane = lane;
      EXPECT_EQ(event["bp"], "e");
    } else if (phase == "C") {
      document->counters.insert(event["name"]);
      EXPECT_TRUE(event["args"]["value"].is_number_unsigned()) << event;
    } else if (phase == "b" || phase == "e") {
      std::string key = event["cat"].get<std::string>() + event["id"].get<std::string>();
      open[key] += phase == "b" ? 1 : -1;
      EXPECT_GE(open[key], 0) << event;
      if (event["cat"] == "run" && phase == "b") document->runs.insert(event["id"]);
    } else {
      ASSERT_EQ(phase, "M") << event;
      EXPECT_THAT(event["name"].get<std::string>(),
                  ::testing::AnyOf("process_name", "thread_name"));
      if (event["name"] == "thread_name") named.insert(lane);
    }
  }
  for (const auto& [key, count] : open) EXPECT_EQ(count, 0) << key;
  // Slices of a lane are disjoint, or one within the other.
  for (auto& [lane, spans] : lanes) {
    EXPECT_TRUE(named.contains(lane)) << lane.first << " " << lane.second;
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<Span> around;
    for (const Span& span : spans) {
      while (!around.empty() && around.back().end <= span.begin) around.pop_back();
      if (!around.empty()) {
        EXPECT_LE(span.end, around.back().end) << lane.second << " at " << span.begin;
      }
      around.push_back(span);
    }
  }
  // Arrows leave from inside a block and arrive where one begins, no earlier.
  document->flows = flows.size();
  for (const auto& [id, flow] : flows) {
    ASSERT_GE(flow.from, 0) << id;
    ASSERT_GE(flow.to, 0) << id;
    EXPECT_LE(flow.from, flow.to) << id;
    const auto& from = lanes[flow.from_lane];
    EXPECT_TRUE(std::any_of(from.begin(), from.end(), [&](const Span& span) {
      return span.block && span.begin <= flow.from && flow.from <= span.end;
    })) << id;
    const auto& to = lanes[flow.to_lane];
    EXPECT_TRUE(std::any_of(to.begin(), to.end(), [&](const Span& span) {
      return span.block && span.begin <= flow.to && flow.to <= span.end;
    })) << id;
  }
  EXPECT_EQ(document->json["otherData"]["blocks"],
            document->Count("block") + document->Count("block,failed"));
  EXPECT_EQ(document->json["otherData"]["runs"], document->runs.size());
}

class TraceOption : public ::testing::Test {
 protected:
  std::string File() const {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return ::testing::TempDir() + "/precast-" + test->name() + ".json";
  }
  void TearDown() override { fs::remove(File()); }
};

TEST_F(TraceOption, EveryExampleOnEveryPlatform) {
  const std::vector<std::vector<std::string>> examples = {
      {"vector_add", "--case", "small"},           {"bgemm", "--case", "small"},
      {"paged_attention", "--case", "small1"},     {"qwen3_14b_decode", "--set", "scale=small"},
      {"qwen3", "--prompt", "A", "--tokens", "3"},
  };
  for (const auto& example : examples) {
    for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
      SCOPED_TRACE(example[0] + std::string(" on ") + platform);
      std::vector<std::string> args = {"run"};
      args.insert(args.end(), example.begin(), example.end());
      args.insert(args.end(), {"--platform", platform, "--trace", File(), "--report", "json"});
      Outcome outcome = Precast(args);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      Json report = Json::parse(outcome.out);
      Document document;
      Look(File(), &document);
      if (HasFatalFailure()) return;
      uint64_t blocks = 0, recorded = 0, replays = 0;
      for (const Json& round : report["rounds"]) {
        blocks += round["graph"]["blocks"].get<uint64_t>();
        recorded += round["graph"]["definitions_recorded"].get<uint64_t>();
        replays += round["graph"]["replays"].get<uint64_t>();
      }
      EXPECT_EQ(document.Count("block"), blocks);
#ifdef PRECAST_VALIDATE  // replays are recorded again, to compare
      EXPECT_GE(document.Count("record"), recorded);
#else
      EXPECT_EQ(document.Count("record"), recorded);
#endif
      EXPECT_GE(document.Count("submit"), replays);
      EXPECT_EQ(document.runs.size(), report["rounds"].size());
      EXPECT_EQ(document.Count("phase"), 8 * document.runs.size());  // args come in two parts
      EXPECT_THAT(document.NamesOf("phase"),
                  UnorderedElementsAre("args", "host_orch", "graph_upload", "arena_h2d", "execute",
                                       "copy_back", "host_view_close"));
      EXPECT_THAT(document.NamesOf("driver"), IsSupersetOf({"launch", "wait", "collect"}));
      EXPECT_THAT(document.counters, IsSupersetOf({"ready tasks", "mapped bytes"}));
      EXPECT_GT(document.flows, 0u);
    }
  }
}

TEST_F(TraceOption, IsNamedInTheTable) {
  Outcome outcome = Precast({"run", "vector_add", "--case", "small", "--trace", File()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("trace: " + File()));
  Document document;
  Look(File(), &document);
  EXPECT_THAT(document.counters, Contains("heap bytes"));
  std::set<std::string> kernels;
  for (const Json& block : document.by_category["block"]) {
    for (const char* key : {"kernel", "task", "block", "instance", "run"}) {
      EXPECT_TRUE(block["args"].contains(key)) << block;
    }
    kernels.insert(block["args"]["kernel"]);
  }
  EXPECT_FALSE(kernels.empty());
}

TEST_F(TraceOption, DropsAreCountedAndShown) {
  Outcome outcome = Precast({"run", "paged_attention", "--case", "ragged", "--trace", File(),
                             "--trace-buffer", "8K", "--report", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json report = Json::parse(outcome.out);
  Document document;
  Look(File(), &document);
  uint64_t blocks = report["rounds"][0]["graph"]["blocks"];
  EXPECT_EQ(document.json["otherData"]["blocks"].get<uint64_t>() +
                document.json["otherData"]["dropped_blocks"].get<uint64_t>(),
            blocks * report["rounds"].size());
  EXPECT_GT(document.json["otherData"]["dropped_blocks"], 0u);
  EXPECT_THAT(report["rounds"][0]["warnings"].dump(), HasSubstr("--trace-buffer"));
}

TEST_F(TraceOption, WithoutExecutionOnlyTheHost) {
  Outcome outcome =
      Precast({"run", "vector_add", "--case", "small", "--trace", File(), "--skip-device-run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Document document;
  Look(File(), &document);
  EXPECT_EQ(document.Count("block"), 0u);
  EXPECT_THAT(document.NamesOf("phase"), Contains("arena_h2d"));
}

TEST_F(TraceOption, ByTheOracle) {
  Outcome outcome =
      Precast({"run", "vector_add", "--case", "small", "--trace", File(), "--oracle"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Document document;
  Look(File(), &document);
  EXPECT_GT(document.Count("block"), 0u);
  EXPECT_EQ(document.flows, 0u);
}

TEST_F(TraceOption, AFailedRunStillGivesOne) {
  Outcome outcome = Precast({"run", PRECAST_TEST_PROGRAMS_DIR "/cli_probe.so", "--set",
                             "mode=kernel", "--trace", File()});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  Document document;
  Look(File(), &document);
  ASSERT_EQ(document.runs.size(), 1u);
  EXPECT_EQ(document.Count("failed"), 1u);
  EXPECT_FALSE(document.by_category["failed"][0]["args"]["error"].get<std::string>().empty());
}

TEST_F(TraceOption, WithoutItThereIsNoFile) {
  Outcome outcome = Precast({"run", "vector_add", "--case", "small"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(fs::exists(File()));
}

TEST_F(TraceOption, SaysWhyItCannotWrite) {
  struct {
    std::string path, reason;
  } const cases[] = {
      {::testing::TempDir(), "Is a directory"},
      {"/nonexistent/t.json", "No such file or directory"},
      {"/dev/full", "No space left on device"},
  };
  for (const auto& [path, reason] : cases) {
    for (const char* report : {"table", "json"}) {
      Outcome outcome =
          Precast({"run", "vector_add", "--case", "small", "--trace", path, "--report", report});
      EXPECT_EQ(outcome.exit_code, 1) << path;
      EXPECT_THAT(outcome.err, HasSubstr("cannot write the trace to '" + path + "': " + reason));
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  }
  Outcome outcome = Precast({"run", "vector_add", "--trace-buffer", "lots", "--trace", File()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--trace-buffer lots"));
  EXPECT_FALSE(fs::exists(File()));
}

TEST_F(TraceOption, OfABenchmark) {
  if (!fs::exists(fs::path(PrecastPath()).parent_path() / "precast-bench")) {
    GTEST_SKIP() << "precast-bench is not built here";
  }
  for (std::vector<std::string> suite :
       {std::vector<std::string>{"run", "--n", "100", "--impl", "precast,traced,traced_sys"},
        {"submit", "--n", "100", "--impl", "precast"},
        {"replay"},
        {"pipeline"}}) {
    SCOPED_TRACE(suite[0]);
    bool executes = suite[0] != "submit";
    suite.insert(suite.begin(), "bench");
    suite.insert(suite.end(), {"--reps", "1", "--json", "--trace", File()});
    Outcome outcome = Precast(suite);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(Json::parse(outcome.out).contains("results"));
    Document document;
    Look(File(), &document);
    EXPECT_FALSE(document.runs.empty());
    EXPECT_EQ(document.Count("block") > 0, executes);
  }
}

}  // namespace
}  // namespace precast::testing
