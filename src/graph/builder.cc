#include "graph/builder.h"

#include "base/tensor_access.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace precast::graph {

using detail::TensorAccess;

namespace {

// The owner field of a run tensor holds this instead of a worker's mark.
constexpr uint16_t kReadOnly = 1;
constexpr size_t kMaxArguments = std::numeric_limits<uint16_t>::max();

bool Writes(Direction direction) {
  return direction == Direction::out || direction == Direction::inout;
}

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

void Builder::Begin(ImageMemory* memory, uint32_t serial, uint64_t heap_budget) {
  memory_ = memory;
  serial_ = serial;
  used_ = sizeof(abi::Header);
  slots_ = 1;
  statistics_ = {};
  heap_edges_ = 0;
  buffers_.clear();
  windows_.clear();
  scopes_.clear();
  layouts_.Clear();
  regions_.Clear();
  heap_.Clear(heap_budget);
  names_.Clear();
  chunks_.clear();
  predicates_.clear();
  mixes_.clear();
  roots_.clear();
  broken_.reset();
  if (memory_->capacity < used_) memory_->grow(*memory_, used_, 0);
}

uint32_t Builder::AddSlot() { return static_cast<uint32_t>(slots_++); }

uint32_t Builder::AddBuffer(BufferKind kind, uint32_t slot, uint64_t base, uint64_t bytes,
                            bool empty_at_start) {
  uint32_t index = regions_.AddBuffer(bytes);
  Buffer& buffer = buffers_.emplace_back();
  buffer.base = base;
  buffer.bytes = bytes;
  buffer.slot = slot;
  buffer.kind = kind;
  buffer.empty_at_start = empty_at_start;
  return index;
}

Tensor Builder::MakeTensor(const Tensor& like, uint32_t buffer, uint64_t offset,
                           bool read_only) const {
  return TensorAccess::Rebase(like, Tensor::Kind::run, offset, buffer, serial_,
                              read_only ? kReadOnly : 0);
}

bool Builder::IsReadOnly(const Tensor& tensor) {
  return (TensorAccess::Owner(tensor) & kReadOnly) != 0;
}

Tensor Builder::Alloc(const Shape& shape, DType dtype) {
  uint32_t index = static_cast<uint32_t>(buffers_.size());
  Tensor tensor = TensorAccess::Make(Tensor::Kind::run, shape, dtype, index, serial_, 0);
  uint32_t layout = LayoutOf(tensor);
  AddBuffer(BufferKind::created, 0, 0, tensor.extent_bytes(), true);
  buffers_[index].placed = false;
  buffers_[index].layout = layout;
  return tensor;
}

uint32_t Builder::OpenScope() {
  scopes_.push_back(static_cast<uint32_t>(buffers_.size()));
  return static_cast<uint32_t>(scopes_.size());
}

bool Builder::CloseScope(uint32_t depth) {
  if (depth != scopes_.size()) return false;
  for (size_t i = scopes_.back(); i < buffers_.size(); ++i) {
    Buffer& buffer = buffers_[i];
    if (buffer.kind != BufferKind::created || buffer.ended) continue;
    buffer.ended = true;
    if (buffer.placed) heap_.Retire(static_cast<uint32_t>(i));
  }
  scopes_.pop_back();
  return true;
}

uint32_t Builder::LayoutOf(const Tensor& tensor) {
  uint32_t layout = TensorAccess::Layout(tensor);
  if (layout == 0) {
    layout = layouts_.Intern(tensor);
    TensorAccess::SetLayout(tensor, layout);
  }
  return layout;
}

// Messages.

std::string Builder::Describe(abi::TaskId id) const {
  const abi::Task* task = abi::TaskAt(memory_->data, id);
  TaskSpec spec;
  spec.kernel = task->kernel;
  spec.name = names_[task->name];
  if ((task->flags & abi::kTaskMixed) != 0) spec.mix = &mixes_[task->kernel];
  std::string kernel = kernel_name_(spec);
  return fmt::format("task {} '{}' (kernel {})", task->number,
                     spec.name.empty() ? std::string_view(kernel) : spec.name, kernel);
}

bool Builder::IsTask(abi::TaskId id) const {
  return id >= abi::kFirstTask && id < used_ / abi::kUnit;
}

std::string Builder::Prefix(const TaskSpec& task) const {
  std::string kernel = kernel_name_(task);
  return fmt::format("task {} '{}' (kernel {})", statistics_.tasks,
                     task.name.empty() ? std::string_view(kernel) : task.name, kernel);
}

std::string Builder::What(const TaskSpec& task, size_t argument, const Tensor& tensor) const {
  return fmt::format("{}: argument {} ({})", Prefix(task), argument, tensor.ToString());
}

const Builder::Buffer& Builder::Check(const Tensor& tensor, std::string_view use) const {
  if (tensor.kind() == Tensor::Kind::run && TensorAccess::Generation(tensor) == serial_)
      [[likely]] {
    const Buffer& buffer = buffers_[TensorAccess::Buffer(tensor)];
    if (!buffer.ended) [[likely]]
      return buffer;
    Fail(ErrorCode::stale, "{} ({}): used after its scope", use, tensor.ToString());
  }
  switch (tensor.kind()) {
    case Tensor::Kind::none:
      Fail(ErrorCode::invalid_argument, "{}: a tensor that names nothing", use);
    case Tensor::Kind::host:
      Fail(ErrorCode::invalid_argument,
           "{} ({}): host memory that is no argument of this run; pass it to run or submit", use,
           tensor.ToString());
    case Tensor::Kind::device:
      Fail(ErrorCode::internal, "{} ({}): device tensor not imported", use, tensor.ToString());
    case Tensor::Kind::run:
      break;
  }
  Fail(ErrorCode::stale, "{} ({}): a tensor of another run (serial {}, this run is {})", use,
       tensor.ToString(), TensorAccess::Generation(tensor), serial_);
}

// Submitting.

abi::TaskId Builder::Submit(const TaskSpec& spec, ArgList args) {
  if (broken_) [[unlikely]]
    throw Error(*broken_);
  size_t scalars = 0;
  for (const Arg& arg : args) scalars += arg.is_scalar() ? 1 : 0;
  size_t tensors = args.size() - scalars;
  if (spec.blocks == 0) {
    Fail(ErrorCode::invalid_argument, "{}: block count 0 (1 … {} allowed)", Prefix(spec),
         std::numeric_limits<uint32_t>::max());
  }
  uint64_t units = 1 + (args.size() * sizeof(abi::Argument) + abi::kUnit - 1) / abi::kUnit;
  if (args.size() > kMaxArguments || units > std::numeric_limits<uint16_t>::max()) {
    Fail(ErrorCode::invalid_argument, "{}: {} arguments (at most {} allowed)", Prefix(spec),
         args.size(), kMaxArguments);
  }
  uint64_t end = used_ + units * abi::kUnit;
  if (end / abi::kUnit > std::numeric_limits<abi::TaskId>::max()) {
    Fail(ErrorCode::out_of_memory, "{}: the image exceeds {} units of {} bytes", Prefix(spec),
         std::numeric_limits<abi::TaskId>::max(), abi::kUnit);
  }
  if (end > memory_->capacity) memory_->grow(*memory_, end, used_);

  // The block is written behind the end of the image; it becomes part of it at the very end.
  abi::TaskId id = next_id();
  accesses_.clear();
  {
    abi::Task* task = At(id);
    abi::Argument* argument = reinterpret_cast<abi::Argument*>(task + 1);
    abi::Scalar* scalar = reinterpret_cast<abi::Scalar*>(argument + tensors);
    for (size_t i = 0; i < args.size(); ++i) {
      const Arg& arg = args[i];
      if (arg.is_scalar()) {
        *scalar++ = {arg.bits(), static_cast<uint32_t>(arg.dtype()), 0};
      } else {
        accesses_.push_back(Prepare(spec, arg, i));
      }
    }
  }
  Access predicate{};
  if (spec.predicate != nullptr) predicate = PreparePredicate(spec);
  CheckOverlaps(spec);
  try {
    Commit(spec, scalars, id, predicate);
  } catch (const Error& error) {
    broken_ = error;
    throw;
  } catch (const std::bad_alloc&) {
    broken_ = Error(ErrorCode::out_of_memory,
                    fmt::format("{}: the host has no memory left for the graph", Prefix(spec)));
    throw Error(*broken_);
  }
  used_ = end;
  return id;
}

/// Everything from here on changes tables; what can be wrong with the arguments was checked.
void Builder::Commit(const TaskSpec& spec, size_t scalars, abi::TaskId id,
                     const Access& predicate) {
  bool has_kernel = spec.mix != nullptr || spec.kernel != abi::kNoKernel;
  uint32_t kernel = spec.kernel;
  if (spec.mix != nullptr) {
    kernel = static_cast<uint32_t>(mixes_.size());
    mixes_.push_back(*spec.mix);
  }
  abi::Task* task = At(id);
  *task = abi::Task{
      .number = static_cast<uint32_t>(statistics_.tasks),
      .kernel = kernel,
      .blocks = spec.blocks,
      .tensors = static_cast<uint16_t>(accesses_.size()),
      .scalars = static_cast<uint16_t>(scalars),
      .producers = 0,
      .consumers = 0,
      .chunk = 0,
      .consumer = {},
      .name = names_.Intern(spec.name),
      .predicate = 0,
      .units = static_cast<uint16_t>(
          1 + ((accesses_.size() + scalars) * sizeof(abi::Argument) + abi::kUnit - 1) / abi::kUnit),
      .flags = spec.mix != nullptr ? static_cast<uint8_t>(abi::kTaskMixed) : uint8_t{0},
      .reserved = 0,
  };
  if (spec.predicate != nullptr) {
    const Buffer& buffer = buffers_[predicate.buffer];
    predicates_.push_back({buffer.slot, layouts_[predicate.layout].dtype,
                           static_cast<uint8_t>(spec.compare), 0, buffer.base + predicate.begin,
                           spec.constant});
    task->predicate = static_cast<uint32_t>(predicates_.size());
    Infer(predicate, id);
  }
  for (abi::TaskId producer : spec.after) AddEdge(producer, id);
  // Tensors that have no place yet come last: what the task already waits for decides which bytes
  // of the heap are free for them.
  bool unplaced = false;
  for (const Access& access : accesses_) {
    if (buffers_[access.buffer].placed) {
      Infer(access, id);
    } else {
      unplaced = true;
    }
  }
  if (unplaced) {
    for (const Access& access : accesses_) {
      if (buffers_[access.buffer].placed) continue;
      Place(access.buffer, id);
      for (const Access& same : accesses_) {
        if (same.buffer == access.buffer) Infer(same, id);
      }
    }
  }
  abi::Argument* argument = reinterpret_cast<abi::Argument*>(task + 1);
  for (const Access& access : accesses_) {
    const Buffer& buffer = buffers_[access.buffer];
    *argument++ = {buffer.slot, access.layout & (abi::kMaxLayouts - 1),
                   static_cast<uint32_t>(access.direction) & 15u, buffer.base + access.begin};
  }
  if (task->producers == 0) roots_.push_back(id);
  ++statistics_.tasks;
  if (has_kernel) {
    statistics_.blocks += uint64_t{spec.blocks} * (spec.mix != nullptr ? spec.mix->kernels : 1);
  }
}

Builder::Access Builder::Prepare(const TaskSpec& spec, const Arg& arg, size_t i) {
  Tensor imported;
  const Tensor* tensor = &arg.tensor();
  if (tensor->kind() == Tensor::Kind::device) [[unlikely]] {
    imported = import_(*tensor);
    tensor = &imported;
  } else if (tensor->kind() != Tensor::Kind::run || TensorAccess::Generation(*tensor) != serial_ ||
             buffers_[TensorAccess::Buffer(*tensor)].ended) [[unlikely]] {
    Check(*tensor, fmt::format("{}: argument {}", Prefix(spec), i));
  }
  Access access{TensorAccess::Offset(*tensor), TensorAccess::Buffer(*tensor), LayoutOf(*tensor),
                arg.direction()};
  if (Writes(access.direction)) {
    if (IsReadOnly(*tensor)) [[unlikely]] {
      Fail(ErrorCode::mismatch, "{} is an 'in' argument of the run and can't be written ('{}')",
           What(spec, i, *tensor), Name(access.direction));
    }
    // A skipped task leaves its outputs as they are, so they are read in that sense.
    if (spec.predicate != nullptr) access.direction = Direction::inout;
  }
  if (access.direction == Direction::in || access.direction == Direction::inout) {
    CheckReadable(spec, access, i, *tensor);
  }
  return access;
}

void Builder::CheckReadable(const TaskSpec& spec, const Access& access, size_t i,
                            const Tensor& tensor) {
  Buffer& buffer = buffers_[access.buffer];
  if (!buffer.empty_at_start || buffer.written_whole) [[likely]]
    return;
  if (FindWriter(access) != 0) return;
  if (spec.predicate != nullptr && access.direction == Direction::inout &&
      buffer.kind != BufferKind::created) {
    buffer.keeps_old_bytes = true;  // what the caller's memory holds is what a skipped task leaves
    return;
  }
  std::string_view why =
      spec.predicate != nullptr && access.direction == Direction::inout
          ? "a task with a predicate keeps its outputs' bytes when it is skipped, and "
          : "";
  Fail(ErrorCode::not_ready, "{} is read, but {}no submitted task has written it{}",
       What(spec, i, tensor), why,
       buffer.kind == BufferKind::created
           ? "; write it first, or give alloc a fill value"
           : "; it is an 'out' argument of the run, declare it 'inout' to read the caller's bytes");
}

Builder::Access Builder::PreparePredicate(const TaskSpec& spec) {
  const Tensor& element = *spec.predicate;
  Tensor imported;
  const Tensor* tensor = &element;
  if (element.kind() == Tensor::Kind::device) {
    imported = import_(element);
    tensor = &imported;
  }
  Check(*tensor, fmt::format("{}: predicate", Prefix(spec)));
  if (IsFloat(tensor->dtype())) {
    Fail(ErrorCode::mismatch, "{}: predicate on a tensor of dtype {} (integers and bool allowed)",
         Prefix(spec), Name(tensor->dtype()));
  }
  if (tensor->size() != 1) {
    Fail(ErrorCode::out_of_range, "{}: predicate on {} elements, {} (exactly 1 allowed)",
         Prefix(spec), tensor->size(), tensor->ToString());
  }
  Access access{TensorAccess::Offset(*tensor), TensorAccess::Buffer(*tensor), LayoutOf(*tensor),
                Direction::in};
  const Buffer& buffer = buffers_[access.buffer];
  if (buffer.empty_at_start && !buffer.written_whole && FindWriter(access) == 0) {
    Fail(ErrorCode::not_ready, "{}: predicate on {}, which no submitted task has written",
         Prefix(spec), tensor->ToString());
  }
  return access;
}

void Builder::CheckPair(const TaskSpec& spec, uint32_t i, uint32_t j) {
  Access& a = accesses_[i];
  Access& b = accesses_[j];
  if (!Writes(a.direction) && !Writes(b.direction)) return;
  if (a.direction == Direction::no_dep || b.direction == Direction::no_dep) return;
  if (a.begin == b.begin && a.layout == b.layout) {
    // The same region twice: read and written, so it is an inout.
    if (a.direction == Direction::in) b.direction = Direction::inout;
    if (b.direction == Direction::in) a.direction = Direction::inout;
    if (a.direction == Direction::inout || b.direction == Direction::inout) {
      a.direction = b.direction = Direction::inout;
    }
    return;
  }
  if (!Overlaps(RegionOf(a), RegionOf(b))) return;
  Fail(ErrorCode::invalid_argument,
       "{}: tensors {} and {} overlap (bytes {} … {} and {} … {} of one buffer), and one of them "
       "is written; only the same region may be passed twice",
       Prefix(spec), i, j, a.begin, a.begin + layouts_[a.layout].extent - 1, b.begin,
       b.begin + layouts_[b.layout].extent - 1);
}

void Builder::CheckOverlaps(const TaskSpec& spec) {
  uint32_t count = static_cast<uint32_t>(accesses_.size());
  if (count <= 16) {
    for (uint32_t i = 1; i < count; ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        if (accesses_[i].buffer == accesses_[j].buffer) CheckPair(spec, j, i);
      }
    }
    return;
  }
  order_.resize(count);
  for (uint32_t i = 0; i < count; ++i) order_[i] = i;
  std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(accesses_[a].buffer, accesses_[a].begin) <
           std::pair(accesses_[b].buffer, accesses_[b].begin);
  });
  for (size_t i = 0; i < count; ++i) {
    const Access& a = accesses_[order_[i]];
    uint64_t a_end = a.begin + layouts_[a.layout].extent;
    for (size_t j = i + 1; j < count; ++j) {
      const Access& b = accesses_[order_[j]];
      if (b.buffer != a.buffer || b.begin >= a_end) break;
      CheckPair(spec, std::min(order_[i], order_[j]), std::max(order_[i], order_[j]));
    }
  }
}

