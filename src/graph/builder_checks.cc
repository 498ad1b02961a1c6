// What Builder::Submit does off its usual path: closer looks at arguments, messages, and the log.
#include "base/tensor_access.h"
#include "graph/builder.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace precast::graph {

using detail::TensorAccess;

namespace {

bool Writes(Direction direction) {
  return direction == Direction::out || direction == Direction::inout;
}

}  // namespace

// Messages.

std::string Builder::Describe(abi::TaskId id) const {
  const abi::Task* task = abi::TaskAt(memory_->data, id);
  TaskSpec spec;
  spec.kernel = task->kernel;
  spec.name = names_[task->name];
  if ((task->flags & abi::kTaskGraph) != 0) {
    return fmt::format("task {} (graph {})", task->number, spec.name);
  }
  if ((task->flags & abi::kTaskMixed) != 0) spec.mix = &mixes_[task->kernel];
  std::string kernel = kernel_name_(spec);
  return fmt::format("task {} '{}' (kernel {})", task->number,
                     spec.name.empty() ? std::string_view(kernel) : spec.name, kernel);
}

std::string Builder::Prefix(const TaskSpec& task) const {
  if (task.is_graph) {
    return fmt::format("task {} (graph {})", statistics_.tasks,
                       task.name.empty() ? names_[task.key] : task.name);
  }
  std::string kernel = kernel_name_(task);
  return fmt::format("task {} '{}' (kernel {})", statistics_.tasks,
                     task.name.empty() ? std::string_view(kernel) : task.name, kernel);
}

std::string Builder::What(const TaskSpec& task, size_t argument, const Tensor& tensor) const {
  return fmt::format("{}: argument {} ({})", Prefix(task), argument, tensor.ToString());
}

const Buffer& Builder::Check(const Tensor& tensor, std::string_view use) const {
  switch (tensor.kind()) {
    case Tensor::Kind::none:
      Fail(ErrorCode::invalid_argument, "{}: a tensor that names nothing", use);
    case Tensor::Kind::host:
      Fail(ErrorCode::invalid_argument,
           "{} ({}): host memory that is no argument of this {}; pass it to run or submit", use,
           tensor.ToString(), subject_);
    case Tensor::Kind::device:
      Fail(ErrorCode::internal, "{} ({}): device tensor not imported", use, tensor.ToString());
    case Tensor::Kind::run:
      break;
  }
  if (TensorAccess::Generation(tensor) != serial_) {
    Fail(ErrorCode::stale, "{} ({}): a tensor of another run or graph (serial {}, this {} is {})",
         use, tensor.ToString(), TensorAccess::Generation(tensor), subject_, serial_);
  }
  const Buffer& buffer = regions_[TensorAccess::Buffer(tensor)];
  if (buffer.is(Buffer::kEnded))
    Fail(ErrorCode::stale, "{} ({}): used after its scope", use, tensor.ToString());
  return buffer;
}

// The log.

void Builder::Log(const Draft& draft, const Access* predicate) {
  BuildLog& log = *log_;
  log.tasks.push_back({static_cast<uint32_t>(log.accesses.size()),
                       static_cast<uint32_t>(log.after.size()), log.scope, predicate != nullptr});
  auto add = [&](const Access& access) {
    log.accesses.push_back({access.begin, access.buffer, access.layout, access.direction});
  };
  std::for_each(arguments_.tensors.begin(), arguments_.tensors.end(), add);
  if (predicate != nullptr) add(*predicate);
  log.after.insert(log.after.end(), draft.spec.after.begin(), draft.spec.after.end());
}

void Builder::LogBuffers() {
  log_->buffers.clear();
  for (uint32_t i = 0; i < regions_.buffers(); ++i) {
    const Buffer& buffer = regions_[i];
    log_->buffers.push_back({buffer.kind, !buffer.is(Buffer::kUnplaced), buffer.slot, buffer.base,
                             buffer.bytes, regions_.Claimant(i)});
  }
}

// Checks.

/// Makes room for a task, or says what is wrong with it.
void Builder::GrowFor(const TaskSpec& spec, size_t arguments, uint64_t end) {
  if (broken_) throw Error(*broken_);
  if (spec.blocks == 0) {
    Fail(ErrorCode::invalid_argument, "{}: block count 0 (1 … {} allowed)", Prefix(spec),
         std::numeric_limits<uint32_t>::max());
  }
  if (arguments > kMaxArguments) {
    Fail(ErrorCode::invalid_argument, "{}: {} arguments (at most {} allowed)", Prefix(spec),
         arguments, kMaxArguments);
  }
  if (end / abi::kUnit > std::numeric_limits<abi::TaskId>::max()) {
    Fail(ErrorCode::out_of_memory, "{}: the image exceeds {} units of {} bytes", Prefix(spec),
         std::numeric_limits<abi::TaskId>::max(), abi::kUnit);
  }
  if (arguments > access_memory_.size()) {
    scalar_memory_.resize(arguments);
    access_memory_.resize(arguments);
  }
  if (end > memory_->capacity) memory_->grow(*memory_, end, used_);
}

/// Called while an exception is handled that left the tables half changed.
void Builder::Break(const TaskSpec& spec) {
  broken_.emplace(ErrorCode::out_of_memory, "no memory");  // short enough to need none
  try {
    throw;
  } catch (const Error& error) {
    broken_ = Error(error.code(), fmt::format("{}: {}", Prefix(spec), error.message()));
  } catch (const std::bad_alloc&) {
    broken_ = Error(ErrorCode::out_of_memory,
                    fmt::format("{}: the host has no memory left for the graph", Prefix(spec)));
  }
  throw Error(*broken_);
}

