#include "base/log.h"
#include "base/units.h"
#include "cli/command_line.h"
#include "cli/output.h"
#include "parsers/target.h"
#include "platforms/registry.h"

#include <precast/error.h>
#include <precast/program.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace precast::test {
namespace {

/// A program with what a command line can name. Nothing runs it.
const Program& Sample() {
  static const Program program = {
      .name = "sample",
      .summary = "for command lines",
      .orchestration = [](Orchestrator&, const Args&) {},
      .signature = {},
      .kernels = {},
      .cases = {{"default", "the first", [](const CaseContext&) { return nullptr; }},
                {"other", "another", [](const CaseContext&) { return nullptr; }}},
      .params = {{"n", "16", "a number"}, {"prompt", "", "a text"}}};
  return program;
}

/// Every other argument of `precast run` that is a path would be opened.
bool IsPath(const std::string& arg) {
  return arg.find('/') != std::string::npos || arg.ends_with(".so");
}

void PrepareCommand(InputReader& input) {
  std::vector<std::string> args;
  while (!input.empty()) args.push_back(input.Text());
  if (!args.empty() && args[0] == "run" && std::any_of(args.begin(), args.end(), IsPath)) return;
  static std::FILE* nowhere = std::fopen("/dev/null", "w");
  cli::Output output(nowhere);
  const cli::Programs programs = {&Sample()};
  std::string help_line;
  int exit_code = -1;
  try {
    auto command = cli::Prepare(args, programs, output, &help_line, &exit_code);
    Require(command != nullptr || exit_code >= 0, "a command, or an exit code");
  } catch (const Error& error) {
    Require(error.code() == ErrorCode::usage, "a mistake of the command line is one of usage");
    Require(help_line.starts_with("precast "), "there is help for each mistake");
  }
}

void ParsePlatform(const std::string& text) {
  try {
    (void)platforms::MakeDriver(text, 1);
  } catch (const Error& error) {
    Require(error.code() == ErrorCode::usage || error.code() == ErrorCode::not_found,
            "a bad platform is a mistake of usage");
  }
}

void ParseSize(const std::string& text) {
  if (std::optional<uint64_t> bytes = ParseBytes(text)) {
    Require(ParseBytes(std::to_string(*bytes)) == bytes, "a size is what it is in bytes");
    Require(!FormatBytes(*bytes).empty(), "a size can be shown");
  }
}

void ParseParameter(InputReader& input) {
  Params params(Sample().params);
  std::string name = input.Text(), value = input.Text();
  try {
    params.Set(name, value);
    Require(params.Text(name) == value, "a parameter is what it was set to");
    int64_t integer = params.Integer(name, -5, 1'000'000);
    Require(integer >= -5 && integer <= 1'000'000, "a number is in its range");
    double number = params.Number(name, -5, 1e6);
    Require(number >= -5 && number <= 1e6, "a number is in its range");
  } catch (const Error& error) {
    Require(error.code() == ErrorCode::usage || error.code() == ErrorCode::not_found,
            "a bad parameter is a mistake of usage");
  }
}

}  // namespace

void FuzzCommand(Input bytes) {
  InputReader input(bytes);
  switch (input.Byte()) {
    case 'p':
      return ParsePlatform(input.Rest());
    case 's':
      return ParseSize(input.Rest());
    case 'k':
      return ParseParameter(input);
    default:
      return PrepareCommand(input);
  }
}

}  // namespace precast::test
