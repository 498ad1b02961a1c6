// `precast run PROGRAM`: runs one case of a program and reports.
#pragma once

#include "cli/command.h"
#include "cli/job.h"
#include "cli/program_options.h"

#include <string>
#include <vector>

namespace precast {
class Log;
}

namespace precast::cli {

class Interruption;
struct JobNames;
struct ModelledRun;

class RunCommand : public Command {
 public:
  explicit RunCommand(const Programs& programs) : program_(programs, "run") {}

  std::string name() const override { return "run"; }
  std::string summary() const override { return "Run a program and report where the time went"; }
  std::string usage() const override { return "precast run PROGRAM [OPTIONS]"; }
  std::string help_line() const override { return program_.help_line(); }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  void Check() override;
  int Run(Output& output) override;

 private:
  void CheckTimeline() const;
  WorkerOptions Options() const;
  void RunOn(Worker& worker, const Case& kase, const Params& params, Output& output, const Log& log,
             Interruption& interruption, Trace* trace, JobResult& result) const;
  /// `modelled`: null when there is no timeline to show.
  void Print(Output& output, const JobNames& names, const JobResult& result,
             const ModelledRun* modelled) const;
  bool json() const { return report_ == "json"; }
  bool modelled() const { return timeline_ == "model"; }

  ProgramOptions program_;
  std::string report_ = "table";
  std::string golden_ = "check";
  std::string log_level_ = "warn";
  std::string host_views_ = "cache";
  std::string host_view_budget_ = "1G";
  std::string heap_ = "256M";
  std::string upload_ = "one";
  std::string definition_budget_ = "256M";
  uint64_t variant_limit_ = 64;
  std::string timeline_ = "none";
  std::string timeline_out_;
  std::string trace_path_;
  std::string trace_buffer_ = "256M";
  bool verify_replays_ = false;
  int rounds_ = 0;
  int threads_ = 0;
  bool skip_device_run_ = false;
  bool oracle_ = false;
};

}  // namespace precast::cli