void Builder::Place(uint32_t index, abi::TaskId id) {
  Buffer& buffer = buffers_[index];
  auto precedes = [&](BufferId dead) {
    bool all = true;
    regions_.ForEachLive(dead, [&](abi::TaskId user) { all = all && IsConsumer(user, id); });
    return all;
  };
  HeapPlanner::Placement placement = heap_.Place(index, buffer.bytes, precedes);
  buffer.base = placement.offset;
  buffer.placed = true;
  if (!placement.reused) return;
  for (BufferId dead : placement.after) {
    regions_.ForEachLive(dead, [&](abi::TaskId user) {
      uint64_t before = statistics_.edges;
      AddEdge(user, id);
      heap_edges_ += statistics_.edges - before;
    });
  }
  regions_.Claim(index, id);
}

/// Whether the newest edge out of `producer` goes to `consumer`, the task under construction.
bool Builder::IsConsumer(abi::TaskId producer, abi::TaskId consumer) {
  const abi::Task* from = At(producer);
  uint32_t count = from->consumers;
  if (count == 0) return false;
  if (count <= abi::kInlineConsumers) return from->consumer[count - 1] == consumer;
  uint32_t last = (count - abi::kInlineConsumers - 1) % abi::kChunkConsumers;
  return chunks_[from->chunk - 1].consumer[last] == consumer;
}

