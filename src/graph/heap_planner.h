// HeapPlanner: where in the graph heap does a tensor that the run creates live?
//
// The builder asks for bytes when the first task names a created tensor, and tells when the scope
// of a tensor ended, so that it cannot be named again. The planner only hands out offsets.
//
//   HeapPlanner::Placement place = heap.Place(buffer, bytes, precedes);
//   for (BufferId dead : place.after) map.ForEachLive(dead, edge);  // write-after-read
//   if (place.reused) map.Claim(buffer, task);
//   …
//   heap.Retire(buffer);
//
// Fresh bytes come first: reuse costs edges, which cost parallelism. Dead bytes whose users precede
// the task anyway cost none, and are taken before fresh ones; the few ranges that died last are
// asked about, as a loop with a scope in its body retires what its next round wants. When fresh
// bytes run out, any dead range that fits is taken, with edges.
//
// Why segregated lists of ranges, with neighbours linked: Place and Retire take constant time for
// any number of live and dead tensors, 7 ns for fresh bytes and 50 to 80 for a tensor that reuses
// some; maps ordered by address and by size took 24 and 146, and allocate. Until the first tensor
// dies nobody asks for a range, so what is placed is noted and linked only then: 2 ns.
//
// Invariants
//   H1  Blocks lie side by side from offset 0 to the peak. A live one is one tensor; a dead one is
//       what is left of one dead tensor.
//   H2  Dead blocks side by side form one run; its first and its last block name it.
//   H3  Every run is in the list for its size.
//
// Threads: one at a time.
#pragma once

#include "graph/region_map.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace precast::graph {

class HeapPlanner {
 public:
  /// Every offset and size is a multiple of this.
  static constexpr uint64_t kAlignment = 256;

  struct Placement {
    uint64_t offset;
    /// Bytes of dead tensors are used again: pass the task to RegionMap::Claim.
    bool reused;
    /// The dead buffers whose users the task has to wait for. Valid until the next call.
    std::span<const BufferId> after;
  };

  explicit HeapPlanner(uint64_t budget = 0) { Clear(budget); }

  /// Forgets everything; keeps capacity.
  void Clear(uint64_t budget);

  /// Places `bytes` bytes for `buffer`. `precedes(BufferId dead)` says whether all users of a dead
  /// buffer already precede the task that names `buffer`; it is asked at most kAsked times.
  /// Throws `Error{out_of_memory}` and changes nothing when the bytes cannot fit.
  /// Requires: `buffer` was not placed yet.
  template <typename Precedes>
  Placement Place(BufferId buffer, uint64_t bytes, Precedes&& precedes) {
    if (!linked_) Link();
    uint64_t size = SizeFor(bytes);
    uint32_t asked = 0;  // a bit for each of recent_
    for (uint32_t i = 0; i < kAsked && recent_used_ != 0; ++i) {
      uint32_t block = BestRecent(size, &asked);
      if (block == 0) break;
      if (precedes(blocks_[block].owner)) return TakeOrdered(block, buffer, size);
    }
    if (size <= budget_ - peak_) return {PutFresh(buffer, size), false, {}};
    return TakeDead(buffer, bytes, size);
  }
  static constexpr uint32_t kRecent = 8, kAsked = 4;

  /// The short way while no tensor has died: places it in fresh bytes and gives their offset, or
  /// gives kNoPlace and changes nothing. Requires: as for Place.
  static constexpr uint64_t kNoPlace = ~uint64_t{0};
  uint64_t PlaceFresh(BufferId buffer, uint64_t bytes) {
    uint64_t size = SizeFor(bytes);
    if (linked_ || size > budget_ - peak_) return kNoPlace;
    noted_.push_back({size, buffer});
    uint64_t offset = peak_;
    peak_ += size;
    live_bytes_ += size;
    return offset;
  }

  /// The scope of `buffer` ended: its bytes may be used again. Does nothing for a buffer that was
  /// not placed, or retired before. Scopes end while exceptions are on their way, too, so it never
  /// fails: without host memory the bytes are not used again.
  void Retire(BufferId buffer) noexcept;

  /// The bytes of a live tensor now serve another one, of the same size.
  void NoteReuse(uint64_t bytes) { reused_bytes_ += SizeFor(bytes); }

