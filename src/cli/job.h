// Job: one program's case, run for a number of rounds on a worker, and checked.
#pragma once

#include <precast/program.h>
#include <precast/report.h>
#include <precast/worker.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace precast {
class Log;
}

namespace precast::cli {

class Interruption;
class Progress;

struct JobOptions {
  int rounds = 0;  ///< 0: as many as the case wants
  bool golden = true;
  RunOptions run;
  /// Where text goes as it is made; empty: nowhere, `JobResult::text` has it at the end.
  std::function<void(std::string_view)> stream;
};

struct JobResult {
  std::vector<RunReport> rounds;
  std::optional<GoldenResult> golden;  ///< none when the user skipped it
  std::optional<std::string> text;     ///< of jobs that make text
  std::string summary;
  std::vector<std::pair<std::string, std::string>> facts;  ///< what the case adds to the document
  std::string interrupted;  ///< the signal that ended it early; empty: none
};

/// The case of that name; an empty name is the first. Throws `Error{usage}` that lists the cases.
const Case& FindCase(const Program& program, const std::string& name);

/// Makes the case, runs its rounds, checks the results. Throws what fails on the way; a golden
/// check that fails is a result, not an error. A file that the case needs and that is not there is
/// an error of usage. `program` must be loaded on `worker`. What there is of `result` changes under
/// the lock of `interruption`; that is null when nobody looks before the end.
void RunJob(Worker& worker, const Program& program, const Case& kase, const Params& params,
            const JobOptions& options, Progress& progress, const Log& log,
            Interruption* interruption, JobResult& result);

}  // namespace precast::cli
