// Running: which task the calling thread executes, so that a handler of signals can name it.
//
// Whoever calls kernels keeps a Place up to date and a Running beside it; that costs nothing per
// task. Threads: each thread sees its own.
#pragma once

#include "sched/instance.h"

#include <cstddef>

namespace precast::sched {

/// A task, found.
struct Place {
  const Instance* instance = nullptr;
  const abi::Task* task = nullptr;
};

class Running {
 public:
  /// Until it ends, the task is what `place` says; it must outlive this.
  explicit Running(const Place* place);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const Place* outer_;
};

/// Writes "task 12 'softmax' (kernel softmax)" of the innermost task of the calling thread to
/// `buffer`, cut at `size`, and gives the number of bytes; 0 when there is none. May be called in a
/// handler of signals: allocates nothing, takes no lock.
size_t DescribeRunning(char* buffer, size_t size) noexcept;

}  // namespace precast::sched
