// Where output goes: pipes stay clean, terminals get colour, and nothing that was lost is called a
// success.
#include "cli/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace precast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kRun = {"run", "vector_add", "--case", "small"};
const std::string kProbe = PRECAST_TEST_PROGRAMS_DIR "/cli_probe.so";

TEST(CommandOutput, APipeGetsNeitherColourNorProgress) {
  Outcome outcome = Precast({"run", "qwen3", "--tokens", "5", "--golden", "skip"},
                            {.environment = {{"TERM", "xterm"}}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\r")));
}

TEST(CommandOutput, ATerminalGetsColour) {
  ProcessOptions options{.out = Stream::terminal,
                         .environment = {{"TERM", "xterm"}, {"NO_COLOR", ""}}};
  Outcome outcome = Precast(kRun, options);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\x1b[32mpass\x1b[0m"));
  options.environment["NO_COLOR"] = "1";
  EXPECT_THAT(Precast(kRun, options).out, Not(HasSubstr("\x1b")));
  options.environment = {{"TERM", "dumb"}, {"NO_COLOR", ""}};
  EXPECT_THAT(Precast(kRun, options).out, Not(HasSubstr("\x1b")));
}

TEST(CommandOutput, ProgressGoesToATerminalOnStandardErrorOnly) {
  Outcome outcome = Precast({"run", kProbe, "--mode", "slow", "--report", "json"},
                            {.err = Stream::terminal, .environment = {{"TERM", "xterm"}}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("precast: round 1 ("));
  EXPECT_TRUE(outcome.err.ends_with("\r\x1b[K")) << "the line is cleared at the end";
  EXPECT_EQ(outcome.out.front(), '{');
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
}

TEST(CommandOutput, AFullDiskIsAFailure) {
  for (const std::vector<std::string>& args :
       {kRun, {"list"}, {"list", "--json"}, {"--help"}, {"--version"}, {"run", "--help"}}) {
    Outcome outcome = Precast(args, {.out = Stream::full_disk});
    EXPECT_EQ(outcome.exit_code, 1) << args[0];
    EXPECT_EQ(outcome.err, "precast: cannot write to standard output: No space left on device\n");
  }
}

TEST(CommandOutput, AClosedStreamIsAFailure) {
  Outcome outcome = Precast(kRun, {.out = Stream::closed});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write to standard output"));
  EXPECT_EQ(Precast(kRun, {.err = Stream::closed}).exit_code, 0);
}

// There is nowhere to say it, but the exit code still does.
TEST(CommandOutput, StandardErrorMayFail) {
  for (Stream err : {Stream::full_disk, Stream::closed}) {
    EXPECT_EQ(Precast({"fly"}, {.err = err}).exit_code, 2);
    EXPECT_EQ(Precast({}, {.err = err}).exit_code, 2);
    EXPECT_EQ(Precast({"run", kProbe, "--mode", "make"}, {.err = err}).exit_code, 1);
    EXPECT_EQ(Precast(kRun, {.out = Stream::full_disk, .err = err}).exit_code, 1);
  }
}

TEST(CommandOutput, WhateverAProgramThrowsIsAFailure) {
  Outcome outcome = Precast({"run", kProbe, "--mode", "number"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("not a std::exception"));
  outcome = Precast({"run", kProbe, "--mode", "null"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no case to run"));
}

TEST(CommandOutput, ALongJobEndsWhenNobodyReads) {
  Outcome outcome =
      Precast({"run", "vector_add", "--case", "small", "--rounds", "500", "--report", "json"},
              {.stop_reading_after = 8});  // the document is more than a pipe holds
  EXPECT_EQ(outcome.exit_code, 1) << "neither success nor death by a signal";
  EXPECT_THAT(outcome.err, HasSubstr("Broken pipe"));
}

// Each line is written at once, so lines of processes that share a stream are whole.
TEST(CommandOutput, LinesOfSeveralProcessesAreNotMixed) {
  std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / ("precast_log_" + std::to_string(getpid()));
  auto redirect = [&] {
    int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0 || dup2(file, STDERR_FILENO) < 0) _exit(126);
  };
  std::vector<std::thread> processes;
  for (int i = 0; i < 4; ++i) {
    processes.emplace_back([&] {
      Outcome outcome =
          Precast({"run", "paged_attention", "--case", "small1_child_memory", "--host-views",
                   "rebuild", "--rounds", "200", "--report", "none", "--log-level", "trace"},
                  {.before = redirect});
      EXPECT_EQ(outcome.exit_code, 0);
    });
  }
  for (std::thread& process : processes) process.join();
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    EXPECT_THAT(line, ::testing::StartsWith("precast: "));
    EXPECT_EQ(line.find("precast: ", 1), std::string::npos) << line;
  }
  EXPECT_GE(lines, 4 * 200);
  std::filesystem::remove(path);
}

TEST(CommandOutput, ErrorsAreRedOnATerminalOnly) {
  ProcessOptions options{.err = Stream::terminal,
                         .environment = {{"TERM", "xterm"}, {"NO_COLOR", ""}}};
  EXPECT_THAT(Precast({"fly"}, options).err, HasSubstr("\x1b[31mprecast:\x1b[0m there is no"));
  options.err = Stream::pipe;
  EXPECT_THAT(Precast({"fly"}, options).err, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace precast::testing
