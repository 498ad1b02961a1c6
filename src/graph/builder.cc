#include "graph/builder.h"

#include "base/planted_fault.h"
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

// What a buffer must not be for an argument of this direction: its scope has ended, or there is
// something to be read in it and it holds no value.
uint8_t Refused(Direction direction) {
  static_assert(Buffer::kHasGaps == 1 && (static_cast<int>(Direction::in) & 1) == 1 &&
                (static_cast<int>(Direction::inout) & 1) == 1 &&
                (static_cast<int>(Direction::out) & 1) == 0 &&
                (static_cast<int>(Direction::no_dep) & 1) == 0);
  return Buffer::kEnded | (static_cast<uint8_t>(direction) & Buffer::kHasGaps);
}

}  // namespace

void Builder::Begin(ImageMemory* memory, uint32_t serial, uint64_t heap_budget) {
  memory_ = memory;
  serial_ = serial;
  used_ = sizeof(abi::Header);
  slots_ = 1;
  statistics_ = {};
  heap_edges_ = 0;
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
  bindings_.clear();
  definitions_.clear();
  broken_.reset();
  scratch_ = {};
  if (log_ != nullptr) *log_ = {};
  if (memory_->capacity < used_) memory_->grow(*memory_, used_, 0);
}

uint32_t Builder::AddSlot() { return static_cast<uint32_t>(slots_++); }

uint32_t Builder::AddBuffer(BufferKind kind, uint32_t slot, uint64_t base, uint64_t bytes,
                            bool empty_at_start) {
  uint32_t index = regions_.AddBuffer(bytes);
  Buffer& buffer = regions_[index];
  buffer.base = base;
  buffer.slot = slot;
  buffer.kind = kind;
  if (empty_at_start) buffer.set(Buffer::kHasGaps);
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
  uint32_t index = static_cast<uint32_t>(regions_.buffers());
  Tensor tensor = TensorAccess::Make(Tensor::Kind::run, shape, dtype, index, serial_, 0);
  AddBuffer(BufferKind::created, 0, 0, layouts_[LayoutOf(tensor)].extent, true);
  regions_[index].set(Buffer::kUnplaced);
  return tensor;
}

uint32_t Builder::OpenScope() {
  scopes_.push_back(static_cast<uint32_t>(regions_.buffers()));
  if (log_ != nullptr) log_->OpenScope();
  return static_cast<uint32_t>(scopes_.size());
}

bool Builder::CloseScope(uint32_t depth) {
  if (depth != scopes_.size()) return false;
  for (size_t i = scopes_.back(); i < regions_.buffers(); ++i) {
    Buffer& buffer = regions_[i];
    if (buffer.kind != BufferKind::created || buffer.is(Buffer::kEnded)) continue;
    buffer.set(Buffer::kEnded);
    // With the outermost scope the graph is complete: nobody will ask for the bytes.
    if (!buffer.is(Buffer::kUnplaced) && depth > 1) heap_.Retire(static_cast<uint32_t>(i));
  }
  scopes_.pop_back();
  if (log_ != nullptr) log_->CloseScope();
  return true;
}

bool Builder::IsTask(abi::TaskId id) const {
  return id >= abi::kFirstTask && id < used_ / abi::kUnit;
}

// Submitting. Usual tasks stay within Submit and what is inlined into it; whatever else there may
// be is a call away, so that it takes no registers here.

/// The newest task that waits for `task`; 0 if none.
inline abi::TaskId Builder::NewestConsumer(const abi::Task& task) const {
  uint32_t count = task.consumers, inlined = abi::InlineConsumers(task);
  if (count == 0) return 0;
  if (count <= inlined) return task.consumer[count - 1];
  return chunks_[task.chunk - 1].consumer[(count - inlined - 1) % abi::kChunkConsumers];
}

