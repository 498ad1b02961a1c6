// Builder: appends tasks to an image and infers their order.
//
// Used by the run layer for every run (and for every recorded body: the two are the same thing).
// The image is written in place, in memory that the caller supplies and may move; everything inside
// it is an id or an offset. A submit allocates nothing once the tables have reached their size.
//
// Terms: a *buffer* is a piece of memory with a life of its own for the purpose of inference: one
// argument (or several that share memory), or one created tensor. A buffer lies in a *slot* at some
// offset; created tensors share slot 0, the graph heap, where the heap planner puts them.
//
// Invariants
//   B1  A call that throws for what was passed to it has changed nothing that a later call or the
//       image can see. One that ran out of memory while it changed tables ends the graph: every
//       later submit says so again.
//   B2  Edges go from smaller to larger task ids, so the graph has no cycle.
//   B3  Task::producers is the number of edges into the task; an edge exists once.
//
// Threads: one at a time.
#pragma once

#include "abi/image.h"
#include "base/planted_fault.h"
#include "base/tensor_access.h"
#include "graph/arguments.h"
#include "graph/buffer.h"
#include "graph/build_log.h"
#include "graph/heap_planner.h"
#include "graph/layout_table.h"
#include "graph/name_table.h"
#include "graph/region_map.h"

#include <precast/argument.h>
#include <precast/orchestrator.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace precast::graph {

/// Where the image is written. `grow` makes the capacity at least `bytes`, keeps the first `used`
/// bytes, and updates `data` and `capacity`; it throws when there is no memory.
struct ImageMemory {
  char* data = nullptr;
  uint64_t capacity = 0;
  std::function<void(ImageMemory& self, uint64_t bytes, uint64_t used)> grow;
};

/// What a task is, besides its arguments.
struct TaskSpec {
  uint32_t kernel = abi::kNoKernel;  ///< device index; ignored when `mix` is set
  const abi::Mix* mix = nullptr;
  uint32_t blocks = 1;
  std::string_view name = {};
  bool is_graph = false;  ///< for SubmitGraph
  uint32_t key = 0;       ///< of a graph: its name where `name` is empty, from InternName
  std::span<const abi::TaskId> after = {};
  const Tensor* predicate = nullptr;  ///< one element
  Compare compare = Compare::equal;
  int64_t constant = 0;

  bool has_extras() const {
    return mix != nullptr || !name.empty() || !after.empty() || predicate != nullptr;
  }
};

/// What the builder needs of a definition to submit an instance of it.
struct GraphSpec {
  uint32_t definition = 0;               ///< from AddDefinition
  uint64_t scratch_bytes = 0;            ///< of one instance
  std::span<const uint32_t> slot_begin;  ///< for each slot but the heap: the tensor it begins with
};

class Builder {
 public:
  using BufferKind = Buffer::Kind;

  struct Statistics {
    uint64_t tasks = 0, edges = 0, blocks = 0;
  };

  /// Starts an empty image. `serial` marks this run's tensors and tasks; `heap_budget` bounds the
  /// created tensors.
  void Begin(ImageMemory* memory, uint32_t serial, uint64_t heap_budget);

  // Slots and buffers. Slot 0 is the graph heap.

  uint32_t AddSlot();
  uint32_t AddBuffer(BufferKind kind, uint32_t slot, uint64_t base, uint64_t bytes,
                     bool empty_at_start);
  const Buffer& buffer(uint32_t index) const { return regions_[index]; }
  /// The host has given the buffer values before any task does.
  void SetFilled(uint32_t index) { regions_[index].clear(Buffer::kHasGaps); }
  /// So many bytes of the buffer are no tensor's: it has no gaps when the others are written.
  void SetUnused(uint32_t index, uint64_t bytes) {
    regions_.AddRare(regions_[index]).unused_bytes = bytes;
  }
  size_t slots() const { return slots_; }

  /// A tensor of this run: `like`'s view, element 0 at byte `offset` of a buffer. Writing it is an
  /// error when `read_only`.
  Tensor MakeTensor(const Tensor& like, uint32_t buffer, uint64_t offset, bool read_only) const;
  Tensor Alloc(const Shape& shape, DType dtype);

  uint32_t OpenScope();  ///< its depth, from 1
  /// Ends the innermost scope; false when that is not the one of this depth.
  bool CloseScope(uint32_t depth);

  /// Turns tensors that are not this run's into such (device tensors); throws for all others.
  using Import = std::function<Tensor(const Tensor&)>;
  void set_import(Import import) { import_ = std::move(import); }
  /// What is built, in messages: "run" or "graph". Requires: a literal.
  void set_subject(const char* subject) { subject_ = subject; }
  const char* subject() const { return subject_; }
  /// How messages name a task's kernel; called only on failure.
  using KernelName = std::function<std::string(const TaskSpec&)>;
  void set_kernel_name(KernelName name) { kernel_name_ = std::move(name); }

