// `precast fuzz`: random programs against the oracle.
#pragma once

#include "cli/command.h"

#include <cstdint>
#include <string>
#include <vector>

namespace precast::cli {

class FuzzCommand : public Command {
 public:
  std::string name() const override { return "fuzz"; }
  std::string summary() const override { return "Run random programs against the oracle"; }
  std::string usage() const override { return "precast fuzz [OPTIONS]"; }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  int Run(Output& output) override;

 private:
  CLI::App* app_ = nullptr;
  uint64_t seed_ = 0;
  uint64_t programs_ = 0;
  std::string time_;
  std::string platform_;
  int threads_ = 0;
};

}  // namespace precast::cli