/// Whether `task` is seen to precede the draft: on the path along the newest consumers, which after
/// a few steps is where the orchestration is now.
inline bool Builder::Precedes(const Draft& draft, abi::TaskId task) const {
  constexpr int kSteps = 4;
  for (int i = 0; i < kSteps && task != 0; ++i) {
    task = NewestConsumer(*abi::TaskAt(draft.image, task));
    if (task == draft.id) return true;
  }
  return false;
}

/// Counts the edge in `*producers`, or in the task.
[[gnu::always_inline]] inline void Builder::AddEdge(const Draft& draft, abi::TaskId producer,
                                                    uint32_t* producers) {
  abi::Task* from = abi::TaskAt(draft.image, producer);
  uint32_t count = from->consumers;
  if (count >= abi::kInlineConsumers - 1) [[unlikely]]
    return AddLaterEdge(draft, from);
  // All edges into a task are made while it is the newest, so a repeated one is the last one.
  if (count > 0 && from->consumer[count - 1] == draft.id && !PRECAST_PLANTED("order.edge-twice")) {
    return;
  }
  from->consumer[count] = draft.id;
  from->consumers = count + 1;
  ++*producers;
}

inline void Builder::AddEdge(const Draft& draft, abi::TaskId producer) {
  AddEdge(draft, producer, &draft.task->producers);
}

[[gnu::noinline]] void Builder::AddLaterEdge(const Draft& draft, abi::Task* from) {
  if (NewestConsumer(*from) == draft.id) return;
  uint32_t count = from->consumers, inlined = abi::InlineConsumers(*from);
  if (count < inlined) {
    from->consumer[count] = draft.id;
  } else {
    uint32_t position = (count - inlined) % abi::kChunkConsumers;
    if (position == 0) {
      chunks_.push_back({{}, from->chunk});
      from->chunk = static_cast<uint32_t>(chunks_.size());
    }
    chunks_[from->chunk - 1].consumer[position] = draft.id;
  }
  ++from->consumers;
  ++draft.task->producers;
}

/// What most accesses are; false, and nothing is changed, for all others. Counts the edges as
/// AddEdge does. Works on values in registers: nothing here has its address taken.
[[gnu::always_inline]] inline bool Builder::InferUsual(const Draft& draft, const Access& access,
                                                       Buffer& buffer, uint32_t* producers) {
  const abi::TaskId id = draft.id;
  if (access.direction == Direction::in) {
    abi::TaskId producer;
    if (!regions_.ReadWhole(buffer, RegionOf(access), id, &producer)) return false;
    if (producer != 0 && producer != id) AddEdge(draft, producer, producers);
    return true;
  }
  if (access.direction == Direction::no_dep || access.repeats || buffer.is(Buffer::kHasWindow)) {
    return false;
  }
  const abi::Layout& layout = layouts_[access.layout];
  if (buffer.is(Buffer::kHasGaps) && (access.direction != Direction::out ||
                                      layout.elements * layout.element_bytes != buffer.bytes)) {
    return false;
  }
  abi::TaskId before[2];
  if (!regions_.WriteWhole(buffer, {access.begin, access.layout, &layout}, id, before)) {
    return false;
  }
  buffer.state = (buffer.state | Buffer::kModified) & static_cast<uint8_t>(~Buffer::kHasGaps);
  if (before[0] != 0 && before[0] != id) AddEdge(draft, before[0], producers);
  if (before[1] != 0 && before[1] != id) AddEdge(draft, before[1], producers);
  return true;
}

void Builder::Infer(Edges& edges, const Access& access, Buffer& buffer) {
  const Draft& draft = edges.draft;
  if (access.direction == Direction::in) {
    return regions_.Read(access.buffer, RegionOf(access), draft.id, edges);
  }
  if (access.direction == Direction::no_dep) return InferUnordered(draft, access, buffer);
  if (access.repeats) return;
  NoteModified(access.buffer, buffer);
  edges.met = false;
  regions_.Write(access.buffer, RegionOf(access), draft.id, edges);
  if (buffer.is(Buffer::kHasGaps)) NoteWrite(draft, access, buffer, edges.met);
}

