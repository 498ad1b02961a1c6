// Instance: what executing code needs to know of one image: where it lies, which addresses its
// slots have, and how device addresses become pointers. KernelContext points at one.
//
// The image of a run is one instance. A graph task makes another, of a definition, in its scratch:
// it writes the addresses of the slots, the scalars and the counters, nothing else. That instance
// is gone when its last task has ended: the bytes may then be another tensor's.
//
// Threads: immutable while its tasks execute, but for the counters and `sinks`; shared by all.
#pragma once

#include "abi/image.h"
#include "sched/kernel_table.h"

#include <precast/kernel.h>

#include <cstdint>
#include <functional>
#include <string>

namespace precast::sched {

/// Kernel-side view of device memory.
struct AddressSpace {
  int64_t distance = 0;  // pointer = address + distance
  /// The pointer for an address inside a live allocation, or null.
  std::function<void*(uint64_t address)> translate;
};

struct Instance {
  Instance(void* image_pointer, const KernelTable& table, const AddressSpace& space)
      : image(image_pointer),
        header(static_cast<const abi::Header*>(image_pointer)),
        layouts(abi::At<abi::Layout>(image_pointer, header->layouts)),
        slots(abi::At<abi::Slot>(image_pointer, header->slots)),
        kernels(&table),
        memory(&space) {}

  void* image;
  const abi::Header* header;
  const abi::Layout* layouts;
  const abi::Slot* slots;
  const KernelTable* kernels;
  const AddressSpace* memory;

  // Of an instance that a graph task made.
  const Instance* parent = nullptr;
  const abi::Task* maker = nullptr;   ///< the task of the parent
  const uint64_t* scalars = nullptr;  ///< that its tasks' scalars may be bound to
  uint32_t* counters = nullptr;       ///< unfinished producers by task number; null: in the records
  uint32_t number = 0;  ///< in a TaskRef: 1 + its place in the run's heap, in scratch units
  uint32_t sinks = 0;   ///< tasks without consumers that have not ended
  uint32_t serial = 0;  ///< in the trace; 0: the run

  char* Pointer(uint32_t slot, uint64_t offset) const {
    return reinterpret_cast<char*>(slots[slot].address + offset +
                                   static_cast<uint64_t>(memory->distance));
  }
  /// How messages name a task: "task 12 'softmax' (kernel softmax)", after the graph tasks around
  /// it.
  std::string Describe(const abi::Task* task) const;
  std::string_view TaskName(const abi::Task* task) const;

 private:
  std::string DescribeHere(const abi::Task* task) const;
};

static_assert(sizeof(Instance) <= abi::kInstanceBytes);

/// Makes the instance of a graph task, in its scratch. `counted`: with counters.
Instance* MakeInstance(const Instance& parent, const abi::Task* task, bool counted);

/// Kernel runs that one task consists of: its blocks, times its kernels when mixed.
uint64_t Items(const Instance& instance, const abi::Task* task);

/// Whether the task's condition holds, or it has none.
bool ShouldRun(const Instance& instance, const abi::Task* task);

/// Runs item `item` of a task on the calling thread. Items of a mixed task are ordered kernel by
/// kernel. Requires: the task has a kernel.
inline void RunItem(const Instance& instance, const abi::Task* task, uint64_t item) {
  uint32_t kernel = task->kernel;
  uint32_t block = static_cast<uint32_t>(item);
  uint32_t sub_block = 0;
  if ((task->flags & abi::kTaskMixed) != 0) [[unlikely]] {
    const abi::Mix& mix = abi::At<abi::Mix>(instance.image, instance.header->mixes)[task->kernel];
    uint64_t part = item / task->blocks;
    block = static_cast<uint32_t>(item % task->blocks);
    kernel = mix.kernel[part];
    sub_block = part == 2 ? 1 : 0;
  }
  (*instance.kernels)[kernel].function(
      KernelContext(&instance, task, block, task->blocks, sub_block));
}

}  // namespace precast::sched
