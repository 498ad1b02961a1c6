// Executor: runs images on a pool of host threads, in the order of launch, one image at a time.
//
// Used by the simulated driver. The number of threads has nothing to do with the number of
// simulated cores. Idle threads poll for some microseconds, then sleep; between runs nothing burns.
// The thread that waits for a launch takes part in it as lane 0, unless kernels have a time limit:
// a kernel that does not return can only be given up on a thread of the executor's own. Such a
// thread is replaced, and what it may still touch is kept until it returns.
//
// Threads: every call from any thread.
#pragma once

#include "device/driver.h"
#include "sched/instance.h"

#include <precast/kernel.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

namespace precast::sim {

class Executor {
 public:
  static constexpr int kMaxThreads = 256;
  /// Kernels that may be given up and not have returned; with one more the device counts as lost.
  static constexpr int kMaxAbandoned = 3;

  Executor(int default_threads, sched::AddressSpace memory);
  /// Waits for what was launched.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // As in device::Driver.
  void LoadKernels(uint32_t first, std::span<const Kernel> kernels);
  void Prepare(const device::Launch& launch);
  device::Ticket Execute(const device::Launch& launch);
  bool Wait(device::Ticket ticket, std::chrono::nanoseconds timeout);
  /// Requires: ended.
  device::Outcome Collect(device::Ticket ticket);

  bool Settled(device::Ticket ticket) const;
  bool InKernel() const;

  /// Threads that were given up inside a kernel and have not returned. While there are any, device
  /// memory must stay mapped.
  int abandoned() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the pool's threads: one that was given up outlives us
};

}  // namespace precast::sim
