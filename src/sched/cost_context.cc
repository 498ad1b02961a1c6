#include "abi/image.h"

#include <precast/argument.h>
#include <precast/kernel.h>

namespace precast {

namespace {

const abi::Task* TaskOf(const void* task) { return static_cast<const abi::Task*>(task); }

const abi::Argument& ArgumentOf(const void* task, size_t i) {
  if (i >= TaskOf(task)->tensors) {
    Fail(ErrorCode::out_of_range, "cost function asks for tensor {}, the task has {}", i,
         TaskOf(task)->tensors);
  }
  return abi::Arguments(TaskOf(task))[i];
}

const abi::Layout& LayoutOf(const void* image, const void* task, size_t i) {
  const auto* header = static_cast<const abi::Header*>(image);
  return abi::At<abi::Layout>(image, header->layouts)[ArgumentOf(task, i).layout];
}

}  // namespace

size_t CostContext::tensors() const { return TaskOf(task_)->tensors; }
uint32_t CostContext::blocks() const { return TaskOf(task_)->blocks; }

DType CostContext::dtype(size_t tensor) const {
  return static_cast<DType>(LayoutOf(image_, task_, tensor).dtype);
}

int64_t CostContext::shape(size_t tensor, int axis) const {
  const abi::Layout& layout = LayoutOf(image_, task_, tensor);
  if (axis < 0 || axis >= layout.rank) {
    Fail(ErrorCode::out_of_range, "cost function asks for axis {} of tensor {}, which has rank {}",
         axis, tensor, layout.rank);
  }
  return layout.shape[axis];
}

int64_t CostContext::size(size_t tensor) const {
  return static_cast<int64_t>(LayoutOf(image_, task_, tensor).elements);
}

int64_t CostContext::bytes(size_t tensor) const {
  const abi::Layout& layout = LayoutOf(image_, task_, tensor);
  auto direction = static_cast<Direction>(ArgumentOf(task_, tensor).direction);
  int64_t times = direction == Direction::inout ? 2 : 1;
  return times * layout.element_bytes * static_cast<int64_t>(layout.elements);
}

int64_t CostContext::bytes() const {
  int64_t sum = 0;
  for (size_t i = 0; i < tensors(); ++i) sum += bytes(i);
  return sum;
}

uint64_t CostContext::ScalarBits(size_t i, DType dtype) const {
  const abi::Task* task = TaskOf(task_);
  if (i >= task->scalars) {
    Fail(ErrorCode::out_of_range, "cost function asks for scalar {}, the task has {}", i,
         task->scalars);
  }
  const abi::Scalar& scalar = abi::Scalars(task)[i];
  if (scalar.dtype != static_cast<uint32_t>(dtype)) {
    Fail(ErrorCode::mismatch, "cost function asks for scalar {} as {}, it is {}", i, Name(dtype),
         Name(static_cast<DType>(scalar.dtype)));
  }
  return scalar.bound == 0 ? scalar.bits : scalars_[scalar.bound - 1];
}

}  // namespace precast
