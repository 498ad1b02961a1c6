// `precast fuzz`: random programs against the oracle.
#pragma once

#include "cli/command.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace precast::cli {

class FuzzCommand : public Command {
 public:
  std::string name() const override { return "fuzz"; }
  std::string summary() const override { return "Run random programs against the oracle"; }
  std::string usage() const override { return "precast fuzz [OPTIONS]"; }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  void Check() override;
  int Run(Output& output) override;

 private:
  std::optional<uint64_t> seed_;
  uint64_t programs_ = 0;
  std::string time_;
  std::chrono::nanoseconds duration_{0};  // that `time_` says
  std::string platform_;
  int threads_ = 0;
};

}  // namespace precast::cli
