// DeviceMemory: the tracker that owns every child allocation of one worker, and its host view.
//
// Used by the worker for malloc, free and copies, by a bind to claim the device tensors among its
// arguments, and by get/set_tensor_data for host views. A device Tensor carries the worker's mark,
// an index into the table kept here, the generation of that entry, and a byte offset; so to check
// one is an index and a compare, without a lock. The rejected alternative, looking its address up
// in an ordered map, costs a lock and log n cache misses for every argument.
//
// Invariants:
//   1. An entry is live while its generation is odd. Free and reuse each add one; an index whose
//      generation would come round to its first value is never used again.
//   2. An allocation with pins is not freed; pins are taken only while it is live.
//   3. An allocation has at most one host view, of all its bytes; the view is dropped before the
//      allocation is freed, and a refusal is remembered as long as the allocation lives.
//   4. At shutdown views go first, then (by the worker) pinned memory, then allocations, then the
//      device is reset: DropViews, PinnedArena::Release, FreeAll, Driver::Reset.
//
//   5. Mapped bytes stay within the budget: a view that no bind uses is dropped for a new one, the
//      least recently used first; one in use never is.
//
// Threads: every call may be made from any thread. Claim, Release and the tickets take no lock.
#pragma once

#include "base/log.h"
#include "device/driver.h"

#include <precast/tensor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace precast::device {

/// A pinned allocation.
struct Claimed {
  uint32_t index = 0;   ///< for Release and the calls below
  Address address = 0;  ///< of the allocation's first byte; the tensor's offset is not in it
  uint64_t bytes = 0;   ///< of the allocation, as asked for
};

/// What a bind gets that asks for a host view.
struct HostView {
  enum class Is : uint8_t {
    established,
    reused,
    refused,      // by the platform, now
    unavailable,  // refused before
    over_budget,  // larger than the budget, or than what is left beside the views in use
  };
  void* data = nullptr;  // the allocation's first byte; null: access it with copies
  Is is = Is::unavailable;
  uint32_t dropped = 0;  // views dropped for it
};

class DeviceMemory {
 public:
  /// Requires: driver and log outlive this; the log may be null.
  explicit DeviceMemory(Driver* driver, uint64_t view_budget = uint64_t{1} << 30,
                        const Log* log = nullptr);
  /// DropViews, then FreeAll.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Allocations.

  /// A new allocation; its bytes are undefined. Passes on what the driver throws.
  Tensor Malloc(const Shape& shape, DType dtype);

  /// Frees the allocation that `tensor` is the whole of. Throws
  ///   `mismatch`          not a device tensor, or another worker's
  ///   `stale`             already freed
  ///   `invalid_argument`  a view of a part, or pinned by a run in flight
  /// and then nothing has changed. What the driver throws is passed on after the handle has died.
  void Free(const Tensor& tensor);

  /// The allocation at a device address, as a row-major tensor: the one way in for raw addresses.
  /// Throws `Error{out_of_range}` when the tensor would pass the allocation's end,
  /// `Error{invalid_argument}` when no live allocation holds `address` or elements would be
  /// misaligned.
  Tensor TensorAt(Address address, const Shape& shape, DType dtype) const;

  /// The device address of a tensor's first element. Throws like Claim.
  Address Of(const Tensor& tensor) const;

  // Claims.

  /// Checks that `tensor` is a live one of this worker, and keeps its allocation from being freed
  /// until Release. Throws `mismatch` or `stale` as Free does.
  Claimed Claim(const Tensor& tensor);
  /// Requires: `index` from a Claim that has not been released.
  void Release(uint32_t index);

  // Which runs use an allocation. Requires: claimed by the caller. 0 is no ticket.

  /// The run launched as `ticket` uses the allocation.
  void MarkUse(uint32_t index, Ticket ticket, bool writes);
  /// The latest run that writes it: what a read has to wait for.
  Ticket LastWrite(uint32_t index) const;
  /// The latest run that touches it: what a write has to wait for.
  Ticket LastUse(uint32_t index) const;