void Builder::InferUnordered(const Draft& draft, const Access& access, Buffer& buffer) {
  NoteModified(access.buffer, buffer);
  buffer.set(Buffer::kKeepsOldBytes);
  regions_.Unordered(access.buffer, RegionOf(access), draft.id);
  abi::TaskId claimant = regions_.Claimant(access.buffer);
  if (claimant != 0 && claimant != draft.id) AddEdge(draft, claimant);
}

/// A write to a buffer that has gaps; `met`: it overlapped an earlier access.
void Builder::NoteWrite(const Draft& draft, const Access& access, Buffer& buffer, bool met) {
  if (access.direction == Direction::inout || draft.spec.predicate != nullptr) {
    buffer.set(Buffer::kKeepsOldBytes);  // it may leave what it found, so it fills no gap
    return;
  }
  const abi::Layout& layout = layouts_[access.layout];
  uint64_t bytes = layout.elements * layout.element_bytes;
  uint64_t needed = buffer.bytes - regions_.RareOf(buffer).unused_bytes;
  uint64_t all = bytes == needed || met ? bytes : regions_.AddRare(buffer).written_bytes += bytes;
  if (all == needed) buffer.clear(Buffer::kHasGaps);
}

inline void Builder::PutArgument(abi::Argument* argument, const Access& access,
                                 const Buffer& buffer) {
  *argument = {buffer.slot, access.layout & (abi::kMaxLayouts - 1),
               static_cast<uint32_t>(access.direction) & 15u, buffer.base + access.begin};
}

[[gnu::always_inline]] inline void Builder::Place(const Draft& draft, uint32_t index,
                                                  Buffer& buffer) {
  uint64_t fresh = heap_.PlaceFresh(index, buffer.bytes);
  if (fresh == HeapPlanner::kNoPlace) [[unlikely]]
    return PlaceAgain(draft, index);
  buffer.base = fresh;
  buffer.clear(Buffer::kUnplaced);
}

/// The same where bytes may be used again.
[[gnu::noinline]] void Builder::PlaceAgain(const Draft& draft, uint32_t index) {
  GiveScratchBack();
  auto precedes = [&](BufferId dead) {
    if (PRECAST_PLANTED("heap.one-task-early")) return true;
    return regions_.AllLive(dead, [&](abi::TaskId user) { return Precedes(draft, user); });
  };
  Buffer& buffer = regions_[index];
  HeapPlanner::Placement placement = heap_.Place(index, buffer.bytes, precedes);
  buffer.base = placement.offset;
  buffer.clear(Buffer::kUnplaced);
  if (!placement.reused) return;
  uint32_t before = draft.task->producers;
  for (BufferId dead : placement.after) {
    regions_.ForEachLive(dead, [&](abi::TaskId user) { AddEdge(draft, user); });
  }
  heap_edges_ += draft.task->producers - before;
  regions_.Claim(index, draft.id);
}

[[gnu::noinline]] void Builder::CommitUnplaced(const Draft& draft) {
  Edges edges{*this, draft};
  for (size_t i = 0; i < draft.tensors; ++i) {
    const Access& access = draft.accesses[i];
    if (!access.unplaced) continue;
    Buffer& buffer = regions_[access.buffer];
    if (buffer.is(Buffer::kUnplaced)) Place(draft, access.buffer, buffer);
    PutArgument(reinterpret_cast<abi::Argument*>(draft.task + 1) + i, access, buffer);
    Infer(edges, access, buffer);
  }
}

