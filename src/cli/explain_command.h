// `precast explain PROGRAM --from A --to B`: says in words why task B waits for task A.
#pragma once

#include "cli/program_graph.h"

#include <string>
#include <vector>

namespace precast::cli {

class ExplainCommand : public Command {
 public:
  explicit ExplainCommand(const Programs& programs) : program_(programs, "explain") {}

  std::string name() const override { return "explain"; }
  std::string summary() const override { return "Say why one task waits for another"; }
  std::string usage() const override { return "precast explain PROGRAM --from A --to B [OPTIONS]"; }
  std::string help_line() const override { return program_.help_line(); }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  ProgramOptions program_;
  RoundOptions round_;
  std::string from_, to_;
};

}  // namespace precast::cli