void Builder::FailScalar(const TaskSpec& spec, const Arg& arg) const {
  Fail(ErrorCode::stale,
       "{}: a boundary scalar of another run or recording (serial {}, this one is {})",
       Prefix(spec), arg.serial(), serial_);
}

void Builder::PrepareSlowly(const TaskSpec& spec, const Arg& arg, size_t i, Access* result) {
  Tensor imported;
  const Tensor* tensor = &arg.tensor();
  if (tensor->kind() == Tensor::Kind::device) {
    imported = import_(*tensor);
    tensor = &imported;
  } else if (!IsUsable(*tensor)) {
    Check(*tensor, fmt::format("{}: argument {}", Prefix(spec), i));
  }
  *result = AccessOf(*tensor, arg.direction());
  Access& access = *result;
  if (access.direction != Direction::in && IsReadOnly(*tensor)) {
    Fail(ErrorCode::mismatch, "{} is an 'in' argument of the {} and can't be written ('{}')",
         What(spec, i, *tensor), subject_, Name(access.direction));
  }
  // A skipped task leaves its outputs as they are, so they are read in that sense.
  bool may_skip = spec.predicate != nullptr && Writes(access.direction);
  if (may_skip) access.direction = Direction::inout;
  if (access.direction == Direction::out || access.direction == Direction::no_dep) return;
  const Buffer& buffer = regions_[access.buffer];
  if (!buffer.is(Buffer::kHasGaps) || regions_.FindWriter(access.buffer, RegionOf(access)) != 0)
    return;
  // What a skipped task leaves in the caller's memory is what the caller had there.
  if (may_skip && buffer.kind != BufferKind::created) return;
  Fail(ErrorCode::not_ready, "{} is read, but {}no submitted task has written it; {}",
       What(spec, i, *tensor),
       may_skip ? "a task with a predicate keeps its outputs' bytes when it is skipped, and " : "",
       buffer.kind == BufferKind::created
           ? "write it first, or give alloc a fill value"
           : fmt::format("it is an 'out' argument of the {}, declare it 'inout' to read what was "
                         "there",
                         subject_));
}

Access Builder::PreparePredicate(const TaskSpec& spec) {
  Tensor imported;
  const Tensor* tensor = spec.predicate;
  if (tensor->kind() == Tensor::Kind::device) {
    imported = import_(*tensor);
    tensor = &imported;
  } else if (!IsUsable(*tensor)) {
    Check(*tensor, fmt::format("{}: predicate", Prefix(spec)));
  }
  if (IsFloat(tensor->dtype())) {
    Fail(ErrorCode::mismatch, "{}: predicate on a tensor of dtype {} (integers and bool allowed)",
         Prefix(spec), Name(tensor->dtype()));
  }
  if (tensor->size() != 1) {
    Fail(ErrorCode::out_of_range, "{}: predicate on {} elements, {} (exactly 1 allowed)",
         Prefix(spec), tensor->size(), tensor->ToString());
  }
  Access access = AccessOf(*tensor);
  if (regions_[access.buffer].is(Buffer::kHasGaps) &&
      regions_.FindWriter(access.buffer, RegionOf(access)) == 0) {
    Fail(ErrorCode::not_ready, "{}: predicate on {}, which no submitted task has written",
         Prefix(spec), tensor->ToString());
  }
  return access;
}

void Builder::CheckPair(const TaskSpec& spec, uint32_t i, uint32_t j) {
  Access& a = arguments_.tensors[i];
  Access& b = arguments_.tensors[j];
  if (!Writes(a.direction) && !Writes(b.direction)) return;
  if (a.direction == Direction::no_dep || b.direction == Direction::no_dep) return;
  Region region_a = RegionOf(a), region_b = RegionOf(b);
  if (a.begin == b.begin && a.layout == b.layout) {
    // Read and written, so it is an inout; or written twice.
    if (a.direction != b.direction) a.direction = b.direction = Direction::inout;
    b.repeats = true;
    return;
  }
  if (!regions_.Overlap(region_a, region_b)) return;
  Fail(ErrorCode::invalid_argument,
       "{}: tensors {} and {} overlap (bytes {} … {} and {} … {} of one buffer), and one of them "
       "is written; only the same region may be passed twice",
       Prefix(spec), i, j, a.begin, a.begin + region_a.layout->extent - 1, b.begin,
       b.begin + region_b.layout->extent - 1);
}

void Builder::CheckManyOverlaps(const TaskSpec& spec) {
  std::span<const Access> accesses = arguments_.tensors;
  order_.resize(accesses.size());
  for (uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
  std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(accesses[a].buffer, accesses[a].begin) <
           std::pair(accesses[b].buffer, accesses[b].begin);
  });
  for (size_t i = 0; i < order_.size(); ++i) {
    const Access& a = accesses[order_[i]];
    uint64_t a_end = a.begin + layouts_[a.layout].extent;
    for (size_t j = i + 1; j < order_.size(); ++j) {
      const Access& b = accesses[order_[j]];
      if (b.buffer != a.buffer || b.begin >= a_end) break;
      CheckPair(spec, std::min(order_[i], order_[j]), std::max(order_[i], order_[j]));
    }
  }
}

}  // namespace precast::graph