/// What few tasks have.
void Builder::CommitExtras(const Draft& draft, const Access* predicate) {
  const TaskSpec& spec = draft.spec;
  if (!spec.name.empty()) draft.task->name = names_.Intern(spec.name);
  if (spec.mix != nullptr) {
    draft.task->kernel = static_cast<uint32_t>(mixes_.size());
    draft.task->flags = abi::kTaskMixed;
    mixes_.push_back(*spec.mix);
  }
  if (predicate != nullptr) {
    Buffer& buffer = regions_[predicate->buffer];
    predicates_.push_back({buffer.slot, layouts_[predicate->layout].dtype,
                           static_cast<uint8_t>(spec.compare), 0, buffer.base + predicate->begin,
                           spec.constant});
    draft.task->predicate = static_cast<uint32_t>(predicates_.size());
    Edges edges{*this, draft};
    if (!PRECAST_PLANTED("order.predicate")) Infer(edges, *predicate, buffer);
  }
  if (PRECAST_PLANTED("order.after")) return;
  for (abi::TaskId producer : spec.after) AddEdge(draft, producer);
}

/// Everything from here on changes tables; what can be wrong with the arguments was checked.
template <bool kExtras>
[[gnu::always_inline]] inline void Builder::Commit(const Draft& draft, const Access* predicate) {
  const TaskSpec& spec = draft.spec;
  uint64_t kernels = spec.kernel != abi::kNoKernel ? 1 : 0;
  if (kExtras) {
    if (spec.mix != nullptr) kernels = spec.mix->kernels;
    CommitExtras(draft, predicate);
  }
  // Tensors that have no place yet come last: what the task already waits for decides which bytes
  // of the heap are free for them. One at the end of the arguments, the usual `out`, stands there
  // already.
  bool unplaced = false;
  uint32_t producers = 0;
  Buffer* const buffers = regions_.data();
  auto* argument = reinterpret_cast<abi::Argument*>(draft.task + 1);
  Access* const last = draft.accesses + draft.tensors;
  for (Access* a = draft.accesses; a != last; ++a, ++argument) {
    Access& access = *a;
    Buffer& buffer = buffers[access.buffer];
    if (buffer.is(Buffer::kUnplaced)) {
      if (unplaced || a + 1 < last) {
        access.unplaced = unplaced = true;
        continue;
      }
      Place(draft, access.buffer, buffer);
    }
    PutArgument(argument, access, buffer);
    if (!InferUsual(draft, access, buffer, &producers)) [[unlikely]] {
      Edges edges{*this, draft};
      Infer(edges, access, buffer);
    }
  }
  draft.task->producers += producers;
  if (unplaced) CommitUnplaced(draft);
  producers = draft.task->producers;
  if (producers == 0) roots_.push_back(draft.id);
  statistics_.edges += producers;
  statistics_.tasks += 1;
  statistics_.blocks += spec.blocks * kernels;
}

void Builder::CheckOverlaps(const TaskSpec& spec) {
  constexpr size_t kFew = 16;
  std::span<const Access> accesses = arguments_.tensors;
  if (accesses.size() > kFew) return CheckManyOverlaps(spec);
  const Access* const first = accesses.data();
  const Access* const last = first + accesses.size();
  for (const Access* b = first + 1; b < last; ++b) {
    for (const Access* a = first; a != b; ++a) {
      if (a->buffer == b->buffer)
        CheckPair(spec, static_cast<uint32_t>(a - first), static_cast<uint32_t>(b - first));
    }
  }
}

