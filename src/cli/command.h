// Command: one word after `precast`, with its options. command_line.cc lists them.
//
// A command is made, declared, checked and run once, on one thread.
#pragma once

#include <precast/program.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace precast::cli {

class Output;

/// The programs that are built in.
using Programs = std::vector<const Program*>;

/// What the process returns.
enum ExitCode : int {
  kSuccess = 0,
  kFailure = 1,  ///< the run failed, or its golden check did, or a file is damaged
  kUsage = 2,    ///< what was asked makes no sense: an unknown name, a bad value, a missing file
};

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  /// "precast run PROGRAM [OPTIONS]"
  virtual std::string usage() const = 0;
  /// The command line whose help explains a mistake. Called after `Declare`, if that came so far.
  virtual std::string help_line() const { return "precast " + name() + " --help"; }
  /// Adds options and help to `app`. `args` is what follows the command's name: options may depend
  /// on it.
  virtual void Declare(CLI::App& app, const std::vector<std::string>& args) = 0;
  /// Called after the options were parsed: throws `Error{usage}` for values that make no sense.
  virtual void Check() {}
  /// Called after that. Returns an ExitCode or throws `Error`; its code `usage`
  /// becomes kUsage, every other one kFailure.
  virtual int Run(Output& output) = 0;
};

}  // namespace precast::cli
