// The graph that a program submits in one round of a case: for commands that show it.
#pragma once

#include "cli/program_options.h"
#include "view/run_graph.h"

#include <string>

namespace precast::cli {

struct JobResult;

/// Which run of a case, and what may be said about it besides the program.
struct RoundOptions {
  int round = 0;
  std::string heap = "256M";

  void Declare(CLI::App& app);
};

/// Binds the rounds up to that one; executes nothing. Throws what fails on the way, and
/// `Error{usage}` when the case ends before.
view::RunGraph CaptureRound(const ProgramOptions& program, const RoundOptions& options);

/// Throws `Error{usage}` when the case ended before the wanted round.
void CheckRounds(const RoundOptions& options, const Case& kase, const JobResult& result);

/// "paged_attention, case Case2, platform a2a3sim"
std::string TitleOf(const ProgramOptions& program);

}  // namespace precast::cli
