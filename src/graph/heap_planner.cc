#include "graph/heap_planner.h"

#include <precast/error.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace precast::graph {

void HeapPlanner::Clear(uint64_t budget) {
  // No sum with it can overflow, and no device has as much.
  budget_ = std::min(budget, uint64_t{1} << 62);
  budget_ = (budget_ + kAlignment - 1) / kAlignment * kAlignment;
  peak_ = live_bytes_ = reused_bytes_ = 0;
  linked_ = false;
  noted_.clear();
  blocks_.resize(1);
  runs_.resize(1);
  rightmost_ = free_block_ = free_run_ = 0;
  block_of_.clear();
  lists_.fill(0);
  occupied_.fill(0);
  recent_used_ = recent_next_ = 0;
}

// The list of runs of this many bytes; larger runs are in later lists.
uint32_t HeapPlanner::ListOf(uint64_t bytes) {
  uint64_t units = bytes / kAlignment;
  if (units < 4) return static_cast<uint32_t>(units);
  auto log = static_cast<uint32_t>(std::bit_width(units)) - 1;
  return (log - 1) * 4 + (static_cast<uint32_t>(units >> (log - 2)) & 3);
}

void HeapPlanner::Enlist(uint32_t run) {
  Run& r = runs_[run];
  r.list = ListOf(r.bytes);
  r.previous = 0;
  r.next = lists_[r.list];
  if (r.next != 0) runs_[r.next].previous = run;
  lists_[r.list] = run;
  occupied_[r.list / 64] |= uint64_t{1} << (r.list % 64);
  blocks_[r.first].run = blocks_[r.last].run = run;
}

void HeapPlanner::Delist(uint32_t run) {
  Run& r = runs_[run];
  if (r.next != 0) runs_[r.next].previous = r.previous;
  if (r.previous != 0) {
    runs_[r.previous].next = r.next;
  } else {
    lists_[r.list] = r.next;
    if (r.next == 0) occupied_[r.list / 64] &= ~(uint64_t{1} << (r.list % 64));
  }
}

void HeapPlanner::FreeRun(uint32_t run) {
  runs_[run].next = free_run_;
  free_run_ = run;
}

void HeapPlanner::Unlink(uint32_t block) {
  const Block& b = blocks_[block];
  if (b.left != 0) blocks_[b.left].right = b.right;
  if (b.right != 0) {
    blocks_[b.right].left = b.left;
  } else {
    rightmost_ = b.left;
  }
}

void HeapPlanner::Link() {
  // From the start, also when the last try ran out of memory: PutFresh sums up what was noted.
  uint64_t peak = std::exchange(peak_, 0), live_bytes = std::exchange(live_bytes_, 0);
  rightmost_ = 0;
  blocks_.resize(1);
  try {
    for (const Noted& noted : noted_) PutFresh(noted.owner, noted.size);
  } catch (const std::bad_alloc&) {
    peak_ = peak;
    live_bytes_ = live_bytes;
    throw;
  }
  noted_.clear();
  linked_ = true;
}

void HeapPlanner::Retire(BufferId buffer) noexcept {
  try {
    if (!linked_) Link();
    if (free_run_ == 0) {
      runs_.emplace_back();
      FreeRun(static_cast<uint32_t>(runs_.size()) - 1);
    }
  } catch (const std::bad_alloc&) {
    return;  // the bytes stay taken, which is safe
  }
  uint32_t block = buffer < block_of_.size() ? block_of_[buffer] : 0;
  if (block == 0) return;
  block_of_[buffer] = 0;
  Block& b = blocks_[block];
  b.dead = true;
  live_bytes_ -= b.bytes;
  recent_[recent_next_] = block;
  recent_next_ = (recent_next_ + 1) % kRecent;
  recent_used_ = std::min(recent_used_ + 1, kRecent);

  uint32_t left = b.left != 0 && blocks_[b.left].dead ? blocks_[b.left].run : 0;
  uint32_t right = b.right != 0 && blocks_[b.right].dead ? blocks_[b.right].run : 0;
  uint32_t run = left != 0 ? left : right;
  if (left != 0) Delist(left);
  if (right != 0) Delist(right);
  if (run == 0) {
    run = free_run_;
    free_run_ = runs_[run].next;
    runs_[run] = {b.bytes, block, block, 0, 0, 0};
  } else if (left == 0) {
    runs_[run].bytes += b.bytes;
    runs_[run].first = block;
  } else {
    runs_[run].bytes += b.bytes;
    runs_[run].last = block;
    if (right != 0) {
      runs_[run].bytes += runs_[right].bytes;
      runs_[run].last = runs_[right].last;
      FreeRun(right);
    }
  }
  Enlist(run);
}

// The smallest of the blocks that died last that fits and is at an end of its run, and was not
// asked about; 0 if none.
uint32_t HeapPlanner::BestRecent(uint64_t size, uint32_t* asked) const {
  uint32_t best = kRecent;
  for (uint32_t age = 1; age <= recent_used_; ++age) {
    uint32_t i = (recent_next_ + kRecent - age) % kRecent;
    if ((*asked >> i & 1) != 0) continue;
    const Block& b = blocks_[recent_[i]];
    if (!b.dead || b.bytes < size) continue;
    bool at_end = b.left == 0 || !blocks_[b.left].dead || b.right == 0 || !blocks_[b.right].dead;
    if (at_end && (best == kRecent || b.bytes < blocks_[recent_[best]].bytes)) best = i;
  }
  if (best == kRecent) return 0;
  *asked |= 1u << best;
  return recent_[best];
}

