// `precast bench SUITE`: measures Precast beside other runtimes. The work is done by the program
// precast-bench, which lies beside the command where it was built.
#pragma once

#include "cli/command.h"

#include <string>
#include <vector>

namespace precast::cli {

class BenchCommand : public Command {
 public:
  std::string name() const override { return "bench"; }
  std::string summary() const override { return "Measure building and executing graphs"; }
  std::string usage() const override { return "precast bench SUITE [OPTIONS]"; }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  void Check() override;
  /// Becomes precast-bench, and so returns only by throwing.
  int Run(Output& output) override;

 private:
  std::vector<std::string> args_;
};

}  // namespace precast::cli
