// `precast list`: the built-in programs with their cases and parameters, and the platforms.
#pragma once

#include "cli/command.h"

#include <string>
#include <vector>

namespace precast::cli {

class ListCommand : public Command {
 public:
  explicit ListCommand(const Programs& programs) : programs_(programs) {}

  std::string name() const override { return "list"; }
  std::string summary() const override { return "List built-in programs and platforms"; }
  std::string usage() const override { return "precast list [OPTIONS]"; }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  const Programs& programs_;
  bool json_ = false;
};

}  // namespace precast::cli
