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

struct JobNames;

class RunCommand : public Command {
 public:
  explicit RunCommand(const Programs& programs) : program_(programs, "run") {}

  std::string name() const override { return "run"; }
  std::string summary() const override { return "Run a program and report where the time went"; }
  std::string usage() const override { return "precast run PROGRAM [OPTIONS]"; }
  std::string help_line() const override { return program_.help_line(); }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  JobResult RunOn(Worker& worker, const Case& kase, const Params& params, Output& output,
                  const Log& log, Trace* trace) const;
  bool json() const { return report_ == "json"; }

  ProgramOptions program_;
  std::string report_ = "table";
  std::string golden_ = "check";
  std::string log_level_ = "warn";
  std::string host_views_ = "cache";
  std::string host_view_budget_ = "1G";
  std::string heap_ = "256M";
  std::string upload_ = "one";
  std::string definition_budget_ = "256M";
  std::string trace_path_;
  std::string trace_buffer_ = "256M";
  bool verify_replays_ = false;
  int rounds_ = 0;
  int threads_ = 0;
  bool skip_device_run_ = false;
  bool oracle_ = false;
};

}  // namespace precast::cli
