// The command when it is told to end, is killed, or runs kernels that crash.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

const std::string kFaults = PRECAST_TEST_PROGRAMS_DIR "/fault_probe.so";

/// Sends the signal when the rounds that are fine are over. What is interrupted never ends by
/// itself.
Outcome Interrupt(std::vector<std::string> args, int signal) {
  std::filesystem::path ready =
      std::filesystem::path(::testing::TempDir()) / ("precast_ready_" + std::to_string(getpid()));
  args.insert(args.end(), {"--ready", ready.string()});
  Outcome outcome = Precast(args, {.meanwhile = [&](pid_t process) {
                              while (!std::filesystem::exists(ready)) {
                                std::this_thread::sleep_for(milliseconds(2));
                              }
                              kill(process, signal);
                            }});
  std::filesystem::remove(ready);
  return outcome;
}

TEST(Interruption, EndsARunWithAReportOfTheRoundsSoFar) {
  for (const char* mode : {"hang", "stop"}) {  // a kernel that never returns, an orchestration
    for (int signal : {SIGINT, SIGTERM}) {
      std::vector<std::string> args = {"run", kFaults, "--mode", mode, "--rounds", "10"};
      Outcome outcome = Interrupt(args, signal);
      EXPECT_EQ(outcome.exit_code, 128 + signal);
      EXPECT_THAT(outcome.out, HasSubstr("3 rounds\n"));
      EXPECT_THAT(outcome.out, HasSubstr(signal == SIGINT ? "golden: not checked, SIGINT ended it "
                                                            "after 3 rounds\n"
                                                          : "SIGTERM ended it after 3 rounds\n"));
      EXPECT_EQ(outcome.err, "");
    }
    std::vector<std::string> args = {"run",      kFaults, "--mode",   mode,
                                     "--rounds", "10",    "--report", "json"};
    Outcome outcome = Interrupt(args, SIGINT);
    EXPECT_EQ(outcome.exit_code, 128 + SIGINT);
    Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["interrupted"], "SIGINT");
    EXPECT_EQ(json["golden"], "skipped");
    EXPECT_EQ(json["rounds"].size(), 3u);
  }
}

TEST(Interruption, BeforeTheFirstRoundThereIsNothingToReport) {
  Outcome outcome = Interrupt({"run", kFaults, "--mode", "stop", "--after", "0"}, SIGINT);
  EXPECT_EQ(outcome.exit_code, 128 + SIGINT);
  EXPECT_THAT(outcome.out, HasSubstr("no rounds"));
  EXPECT_THAT(outcome.out, HasSubstr("SIGINT ended it after 0 rounds"));
}

TEST(Interruption, ALateSignalFindsNothingToEnd) {
  Outcome outcome = Precast({"run", kFaults, "--report", "json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(Json::parse(outcome.out).contains("interrupted"));
}

TEST(Crash, AKernelThatOverflowsItsStackIsNamed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own stack of calls overflows first";
#endif
  for (const char* platform : {"cpu", "a2a3sim"}) {
    for (const char* threads : {"1", "4"}) {
      Outcome outcome = Precast({"run", kFaults, "--mode", "overflow", "--after", "0", "--platform",
                                 platform, "--threads", threads});
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_EQ(outcome.err, "precast: task 5 'step' (kernel misbehave): stack overflow\n");
    }
  }
  EXPECT_THAT(Precast({"run", kFaults, "--mode", "overflow", "--after", "0", "--oracle"}).err,
              HasSubstr("task 5 'step' (kernel misbehave): stack overflow"));
}

TEST(Crash, AKernelThatTouchesWhatIsNotThereIsNamed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own memory is what it touches first";
#endif
  for (const char* threads : {"1", "4"}) {
    Outcome outcome =
        Precast({"run", kFaults, "--mode", "wild", "--after", "0", "--threads", threads});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err,
              "precast: task 5 'step' (kernel misbehave): access to address 0x40, where no memory "
              "is\n");
  }
}

// SIGKILL.

std::set<std::string> Names(const std::filesystem::path& directory) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(Kill, AtAnyMomentLeavesNothingBehindAndTheNextProcessComesUp) {
  std::filesystem::path home =
      std::filesystem::path(::testing::TempDir()) / ("precast_kill_" + std::to_string(getpid()));
  std::filesystem::create_directories(home);
  std::map<std::string, std::string> environment;
  for (const char* name : {"TMPDIR", "HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"}) {
    environment[name] = home.string();
  }
  std::set<std::string> shared = Names("/dev/shm");
  std::mt19937 random(20240611);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kRuns = 20;
#else
  constexpr int kRuns = 200;
#endif
  int killed = 0;
  for (int run = 0; run < kRuns; ++run) {
    const char* platform = run % 2 == 0 ? "a2a3sim" : "cpu";
    Outcome outcome =
        Precast({"run", "paged_attention", "--case", "small1_child_memory", "--platform", platform,
                 "--rounds", "1000000", "--report", "none"},
                {.environment = environment, .meanwhile = [&](pid_t process) {
                   std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
                   kill(process, SIGKILL);
                 }});
    killed += outcome.exit_code == 128 + SIGKILL ? 1 : 0;
    if (run % 10 < 2) {
      outcome = Precast(
          {"run", "vector_add", "--case", "small", "--platform", platform, "--report", "none"},
          {.environment = environment});
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    }
  }
  EXPECT_EQ(killed, kRuns);
  EXPECT_EQ(Names(home), std::set<std::string>());
  for (const std::string& name : Names("/dev/shm")) {
    EXPECT_TRUE(shared.contains(name) || name.find("precast") == std::string::npos) << name;
  }
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace precast::testing
