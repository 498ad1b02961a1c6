// The image: the bytes of one run (or of one recorded definition) as they travel to the device.
//
//   Header | task blocks … | sections: layouts, consumer chunks, predicates, mixes, names, roots,
//   bindings, definitions, counters, slots
//
// A task block is a Task record followed by its tensor arguments, then its scalar arguments, padded
// to 64 bytes. A *task id* is the position of a block, counted in 64-byte units from the start of
// the image; ids grow in submission order, and 0 (the header) means "none". All references inside
// an image are ids, indices or offsets, so an image may be moved at any time. docs/image-format.md
// describes the format in prose.
//
// This directory holds byte layouts only. It compiles with g++ and nvcc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace precast::abi {

inline constexpr uint32_t kMagic = 0x54534350;  // "PCST", little-endian
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kUnit = 64;  // bytes; granularity of task ids
inline constexpr uint32_t kMaxRank = 5;

/// Names a task by the position of its block in the image, in units of 64 bytes.
using TaskId = uint32_t;

/// Where a section lies: `offset` bytes from the start of the image, `count` records.
struct Section {
  uint64_t offset;
  uint64_t count;
};
static_assert(sizeof(Section) == 16);

struct Header {
  uint32_t magic;
  uint32_t version;
  uint64_t total_bytes;
  uint64_t content_hash;  // XXH3 of a definition, with 0 here and in Definition::address;
                          // 0 in the image of a run
  uint64_t tasks;         // number of tasks
  uint64_t edges;
  uint64_t blocks;      // of all tasks but graph tasks, kernels of a mixed task counted apart
  uint64_t task_bytes;  // of all task blocks; the first stands right behind the header
  uint32_t sinks;       // number of tasks without consumers; 0 in the image of a run
  uint32_t scalars;     // that an instance of this definition takes; 0 in the image of a run
  Section layouts;      // Layout
  Section chunks;       // ConsumerChunk
  Section predicates;   // Predicate
  Section mixes;        // Mix
  Section names;        // Name
  Section name_bytes;   // char
  Section roots;        // TaskId: tasks without producers, in order of submission
  Section slots;        // Slot
  Section bindings;     // Binding: what graph tasks pass to their definitions
  Section definitions;  // Definition: those that graph tasks name
  Section counters;     // uint32_t: Task::producers in order of submission; in definitions only
  uint64_t heap_bytes;  // of slot 0 of an instance; 0 in the image of a run
  uint64_t reserved;
};
static_assert(sizeof(Header) == 256);
static_assert(offsetof(Header, layouts) == 64);
static_assert(offsetof(Header, heap_bytes) == 240);

inline constexpr uint32_t kInlineConsumers = 6;
inline constexpr uint32_t kNoKernel = 0xffffffff;  // Task::kernel of a dependency-only task

enum TaskFlags : uint8_t {
  kTaskMixed = 1,   // Task::kernel indexes the mixes section
  kTaskGraph = 2,   // the task makes an instance of a definition; see below
  kTaskPasses = 4,  // a graph task some of whose scalars are those of the instance it stands in
};

// In a graph task, Task::kernel indexes the definitions section and Task::blocks is its first
// binding: one for each slot of the definition but the heap, Task::tensors in number, then
// Task::scalars values (each followed by a second word with kTaskPasses: 1 + the number of the
// scalar that is passed on, or 0). It has one inline consumer less: the last one holds the place of
// its scratch in slot 0, in units of kScratchUnit, plus 1.

/// One submitted kernel call.
struct Task {
  uint32_t number;     // position in submission order, from 0
  uint32_t kernel;     // index of the kernel, of the mix or of the definition, or kNoKernel
  uint32_t blocks;     // how often the kernel runs; at least 1
  uint16_t tensors;    // Argument records behind this one
  uint16_t scalars;    // Scalar records behind those
  uint32_t producers;  // unfinished tasks that this one waits for; in definitions: of all
  uint32_t consumers;  // tasks that wait for this one
  uint32_t chunk;      // newest chunk of consumers beyond the inline ones: index + 1
  uint32_t consumer[kInlineConsumers];
  uint32_t name;       // index + 1 into names; 0: the kernel's name
  uint32_t predicate;  // index + 1 into predicates
  uint16_t units;      // size of this block in units of 64 bytes
  uint8_t flags;       // TaskFlags
  uint8_t reserved;
};
static_assert(sizeof(Task) == 64);
static_assert(offsetof(Task, producers) == 16);
static_assert(offsetof(Task, consumer) == 28);
static_assert(offsetof(Task, units) == 60);

/// A tensor argument. `direction` holds a precast::Direction.
struct Argument {
  uint32_t slot;
  uint32_t layout : 28;
  uint32_t direction : 4;
  uint64_t offset;  // bytes from the start of the slot to element 0
};
static_assert(sizeof(Argument) == 16);
inline constexpr uint32_t kMaxLayouts = 1u << 28;

/// A scalar argument.
struct Scalar {
  uint64_t bits;   // the value's bytes, zero-extended
  uint32_t dtype;  // precast::DType
  uint32_t bound;  // 1 + the scalar of the instance that is the value; 0: `bits` is
};
static_assert(sizeof(Scalar) == 16);

