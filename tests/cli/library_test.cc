// `precast run` with a program from a shared library, and what happens when a run goes wrong.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::string kProbe = PRECAST_TEST_PROGRAMS_DIR "/cli_probe.so";

TEST(Library, RunsLikeABuiltInProgram) {
  for (const char* platform : {"cpu", "a2a3sim", "a5sim"}) {
    Outcome outcome = Precast({"run", kProbe, "--platform", platform});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("cli_probe, case default"));
    EXPECT_THAT(outcome.out, HasSubstr("golden: pass"));
  }
}

TEST(Library, HasItsOwnHelpAndOptions) {
  Outcome outcome = Precast({"run", kProbe, "--help"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Parameters of cli_probe"));
  EXPECT_THAT(outcome.out, HasSubstr("--mode"));
  outcome = Precast({"run", kProbe, "--made", "up"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("did you mean --mode?"));
}

TEST(Library, AParameterWithTheNameOfAnOptionIsRefused) {
  Outcome outcome = Precast({"run", PRECAST_TEST_PROGRAMS_DIR "/cli_reserved.so"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("'cli_reserved' has a parameter 'rounds'"));
  EXPECT_THAT(outcome.err, HasSubstr("the name of an option of precast run"));
}

TEST(Library, AParameterWhoseNameIsNoOptionIsSetByName) {
  Outcome outcome = Precast({"run", kProbe, "--set", ",odd=1", "--report", "none"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  outcome = Precast({"run", kProbe, "--help"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("--,odd"), std::string::npos);
}

TEST(Library, AFileThatIsNoneFailsTheRun) {
  std::string path = ::testing::TempDir() + "/text_" + std::to_string(getpid()) + ".so";
  std::ofstream(path) << "no library\n";
  Outcome outcome = Precast({"run", path, "--mode", "pass"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr(path));

  outcome = Precast({"run", path, "--report", "json"});
  EXPECT_EQ(outcome.exit_code, 1);
  Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["program"], path);
  EXPECT_EQ(json["error"]["code"], "bad_file");
  std::remove(path.c_str());
}

TEST(Failure, AGoldenCheckThatFails) {
  Outcome outcome = Precast({"run", kProbe, "--mode", "golden"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("golden: fail, max abs error 2.5; x[3] is 7, expected 9.5"));
  EXPECT_THAT(outcome.err, HasSubstr("x[3] is 7, expected 9.5"));

  outcome = Precast({"run", kProbe, "--mode", "golden", "--report", "json"});
  EXPECT_EQ(outcome.exit_code, 1);
  Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["golden"], "fail");
  EXPECT_EQ(json["max_abs_err"], 2.5);
  EXPECT_EQ(json["golden_detail"], "x[3] is 7, expected 9.5");
  EXPECT_EQ(json["rounds"].size(), 1u);

  outcome = Precast({"run", kProbe, "--mode", "golden", "--golden", "skip"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

struct Row {
  const char* mode;
  const char* code;
  const char* message;
};

TEST(Failure, OfARunIsExplainedAndIsADocument) {
  for (const Row& row : {Row{"kernel", "kernel_failed", "the kernel gave up"},
                         Row{"make", "orchestration", "no case today"}}) {
    Outcome outcome = Precast({"run", kProbe, "--mode", row.mode});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(row.message));

    outcome = Precast({"run", kProbe, "--mode", row.mode, "--report", "json"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
    Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["program"], "cli_probe");
    EXPECT_EQ(json["error"]["code"], row.code);
    EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr(row.message));
  }
}

TEST(Failure, OfAKernelNamesItsTask) {
  Outcome outcome = Precast({"run", kProbe, "--mode", "kernel"});
  EXPECT_THAT(outcome.err, HasSubstr("the only task"));
  EXPECT_THAT(outcome.err, HasSubstr("set_or_throw"));
}

}  // namespace
}  // namespace precast::testing
