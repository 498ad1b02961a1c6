// `precast run PROGRAM`: runs one case of a program and reports.
#pragma once

#include "cli/command.h"
#include "cli/job.h"

#include <precast/error.h>
#include <precast/worker.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace precast {
class Log;
}

namespace precast::cli {

struct JobNames;

class RunCommand : public Command {
 public:
  explicit RunCommand(const Programs& programs) : programs_(programs) {}

  std::string name() const override { return "run"; }
  std::string summary() const override { return "Run a program and report where the time went"; }
  std::string usage() const override { return "precast run PROGRAM [OPTIONS]"; }
  std::string help_line() const override;
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  const Program& FindProgram(const std::string& name);
  static Bytes ParseBytesOf(const char* option, const std::string& text);
  void DeclareParameters(CLI::App& app);
  Params MakeParams() const;
  JobResult RunOn(Worker& worker, const Case& kase, const Params& params, Output& output,
                  const Log& log) const;
  bool json() const { return report_ == "json"; }

  const Programs& programs_;
  std::unique_ptr<Worker> describer_;  // holds a shared library open while its options are parsed
  const Program* program_ = nullptr;
  std::optional<Error> load_error_;  // of a file that is there and is no program

  std::string program_name_;
  std::string platform_ = "cpu";
  std::string case_name_;
  std::string report_ = "table";
  std::string golden_ = "check";
  std::string log_level_ = "warn";
  std::string host_views_ = "cache";
  std::string host_view_budget_ = "1G";
  std::string heap_ = "256M";
  std::string upload_ = "one";
  std::string definition_budget_ = "256M";
  bool verify_replays_ = false;
  int rounds_ = 0;
  int threads_ = 0;
  bool skip_device_run_ = false;
  bool oracle_ = false;
  std::vector<std::string> settings_;                             // --set key=value
  std::vector<std::pair<std::string, std::string>> own_options_;  // --key value
};

}  // namespace precast::cli