void Builder::Infer(const Access& access, abi::TaskId id) {
  bool met = false;
  auto edge = [&](abi::TaskId producer) {
    met = true;
    AddEdge(producer, id);
  };
  Region region = RegionOf(access);
  if (access.direction == Direction::in) {
    regions_.Read(access.buffer, region, id, edge);
    return;
  }
  Buffer& buffer = buffers_[access.buffer];
  buffer.modified = true;
  if (access.buffer < windows_.size()) windows_[access.buffer] = nullptr;
  if (access.direction == Direction::no_dep) {
    buffer.keeps_old_bytes = true;
    regions_.Unordered(access.buffer, region, id);
    return;
  }
  regions_.Write(access.buffer, region, id, edge);
  const abi::Layout& layout = layouts_[access.layout];
  uint64_t bytes = layout.elements * layout.element_bytes;
  if (bytes == buffer.bytes) {
    buffer.written_whole = true;
  } else if (!met) {
    buffer.written_bytes += bytes;
    if (buffer.written_bytes == buffer.bytes) buffer.written_whole = true;
  }
}

void Builder::AddEdge(abi::TaskId producer, abi::TaskId consumer) {
  // All edges into a task are made while it is the newest, so a repeated one is the last one.
  if (IsConsumer(producer, consumer)) return;
  abi::Task* from = At(producer);
  uint32_t count = from->consumers;
  if (count < abi::kInlineConsumers) [[likely]] {
    from->consumer[count] = consumer;
  } else {
    uint32_t position = (count - abi::kInlineConsumers) % abi::kChunkConsumers;
    if (position == 0) {
      chunks_.push_back({{}, from->chunk});
      from->chunk = static_cast<uint32_t>(chunks_.size());
    }
    chunks_[from->chunk - 1].consumer[position] = consumer;
  }
  ++from->consumers;
  ++At(consumer)->producers;
  ++statistics_.edges;
}

