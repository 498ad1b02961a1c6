// ProgramOptions: the part of a command line that says which program to run, on which inputs:
//
//   PROGRAM --platform NAME --case NAME --set KEY=VALUE, and each parameter as an option of its own
//
// Used by every command that runs a program. Options depend on the program: it is looked for, and
// loaded if it is a file, while options are declared.
//
// Threads: one.
#pragma once

#include "cli/command.h"

#include <precast/error.h>
#include <precast/program.h>
#include <precast/worker.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace precast::cli {

class ProgramOptions {
 public:
  /// `command` is the command's name, for messages. Of a parameter whose name is that of an option
  /// `run` says that it needs another one; the other commands leave it to --set.
  ProgramOptions(const Programs& programs, std::string command)
      : programs_(programs),
        command_(std::move(command)),
        refuses_taken_names_(command_ == "run") {}

  /// Before the command's own options.
  void Declare(CLI::App& app);
  /// After them. `footer` is the end of the help.
  void DeclareProgram(CLI::App& app, const std::vector<std::string>& args, std::string_view footer);

  /// The command line whose help explains a mistake.
  std::string help_line() const;

  // After parsing.

  /// Why the file that was named is no program, if it is not.
  const std::optional<Error>& load_error() const { return load_error_; }
  const std::string& program_name() const { return program_name_; }
  const std::string& case_name() const { return case_name_; }
  const std::string& platform() const { return platform_; }

  /// Throws `Error{usage}` when none was named, or what loading it threw.
  const Program& program() const;
  /// Throws `Error{usage}` when there is no such case.
  const Case& FindCase() const;
  Params MakeParams() const;
  /// A worker on the platform. Names that do not exist are errors of usage.
  std::unique_ptr<Worker> MakeWorker(WorkerOptions options) const;

 private:
  const Program& Find(const std::string& name);
  void DeclareParameters(CLI::App& app);

  const Programs& programs_;
  const std::string command_;
  const bool refuses_taken_names_;
  std::unique_ptr<Worker> describer_;  // holds a shared library open while its options are parsed
  const Program* program_ = nullptr;
  std::optional<Error> load_error_;  // of a file that is there and is no program
  std::string program_name_;
  std::string platform_ = "cpu";
  std::string case_name_;
  std::vector<std::string> settings_;                             // --set key=value
  std::vector<std::pair<std::string, std::string>> own_options_;  // --key value
};

/// An option whose value is one of a few words; the help shows the default.
void AddChoice(CLI::App& app, const std::string& name, std::string& value,
               const std::vector<std::string>& choices, const std::string& help);

/// The value of an option such as --heap. Throws `Error{usage}` that says what is allowed.
Bytes ParseBytesOf(const char* option, const std::string& text);

}  // namespace precast::cli
