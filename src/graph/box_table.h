// LiveRegion and BoxTable: what the region map and its grid remember of a region, and the shapes
// that go with it.
//
// A live region holds its layout as a number; the box table holds the normal form of each layout
// that was met since Clear, so that nobody has to keep a pointer into a table that grows.
//
// Threads: one at a time.
#pragma once

#include "abi/image.h"
#include "graph/overlap.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace precast::graph {

/// A region and the accesses to it that later tasks have to wait for.
struct LiveRegion {
  // Flags in `key`: a task wrote (read) an overlapping region since this one was last written.
  static constexpr uint32_t kForeignWrite = 1u << 28;
  static constexpr uint32_t kForeignRead = 1u << 29;
  static constexpr uint32_t kFlags = kForeignWrite | kForeignRead;
  static constexpr uint32_t kLayoutMask = kForeignWrite - 1;
  static constexpr uint32_t kNone = kLayoutMask;  // as a key: nothing here

  uint64_t begin;
  uint32_t key;           // layout id | flags
  abi::TaskId writer;     // 0: only read
  uint32_t next;          // in its cell, or among free ones
  abi::TaskId reader[2];  // since the write: the first and, if there are more, the newest
  uint32_t chunk;         // newest chunk of those between

  uint32_t layout() const { return key & kLayoutMask; }
  abi::TaskId last_access() const {
    return reader[1] != 0 ? reader[1] : reader[0] != 0 ? reader[0] : writer;
  }
};
static_assert(sizeof(LiveRegion) == 32);
static_assert(abi::kMaxLayouts == LiveRegion::kForeignWrite);

/// The normal forms of the layouts that were learned since Clear.
class BoxTable {
 public:
  /// In O(1); keeps capacity.
  void Clear() {
    if (++epoch_ == 0) {
      learned_.clear();
      epoch_ = 1;
    }
  }
  void Learn(const Region& region) {
    uint32_t id = region.layout_id;
    if (id < learned_.size() && learned_[id] == epoch_) [[likely]]
      return;
    Add(id, *region.layout);
  }
  /// Requires: learned since Clear.
  const Box& operator[](uint32_t id) const { return boxes_[id]; }

  /// Are these the same bytes of a buffer? (A reshape has another layout id.)
  bool Same(const LiveRegion& region, uint64_t begin, uint32_t layout) const {
    return region.begin == begin &&
           (region.layout() == layout || boxes_[region.layout()] == boxes_[layout]);
  }

 private:
  [[gnu::noinline]] void Add(uint32_t id, const abi::Layout& layout) {
    if (id >= learned_.size()) {
      size_t size = std::max<size_t>({size_t{id} + 1, learned_.size() * 2, 64});
      boxes_.resize(size);
      learned_.resize(size);  // last: an id below its size has a box
    }
    boxes_[id] = Normalize(layout);
    learned_[id] = epoch_;
  }

  std::vector<uint32_t> learned_;  // the epoch in which a layout was learned, by its id
  std::vector<Box> boxes_;
  uint32_t epoch_ = 1;
};

}  // namespace precast::graph
