// `precast probe`: measures what host views cost on a platform, and says what to do about it.
#pragma once

#include "cli/command.h"

#include <string>
#include <vector>

namespace precast::cli {

class ProbeCommand : public Command {
 public:
  std::string name() const override { return "probe"; }
  std::string summary() const override { return "Measure what host views cost on a platform"; }
  std::string usage() const override { return "precast probe [OPTIONS]"; }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  std::string platform_;
  double budget_us_ = 10;
  bool json_ = false;
};

}  // namespace precast::cli
