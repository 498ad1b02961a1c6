// SimMemory: the memory of one simulated device.
//
// Used by SimDriver, and through it by the executor. It is one sparse memory file, mapped
//   - without access rights: these are the device addresses, so the host faults on them;
//   - at a constant distance from there: that is what copies and kernels use;
//   - once more for each host view, so that a dropped view faults.
// A unified device has only the second mapping: distance 0, and a view is the address itself.
//
// Invariants:
//   1. A host view covers the whole pages of exactly one allocation.
//   2. An allocation is not freed while it has a view.
//   3. Bytes of memory that was never written, or was freed, are backed by no physical memory.
//
// Threads: every call may be made from any thread. A pointer into an allocation is good until its
// Free; keeping the two apart is the caller's part.
#pragma once

#include "platforms/sim/page_allocator.h"

#include <cstdint>
#include <map>
#include <shared_mutex>

namespace precast::sim {

class SimMemory {
 public:
  /// Throws `Error{io}` when the operating system refuses the file or a mapping.
  SimMemory(uint64_t bytes, bool unified);
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  /// A device address, aligned to 4 KiB, from 2 MiB on to 2 MiB. Throws `Error{invalid_argument}`
  /// for 0 bytes, `Error{out_of_memory}` with bytes asked, in use and available.
  uint64_t Allocate(uint64_t bytes);
  /// Throws `Error{invalid_argument}` unless `address` is what Allocate returned, live, and without
  /// a host view. Gives the physical memory back.
  void Free(uint64_t address);

  /// What kernels add to a device address to reach its bytes.
  int64_t Distance() const { return distance_; }
  /// Where kernels find the byte at a device address; null unless it is in a live allocation.
  void* Translate(uint64_t address) const;
  /// The same for a range. Throws `Error{invalid_argument}` with the numbers, named after `call`,
  /// unless it is not empty and lies inside one live allocation.
  char* Locate(const char* call, uint64_t address, uint64_t bytes) const;

  /// Maps a whole live allocation of `bytes` into the host. Throws `Error{invalid_argument}` for
  /// anything else or a second view, `Error{io}` when the operating system refuses.
  void* MapView(uint64_t address, uint64_t bytes);
  /// Gives the bytes it covered. Throws `Error{invalid_argument}` unless `view` is the allocation's
  /// view.
  uint64_t UnmapView(uint64_t address, void* view);

  /// Drops all views, then frees all allocations.
  void Clear();

  uint64_t size() const { return pages_.size(); }
  uint64_t InUse() const;      ///< bytes allocated, in whole pages
  uint64_t Committed() const;  ///< bytes backed by physical memory
  uint64_t Allocations() const;
  uint64_t Views() const;

 private:
  struct Allocation {
    uint64_t bytes = 0;  // as asked
    void* view = nullptr;
  };
  using Table = std::map<uint64_t, Allocation>;  // by device address

  void Open();
  void Close();
  uint64_t Offset(uint64_t address) const { return address - base_; }
  /// Gives the physical memory of an allocation back.
  void Discard(uint64_t address, uint64_t bytes);

  // With the mutex held.
  /// The allocation that holds `address`, or end.
  Table::const_iterator Find(uint64_t address) const;
  /// The allocation that starts at `address`. Throws, named after `call`.
  Table::iterator Base(const char* call, uint64_t address);
  void DropView(Table::iterator allocation);

  const bool unified_;
  int file_ = -1;
  uint64_t base_ = 0;  // device address of offset 0, aligned to a granule
  int64_t distance_ = 0;

  mutable std::shared_mutex mutex_;  // guards what follows
  PageAllocator pages_;
  Table live_;
  uint64_t views_ = 0;
};

}  // namespace precast::sim
