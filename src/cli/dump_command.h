// `precast dump PROGRAM --task T`: shows the tensors of chosen tasks, before and after, beside
// those of the oracle.
#pragma once

#include "cli/program_graph.h"
#include "view/task_dump.h"

#include <string>
#include <vector>

namespace precast::cli {

class DumpCommand : public Command {
 public:
  explicit DumpCommand(const Programs& programs) : program_(programs, "dump") {}

  std::string name() const override { return "dump"; }
  std::string summary() const override { return "Show the tensors of chosen tasks"; }
  std::string usage() const override { return "precast dump PROGRAM --task T [OPTIONS]"; }
  std::string help_line() const override { return program_.help_line(); }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  struct Execution {
    view::RunGraph graph;
    std::vector<view::TaskDump::Record> records;
  };
  /// Runs the rounds up to the wanted one and records that.
  Execution Execute(bool oracle) const;

  ProgramOptions program_;
  RoundOptions round_;
  std::vector<std::string> tasks_;
  std::string bytes_ = "4K";
  int threads_ = 0;
};

}  // namespace precast::cli
