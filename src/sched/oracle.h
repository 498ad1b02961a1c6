// The oracle: a serial interpreter of an image. It runs tasks one by one in submission order and so
// defines what every other execution must give. It interprets the same bytes as the scheduler. For
// a graph task it makes the instance and runs that in the same way, without counters.
#pragma once

#include "sched/instance.h"
#include "sched/trace_writer.h"

#include <chrono>
#include <cstdint>

namespace precast::sched {

struct OracleOptions {
  bool reverse_blocks = false;  ///< blocks of a task from last to first
  /// Fill `out` tensors with a pattern before the task; an element that still holds it after the
  /// task ran with two different patterns fails the run.
  bool poison_outputs = false;
  /// When set, the time inside kernels is added here.
  std::chrono::nanoseconds* in_kernels = nullptr;
  TraceWriter* trace = nullptr;  ///< attached; null: nothing is recorded
};

/// Throws what a kernel throws, as an Error that names the task. `completed` counts the tasks done.
void RunOracle(const Instance& instance, const OracleOptions& options, uint64_t* completed);

}  // namespace precast::sched
