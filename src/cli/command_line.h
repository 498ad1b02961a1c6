// The command line as a whole: picks the command, parses its options, turns errors into messages
// and exit codes. For main.cc and tests.
#pragma once

#include "cli/command.h"

#include <memory>
#include <string>
#include <vector>

namespace precast::cli {

/// What `Main` does before it runs a command: the command of `precast args…`, declared, parsed and
/// checked. Null, and `*exit_code` set, when there is nothing to run: help was asked for and
/// printed. Throws `Error`; `*help_line` is then the command line that explains the mistake.
std::unique_ptr<Command> Prepare(const std::vector<std::string>& args, const Programs& programs,
                                 Output& output, std::string* help_line, int* exit_code);

/// Runs `precast args…` and returns the exit code of the process. Throws nothing.
int Main(const std::vector<std::string>& args, const Programs& programs);

}  // namespace precast::cli