/// Shape and strides, shared by all arguments that have them.
struct Layout {
  uint32_t shape[kMaxRank];    // elements
  uint32_t strides[kMaxRank];  // elements; 0 beyond the rank
  uint8_t dtype;               // precast::DType
  uint8_t rank;
  uint8_t contiguous;  // 1: row-major without gaps
  uint8_t element_bytes;
  uint32_t reserved;
  uint64_t elements;
  uint64_t extent;  // bytes from element 0 to one past the last element
};
static_assert(sizeof(Layout) == 64);
static_assert(offsetof(Layout, elements) == 48);

/// Consumers beyond the inline ones. Chunks are linked from the newest to the oldest; all but the
/// newest are full.
inline constexpr uint32_t kChunkConsumers = 15;
struct ConsumerChunk {
  uint32_t consumer[kChunkConsumers];
  uint32_t older;  // index + 1
};
static_assert(sizeof(ConsumerChunk) == 64);

/// The condition under which a task runs.
struct Predicate {
  uint32_t slot;
  uint8_t dtype;    // integer or bool
  uint8_t compare;  // precast::Compare
  uint16_t reserved;
  uint64_t offset;
  int64_t constant;
};
static_assert(sizeof(Predicate) == 24);

/// The kernels of a mixed task: one cube kernel and one or two vector kernels.
struct Mix {
  uint32_t kernel[3];
  uint32_t kernels;  // 2 or 3
};
static_assert(sizeof(Mix) == 16);

/// A task's name: a range of name_bytes.
struct Name {
  uint32_t offset;
  uint32_t bytes;
};
static_assert(sizeof(Name) == 8);

/// The device memory that a slot number stands for.
struct Slot {
  uint64_t address;
  uint64_t bytes;
};
static_assert(sizeof(Slot) == 16);

/// What a graph task passes to its definition: the bits of a scalar, or a place in a slot.
using Binding = uint64_t;
inline constexpr uint64_t kBoundOffsetBits = 40;
inline constexpr uint64_t kMaxBoundSlots = uint64_t{1} << (64 - kBoundOffsetBits);
inline constexpr uint64_t kMaxBoundOffset = (uint64_t{1} << kBoundOffsetBits) - 1;
inline constexpr Binding PlaceBinding(uint64_t slot, uint64_t offset) {
  return slot << kBoundOffsetBits | offset;
}
inline constexpr uint64_t SlotOf(Binding place) { return place >> kBoundOffsetBits; }
inline constexpr uint64_t OffsetOf(Binding place) { return place & kMaxBoundOffset; }

/// A definition: an image on the device. Its slots say how many bytes each needs.
struct Definition {
  uint64_t address;  // of its header
  uint64_t hash;     // its Header::content_hash
};
static_assert(sizeof(Definition) == 16);

// The scratch of an instance: its sched::Instance, its slots, its scalars (8 bytes each), its
// counters (4 each); then, at the next multiple of kScratchUnit, its heap.
inline constexpr uint64_t kScratchUnit = 256;
inline constexpr uint64_t kInstanceBytes = 128;
/// Bytes before the heap.
inline constexpr uint64_t ScratchHeapOffset(uint64_t slots, uint64_t scalars, uint64_t tasks) {
  uint64_t bytes = kInstanceBytes + slots * sizeof(Slot) + scalars * 8 + tasks * 4;
  return (bytes + kScratchUnit - 1) / kScratchUnit * kScratchUnit;
}

/// How many of a task's consumers stand in its record.
inline uint32_t InlineConsumers(const Task& task) {
  return (task.flags & kTaskGraph) != 0 ? kInlineConsumers - 1 : kInlineConsumers;
}

// Accessors. `image` is the address of the header.

template <typename Record>
inline Record* At(void* image, Section section) {
  return reinterpret_cast<Record*>(static_cast<char*>(image) + section.offset);
}
template <typename Record>
inline const Record* At(const void* image, Section section) {
  return reinterpret_cast<const Record*>(static_cast<const char*>(image) + section.offset);
}
inline Task* TaskAt(void* image, TaskId id) {
  return reinterpret_cast<Task*>(static_cast<char*>(image) + static_cast<uint64_t>(id) * kUnit);
}
inline const Task* TaskAt(const void* image, TaskId id) {
  return reinterpret_cast<const Task*>(static_cast<const char*>(image) +
                                       static_cast<uint64_t>(id) * kUnit);
}
inline constexpr TaskId kFirstTask = sizeof(Header) / kUnit;
inline const Argument* Arguments(const Task* task) {
  return reinterpret_cast<const Argument*>(task + 1);
}
inline const Scalar* Scalars(const Task* task) {
  return reinterpret_cast<const Scalar*>(Arguments(task) + task->tensors);
}
/// One past the last task id.
inline TaskId EndTask(const Header* header) {
  return kFirstTask + static_cast<TaskId>(header->task_bytes / kUnit);
}

}  // namespace precast::abi
