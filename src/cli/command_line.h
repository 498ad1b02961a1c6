// The command line as a whole: picks the command, parses its options, turns errors into messages
// and exit codes. For main.cc and tests.
#pragma once

#include "cli/command.h"

#include <string>
#include <vector>

namespace precast::cli {

/// Runs `precast args…` and returns the exit code of the process. Throws nothing.
int Main(const std::vector<std::string>& args, const Programs& programs);

}  // namespace precast::cli
