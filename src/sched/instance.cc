#include "sched/instance.h"

#include <precast/orchestrator.h>

#include <fmt/core.h>

#include <cstring>
#include <new>
#include <utility>

namespace precast {

namespace sched {

std::string_view Instance::TaskName(const abi::Task* task) const {
  if (task->name != 0) {
    const abi::Name& name = abi::At<abi::Name>(image, header->names)[task->name - 1];
    return {abi::At<char>(image, header->name_bytes) + name.offset, name.bytes};
  }
  if (task->kernel == abi::kNoKernel) return kNoKernel.name;
  uint32_t kernel = task->kernel;
  if ((task->flags & abi::kTaskMixed) != 0) {
    kernel = abi::At<abi::Mix>(image, header->mixes)[kernel].kernel[0];
  }
  return (*kernels)[kernel].name;
}

std::string Instance::Describe(const abi::Task* task) const {
  std::string prefix = parent != nullptr ? parent->Describe(maker) + ", " : "";
  return prefix + DescribeHere(task);
}

std::string Instance::DescribeHere(const abi::Task* task) const {
  if ((task->flags & abi::kTaskGraph) != 0) {
    return fmt::format("task {} (graph {})", task->number, TaskName(task));
  }
  if (task->kernel == abi::kNoKernel) {
    return fmt::format("task {} '{}'", task->number, TaskName(task));
  }
  if ((task->flags & abi::kTaskMixed) != 0) {
    const abi::Mix& mix = abi::At<abi::Mix>(image, header->mixes)[task->kernel];
    std::string names;
    for (uint32_t i = 0; i < mix.kernels; ++i) {
      names += fmt::format("{}{}", i == 0 ? "" : " + ", (*kernels)[mix.kernel[i]].name);
    }
    return fmt::format("task {} '{}' (kernels {})", task->number, TaskName(task), names);
  }
  return fmt::format("task {} '{}' (kernel {})", task->number, TaskName(task),
                     (*kernels)[task->kernel].name);
}

Instance* MakeInstance(const Instance& parent, const abi::Task* task, bool counted) {
  const abi::Definition& definition =
      abi::At<abi::Definition>(parent.image, parent.header->definitions)[task->kernel];
  void* image =
      reinterpret_cast<void*>(definition.address + static_cast<uint64_t>(parent.memory->distance));
  uint32_t place = task->consumer[abi::kInlineConsumers - 1];
  char* scratch = parent.Pointer(0, uint64_t{place - 1} * abi::kScratchUnit);
  auto* made = new (scratch) Instance(image, *parent.kernels, *parent.memory);
  const abi::Header& header = *made->header;
  char* next = scratch + abi::kInstanceBytes;
  auto* slots = reinterpret_cast<abi::Slot*>(next);
  next += header.slots.count * sizeof(abi::Slot);
  auto* scalars = reinterpret_cast<uint64_t*>(next);
  next += header.scalars * sizeof(uint64_t);
  auto* counters = reinterpret_cast<uint32_t*>(next);

  uint64_t heap = parent.slots[0].address + uint64_t{place - 1} * abi::kScratchUnit +
                  abi::ScratchHeapOffset(header.slots.count, header.scalars, header.tasks);
  slots[0] = {heap, header.heap_bytes};
  const abi::Binding* binding =
      abi::At<abi::Binding>(parent.image, parent.header->bindings) + task->blocks;
  for (uint32_t slot = 1; slot <= task->tensors; ++slot, ++binding) {
    slots[slot] = {parent.slots[abi::SlotOf(*binding)].address + abi::OffsetOf(*binding),
                   made->slots[slot].bytes};
  }
  bool passes = (task->flags & abi::kTaskPasses) != 0;
  for (uint32_t i = 0; i < task->scalars; ++i) {
    scalars[i] = *binding++;
    if (passes) {
      if (*binding != 0) scalars[i] = parent.scalars[*binding - 1];
      ++binding;
    }
  }
  made->slots = slots;
  made->scalars = scalars;
  made->parent = &parent;
  made->maker = task;
  if (counted) {
    std::memcpy(counters, abi::At<uint32_t>(image, header.counters),
                header.counters.count * sizeof(uint32_t));
    made->counters = counters;
    made->sinks = header.sinks;
    const Instance* run = &parent;
    while (run->parent != nullptr) run = run->parent;
    made->number = static_cast<uint32_t>(
        (scratch - run->Pointer(0, 0)) / static_cast<int64_t>(abi::kScratchUnit) + 1);
  }
  return made;
}

uint64_t Items(const Instance& instance, const abi::Task* task) {
  uint64_t kernels = 1;
  if ((task->flags & abi::kTaskMixed) != 0) {
    kernels = abi::At<abi::Mix>(instance.image, instance.header->mixes)[task->kernel].kernels;
  }
  return task->blocks * kernels;
}

namespace {

template <typename T>
bool Holds(const void* element, Compare compare, int64_t constant) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  switch (compare) {
    case Compare::equal:
      return std::cmp_equal(value, constant);
    case Compare::not_equal:
      return std::cmp_not_equal(value, constant);
    case Compare::less:
      return std::cmp_less(value, constant);
    case Compare::less_equal:
      return std::cmp_less_equal(value, constant);
    case Compare::greater:
      return std::cmp_greater(value, constant);
    case Compare::greater_equal:
      return std::cmp_greater_equal(value, constant);
  }
  return false;
}

}  // namespace

bool ShouldRun(const Instance& instance, const abi::Task* task) {
  if (task->predicate == 0) return true;
  const abi::Predicate& p =
      abi::At<abi::Predicate>(instance.image, instance.header->predicates)[task->predicate - 1];
  const void* element = instance.Pointer(p.slot, p.offset);
  Compare compare = static_cast<Compare>(p.compare);
  switch (static_cast<DType>(p.dtype)) {
    case DType::boolean:
    case DType::u8:
      return Holds<uint8_t>(element, compare, p.constant);
    case DType::i8:
      return Holds<int8_t>(element, compare, p.constant);
    case DType::i16:
      return Holds<int16_t>(element, compare, p.constant);
    case DType::u16:
      return Holds<uint16_t>(element, compare, p.constant);
    case DType::i32:
      return Holds<int32_t>(element, compare, p.constant);
    case DType::u32:
      return Holds<uint32_t>(element, compare, p.constant);
    case DType::i64:
      return Holds<int64_t>(element, compare, p.constant);
    case DType::u64:
      return Holds<uint64_t>(element, compare, p.constant);
    default:
      break;
  }
  Fail(ErrorCode::internal, "{}: predicate of dtype {}", instance.Describe(task), p.dtype);
}

}  // namespace sched

