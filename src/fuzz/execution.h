// Execution: runs a plan on a worker, through the public API only.
//
// Threads: an execution belongs to one thread; the worker's own come on top.
#pragma once

#include "fuzz/kernels.h"
#include "fuzz/plan.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace precast::fuzz {

/// One way to execute a plan.
struct Way {
  std::string platform = "cpu";
  int threads = 1;
  bool oracle = false;
  bool reverse_blocks = false;  ///< by the oracle; it also poisons outputs then
  /// Bodies are called for every submission, and runs of replayable programs are plain ones:
  /// nothing is replayed.
  bool records_always = false;
};
std::string ToString(const Way& way);

/// What can be seen of an execution.
struct Outcome {
  std::vector<Record> records;
  /// What the host read on the way, in order, then all buffers.
  std::vector<std::vector<std::byte>> seen;
  size_t reads = 0;  ///< how many of `seen` are not buffers at the end
  std::vector<RunReport> reports;
  std::optional<Error> failed;  ///< what stopped it, if something did
};

Outcome Execute(const Plan& plan, const Way& way);

}  // namespace precast::fuzz