  /// Notes in `log` what the image will not keep, from the next Begin on; null: no longer.
  void set_log(BuildLog* log) { log_ = log; }

  /// Appends a task; gives its id. Throws as Orchestrator::submit does.
  abi::TaskId Submit(const TaskSpec& task, ArgList args);

  /// A definition that graph tasks of this image name; its address is needed for Seal only.
  uint32_t AddDefinition(uint64_t hash);
  void SetDefinitionAddress(uint32_t definition, uint64_t address) {
    definitions_[definition].address = address;
  }
  /// Checks the arguments of a graph task; `task` gives its name and predicate. Valid until the
  /// next call that takes arguments. The first gives null, and has changed nothing, when one of
  /// them needs a closer look: it is not a tensor of this run, has no layout yet, or is refused.
  const Arguments* LookAtGraph(const TaskSpec& task, ArgList args);
  const Arguments& PrepareGraph(const TaskSpec& task, ArgList args);
  /// Appends a task that instantiates a definition, with the arguments last looked at or prepared.
  /// `task` gives name, `after` and predicate; the tensors may overlap, the definition knows how.
  abi::TaskId SubmitGraph(const TaskSpec& task, const GraphSpec& graph);
  abi::TaskId SubmitGraph(const TaskSpec& task, const GraphSpec& graph, ArgList args) {
    PrepareGraph(task, args);
    return SubmitGraph(task, graph);
  }
  /// The number of a name, for TaskSpec::key.
  uint32_t InternName(std::string_view name) { return names_.Intern(name); }
  const LayoutTable& layouts() const { return layouts_; }

  /// Whether `tensor` is a live tensor of this run.
  bool IsUsable(const Tensor& tensor) const;
  /// Throws when it is not. `use` says what for, in messages.
  const Buffer& Check(const Tensor& tensor, std::string_view use) const;
  /// Whether two tensors of this run may share a byte.
  bool Overlap(const Tensor& a, const Tensor& b);
  /// Interns the layout of a tensor of this run, so that its copies bring it along.
  void Intern(const Tensor& tensor) { LayoutOf(tensor); }
  /// Some submitted task that writes (touches) what the tensor covers; 0: none.
  abi::TaskId FindWriter(const Tensor& tensor);
  abi::TaskId FindAccess(const Tensor& tensor);
  /// "task 12 'softmax'"
  std::string Describe(abi::TaskId id) const;
  /// The same for the next task, if it is this one.
  std::string Prefix(const TaskSpec& task) const;
  bool IsTask(abi::TaskId id) const;

  /// Writes the sections behind the tasks and the header; gives the image's bytes. `slots` has an
  /// entry per slot.
  uint64_t Seal(std::span<const abi::Slot> slots);
  /// The same for a definition whose instances take `scalars` scalars.
  uint64_t SealDefinition(std::span<const abi::Slot> slots, uint32_t scalars);
  /// Bytes that Seal will need at most, to size the device's memory before.
  uint64_t SealedBytes() const;

  /// Where the host may read buffers without asking (ReadWindows), by buffer. A task that may write
  /// one closes its window.
  const std::vector<const char*>& windows() const { return windows_; }
  void OpenWindow(uint32_t buffer, const char* bytes);
  void CloseWindows();

  const Statistics& statistics() const { return statistics_; }
  const HeapPlanner& heap() const { return heap_; }
  uint64_t heap_edges() const { return heap_edges_; }
  uint32_t serial() const { return serial_; }
  static bool IsReadOnly(const Tensor& tensor);

 private:
  abi::TaskId next_id() const { return static_cast<abi::TaskId>(used_ / abi::kUnit); }
  abi::Task* At(abi::TaskId id) { return abi::TaskAt(memory_->data, id); }
  uint32_t LayoutOf(const Tensor& tensor);
  Access AccessOf(const Tensor& tensor, Direction direction = Direction::in);
  Region RegionOf(const Access& access) const;

  static constexpr size_t kMaxArguments = std::numeric_limits<uint16_t>::max();

  /// The task under construction. The image does not move before the task is complete.
  struct Draft {
    const TaskSpec& spec;
    char* image;
    abi::TaskId id;
    abi::Task* task;
    Access* accesses;
    size_t tensors;
  };

