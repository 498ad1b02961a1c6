// TaskDump: records the tensors of chosen tasks while a run executes, just before the first block
// of a task and just after its last one.
//
// All that the task waits for has ended then, and nothing that waits for it has begun: the values
// are those of program order, whoever executes, but for `no_dep` tensors, which other tasks may be
// writing. A task that does not run leaves no record.
//
// Threads: `Call` from any thread; everything else while no run is under way.
#pragma once

#include "sched/task_observer.h"
#include "view/task_path.h"
#include "view/tensor_values.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace precast::view {

class TaskDump final : public sched::TaskObserver {
 public:
  struct Argument {
    Direction direction = Direction::in;
    TensorValues before, after;
  };
  struct Record {
    TaskPath path;
    bool ran = false;  ///< all of its blocks; only then are there arguments
    std::vector<Argument> arguments;
  };

  /// Keeps at most `bytes` of each tensor's elements.
  explicit TaskDump(uint64_t bytes) : bytes_(bytes) {}

  /// Forgets everything and records these tasks from now on. Requires: each has kernels.
  void Watch(const std::vector<TaskPath>& tasks);

  /// In the order of Watch.
  std::vector<Record> Take();

  void Call(const sched::Instance& instance, const abi::Task* task,
            const std::function<void()>& call) override;

 private:
  struct Watched {
    Record record;
    std::mutex mutex;
    uint64_t done = 0;  // blocks, of each kernel
    bool begun = false;
  };
  Watched* Find(const sched::Instance& instance, const abi::Task* task);

  const uint64_t bytes_;
  std::vector<std::unique_ptr<Watched>> watched_;
};

/// What a run recorded, beside the same of the oracle; says what was not recorded, and why. `graph`
/// is the run's.
std::string DumpText(const RunGraph& graph, const TaskDump::Record& found,
                     const TaskDump::Record& oracle);

}  // namespace precast::view
