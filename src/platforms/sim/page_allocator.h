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
#include <vector>

namespace precast::sim {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;

class PageAllocator {
 public:
  /// Manages [0, bytes), rounded down to whole granules.
  explicit PageAllocator(uint64_t bytes);
  PageAllocator(const PageAllocator&) = delete;
  PageAllocator& operator=(const PageAllocator&) = delete;

  /// The bytes that a request takes. Requires: 0 < bytes <= 2^63.
  static uint64_t Rounded(uint64_t bytes);

  /// The offset of the smallest free range that fits, or nothing. Requires: 0 < bytes. Throws
  /// `std::bad_alloc`, and then nothing has changed.
  std::optional<uint64_t> Allocate(uint64_t bytes);
  /// Requires: `offset` and `bytes` of an Allocate that has not been freed. Needs no host memory.
  void Free(uint64_t offset, uint64_t bytes) noexcept;

  uint64_t size() const { return size_; }
  uint64_t in_use() const { return in_use_; }
  /// The largest request that would succeed now.
  uint64_t largest_free() const;

 private:
  using ByOffset = std::map<uint64_t, uint64_t>;           // offset -> bytes
  using BySize = std::set<std::pair<uint64_t, uint64_t>>;  // bytes, offset
  /// What one free range takes of host memory.
  struct Node {
    ByOffset::node_type by_offset;
    BySize::node_type by_size;
  };

  class FreeList {
   public:
    /// Ranges never grow across a multiple of `boundary`. Their nodes come from `spare` and go
    /// back there: each new range takes one, and there must be one.
    FreeList(uint64_t boundary, std::vector<Node>* spare) : boundary_(boundary), spare_(spare) {}
    std::optional<uint64_t> Take(uint64_t bytes);
    /// Adds a range, joined with its neighbours. Returns the joined range: offset, bytes.
    std::pair<uint64_t, uint64_t> Add(uint64_t offset, uint64_t bytes);
    void Remove(uint64_t offset, uint64_t bytes);
    uint64_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

   private:
    void Insert(uint64_t offset, uint64_t bytes);

    uint64_t boundary_;
    std::vector<Node>* spare_;
    ByOffset by_offset_;
    BySize by_size_;
  };

  /// Makes nodes until this many are spare.
  void Prepare(uint64_t spare);

  uint64_t size_;
  uint64_t in_use_ = 0;
  uint64_t live_ = 0;        // allocations
  uint64_t nodes_ = 0;       // ever made; spare_ has room for all of them
  std::vector<Node> spare_;  // at least live_: freeing one adds at most one range
  FreeList granules_;
  FreeList pages_;
};

}  // namespace precast::sim