  // Submit, in this order. The first three check and change nothing.
  template <bool kExtras>
  abi::TaskId SubmitTask(const TaskSpec& spec, ArgList args);
  template <bool kTry, bool kMaySkip>
  bool Prepare(const TaskSpec& spec, ArgList args);
  Draft DraftOf(const TaskSpec& spec);
  Access PreparePredicate(const TaskSpec& spec);
  void CheckOverlaps(const TaskSpec& spec);
  static uint16_t Mark(abi::TaskId id) { return static_cast<uint16_t>(id); }
  template <bool kExtras>
  void Commit(const Draft& draft, const Access* predicate);
  void CommitExtras(const Draft& draft, const Access* predicate);
  void CommitGraph(const Draft& draft, const GraphSpec& graph, const Access* predicate);
  void CommitScratch(const Draft& draft, uint64_t bytes);
  void GiveScratchBack();
  uint64_t Seal(abi::Header header, std::span<const abi::Slot> slots,
                std::span<const uint32_t> counters);
  void CommitUnplaced(const Draft& draft);
  void Place(const Draft& draft, uint32_t index, Buffer& buffer);
  void PlaceAgain(const Draft& draft, uint32_t buffer);
  static void PutArgument(abi::Argument* argument, const Access& access, const Buffer& buffer);
  /// Makes the edges of a draft that the region map finds.
  struct Edges {
    Builder& builder;
    const Draft& draft;
    bool met = false;  // any
    void operator()(abi::TaskId producer) {
      met = true;
      builder.AddEdge(draft, producer);
    }
  };
  bool InferUsual(const Draft& draft, const Access& access, Buffer& buffer, uint32_t* producers);
  void Infer(Edges& edges, const Access& access, Buffer& buffer);
  void InferUnordered(const Draft& draft, const Access& access, Buffer& buffer);
  void NoteWrite(const Draft& draft, const Access& access, Buffer& buffer, bool met);
  void NoteModified(uint32_t index, Buffer& buffer) {
    buffer.set(Buffer::kModified);
    if (buffer.is(Buffer::kHasWindow) && !PRECAST_PLANTED("host.window-kept")) [[unlikely]]
      windows_[index] = nullptr;
  }
  void AddEdge(const Draft& draft, abi::TaskId producer);
  void AddEdge(const Draft& draft, abi::TaskId producer, uint32_t* producers);
  void AddLaterEdge(const Draft& draft, abi::Task* producer);
  abi::TaskId NewestConsumer(const abi::Task& task) const;
  bool Precedes(const Draft& draft, abi::TaskId task) const;

  // The rest of the checks and the log, off the usual path (builder_checks.cc).
  void Log(const Draft& draft, const Access* predicate);
  void LogBuffers();
  void GrowFor(const TaskSpec& task, size_t arguments, uint64_t end);
  void PrepareSlowly(const TaskSpec& task, const Arg& arg, size_t i, Access* access);
  [[noreturn]] void Break(const TaskSpec& task);
  [[noreturn]] void FailScalar(const TaskSpec& task, const Arg& arg) const;
  void CheckPair(const TaskSpec& task, uint32_t i, uint32_t j);
  void CheckManyOverlaps(const TaskSpec& task);
  std::string What(const TaskSpec& task, size_t argument, const Tensor& tensor) const;

  ImageMemory* memory_ = nullptr;
  uint64_t used_ = 0;  // header and task blocks
  uint32_t serial_ = 0;
  size_t slots_ = 1;
  Statistics statistics_;
  uint64_t heap_edges_ = 0;

  std::vector<const char*> windows_;
  std::vector<uint32_t> scopes_;  // first buffer of each open scope
  LayoutTable layouts_;
  RegionMap regions_;
  HeapPlanner heap_;
  NameTable names_;
  std::vector<abi::ConsumerChunk> chunks_;
  std::vector<abi::Predicate> predicates_;
  std::vector<abi::Mix> mixes_;
  std::vector<abi::TaskId> roots_;
  std::vector<abi::Binding> bindings_;
  std::vector<abi::Definition> definitions_;
  std::optional<Error> broken_;  // what ran out while a task was being committed

  Arguments arguments_;  // of the task under construction
  std::vector<Access> access_memory_;
  std::vector<const Arg*> scalar_memory_;
  std::vector<uint32_t> order_;  // of the accesses, for CheckManyOverlaps
  // Where the scratch of the newest graph tasks is, while it is not given back: the next one with
  // as much may take it over.
  struct Scratch {
    uint32_t buffer = 0;
    abi::TaskId user = 0;  // 0: there is none
    uint64_t bytes = 0;
  } scratch_;

  BuildLog* log_ = nullptr;
  Import import_;
  KernelName kernel_name_;
  const char* subject_ = "run";
};

inline uint32_t Builder::LayoutOf(const Tensor& tensor) {
  uint32_t layout = detail::TensorAccess::Layout(tensor);
  if (layout == 0) {
    layout = layouts_.Intern(tensor);
    detail::TensorAccess::SetLayout(tensor, layout);
  }
  return layout;
}

inline bool Builder::IsUsable(const Tensor& tensor) const {
  return tensor.kind() == Tensor::Kind::run &&
         detail::TensorAccess::Generation(tensor) == serial_ &&
         !regions_[detail::TensorAccess::Buffer(tensor)].is(Buffer::kEnded);
}

inline Access Builder::AccessOf(const Tensor& tensor, Direction direction) {
  return {detail::TensorAccess::Offset(tensor),
          detail::TensorAccess::Buffer(tensor),
          LayoutOf(tensor),
          direction,
          direction,
          false,
          false};
}

inline Region Builder::RegionOf(const Access& access) const {
  return {access.begin, access.layout, &layouts_[access.layout]};
}

}  // namespace precast::graph
