#include "cli/job.h"

#include "base/current_error.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/interruption.h"
#include "cli/names.h"
#include "cli/progress.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <new>

namespace precast::cli {

const Case& FindCase(const Program& program, const std::string& name) {
  if (program.cases.empty()) {
    Fail(ErrorCode::usage, "program '{}' has no cases, so there is nothing to run", program.name);
  }
  if (name.empty()) return program.cases.front();
  std::vector<std::string> names;
  for (const Case& kase : program.cases) {
    if (kase.name == name) return kase;
    names.push_back(kase.name);
  }
  FailUnknown("case", name, names);
}

namespace {

std::unique_lock<std::mutex> LockOf(Interruption* interruption) {
  return interruption != nullptr ? interruption->Lock() : std::unique_lock<std::mutex>();
}

// What a case does not find, a file above all, the user named wrongly.
std::unique_ptr<CaseRun> Make(const Case& kase, const CaseContext& context) {
  try {
    std::unique_ptr<CaseRun> run = kase.make(context);
    if (run == nullptr) Fail(ErrorCode::orchestration, "its maker gave no case to run");
    return run;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
}

void RunRounds(Worker& worker, const Program& program, const Case& kase, const Params& params,
               const JobOptions& options, Progress& progress, const Log& log,
               Interruption* interruption, JobResult& result) {
  bool check = options.golden && !options.run.skip_device_run;
  progress.Show(fmt::format("preparing {}, case {}", program.name, kase.name));
  std::unique_ptr<CaseRun> run = Make(kase, {.worker = worker,
                                             .params = params,
                                             .golden = check,
                                             .execute = !options.run.skip_device_run,
                                             .stream = options.stream});

  RunOptions run_options = options.run;
  run->Adjust(run_options);
  for (int round = 0; run->WantsRound(round, options.rounds); ++round) {
    progress.Show(options.rounds > 0 ? fmt::format("round {} of {}", round + 1, options.rounds)
                                     : fmt::format("round {}", round + 1));
    RunReport report = worker.run(program, run->Args(round), run_options);
    log.Info("round {}: {} in all, {} in execute", round + 1, FormatMicroseconds(report.total_us),
             FormatMicroseconds(report[Phase::execute].wall_us));
    run->After(round, report);
    auto lock = LockOf(interruption);
    result.rounds.push_back(std::move(report));
  }
  std::optional<GoldenResult> golden;
  if (check) {
    progress.Show("checking the results");
    golden = run->Check();
    if (!golden->pass && golden->detail.empty()) {
      golden->detail = fmt::format("max abs error {}", golden->max_abs_err);
    }
  }
  progress.Pause();
  auto lock = LockOf(interruption);
  result.golden = std::move(golden);
  if (const std::string* text = run->Text()) result.text = *text;
  result.summary = run->Summary();
  result.facts = run->Facts();
}

}  // namespace

void RunJob(Worker& worker, const Program& program, const Case& kase, const Params& params,
            const JobOptions& options, Progress& progress, const Log& log,
            Interruption* interruption, JobResult& result) {
  try {
    RunRounds(worker, program, kase, params, options, progress, log, interruption, result);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    Fail(ErrorCode::out_of_memory, "{}, case {}: host memory is exhausted", program.name,
         kase.name);
  } catch (...) {
    throw CurrentError(ErrorCode::orchestration,
                       fmt::format("{}, case {}: ", program.name, kase.name));
  }
}

}  // namespace precast::cli