  /// Changes after each MarkUse that writes: while it stays the same, LastWrite does.
  const std::atomic<uint64_t>& write_epoch() const { return write_epoch_; }

  // Host views.

  /// The allocation's host view, mapped if it is not yet; it stays at least until ReleaseView.
  /// Requires: claimed by the caller. Passes on what the driver throws; a later call tries again.
  HostView AcquireView(uint32_t index);
  /// Ends one use of a view, and drops the view if it was the last and `drop` says so; true when
  /// that happened. Requires: AcquireView gave `data`. Passes on what the driver throws; the view
  /// is gone then.
  bool ReleaseView(uint32_t index, bool drop);

  // Shutdown. Both try everything and return the first failure; neither throws.

  /// Requires: no run in flight, no view in use.
  std::optional<Error> DropViews() noexcept;
  /// Requires: no run in flight. All handles are stale afterwards.
  std::optional<Error> FreeAll() noexcept;

  struct Usage {
    uint64_t allocations = 0;
    uint64_t bytes = 0;
    uint64_t views = 0;
    uint64_t mapped_bytes = 0;
  };
  Usage usage() const;
  uint64_t view_budget() const { return view_budget_; }

  /// The mark in this worker's tensors: random, never 0.
  uint16_t owner() const { return owner_; }

 private:
  // One allocation, a cache line of its own. `state` is the generation (upper half) and the number
  // of pins (lower half). Fields that are not atomic change only while the generation is even,
  // under the mutex; the release store that makes it odd pairs with the acquire in Claim.
  struct alignas(64) Entry {
    std::atomic<uint64_t> state{0};
    Address address = 0;
    uint64_t bytes = 0;
    std::atomic<Ticket> last_write{0};
    std::atomic<Ticket> last_use{0};
    // Under the mutex, as long as the entry is live.
    uintptr_t view = 0;       // kUnknown, kRefused, or the host address
    uint64_t view_stamp = 0;  // greater: used more recently
    uint32_t view_users = 0;
  };
  static_assert(sizeof(Entry) == 64);

  static constexpr uintptr_t kUnknown = 0;
  static constexpr uintptr_t kRefused = 1;
  // Chunk k holds 64 << k entries, so that entries never move and 26 chunks hold 2^32 of them.
  static constexpr int kFirstChunkBits = 6;
  static constexpr int kChunks = 26;

  static constexpr uint64_t State(uint32_t generation) { return uint64_t{generation} << 32; }
  static constexpr uint32_t Generation(uint64_t state) {
    return static_cast<uint32_t>(state >> 32);
  }

  /// Null when the index was never used.
  Entry* Find(uint32_t index) const;
  /// The entry of a tensor of this worker, live or not. Throws.
  Entry& EntryOf(const Tensor& tensor) const;
  [[noreturn]] void FailForeign(const Tensor& tensor) const;
  [[noreturn]] void FailStale(const Tensor& tensor) const;

  // With the mutex held.
  /// An index to use next; it stays free until the caller takes it.
  uint32_t NextIndex();
  void DropView(Entry& entry, std::optional<Error>* failure) noexcept;
  /// Drops unused views until `bytes` more fit the budget, counting them; false when they can't.
  bool MakeRoom(uint64_t bytes, uint32_t* dropped);
  void NoteMapped(const char* what, const Entry& entry) const;
  /// Gives back what a dead entry holds, and its index.
  void ReleaseEntry(uint32_t index, std::optional<Error>* failure) noexcept;

  Driver* const driver_;
  const uint64_t view_budget_;
  const Log* const log_;
  const uint16_t owner_;
  const uint32_t first_generation_;  // even
  std::array<std::atomic<Entry*>, kChunks> chunks_{};
  std::atomic<uint64_t> write_epoch_{1};

  mutable std::mutex mutex_;                // guards what follows, and every change of an entry's
                                            // generation and view
  std::map<Address, uint32_t> by_address_;  // live allocations
  std::vector<uint32_t> free_;              // indices to use again
  uint32_t size_ = 0;                       // indices ever used
  uint64_t stamp_ = 0;                      // of the last use of a view
  Usage usage_;
};

}  // namespace precast::device
