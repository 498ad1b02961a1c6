// Subprocess: runs another program to its end and keeps what it printed.
#pragma once

#include <string>
#include <vector>

namespace precast::cli {

struct SubprocessResult {
  int exit_code = -1;  ///< 128 + n when signal n ended it
  std::string out, err;
};

/// Runs the executable `words[0]`, a path, with the other words as its arguments and nothing to
/// read. Throws `Error{not_found}` when there is no such executable, `Error{io}` when starting or
/// reading fails otherwise.
SubprocessResult RunSubprocess(std::vector<std::string> words);

/// The path of the executable of this process.
std::string OwnPath();

}  // namespace precast::cli
