// TaskObserver: stands between whoever executes an image and the kernels of its tasks.
//
// For tools that look at the data of a run while it executes (src/view/). A launch with an observer
// gets a kernel table of its own in which every function leads to the observer, so neither the
// scheduler nor the oracle knows about it, and other launches have nothing of it in their way.
#pragma once

#include "sched/instance.h"
#include "sched/kernel_table.h"

#include <functional>

namespace precast::sched {

class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  /// In place of one call of a kernel, which `call` makes. On the thread and at the moment of that
  /// call, at the same time as others: all that the task waits for has ended, nothing that waits
  /// for it has begun. What it throws fails the run.
  virtual void Call(const Instance& instance, const abi::Task* task,
                    const std::function<void()>& call) = 0;
};

class ObservedKernels : public KernelTable {
 public:
  /// Both outlive this. Kernels that `kernels` gets later aren't in it.
  ObservedKernels(const KernelTable& kernels, TaskObserver* observer);

 private:
  template <Core core>
  static void Observed(const KernelContext& context);

  const KernelTable& kernels_;
  TaskObserver* const observer_;
};

}  // namespace precast::sched