// Queries.

Builder::Access Builder::AccessOf(const Tensor& tensor) {
  return {TensorAccess::Offset(tensor), TensorAccess::Buffer(tensor), LayoutOf(tensor),
          Direction::in};
}

Region Builder::RegionOf(const Access& access) const {
  return {access.begin, access.layout, &layouts_[access.layout]};
}

abi::TaskId Builder::FindWriter(const Access& access) const {
  return regions_.FindWriter(access.buffer, RegionOf(access));
}

abi::TaskId Builder::FindAccess(const Tensor& tensor) {
  Access access = AccessOf(tensor);
  return regions_.FindAccess(access.buffer, RegionOf(access));
}

// Sealing.

uint64_t Builder::SealedBytes() const {
  constexpr uint64_t kSections = 8;
  return used_ + layouts_.records().size() * sizeof(abi::Layout) +
         chunks_.size() * sizeof(abi::ConsumerChunk) + predicates_.size() * sizeof(abi::Predicate) +
         mixes_.size() * sizeof(abi::Mix) + names_.records().size() * sizeof(abi::Name) +
         names_.bytes().size() + roots_.size() * sizeof(abi::TaskId) + slots_ * sizeof(abi::Slot) +
         kSections * abi::kUnit;
}

uint64_t Builder::Seal(std::span<const abi::Slot> slots) {
  uint64_t bound = SealedBytes();
  if (bound > memory_->capacity) memory_->grow(*memory_, bound, used_);
  abi::Header header{};
  uint64_t end = used_;
  auto append = [&](const auto& records) {
    end = AlignUp(end, abi::kUnit);
    abi::Section section{end, records.size()};
    uint64_t bytes = records.size() * sizeof(*records.data());
    if (bytes > 0) std::memcpy(memory_->data + end, records.data(), bytes);
    end += bytes;
    return section;
  };
  header.magic = abi::kMagic;
  header.version = abi::kVersion;
  header.tasks = statistics_.tasks;
  header.edges = statistics_.edges;
  header.blocks = statistics_.blocks;
  header.task_bytes = used_ - sizeof(abi::Header);
  header.layouts = append(layouts_.records());
  header.chunks = append(chunks_);
  header.predicates = append(predicates_);
  header.mixes = append(mixes_);
  header.names = append(names_.records());
  header.name_bytes = append(names_.bytes());
  header.roots = append(roots_);
  header.slots = append(slots);
  header.total_bytes = AlignUp(end, abi::kUnit);
  std::memcpy(memory_->data, &header, sizeof(header));
  return header.total_bytes;
}

}  // namespace precast::graph
