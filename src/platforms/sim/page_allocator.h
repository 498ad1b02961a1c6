// PageAllocator: which bytes of a simulated device memory are taken. It deals in offsets and never
// touches the memory itself.
//
// Used by SimMemory only. Not thread-safe.
//
// A request below 2 MiB takes whole 4 KiB pages inside one 2 MiB granule, anything else takes whole
// granules, as a driver with ordinary and huge pages does. So every large block is aligned to a
// granule by construction, and no search has to look past the first free range that is long enough.
//
// Invariants:
//   1. Free ranges are disjoint, and no two of the same list touch (for pages: within a granule).
//   2. A granule without a page in use is in the list of granules, not in that of pages.
//   3. in_use() plus the bytes of all free ranges is size().
// Every call is O(log n) in the number of free ranges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace precast::sim {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;

class PageAllocator {
 public:
  /// Manages [0, bytes), rounded down to whole granules.
  explicit PageAllocator(uint64_t bytes);

  /// The bytes that a request takes. Requires: 0 < bytes <= 2^63.
  static uint64_t Rounded(uint64_t bytes);

  /// The offset of the smallest free range that fits, or nothing. Requires: 0 < bytes.
  std::optional<uint64_t> Allocate(uint64_t bytes);
  /// Requires: `offset` and `bytes` of an Allocate that has not been freed.
  void Free(uint64_t offset, uint64_t bytes);

  uint64_t size() const { return size_; }
  uint64_t in_use() const { return in_use_; }
  /// The largest request that would succeed now.
  uint64_t largest_free() const;

 private:
  class FreeList {
   public:
    /// Ranges never grow across a multiple of `boundary`.
    explicit FreeList(uint64_t boundary) : boundary_(boundary) {}
    std::optional<uint64_t> Take(uint64_t bytes);
    /// Adds a range, joined with its neighbours. Returns the joined range: offset, bytes.
    std::pair<uint64_t, uint64_t> Add(uint64_t offset, uint64_t bytes);
    void Remove(uint64_t offset, uint64_t bytes);
    uint64_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

   private:
    uint64_t boundary_;
    std::map<uint64_t, uint64_t> by_offset_;           // offset -> bytes
    std::set<std::pair<uint64_t, uint64_t>> by_size_;  // bytes, offset
  };

  uint64_t size_;
  uint64_t in_use_ = 0;
  FreeList granules_;
  FreeList pages_;
};

}  // namespace precast::sim
