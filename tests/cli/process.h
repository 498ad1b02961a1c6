// Runs the precast command as users do, for the tests in this folder.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace precast::testing {

struct Outcome {
  int exit_code = -1;  ///< 128 + n when signal n ended it
  std::string out, err;
};

/// Where a standard stream of the command goes.
enum class Stream { pipe, closed, full_disk, terminal };

struct ProcessOptions {
  Stream out = Stream::pipe;
  Stream err = Stream::pipe;
  /// Close the reading end of standard output after that many bytes; -1: read all of it.
  long stop_reading_after = -1;
  std::map<std::string, std::string> environment;  ///< added to that of the test
  std::string executable = {};                     ///< another one; empty: the command
  /// Called in the process that is about to become the command: to set its limits.
  std::function<void()> before = {};
  /// Called with its id when it runs, before its output is read: to send it signals.
  std::function<void(pid_t)> meanwhile = {};
};

/// Where the command lies.
std::string PrecastPath();

/// Runs `precast args…` to its end. What went to a pipe or a terminal is in the outcome. One stream
/// at most may be a terminal, or both the same one: then all of it is in `out`.
Outcome Precast(const std::vector<std::string>& args, const ProcessOptions& options = {});

}  // namespace precast::testing
