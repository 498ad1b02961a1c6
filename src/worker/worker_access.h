// The repository's own way into a Worker, for tools that show its runs and for tests that bring a
// driver of their own.
#pragma once

#include "worker/worker_impl.h"

#include <precast/worker.h>

#include <memory>
#include <utility>

namespace precast::detail {

struct WorkerAccess {
  static WorkerImpl& Impl(Worker& worker) { return *worker.impl_; }
  static std::unique_ptr<Worker> Make(std::unique_ptr<WorkerImpl> impl) {
    return std::unique_ptr<Worker>(new Worker(std::move(impl)));
  }
};

}  // namespace precast::detail
