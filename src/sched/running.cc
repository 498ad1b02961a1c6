#include "sched/running.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace precast::sched {
namespace {

constinit thread_local const Place* running = nullptr;

}  // namespace

Running::Running(const Place* place) : outer_(std::exchange(running, place)) {}
Running::~Running() { running = outer_; }

size_t DescribeRunning(char* buffer, size_t size) noexcept {
  if (running == nullptr || running->task == nullptr) return 0;
  const Instance& instance = *running->instance;
  const abi::Task* task = running->task;
  bool one_kernel =
      task->kernel != abi::kNoKernel && (task->flags & (abi::kTaskGraph | abi::kTaskMixed)) == 0;
  auto result =
      one_kernel
          ? fmt::format_to_n(buffer, size, "task {} '{}' (kernel {})", task->number,
                             instance.TaskName(task), (*instance.kernels)[task->kernel].name)
          : fmt::format_to_n(buffer, size, "task {} '{}'", task->number, instance.TaskName(task));
  return std::min(result.size, size);
}

}  // namespace precast::sched
