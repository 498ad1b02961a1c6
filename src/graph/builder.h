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
//       image can see. One that ran out of memory ends the graph: every later submit says so again.
//   B2  Edges go from smaller to larger task ids, so the graph has no cycle.
//   B3  Task::producers is the number of edges into the task; an edge exists once.
//
// Threads: one at a time.
#pragma once

#include "abi/image.h"
#include "graph/heap_planner.h"
#include "graph/layout_table.h"
#include "graph/name_table.h"
#include "graph/region_map.h"

#include <precast/argument.h>
#include <precast/orchestrator.h>

#include <cstdint>
#include <functional>
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
  std::span<const abi::TaskId> after = {};
  const Tensor* predicate = nullptr;  ///< one element
  Compare compare = Compare::equal;
  int64_t constant = 0;
};

class Builder {
 public:
  enum class BufferKind : uint8_t { host, device, created };

  struct Buffer {
    uint64_t base = 0;  // where it begins in its slot
    uint64_t bytes = 0;
    uint32_t slot = 0;
    BufferKind kind = BufferKind::host;
    bool empty_at_start = false;   // holds no value until a task writes it
    bool written_whole = false;    // some task has written all of it
    bool keeps_old_bytes = false;  // what tasks leave unwritten shows what was there before
    bool modified = false;         // some task may write some of it
    bool placed = true;            // created: has a place in the heap
    bool ended = false;            // created: its scope has ended
    uint32_t layout = 0;           // created: of the whole tensor
    uint64_t written_bytes = 0;    // by writes that met no earlier access
  };

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
  const Buffer& buffer(uint32_t index) const { return buffers_[index]; }
  /// The host has given the buffer values before any task does.
  void SetFilled(uint32_t index) { buffers_[index].empty_at_start = false; }
  size_t buffers() const { return buffers_.size(); }
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
  /// How messages name a task's kernel; called only on failure.
  using KernelName = std::function<std::string(const TaskSpec&)>;
  void set_kernel_name(KernelName name) { kernel_name_ = std::move(name); }

  /// Appends a task; gives its id. Throws as Orchestrator::submit does.
  abi::TaskId Submit(const TaskSpec& task, ArgList args);

  /// Throws when `tensor` is not a live tensor of this run. `use` says what for, in messages.
  const Buffer& Check(const Tensor& tensor, std::string_view use) const;
  /// Interns the layout of a tensor of this run, so that its copies bring it along.
  void Intern(const Tensor& tensor) { LayoutOf(tensor); }
  /// Some submitted task that writes (touches) what the tensor covers; 0: none.
  abi::TaskId FindWriter(const Tensor& tensor) { return FindWriter(AccessOf(tensor)); }
  abi::TaskId FindAccess(const Tensor& tensor);
  /// "task 12 'softmax'"
  std::string Describe(abi::TaskId id) const;
  bool IsTask(abi::TaskId id) const;

  /// Writes the sections behind the tasks and the header; gives the image's bytes. `slots` has an
  /// entry per slot.
  uint64_t Seal(std::span<const abi::Slot> slots);
  /// Bytes that Seal will need at most, to size the device's memory before.
  uint64_t SealedBytes() const;

  /// Where the host may read buffers without asking (ReadWindows), by buffer; a task that may write
  /// one clears its entry.
  std::vector<const char*>& windows() { return windows_; }

  const Statistics& statistics() const { return statistics_; }
  const HeapPlanner& heap() const { return heap_; }
  uint64_t heap_edges() const { return heap_edges_; }
  uint32_t serial() const { return serial_; }
  static bool IsReadOnly(const Tensor& tensor);

 private:
  struct Access {  // a tensor argument of the task under construction
    uint64_t begin;
    uint32_t buffer;
    uint32_t layout;
    Direction direction;
  };

  abi::TaskId next_id() const { return static_cast<abi::TaskId>(used_ / abi::kUnit); }
  abi::Task* At(abi::TaskId id) { return abi::TaskAt(memory_->data, id); }
  uint32_t LayoutOf(const Tensor& tensor);
  Access Prepare(const TaskSpec& task, const Arg& arg, size_t i);
  void CheckOverlaps(const TaskSpec& task);
  void CheckPair(const TaskSpec& task, uint32_t i, uint32_t j);
  Access PreparePredicate(const TaskSpec& task);
  void CheckReadable(const TaskSpec& task, const Access& access, size_t i, const Tensor& tensor);
  void Commit(const TaskSpec& task, size_t scalars, abi::TaskId id, const Access& predicate);
  void Place(uint32_t buffer, abi::TaskId id);
  bool IsConsumer(abi::TaskId producer, abi::TaskId consumer);
  void AddEdge(abi::TaskId producer, abi::TaskId consumer);
  void Infer(const Access& access, abi::TaskId id);
  Access AccessOf(const Tensor& tensor);
  Region RegionOf(const Access& access) const;
  abi::TaskId FindWriter(const Access& access) const;
  std::string Prefix(const TaskSpec& task) const;
  std::string What(const TaskSpec& task, size_t argument, const Tensor& tensor) const;

  ImageMemory* memory_ = nullptr;
  uint64_t used_ = 0;  // header and task blocks
  uint32_t serial_ = 0;
  size_t slots_ = 1;
  Statistics statistics_;
  uint64_t heap_edges_ = 0;

  std::vector<Buffer> buffers_;
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
  std::optional<Error> broken_;  // what ran out while a task was being committed

  std::vector<Access> accesses_;  // of the task under construction, arguments in order
  std::vector<uint32_t> order_;   // of accesses_, for CheckOverlaps

  Import import_;
  KernelName kernel_name_;
};

}  // namespace precast::graph
