#include "cli/program_graph.h"

#include "base/log.h"
#include "cli/job.h"
#include "cli/progress.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <utility>

namespace precast::cli {

void RoundOptions::Declare(CLI::App& app) {
  app.add_option("--round", round, "Which run of the case [0]")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000).description(""));
  app.add_option("--heap", heap,
                 "Device memory for tensors made by a run, such as 64K or 1G [256M]")
      ->type_name("BYTES");
}

view::RunGraph CaptureRound(const ProgramOptions& program, const RoundOptions& options) {
  const Case& kase = program.FindCase();
  Params params = program.MakeParams();
  std::unique_ptr<Worker> worker =
      program.MakeWorker({.threads = 1, .heap = ParseBytesOf("--heap", options.heap)});
  view::RunGraph graph;
  view::CaptureRuns(*worker, [&](view::RunGraph captured) { graph = std::move(captured); });
  JobOptions job{.rounds = options.round + 1, .golden = false, .run = {.skip_device_run = true}};
  Progress progress(true);
  JobResult result;
  RunJob(*worker, worker->load(program.program()), kase, params, job, progress,
         Log(ParseLogLevel("warn")), nullptr, result);
  CheckRounds(options, kase, result);
  return graph;
}

void CheckRounds(const RoundOptions& options, const Case& kase, const JobResult& result) {
  if (static_cast<int>(result.rounds.size()) == options.round + 1) return;
  Fail(ErrorCode::usage, "--round {}: case {} has rounds 0 to {} here", options.round, kase.name,
       static_cast<int>(result.rounds.size()) - 1);
}

std::string TitleOf(const ProgramOptions& program) {
  return fmt::format("{}, case {}, platform {}", program.program().name, program.FindCase().name,
                     program.platform());
}

}  // namespace precast::cli