/// Fills arguments_. kMaySkip: the task has a predicate. With kTry it is false when an argument is
/// not of the usual kind, and nothing has changed; else those are looked at closely. Requires:
/// there is memory for them.
template <bool kTry, bool kMaySkip>
[[gnu::always_inline]] inline bool Builder::Prepare(const TaskSpec& spec, ArgList args) {
  Access* access = access_memory_.data();
  const Arg** scalar = scalar_memory_.data();
  const uint16_t mark = Mark(next_id());
  const uint32_t serial = serial_;
  Buffer* buffers = regions_.data();
  bool shared = false;
  for (const Arg& arg : args) {
    Direction direction = arg.direction();
    if (direction == Direction::scalar) {
      *scalar++ = &arg;
      continue;
    }
    const Tensor& tensor = arg.tensor();
    uint32_t number = TensorAccess::Buffer(tensor);
    uint32_t layout = TensorAccess::Layout(tensor);
    if (tensor.kind() == Tensor::Kind::run && TensorAccess::Generation(tensor) == serial &&
        (buffers[number].state & Refused(direction)) == 0 && layout != 0 && !kMaySkip &&
        (direction == Direction::in || !IsReadOnly(tensor))) [[likely]] {
      // Field by field: a copy of a whole Access just made costs more than the rest (the processor
      // can't forward two narrow stores to a wide load).
      access->begin = TensorAccess::Offset(tensor);
      access->buffer = number;
      access->layout = layout;
      access->direction = access->given = direction;
      access->repeats = access->unplaced = false;
    } else if (kTry) {
      return false;
    } else {
      PrepareSlowly(spec, arg, static_cast<size_t>(&arg - args.begin()), access);
      buffers = regions_.data();  // it may have added one
    }
    Buffer& buffer = buffers[access->buffer];
    shared |= buffer.mark == mark;
    buffer.mark = mark;
    ++access;
  }
  arguments_.tensors = {access_memory_.data(), access};
  arguments_.scalars = {scalar_memory_.data(), scalar};
  arguments_.apart = !shared || PRECAST_PLANTED("order.overlap-unseen");
  return true;
}

/// The record of a task is behind the end of the image, which grows over it at the very end.
[[gnu::always_inline]] inline Builder::Draft Builder::DraftOf(const TaskSpec& spec) {
  abi::TaskId id = next_id();
  return {spec,
          memory_->data,
          id,
          abi::TaskAt(memory_->data, id),
          arguments_.tensors.data(),
          arguments_.tensors.size()};
}

abi::TaskId Builder::Submit(const TaskSpec& spec, ArgList args) {
  return spec.has_extras() ? SubmitTask<true>(spec, args) : SubmitTask<false>(spec, args);
}

template <bool kExtras>
abi::TaskId Builder::SubmitTask(const TaskSpec& spec, ArgList args) {
  size_t count = args.size();
  uint64_t units = 1 + (count * sizeof(abi::Argument) + abi::kUnit - 1) / abi::kUnit;
  uint64_t end = used_ + units * abi::kUnit;
  if (broken_ || spec.blocks == 0 || count > access_memory_.size() || end > memory_->capacity)
      [[unlikely]] {
    GrowFor(spec, count, end);
  }
  Access operand;
  const Access* predicate = nullptr;
  if (kExtras && spec.predicate != nullptr) {
    Prepare<false, true>(spec, args);
    operand = PreparePredicate(spec);
    predicate = &operand;
  } else {
    Prepare<false, false>(spec, args);
  }
  if (!arguments_.apart) [[unlikely]]
    CheckOverlaps(spec);

  Draft draft = DraftOf(spec);
  if (count != draft.tensors) {
    auto* scalar = reinterpret_cast<abi::Scalar*>(reinterpret_cast<abi::Argument*>(draft.task + 1) +
                                                  draft.tensors);
    for (const Arg* arg : arguments_.scalars) {
      if (arg->serial() != 0 && arg->serial() != serial_) [[unlikely]]
        FailScalar(spec, *arg);
      *scalar++ = {arg->bound() == 0 ? arg->bits() : 0, static_cast<uint32_t>(arg->dtype()),
                   arg->bound()};
    }
  }
  *draft.task = abi::Task{.number = static_cast<uint32_t>(statistics_.tasks),
                          .kernel = spec.kernel,
                          .blocks = spec.blocks,
                          .tensors = static_cast<uint16_t>(draft.tensors),
                          .scalars = static_cast<uint16_t>(count - draft.tensors),
                          .producers = 0,
                          .consumers = 0,
                          .chunk = 0,
                          .consumer = {},
                          .name = 0,
                          .predicate = 0,
                          .units = static_cast<uint16_t>(units),
                          .flags = 0,
                          .reserved = 0};
  try {
    Commit<kExtras>(draft, predicate);
    if (log_ != nullptr) [[unlikely]]
      Log(draft, predicate);
  } catch (...) {
    Break(spec);
  }
  used_ = end;
  return draft.id;
}