namespace detail {

void FailIndex(int64_t index, int64_t size) {
  Fail(ErrorCode::out_of_range, "element {} of a tensor of {} elements (0 … {} allowed)", index,
       size, size - 1);
}
void FailIndexAt(int axis, int64_t index, int64_t extent) {
  Fail(ErrorCode::out_of_range, "index {} on axis {} of extent {} (0 … {} allowed)", index, axis,
       extent, extent - 1);
}
void FailRank(size_t found, uint32_t rank) {
  Fail(ErrorCode::out_of_range, "{} indices for a tensor of rank {}", found, rank);
}

}  // namespace detail

namespace {

const sched::Instance& InstanceOf(const void* instance) {
  return *static_cast<const sched::Instance*>(instance);
}
const abi::Task* TaskOf(const void* task) { return static_cast<const abi::Task*>(task); }

}  // namespace

detail::ResolvedTensor KernelContext::Resolve(size_t i, DType dtype, bool writable) const {
  const sched::Instance& instance = InstanceOf(instance_);
  const abi::Task* task = TaskOf(task_);
  if (i >= task->tensors) [[unlikely]] {
    Fail(ErrorCode::out_of_range, "kernel asks for tensor {}, the task has {}", i, task->tensors);
  }
  const abi::Argument& argument = abi::Arguments(task)[i];
  const abi::Layout& layout = instance.layouts[argument.layout];
  if (layout.dtype != static_cast<uint8_t>(dtype)) [[unlikely]] {
    Fail(ErrorCode::mismatch, "kernel asks for tensor {} as {}, it is {}", i, Name(dtype),
         Name(static_cast<DType>(layout.dtype)));
  }
  if (writable && argument.direction == static_cast<uint32_t>(Direction::in)) [[unlikely]] {
    Fail(ErrorCode::mismatch, "kernel asks to write tensor {}, which was submitted as 'in'", i);
  }
  return {instance.Pointer(argument.slot, argument.offset), layout.shape,
          static_cast<int64_t>(layout.elements), layout.rank, layout.contiguous != 0};
}

uint64_t KernelContext::ScalarBits(size_t i, DType dtype) const {
  const abi::Task* task = TaskOf(task_);
  if (i >= task->scalars) [[unlikely]] {
    Fail(ErrorCode::out_of_range, "kernel asks for scalar {}, the task has {}", i, task->scalars);
  }
  const abi::Scalar& scalar = abi::Scalars(task)[i];
  if (scalar.dtype != static_cast<uint32_t>(dtype)) [[unlikely]] {
    Fail(ErrorCode::mismatch, "kernel asks for scalar {} as {}, it is {}", i, Name(dtype),
         Name(static_cast<DType>(scalar.dtype)));
  }
  return scalar.bound == 0 ? scalar.bits : InstanceOf(instance_).scalars[scalar.bound - 1];
}

DType KernelContext::dtype(size_t i) const {
  const abi::Task* task = TaskOf(task_);
  if (i >= task->tensors) {
    Fail(ErrorCode::out_of_range, "kernel asks for tensor {}, the task has {}", i, task->tensors);
  }
  return static_cast<DType>(InstanceOf(instance_).layouts[abi::Arguments(task)[i].layout].dtype);
}

size_t KernelContext::tensors() const { return TaskOf(task_)->tensors; }
size_t KernelContext::scalars() const { return TaskOf(task_)->scalars; }

void* KernelContext::pointer(uint64_t address) const {
  void* pointer = InstanceOf(instance_).memory->translate(address);
  if (pointer == nullptr) {
    Fail(ErrorCode::invalid_argument, "device address {:#x} lies in no live allocation", address);
  }
  return pointer;
}

void KernelContext::fail(std::string_view message) const {
  Fail(ErrorCode::kernel_failed, "{}", message);
}

std::string_view KernelContext::task_name() const {
  return InstanceOf(instance_).TaskName(TaskOf(task_));
}

}  // namespace precast
