// `precast ab`: what it finds, what it prints, its mistakes; and what --upload changes.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

const std::string kLayers = PRECAST_TEST_PROGRAMS_DIR "/layers_probe.so";
const std::string kProbe = PRECAST_TEST_PROGRAMS_DIR "/cli_probe.so";

std::vector<std::string> Upload(const std::string& platform) {
  return {"ab",         kLayers,
          "--a",        "--platform " + platform + " --upload per-submission",
          "--b",        "--platform " + platform,
          "--trim",     "1",
          "--rounds",   "3",
          "--segments", "2"};
}

const Json& Line(const Json& document, const std::string& name, const std::string& clock) {
  for (const Json& line : document["lines"]) {
    if (line["name"] == name && line["clock"] == clock) return line;
  }
  ADD_FAILURE() << "no line " << name << " on the " << clock << " clock";
  return document;
}

TEST(Upload, OneCopyAgainstOneForEachSubmission) {
  for (const char* platform : {"a2a3sim", "a5sim"}) {
    auto args = Upload(platform);
    args.push_back("--json");
    Outcome outcome = Precast(args);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    Json document = Json::parse(outcome.out);
    EXPECT_EQ(document["program"], "layers_probe");
    EXPECT_EQ(document["sides"][0]["control_copies"], 41);
    EXPECT_EQ(document["sides"][1]["control_copies"], 1);
    EXPECT_EQ(document["sides"][0]["platform"], platform);
    EXPECT_EQ(document["lines"].size(), 2u * 9);

    const Json& plane = Line(document, "control_plane", "modelled");
    double separate = plane["a"]["median_us"].get<double>();
    EXPECT_GE(separate, 650);
    EXPECT_LE(separate, 720);
    EXPECT_LE(plane["b"]["median_us"].get<double>(), 15);
    EXPECT_EQ(plane["a"]["trimmed_mean_us"], plane["a"]["min_us"]) << "the same in every round";
    EXPECT_EQ(plane["segments_a_ahead"], 0);
    EXPECT_EQ(plane["segments_b_ahead"], 2);
    EXPECT_THAT(plane["verdict"].get<std::string>(), MatchesRegex("B faster by 98\\.[0-9] %"));

    const Json& upload = Line(document, "graph_upload", "modelled");
    EXPECT_EQ(upload["b"]["median_us"], 0.0);
    EXPECT_EQ(upload["verdict"], "B faster by 100.0 %");
    EXPECT_EQ(Line(document, "execute", "modelled")["verdict"], "equal");
    EXPECT_EQ(Line(document, "args", "modelled")["verdict"], "equal");
    EXPECT_GT(Line(document, "execute", "wall")["a"]["min_us"].get<double>(), 0);
  }
}

TEST(Upload, GivesTheSameResultsEverywhere) {
  for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
    for (const char* mode : {"one", "per-submission"}) {
      Outcome outcome = Precast({"run", kLayers, "--platform", platform, "--upload", mode,
                                 "--rounds", "2", "--report", "json"});
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      Json document = Json::parse(outcome.out);
      EXPECT_EQ(document["golden"], "pass");
      const Json& cold = document["rounds"][0]["copies"]["control"];
      const Json& warm = document["rounds"][1]["copies"]["control"];
      EXPECT_EQ(warm, mode == std::string("one") ? 1 : 41);
      EXPECT_EQ(cold, warm.get<int>() + 1) << "the definition";
      EXPECT_EQ(document["rounds"][1]["graph"]["replays"], 40);
    }
  }
}

TEST(Ab, PrintsATableForEachClock) {
  Outcome outcome = Precast(Upload("a2a3sim"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("2 segments a side, 2 rounds each after a warm-up, 1 trimmed"),
                    HasSubstr("A: --platform a2a3sim --upload per-submission; a2a3sim, 41 control "
                              "copies"),
                    HasSubstr("B: --platform a2a3sim; a2a3sim, 1 control copies"),
                    HasSubstr("wall, us"), HasSubstr("modelled, us"), HasSubstr("control_plane"),
                    HasSubstr("B faster by 98."), HasSubstr("equal")));
  EXPECT_EQ(outcome.err, "");
}

TEST(Ab, ShowsOneClockWhereThereIsOne) {
  Outcome outcome = Precast({"ab", kProbe, "--a", "", "--b", "--threads 1", "--segments", "2",
                             "--rounds", "2", "--trim", "0"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("A: as it is; cpu"));
  EXPECT_EQ(outcome.out.find("modelled"), std::string::npos) << outcome.out;
}

TEST(Ab, ComparesTwoBuilds) {
  Outcome outcome =
      Precast({"ab", "vector_add", "--case", "default", "--bin-a", PrecastPath(), "--bin-b",
               PrecastPath(), "--b", "--set n=1000", "--segments", "2", "--rounds", "2", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json document = Json::parse(outcome.out);
  EXPECT_EQ(document["program"], "vector_add");
  EXPECT_EQ(document["trim"], 0) << "a quarter of two rounds";
  EXPECT_EQ(document["sides"][0]["binary"], PrecastPath());
  EXPECT_EQ(document["sides"][1]["options"], "--set n=1000");
}

TEST(Ab, WhatASideMeetsIsItsFailure) {
  Outcome outcome = Precast({"ab", kProbe, "--a", "", "--b", "--mode golden"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("B failed: "), HasSubstr("x[3] is 7, expected 9.5")));

  outcome = Precast({"ab", kProbe, "--bin-a", "/bin/echo"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("A: /bin/echo run printed no report"));
}

TEST(Ab, MistakesAreExplained) {
  struct Row {
    std::vector<std::string> args;
    std::vector<std::string> parts;
  };
  for (const Row& row : std::vector<Row>{
           {{"ab"}, {"name a program"}},
           {{"ab", kProbe}, {"say what A and B are", "--bin-a"}},
           {{"ab", kProbe, "--a", "--bogus"}, {"A: ", "option '--bogus'", "--platform"}},
           {{"ab", kProbe, "--b", "--upload never"}, {"--upload", "never", "per-submission"}},
           {{"ab", "softmax", "--a", ""}, {"A: ", "program 'softmax'", "vector_add"}},
           {{"ab", kProbe, "--case", "huge", "--a", ""}, {"case 'huge'"}},
           {{"ab", kProbe, "--b", "--rounds=9"}, {"B has the option --rounds"}},
           {{"ab", kProbe, "--b", "--trim 9"}, {"'--trim'"}},
           {{"ab", kProbe, "--a", "", "--trim", "20"}, {"--trim 20", "at most 19"}},
           {{"ab", kProbe, "--a", "", "--segments", "1"}, {"--segments", "2 to 10000"}},
           {{"ab", kProbe, "--a", "", "--rounds", "1"}, {"--rounds", "2 to 1000000"}},
           {{"ab", kProbe, "--bin-b", "no/precast"}, {"no/precast"}},
       }) {
    Outcome outcome = Precast(row.args);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : row.parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_THAT(outcome.err, HasSubstr(". See precast ab --help\n"));
    EXPECT_EQ(outcome.err.find("precast run"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace precast::testing