// Graph tasks.

uint32_t Builder::AddDefinition(uint64_t hash) {
  definitions_.push_back({0, hash});
  return static_cast<uint32_t>(definitions_.size() - 1);
}

const Arguments* Builder::LookAtGraph(const TaskSpec& spec, ArgList args) {
  bool fits = !broken_ && args.size() <= access_memory_.size();
  return fits && spec.predicate == nullptr && Prepare<true, false>(spec, args) ? &arguments_
                                                                               : nullptr;
}

const Arguments& Builder::PrepareGraph(const TaskSpec& spec, ArgList args) {
  if (broken_ || args.size() > access_memory_.size()) GrowFor(spec, args.size(), used_);
  spec.predicate == nullptr ? Prepare<false, false>(spec, args) : Prepare<false, true>(spec, args);
  return arguments_;
}

abi::TaskId Builder::SubmitGraph(const TaskSpec& spec, const GraphSpec& graph) {
  uint64_t end = used_ + abi::kUnit;
  if (broken_ || end > memory_->capacity) [[unlikely]]
    GrowFor(spec, 0, end);
  Access predicate;
  if (spec.predicate != nullptr) [[unlikely]]
    predicate = PreparePredicate(spec);
  bool passes = false;
  for (const Arg* arg : arguments_.scalars) {
    if (arg->serial() != 0 && arg->serial() != serial_) [[unlikely]]
      FailScalar(spec, *arg);
    passes = passes || arg->bound() != 0;
  }
  Draft draft = DraftOf(spec);
  *draft.task = abi::Task{
      .number = static_cast<uint32_t>(statistics_.tasks),
      .kernel = graph.definition,
      .blocks = static_cast<uint32_t>(bindings_.size()),
      .tensors = static_cast<uint16_t>(graph.slot_begin.size()),
      .scalars = static_cast<uint16_t>(arguments_.scalars.size()),
      .producers = 0,
      .consumers = 0,
      .chunk = 0,
      .consumer = {},
      .name = spec.key,
      .predicate = 0,
      .units = 1,
      .flags = static_cast<uint8_t>(passes ? abi::kTaskGraph | abi::kTaskPasses : abi::kTaskGraph),
      .reserved = 0};
  try {
    CommitGraph(draft, graph, spec.predicate != nullptr ? &predicate : nullptr);
    if (log_ != nullptr) [[unlikely]]
      Log(draft, spec.predicate != nullptr ? &predicate : nullptr);
  } catch (...) {
    Break(spec);
  }
  used_ += abi::kUnit;
  return draft.id;
}