HeapPlanner::Placement HeapPlanner::TakeOrdered(uint32_t block, BufferId buffer, uint64_t size) {
  uint32_t run = blocks_[block].run;
  bool from_left = runs_[run].first == block;
  uint32_t taken = block;
  if (blocks_[block].bytes > size) {  // the rest stays dead
    taken = NewBlock();
    Block& rest = blocks_[block];
    rest.bytes -= size;
    if (from_left) {
      blocks_[taken] = {rest.offset, size, rest.left, block, 0, 0, false};
      rest.offset += size;
      if (rest.left != 0) blocks_[rest.left].right = taken;
      rest.left = taken;
    } else {
      blocks_[taken] = {rest.offset + rest.bytes, size, block, rest.right, 0, 0, false};
      if (rest.right != 0) blocks_[rest.right].left = taken;
      rest.right = taken;
      if (rightmost_ == block) rightmost_ = taken;
    }
  }
  Delist(run);
  runs_[run].bytes -= size;
  if (runs_[run].bytes == 0) {
    FreeRun(run);
  } else {
    if (taken == block) {
      (from_left ? runs_[run].first : runs_[run].last) =
          from_left ? blocks_[block].right : blocks_[block].left;
    }
    Enlist(run);
  }
  MakeLive(taken, buffer);
  reused_bytes_ += size;
  return {blocks_[taken].offset, true, {}};
}

// A run of at least `size` bytes; 0 if none is found. Any run of a later list fits.
uint32_t HeapPlanner::FindRun(uint64_t size) const {
  constexpr int kFew = 16;
  uint32_t list = ListOf(size);
  uint32_t run = lists_[list];
  for (int i = 0; run != 0 && i < kFew; ++i, run = runs_[run].next) {
    if (runs_[run].bytes >= size) return run;
  }
  uint32_t later = list + 1;
  for (uint32_t word = later / 64; word < occupied_.size(); ++word) {
    uint64_t bits = occupied_[word];
    if (word == later / 64) bits &= ~uint64_t{0} << (later % 64);
    if (bits != 0) return lists_[word * 64 + static_cast<uint32_t>(std::countr_zero(bits))];
  }
  for (; run != 0; run = runs_[run].next) {  // rather than fail
    if (runs_[run].bytes >= size) return run;
  }
  return 0;
}

HeapPlanner::Placement HeapPlanner::TakeDead(BufferId buffer, uint64_t bytes, uint64_t size) {
  uint32_t run = size <= budget_ ? FindRun(size) : 0;
  uint64_t fresh = 0;  // bytes past the peak
  if (run == 0 && rightmost_ != 0 && blocks_[rightmost_].dead) {
    run = blocks_[rightmost_].run;
    if (size <= budget_ && size - runs_[run].bytes <= budget_ - peak_) {
      fresh = size - runs_[run].bytes;
    } else {
      run = 0;
    }
  }
  if (run == 0) {
    Fail(ErrorCode::out_of_memory,
         "a tensor of {} bytes does not fit into the graph heap: {} bytes are in use, the heap has "
         "{} (set by WorkerOptions::heap and RunOptions::heap)",
         bytes, live_bytes_, budget_);
  }
  after_.clear();
  uint32_t taken = runs_[run].first;
  Delist(run);
  uint64_t got = 0;
  while (got < size - fresh) {
    uint32_t block = runs_[run].first;
    Block& b = blocks_[block];
    after_.push_back(b.owner);
    if (b.bytes > size - got) {  // its end stays
      uint32_t rest = NewBlock();
      Block& old = blocks_[block];
      uint64_t part = size - got;
      blocks_[rest] = {old.offset + part, old.bytes - part, block, old.right, old.owner, 0, true};
      if (old.right != 0) blocks_[old.right].left = rest;
      if (rightmost_ == block) rightmost_ = rest;
      if (runs_[run].last == block) runs_[run].last = rest;
      old.right = rest;
      old.bytes = part;
      for (uint32_t& recent : recent_) {
        if (recent == block) recent = rest;
      }
    }
    uint64_t part = blocks_[block].bytes;
    runs_[run].bytes -= part;
    runs_[run].first = blocks_[block].right;
    got += part;
    if (block != taken) {  // joins the first
      blocks_[taken].bytes += part;
      Unlink(block);
      blocks_[block].dead = false;
      blocks_[block].right = free_block_;
      free_block_ = block;
    }
  }
  if (runs_[run].bytes == 0) {
    FreeRun(run);
  } else {
    Enlist(run);
  }
  blocks_[taken].bytes += fresh;
  peak_ += fresh;
  MakeLive(taken, buffer);
  reused_bytes_ += size - fresh;
  return {blocks_[taken].offset, true, after_};
}

}  // namespace precast::graph
