#include "sched/task_observer.h"

namespace precast {

namespace detail {

struct KernelContextAccess {
  static const void* Instance(const KernelContext& context) { return context.instance_; }
  static const void* Task(const KernelContext& context) { return context.task_; }
};

}  // namespace detail

namespace sched {

using detail::KernelContextAccess;

ObservedKernels::ObservedKernels(const KernelTable& kernels, TaskObserver* observer)
    : kernels_(kernels), observer_(observer) {
  kernels.ForEach([this](uint32_t index, Kernel kernel) {
    // A mixed task has one cube kernel, so the kind tells which of its kernels is called.
    kernel.function = kernel.core == Core::cube ? &Observed<Core::cube> : &Observed<Core::vector>;
    Load(index, std::span(&kernel, 1));
  });
}

template <Core core>
void ObservedKernels::Observed(const KernelContext& context) {
  const auto& instance = *static_cast<const Instance*>(KernelContextAccess::Instance(context));
  const auto* task = static_cast<const abi::Task*>(KernelContextAccess::Task(context));
  const auto& table = static_cast<const ObservedKernels&>(*instance.kernels);
  uint32_t kernel = task->kernel;
  if ((task->flags & abi::kTaskMixed) != 0) {
    const abi::Mix& mix = abi::At<abi::Mix>(instance.image, instance.header->mixes)[kernel];
    kernel = mix.kernel[core == Core::cube ? 0 : 1 + context.sub_block()];
  }
  table.observer_->Call(instance, task, [&] { table.kernels_[kernel].function(context); });
}

}  // namespace sched
}  // namespace precast
