#include "cli/bench_command.h"

#include "cli/names.h"
#include "cli/output.h"
#include "cli/subprocess.h"

#include <precast/error.h>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <signal.h>
#include <system_error>
#include <unistd.h>

namespace precast::cli {
namespace {

const std::vector<std::string> kSuites = {"submit", "execute",  "run",   "hostview",
                                          "replay", "pipeline", "memory"};

/// Where precast-bench lies if it was built: beside this executable.
std::string BenchPath() {
  return (std::filesystem::path(OwnPath()).parent_path() / "precast-bench").string();
}

}  // namespace

void BenchCommand::Declare(CLI::App& app, const std::vector<std::string>& args) {
  args_ = args;
  app.prefix_command();  // all behind the suite's name is for precast-bench
  app.footer(
      "Suites:\n"
      "  submit                      building graphs\n"
      "  execute                     executing a graph for the first time\n"
      "  run                         all of a run: build, send, execute, release\n"
      "  hostview                    orchestrations that read device memory\n"
      "  replay                      recording graphs and replaying them\n"
      "  pipeline                    binding a run while another executes\n"
      "  memory                      how fast this machine reads memory\n"
      "\n"
      "In the first three Precast takes part beside a floor, oneTBB, OpenMP and StarPU, in one\n"
      "process, and they print ns per task. The program precast-bench does the work. scripts/test "
      "builds it, and so does\n"
      "scripts/setup release precast-bench.\n"
      "\n"
      "Examples:\n"
      "  precast bench submit --help              options of a suite\n"
      "  precast bench submit --n 10000\n"
      "  precast bench run --impl precast,onetbb --threads 2 --json");
}

void BenchCommand::Check() {
  if (args_.empty()) {
    Fail(ErrorCode::usage, "name a suite, one of {}", fmt::join(kSuites, ", "));
  }
  if (std::find(kSuites.begin(), kSuites.end(), args_[0]) == kSuites.end()) {
    FailUnknown("suite", args_[0], kSuites);
  }
}

int BenchCommand::Run(Output& output) {
  output.Flush();
  std::string path = BenchPath();
  std::vector<char*> words = {path.data()};
  for (std::string& arg : args_) words.push_back(arg.data());
  words.push_back(nullptr);
  signal(SIGPIPE, SIG_DFL);
  execv(path.c_str(), words.data());
  int reason = errno;
  signal(SIGPIPE, SIG_IGN);
  if (reason == ENOENT) {
    Fail(ErrorCode::not_found, "{} is not built: scripts/setup release precast-bench", path);
  }
  Fail(ErrorCode::io, "cannot execute {}: {}", path, std::generic_category().message(reason));
}

}  // namespace precast::cli
