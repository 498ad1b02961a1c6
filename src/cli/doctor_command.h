// `precast doctor`: whether this machine can run what it should, on one screen.
#pragma once

#include "cli/command.h"

#include <string>
#include <vector>

namespace precast::cli {

class DoctorCommand : public Command {
 public:
  std::string name() const override { return "doctor"; }
  std::string summary() const override { return "Check this machine and every platform"; }
  std::string usage() const override { return "precast doctor [OPTIONS]"; }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  /// kFailure when a platform does not work.
  int Run(Output& output) override;

 private:
  bool json_ = false;
};

}  // namespace precast::cli
