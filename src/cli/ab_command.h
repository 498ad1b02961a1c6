// `precast ab PROGRAM`: compares two configurations, or two builds, by running them in turns.
#pragma once

#include "cli/command.h"
#include "cli/comparison.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <string>
#include <vector>

namespace precast::cli {

class AbCommand : public Command {
 public:
  std::string name() const override { return "ab"; }
  std::string summary() const override {
    return "Compare two configurations of a program, or two builds";
  }
  std::string usage() const override { return "precast ab PROGRAM [OPTIONS]"; }
  void Declare(CLI::App& app, const std::vector<std::string>& args) override;
  void Check() override;
  int Run(Output& output) override;

 private:
  using Json = nlohmann::ordered_json;

  struct Side {
    const char* label;
    std::string options, binary;
    bool given = false;              // by an option of the command line
    std::vector<std::string> words;  // what is executed, but for the last ones
  };
  /// One row of the result.
  struct Line {
    std::string name;
    const char* clock;  // "wall" or "modelled"
    std::array<Segments, 2> values;
  };

  Json Measure(const Side& side, bool golden) const;
  void Collect(const Json& document, size_t side);
  Json Document() const;
  void PrintTable(Output& output, const Json& document) const;

  std::string program_, case_name_;
  std::array<Side, 2> sides_ = {Side{"A", {}, {}, false, {}}, Side{"B", {}, {}, false, {}}};
  int segments_ = 10, rounds_ = 5, trim_ = -1;
  bool json_ = false;

  std::vector<Line> lines_;
  std::array<std::string, 2> found_platform_;
  std::array<uint64_t, 2> control_copies_{}, control_bytes_{};  // of the last round
  std::string found_program_, found_case_;
};

}  // namespace precast::cli
