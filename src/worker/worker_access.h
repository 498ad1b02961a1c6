// The repository's own way into a Worker, for tools that show its runs.
#pragma once

#include "worker/worker_impl.h"

#include <precast/worker.h>

namespace precast::detail {

struct WorkerAccess {
  static WorkerImpl& Impl(Worker& worker) { return *worker.impl_; }
};

}  // namespace precast::detail
