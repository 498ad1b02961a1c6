// `precast run`: what it reports, for every example on every platform.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <tuple>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

Names Keys(const Json& object) {
  Names names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

// A case of each example that runs in a moment.
const std::vector<Names> kExamples = {
    {"vector_add", "--case", "small"},           {"bgemm", "--case", "small"},
    {"paged_attention", "--case", "small1"},     {"qwen3_14b_decode", "--set", "scale=small"},
    {"qwen3", "--prompt", "A", "--tokens", "3"},
};

class EveryExample : public ::testing::TestWithParam<std::tuple<Names, std::string>> {
 protected:
  Names Args(const Names& more) {
    Names args = {"run"};
    const auto& [example, platform] = GetParam();
    args.insert(args.end(), example.begin(), example.end());
    args.insert(args.end(), {"--platform", platform});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

TEST_P(EveryExample, GivesOneDocument) {
  Outcome outcome = Precast(Args({"--report", "json", "--rounds", "2"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  Json json = Json::parse(outcome.out);
  const auto& [example, platform] = GetParam();
  bool text = example[0] == "qwen3";
  EXPECT_EQ(Keys(json), (text ? Names{"program", "case", "platform", "execution", "golden",
                                      "max_abs_err", "text", "stopped", "rounds"}
                              : Names{"program", "case", "platform", "execution", "golden",
                                      "max_abs_err", "rounds"}));
  EXPECT_EQ(json["execution"], "scheduler");
  EXPECT_EQ(json["program"], example[0]);
  EXPECT_EQ(json["platform"], platform);
  EXPECT_EQ(json["golden"], "pass");
  EXPECT_TRUE(json["max_abs_err"].is_number());
  ASSERT_EQ(json["rounds"].size(), 2u);
  for (const Json& round : json["rounds"]) {
    Names keys = Keys(round);
    for (const char* key : {"phases", "control_plane", "modelled", "graph", "copies", "heap",
                            "host_views", "total_us", "in_kernels_us", "threads", "warnings"}) {
      EXPECT_THAT(keys, Contains(key));
    }
    EXPECT_GT(round["total_us"].get<double>(), 0);
    EXPECT_EQ(round["in_kernels_us"].is_null(), !text) << "measured for qwen3 only";
    EXPECT_GE(round["threads"].get<int>(), 1);
    EXPECT_TRUE(round["warnings"].is_array());
    const Json& phases = round["phases"];
    EXPECT_EQ(Keys(phases), (Names{"args", "host_orch", "graph_upload", "arena_h2d", "execute",
                                   "copy_back", "host_view_close"}));
    for (const Json& phase : phases) {
      EXPECT_EQ(Keys(phase), (Names{"wall_us", "modelled_us", "bytes"}));
    }
    EXPECT_NEAR(round["control_plane"]["wall_us"].get<double>(),
                phases["host_orch"]["wall_us"].get<double>() +
                    phases["graph_upload"]["wall_us"].get<double>() +
                    phases["arena_h2d"]["wall_us"].get<double>(),
                0.003)
        << "three decimals each";
    EXPECT_GT(round["graph"]["tasks"].get<uint64_t>(), 0u);
    EXPECT_GE(round["graph"]["blocks"].get<uint64_t>(), round["graph"]["tasks"].get<uint64_t>());
    bool recorded = round["graph"]["definitions_recorded"] != 0;
    EXPECT_EQ(round["copies"]["control"], recorded ? 2 : 1);
    EXPECT_EQ(phases["arena_h2d"]["bytes"], round["graph"]["image_bytes"]);
  }
}

TEST_P(EveryExample, GivesATable) {
  Outcome outcome = Precast(Args({}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"phase ", "host_orch", "execute", "total", "graph ", "golden: pass"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
}

TEST_P(EveryExample, RunsInTheOracle) {
  Outcome outcome = Precast(Args({"--oracle"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("golden: pass"));
  EXPECT_THAT(outcome.out, HasSubstr(", by the oracle, "));
}

INSTANTIATE_TEST_SUITE_P(Run, EveryExample,
                         ::testing::Combine(::testing::ValuesIn(kExamples),
                                            ::testing::Values("cpu", "a2a3sim", "a5sim")),
                         [](const auto& row) {
                           return std::get<0>(row.param)[0] + "_" + std::get<1>(row.param);
                         });

TEST(Run, ReportNoneIsSilent) {
  Outcome outcome = Precast({"run", "vector_add", "--case", "small", "--report", "none"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "");
}

TEST(Run, RoundsAreCounted) {
  Outcome outcome = Precast({"run", "vector_add", "--case", "small", "--rounds", "3"});
  EXPECT_THAT(outcome.out, StartsWith("vector_add, case small, on cpu, "));
  EXPECT_THAT(outcome.out, HasSubstr("3 rounds\nbelow: round "));
}

TEST(Run, TheCheckCanBeSkipped) {
  for (const char* option : {"--golden=skip", "--skip-device-run"}) {
    Outcome outcome = Precast({"run", "bgemm", "--case", "small", option, "--report", "json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["golden"], "skipped");
    EXPECT_TRUE(json["max_abs_err"].is_null());
    EXPECT_EQ(json["rounds"].size(), 1u);
    EXPECT_EQ(json["execution"], option == std::string("--golden=skip") ? "scheduler" : "skipped");
  }
}

TEST(Run, WhatIsNotExecutedGivesNoTextAndNoSpeed) {
  Names args = {"run", "qwen3", "--tokens", "3", "--skip-device-run"};
  Outcome outcome = Precast(args);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("qwen3, case default, on cpu, not executed, 8 rounds\n"));
  EXPECT_THAT(outcome.out, HasSubstr("nothing was executed, so there is no text"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("tokens/s")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("inside kernels")));
  args.insert(args.end(), {"--report", "json"});
  Json json = Json::parse(Precast(args).out);
  EXPECT_FALSE(json.contains("text"));
  EXPECT_FALSE(json.contains("stopped"));
  EXPECT_EQ(json["golden"], "skipped");
  EXPECT_EQ(json["execution"], "skipped");
}

TEST(Run, AFullContextIsSaid) {
  Names args = {"run", "qwen3", "--prompt", "A", "--tokens", "30", "--context", "8"};
  Outcome outcome = Precast(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nstopped after 8 of 30 tokens: the context of 8 is full\n"
                                     "1 token of prompt, 8 generated"));
  args.insert(args.end(), {"--report", "json"});
  EXPECT_EQ(Json::parse(Precast(args).out)["stopped"], "context");
  args[5] = "8";
  EXPECT_EQ(Json::parse(Precast(args).out)["stopped"], "tokens") << "all that was asked for";
  args.insert(args.end(), {"--rounds", "3"});
  EXPECT_EQ(Json::parse(Precast(args).out)["stopped"], "rounds");
}

TEST(Run, WithoutATokenThereIsNothingToCheck) {
  Names args = {"run", "qwen3", "--prompt", "ROMEO:", "--rounds", "3"};
  Outcome outcome = Precast(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("golden: skipped, no token was generated: the prompt alone "
                                     "has 6 tokens\n6 tokens of prompt, 0 generated\n"));
  args.insert(args.end(), {"--report", "json"});
  Json json = Json::parse(Precast(args).out);
  EXPECT_EQ(json["golden"], "skipped");
  EXPECT_TRUE(json["max_abs_err"].is_null());
  EXPECT_THAT(json["golden_detail"].get<std::string>(), HasSubstr("no token was generated"));
}

TEST(Run, TheHeapIsAsLargeAsAsked) {
  Names args = {"run", "vector_add", "--case", "small", "--heap", "4K"};  // 1000 f32 fit
  EXPECT_EQ(Precast(args).exit_code, 0);
  args.back() = "3K";
  Outcome outcome = Precast(args);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the heap has 3072"));
}

TEST(Run, ParametersBySetAndByOption) {
  auto tasks = [](const Names& more) {
    Names args = {"run", "bgemm", "--case", "small", "--report", "json"};
    args.insert(args.end(), more.begin(), more.end());
    Outcome outcome = Precast(args);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out)["rounds"][0]["graph"]["tasks"].get<int>();
  };
  int one = tasks({"--set", "batch=1"});
  EXPECT_EQ(tasks({"--set", "batch=2"}), 2 * one);
  EXPECT_EQ(tasks({"--batch", "2"}), 2 * one);
  EXPECT_EQ(tasks({"--batch=2", "--threads", "1"}), 2 * one);
  EXPECT_EQ(tasks({"--set", "batch=1", "--batch", "2"}), 2 * one) << "the option of its own wins";
  EXPECT_EQ(tasks({"--set", "batch=7", "--set", "batch=2"}), 2 * one) << "the last one wins";
}

TEST(Run, ALayerIsRecordedOnceAndSubmittedFortyTimes) {
  for (const char* mode : {"--skip-device-run", "--kernels=empty", "--scale=small"}) {
    Outcome outcome =
        Precast({"run", "qwen3_14b_decode", mode, "--rounds", "3", "--report", "json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["golden"], mode == std::string("--scale=small") ? "pass" : "skipped");
    for (size_t i = 0; i < 3; ++i) {
      const Json& graph = json["rounds"][i]["graph"];
      EXPECT_EQ(graph["tasks"], 47);
      EXPECT_EQ(graph["replays"], 40);
      EXPECT_EQ(graph["blocks"], 19208);
      EXPECT_EQ(graph["definitions_recorded"], i == 0 ? 1 : 0);
      EXPECT_EQ(graph["definitions_reused"], i == 0 ? 0 : 1);
    }
  }
}

TEST(Run, TheScaleFollowsWhatIsComputed) {
  Outcome outcome = Precast({"run", "qwen3_14b_decode"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("small sizes"));
  EXPECT_THAT(outcome.out, HasSubstr("golden: pass"));
  outcome = Precast({"run", "qwen3_14b_decode", "--skip-device-run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("real sizes"));
}

TEST(Run, TheVariantLimitIsAtLeastOne) {
  EXPECT_EQ(Precast({"run", "vector_add", "--variant-limit", "0"}).exit_code, 2);
  EXPECT_EQ(Precast({"run", "vector_add", "--variant-limit", "1"}).exit_code, 0);
}

TEST(Run, WhatCannotBeExecutedSaysWhatCan) {
  Outcome outcome = Precast({"run", "qwen3_14b_decode", "--scale", "full"});
  EXPECT_EQ(outcome.exit_code, 2);
  for (const char* part : {"26.4 GB", "--skip-device-run", "kernels=empty", "scale=small"}) {
    EXPECT_THAT(outcome.err, HasSubstr(part));
  }
}

Json Rounds(const Names& more) {
  Names args = {"run", "paged_attention", "--report", "json"};
  args.insert(args.end(), more.begin(), more.end());
  Outcome outcome = Precast(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["golden"], more.back() == "--skip-device-run" ? "skipped" : "pass");
  return json["rounds"];
}

double ModelledViews(const Json& round) {
  return round["phases"]["host_orch"]["modelled_us"].get<double>() +
         round["phases"]["host_view_close"]["modelled_us"].get<double>();
}

TEST(Run, HostViewsAreEstablishedOnce) {
  Names small = {"--platform", "a2a3sim", "--case", "small1_child_memory", "--rounds", "5"};
  Json rounds = Rounds(small);
  ASSERT_EQ(rounds.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const Json& views = rounds[i]["host_views"];
    EXPECT_EQ(Keys(views), (Names{"established", "reused", "dropped", "refused", "mapped_bytes",
                                  "devcopy", "devcopy_bytes"}));
    EXPECT_EQ(views["established"], i == 0 ? 2 : 0);
    EXPECT_EQ(views["reused"], i == 0 ? 0 : 2);
    EXPECT_EQ(views["mapped_bytes"], 68);
    EXPECT_EQ(ModelledViews(rounds[i]) > 0, i == 0);
  }
}

TEST(Run, HostViewsCanBeRebuiltOrCopied) {
  Names small = {"--platform", "a2a3sim", "--case",       "small1_child_memory",
                 "--rounds",   "3",       "--host-views", "rebuild"};
  for (const Json& round : Rounds(small)) {
    EXPECT_EQ(round["host_views"]["established"], 2);
    EXPECT_EQ(round["host_views"]["dropped"], 2);
    EXPECT_NEAR(ModelledViews(round), 10.5, 0.5);
  }
  small.back() = "copy";
  for (const Json& round : Rounds(small)) EXPECT_EQ(round["host_views"]["devcopy"], 2);
  small.insert(small.end(), {"--host-views", "cache", "--host-view-budget", "64"});
  for (const Json& round : Rounds(small)) {
    EXPECT_EQ(round["host_views"]["devcopy"], 1) << "the lengths find no room beside the table";
  }
}

TEST(Run, RangesSaveCopies) {
  auto copies = [](const std::string& reads) {
    Json rounds = Rounds({"--platform", "a5sim", "--case", "Case1_child_memory", "--set",
                          "reads=" + reads, "--rounds", "2", "--skip-device-run"});
    if (reads == "element") {
      EXPECT_NEAR(rounds[1]["phases"]["host_orch"]["modelled_us"].get<double>(), 162000, 1000);
    }
    return rounds[1]["host_views"]["devcopy"].get<int>();
  };
  EXPECT_EQ(copies("element"), 16640);
  EXPECT_EQ(copies("row"), 257);
  EXPECT_EQ(copies("table"), 2);
}

TEST(Run, TheProgramMayComeAfterItsOptions) {
  Outcome outcome = Precast(
      {"run", "--prompt", "a b", "--tokens", "2", "--report", "json", "--golden", "skip", "qwen3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["program"], "qwen3");
}

TEST(Run, TextIsWrittenBeforeTheReport) {
  Names args = {"run", "qwen3", "--prompt", "ROMEO:", "--tokens", "4", "--temperature", "0"};
  Outcome table = Precast(args);
  args.insert(args.end(), {"--report", "json"});
  Outcome json = Precast(args);
  args.back() = "none";
  Outcome none = Precast(args);
  ASSERT_EQ(table.exit_code + json.exit_code + none.exit_code, 0) << json.err;
  std::string text = Json::parse(json.out)["text"].get<std::string>();
  EXPECT_FALSE(text.empty());
  EXPECT_THAT(none.out, StartsWith("ROMEO:" + text));
  EXPECT_THAT(table.out, StartsWith("ROMEO:" + text));
  EXPECT_THAT(table.out, HasSubstr("\n\nqwen3, case default, on cpu"));
  EXPECT_THAT(table.out, HasSubstr("the last of "));
}

TEST(Run, ARunThatFailsGivesADocumentToo) {
  const std::string no_model = PRECAST_SOURCE_DIR "/README.md";
  Outcome outcome = Precast({"run", "qwen3", "--model", no_model, "--report", "json"});
  EXPECT_THAT(outcome.err, HasSubstr(no_model));
  ASSERT_EQ(outcome.exit_code, 1) << "a file that is there and is none of its kind";
  Json json = Json::parse(outcome.out);
  EXPECT_EQ(Keys(json), (Names{"program", "case", "platform", "error"}));
  EXPECT_EQ(Keys(json["error"]), (Names{"code", "message"}));
}

}  // namespace
}  // namespace precast::testing
