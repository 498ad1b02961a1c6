#include "cli/job_report.h"

#include "cli/output.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string>

namespace precast::cli {
namespace {

using Json = nlohmann::json;

const JobNames kNames = {"bgemm", "small", "cpu", "scheduler"};

JobResult Result(std::initializer_list<double> times) {
  JobResult result;
  for (double time : times) {
    RunReport report;
    report.total_us = time;
    report.threads = 2;
    result.rounds.push_back(report);
  }
  result.golden = GoldenResult{true, 1.5e-7, ""};
  return result;
}

std::string Table(const JobResult& result, const std::string& execution = "scheduler") {
  std::FILE* file = std::tmpfile();
  Output output(file);
  JobNames names = kNames;
  names.execution = execution;
  PrintTable(output, names, result);
  output.Flush();
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(JobReport, TheTypicalRoundHasTheMedianTime) {
  EXPECT_EQ(TypicalRound(Result({5})), 0u);
  EXPECT_EQ(TypicalRound(Result({9, 1, 5})), 2u);
  EXPECT_EQ(TypicalRound(Result({9, 1, 5, 7})), 2u) << "the lower one of two";
  JobResult text = Result({9, 1, 5});
  text.text = "";
  EXPECT_EQ(TypicalRound(text), 2u) << "the last one";
  text.rounds.pop_back();
  EXPECT_EQ(TypicalRound(text), 1u);
}

TEST(JobReport, Table) {
  JobResult result = Result({2000, 1000, 3000});
  result.summary = "fast";
  std::string text = Table(result);
  EXPECT_TRUE(
      text.starts_with("bgemm, case small, on cpu, 2 threads, 3 rounds\n"
                       "below: round 1 of 3, the one of median time\n\nphase"))
      << text;
  EXPECT_NE(text.find("total                2.00 ms"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n\ngolden: pass, max abs error 1.5e-07\nfast\n")) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "no colour outside a terminal";
}

TEST(JobReport, TableOfOneRoundAndOfNone) {
  JobResult result = Result({2000});
  result.golden.reset();
  std::string text = Table(result);
  EXPECT_TRUE(text.starts_with("bgemm, case small, on cpu, 2 threads, 1 round\n\nphase")) << text;
  EXPECT_TRUE(text.ends_with("\ngolden: skipped\n")) << text;
  EXPECT_TRUE(Table(Result({})).starts_with("bgemm, case small, on cpu, no rounds\n"));
}

TEST(JobReport, TableOfAFailedCheckShowsTheDifference) {
  JobResult result = Result({2000});
  result.golden = GoldenResult{false, 3, "z[1] is 4, expected 1"};
  EXPECT_TRUE(Table(result).ends_with("golden: fail, max abs error 3; z[1] is 4, expected 1\n"));
}

TEST(JobReport, TableSaysWhoExecuted) {
  EXPECT_TRUE(
      Table(Result({1}), "oracle").starts_with("bgemm, case small, on cpu, by the oracle, "))
      << "no threads";
  EXPECT_TRUE(Table(Result({1}), "skipped")
                  .starts_with("bgemm, case small, on cpu, not executed, 1 round"));
}

TEST(JobReport, ACheckThatHadNothingToCompareIsSkipped) {
  JobResult result = Result({1});
  result.golden = {.detail = "no token", .skipped = true};
  EXPECT_TRUE(Table(result).ends_with("\ngolden: skipped, no token\n"));
  Json json = Json::parse(JsonDocument(kNames, result));
  EXPECT_EQ(json["golden"], "skipped");
  EXPECT_EQ(json["golden_detail"], "no token");
  EXPECT_TRUE(json["max_abs_err"].is_null());
}

TEST(JobReport, RoundsHaveTimesOfThreeDecimals) {
  JobResult result = Result({1234.56789});
  result.rounds[0][Phase::execute].wall_us = 0.12345;
  result.rounds[0].warnings = {"slow"};
  Json round = Json::parse(JsonDocument(kNames, result))["rounds"][0];
  EXPECT_EQ(round["total_us"], 1234.568);
  EXPECT_EQ(round["phases"]["execute"]["wall_us"], 0.123);
  EXPECT_EQ(round["threads"], 2);
  EXPECT_EQ(round["warnings"], Json::array({"slow"}));
  EXPECT_TRUE(round["in_kernels_us"].is_null()) << "not measured";
  result.rounds[0].in_kernels_us = 7.00049;
  round = Json::parse(JsonDocument(kNames, result))["rounds"][0];
  EXPECT_EQ(round["in_kernels_us"], 7);
}

TEST(JobReport, FactsOfTheCaseAreKeys) {
  JobResult result = Result({1});
  result.facts = {{"stopped", "context"}, {"program", "mine"}};
  Json json = Json::parse(JsonDocument(kNames, result));
  EXPECT_EQ(json["stopped"], "context");
  EXPECT_EQ(json["program"], "bgemm") << "the document's own keys stay";
}

TEST(JobReport, Document) {
  JobResult result = Result({2000, 1000});
  Json json = Json::parse(JsonDocument(kNames, result));
  EXPECT_EQ(json["program"], "bgemm");
  EXPECT_EQ(json["case"], "small");
  EXPECT_EQ(json["platform"], "cpu");
  EXPECT_EQ(json["golden"], "pass");
  EXPECT_EQ(json["max_abs_err"], 1.5e-7);
  EXPECT_FALSE(json.contains("text"));
  EXPECT_EQ(json["rounds"].size(), 2u);
  EXPECT_TRUE(json["rounds"][1].contains("phases"));

  result.golden->pass = false;
  EXPECT_EQ(Json::parse(JsonDocument(kNames, result))["golden"], "fail");
  result.golden.reset();
  json = Json::parse(JsonDocument(kNames, result));
  EXPECT_EQ(json["golden"], "skipped");
  EXPECT_TRUE(json["max_abs_err"].is_null());
}

TEST(JobReport, DocumentsAreValidWhateverIsInThem) {
  JobResult result = Result({});
  result.text = "cut \xe2\x82 and \"quoted\"\n\x01";
  result.golden->max_abs_err = std::numeric_limits<double>::infinity();
  Json json = Json::parse(JsonDocument(kNames, result));
  EXPECT_EQ(json["text"], "cut \xef\xbf\xbd and \"quoted\"\n\x01");
  EXPECT_TRUE(json["max_abs_err"].is_null());
  EXPECT_EQ(json["rounds"], Json::array());
}

TEST(JobReport, DocumentOfAFailure) {
  Error error(ErrorCode::kernel_failed, "task 3 (add) failed:\nno reason");
  EXPECT_EQ(JsonDocument(kNames, error),
            "{\"program\":\"bgemm\",\"case\":\"small\",\"platform\":\"cpu\",\"error\":{\"code\":"
            "\"kernel_failed\",\"message\":\"task 3 (add) failed:\\nno reason\"}}\n");
}

}  // namespace
}  // namespace precast::cli