void Builder::CommitGraph(const Draft& draft, const GraphSpec& graph, const Access* predicate) {
  if (draft.spec.has_extras()) [[unlikely]]
    CommitExtras(draft, predicate);
  Edges edges{*this, draft};
  bool unplaced = false;
  uint32_t producers = 0;
  Buffer* const buffers = regions_.data();
  for (size_t i = 0; i < draft.tensors; ++i) {
    Access& access = draft.accesses[i];
    Buffer& buffer = buffers[access.buffer];
    if (buffer.is(Buffer::kUnplaced)) [[unlikely]] {
      access.unplaced = unplaced = true;
    } else if (!InferUsual(draft, access, buffer, &producers)) {
      Infer(edges, access, buffer);
    }
  }
  draft.task->producers += producers;
  for (size_t i = 0; unplaced && i < draft.tensors; ++i) {
    const Access& access = draft.accesses[i];
    if (!access.unplaced) continue;
    Buffer& buffer = regions_[access.buffer];
    if (buffer.is(Buffer::kUnplaced)) Place(draft, access.buffer, buffer);
    Infer(edges, access, buffer);
  }
  size_t first = bindings_.size();
  bindings_.resize(first + graph.slot_begin.size());
  abi::Binding* binding = bindings_.data() + first;
  for (uint32_t tensor : graph.slot_begin) {
    const Access& access = draft.accesses[tensor];
    const Buffer& buffer = regions_[access.buffer];
    uint64_t offset = buffer.base + access.begin;
    if (offset > abi::kMaxBoundOffset || buffer.slot >= abi::kMaxBoundSlots) [[unlikely]] {
      Fail(ErrorCode::out_of_memory,
           "tensor {} at byte {} of slot {} (a graph reaches {} bytes of {} slots)", tensor, offset,
           buffer.slot, abi::kMaxBoundOffset, abi::kMaxBoundSlots);
    }
    *binding++ = abi::PlaceBinding(buffer.slot, offset);
  }
  for (const Arg* arg : arguments_.scalars) {
    bindings_.push_back(arg->bound() == 0 ? arg->bits() : 0);
    if ((draft.task->flags & abi::kTaskPasses) != 0) bindings_.push_back(arg->bound());
  }
  CommitScratch(draft, graph.scratch_bytes);
  if (draft.task->producers == 0) roots_.push_back(draft.id);
  statistics_.edges += draft.task->producers;
  statistics_.tasks += 1;
}

/// The scratch of an instance is a created tensor that no other task names. Instances that follow
/// each other take it over; it is given back to the heap when another tensor asks that for bytes.
void Builder::CommitScratch(const Draft& draft, uint64_t bytes) {
  static_assert(HeapPlanner::kAlignment % abi::kScratchUnit == 0);
  if (scratch_.user != 0 && scratch_.bytes == bytes &&
      (Precedes(draft, scratch_.user) || PRECAST_PLANTED("heap.scratch-shared"))) {
    heap_.NoteReuse(bytes);
  } else {
    GiveScratchBack();
    uint32_t index = AddBuffer(BufferKind::created, 0, 0, bytes, false);
    Place(draft, index, regions_[index]);
    regions_[index].set(Buffer::kEnded);
    scratch_ = {index, draft.id, bytes};
  }
  scratch_.user = draft.id;
  regions_.Claim(scratch_.buffer, draft.id);  // its one user
  uint64_t place = regions_[scratch_.buffer].base / abi::kScratchUnit + 1;
  if (place > std::numeric_limits<uint32_t>::max()) {
    Fail(ErrorCode::out_of_memory, "the scratch of a graph at byte {} of the heap (below {})",
         regions_[scratch_.buffer].base, abi::kScratchUnit * std::numeric_limits<uint32_t>::max());
  }
  draft.task->consumer[abi::kInlineConsumers - 1] = static_cast<uint32_t>(place);
}

void Builder::GiveScratchBack() {
  if (scratch_.user == 0) return;
  scratch_.user = 0;
  heap_.Retire(scratch_.buffer);
}

// Queries.

abi::TaskId Builder::FindWriter(const Tensor& tensor) {
  Access access = AccessOf(tensor);
  return regions_.FindWriter(access.buffer, RegionOf(access));
}

abi::TaskId Builder::FindAccess(const Tensor& tensor) {
  Access access = AccessOf(tensor);
  return regions_.FindAccess(access.buffer, RegionOf(access));
}

bool Builder::Overlap(const Tensor& a, const Tensor& b) {
  return TensorAccess::Buffer(a) == TensorAccess::Buffer(b) &&
         regions_.Overlap(RegionOf(AccessOf(a)), RegionOf(AccessOf(b)));
}

void Builder::OpenWindow(uint32_t index, const char* bytes) {
  Buffer& buffer = regions_[index];
  if (buffer.is(Buffer::kModified)) return;
  buffer.set(Buffer::kHasWindow);
  if (index >= windows_.size()) windows_.resize(index + 1);
  windows_[index] = bytes;
}

void Builder::CloseWindows() { std::fill(windows_.begin(), windows_.end(), nullptr); }

}  // namespace precast::graph