  uint64_t budget() const { return budget_; }
  /// Bytes of tensors that were placed and not retired.
  uint64_t live_bytes() const { return live_bytes_; }
  /// How much of the heap the run needs.
  uint64_t peak_bytes() const { return peak_; }
  /// Sum of the bytes that were placed where a dead tensor was.
  uint64_t reused_bytes() const { return reused_bytes_; }

 private:
  struct Block {
    uint64_t offset, bytes;
    uint32_t left, right;  // neighbours in the heap; 0: none
    BufferId owner;
    uint32_t run;  // dead, and the first or last of its run: the run; live: 0
    bool dead;
  };
  struct Run {
    uint64_t bytes;
    uint32_t first, last;     // blocks
    uint32_t previous, next;  // in its list; `next` also among free ones
    uint32_t list;
  };
  // Four lists for each power of two, of sizes in units of kAlignment.
  static constexpr uint32_t kLists = 64 * 4;

  // Sizes past the budget stay what they are, to fail as such.
  uint64_t SizeFor(uint64_t bytes) const {
    if (bytes > budget_) return ~uint64_t{0};
    return (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  }
  uint64_t PutFresh(BufferId buffer, uint64_t size);
  /// Makes blocks of what PlaceFresh noted.
  void Link();
  uint32_t BestRecent(uint64_t size, uint32_t* asked) const;
  Placement TakeOrdered(uint32_t block, BufferId buffer, uint64_t size);
  Placement TakeDead(BufferId buffer, uint64_t bytes, uint64_t size);
  uint32_t FindRun(uint64_t size) const;
  void MakeLive(uint32_t block, BufferId buffer);
  uint32_t NewBlock();
  void NoteBlock(BufferId buffer, uint32_t block);
  void Unlink(uint32_t block);
  void FreeRun(uint32_t run);
  void Enlist(uint32_t run);
  void Delist(uint32_t run);
  static uint32_t ListOf(uint64_t bytes);

  struct Noted {
    uint64_t size;
    BufferId owner;
  };

  uint64_t budget_ = 0, peak_ = 0, live_bytes_ = 0, reused_bytes_ = 0;
  bool linked_ = false;
  std::vector<Noted> noted_;   // by PlaceFresh, from offset 0, while not linked
  std::vector<Block> blocks_;  // entry 0 is none
  std::vector<Run> runs_;      // entry 0 is none
  uint32_t rightmost_ = 0;     // block
  uint32_t free_block_ = 0, free_run_ = 0;
  std::vector<uint32_t> block_of_;  // by buffer
  std::array<uint32_t, kLists> lists_{};
  std::array<uint64_t, kLists / 64> occupied_{};  // a bit for each list
  std::array<uint32_t, kRecent> recent_{};        // blocks that died last; may be live again
  uint32_t recent_used_ = 0, recent_next_ = 0;
  std::vector<BufferId> after_;
};

inline uint32_t HeapPlanner::NewBlock() {
  uint32_t block = free_block_;
  if (block != 0) {
    free_block_ = blocks_[block].right;
  } else {
    block = static_cast<uint32_t>(blocks_.size());
    blocks_.emplace_back();
  }
  return block;
}

inline void HeapPlanner::MakeLive(uint32_t block, BufferId buffer) {
  blocks_[block].owner = buffer;
  blocks_[block].dead = false;
  blocks_[block].run = 0;
  live_bytes_ += blocks_[block].bytes;
  NoteBlock(buffer, block);
}

inline void HeapPlanner::NoteBlock(BufferId buffer, uint32_t block) {
  if (buffer >= block_of_.size()) [[unlikely]]
    block_of_.resize(std::max<size_t>(2 * size_t{buffer}, 64));
  block_of_[buffer] = block;
}

inline uint64_t HeapPlanner::PutFresh(BufferId buffer, uint64_t size) {
  uint64_t offset = peak_;
  uint32_t block = NewBlock();
  blocks_[block] = {offset, size, rightmost_, 0, buffer, 0, false};
  blocks_[rightmost_].right = block;  // entry 0 is none: what is written there is never read
  rightmost_ = block;
  peak_ += size;
  live_bytes_ += size;
  NoteBlock(buffer, block);
  return offset;
}

}  // namespace precast::graph
