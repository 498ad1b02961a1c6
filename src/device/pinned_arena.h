// PinnedArena: one growable block of pinned host memory, in which a run writes its image, or puts
// the definitions that it uploads.
//
// Used by run contexts (each has one for either purpose, so concurrent binds share none), by the
// builder and by the definition store through data() and Reserve(). The block is 64-byte aligned in
// absolute address, keeps its capacity between runs and belongs to the arena on every path. When
// the driver refuses to pin, ordinary pageable memory takes its place: slower to copy, otherwise
// the same; pinned() says so.
//
// Threads: one at a time. Requires: the driver outlives the arena.
#pragma once

#include "device/driver.h"

#include <cstdint>
#include <optional>

namespace precast::device {

inline constexpr uint64_t kArenaAlignment = 64;

class PinnedArena {
 public:
  /// Holds nothing until the first Reserve.
  explicit PinnedArena(Driver* driver) : driver_(driver) {}
  ~PinnedArena();
  PinnedArena(PinnedArena&& other) noexcept;
  PinnedArena& operator=(PinnedArena&& other) noexcept;

  /// Makes the capacity at least `bytes`, and keeps the first `used` bytes of the block. When it
  /// grows, it at least doubles, and data() changes. Requires: used <= capacity().
  /// Throws `Error{out_of_memory}` when ordinary memory is refused as well, and passes on
  /// `Error{device_lost}`; then the block is as it was. Gives the error met in giving back the old
  /// block, if any: the new one is in place then.
  std::optional<Error> Reserve(uint64_t bytes, uint64_t used);

  /// Null before the first Reserve.
  char* data() const { return data_; }
  uint64_t capacity() const { return capacity_; }
  /// Whether the block is pinned; true when there is none.
  bool pinned() const { return pinned_; }

  /// Gives the block back; it is no longer the arena's in any case. Gives the error met, if any.
  std::optional<Error> Release() noexcept;

 private:
  /// Null when the driver refuses.
  char* TryPinned(uint64_t bytes);

  Driver* driver_;
  char* data_ = nullptr;
  uint64_t capacity_ = 0;
  bool pinned_ = true;
};

}  // namespace precast::device
