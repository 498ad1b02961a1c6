// `precast graph PROGRAM`: draws the graph that a run of a program submits.
#pragma once

#include "cli/program_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace precast::cli {

class GraphCommand : public Command {
 public:
  explicit GraphCommand(const Programs& programs) : program_(programs, "graph") {}

  std::string name() const override { return "graph"; }
  std::string summary() const override { return "Draw the task graph of a program"; }
  std::string usage() const override { return "precast graph PROGRAM [OPTIONS]"; }
  std::string help_line() const override { return program_.help_line(); }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  std::string Format() const;

  ProgramOptions program_;
  RoundOptions round_;
  std::string format_;
  std::string file_;
  std::string focus_;
  uint32_t depth_ = 2;
  uint32_t max_tasks_ = 40;
  bool critical_ = false;
  std::string weight_ = "blocks";
};

}  // namespace precast::cli
