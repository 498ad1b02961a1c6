#include "graph/region_map.h"

#include "base/planted_fault.h"

#include <algorithm>

namespace precast::graph {

namespace {

using Then = RegionGrid::Then;
using abi::TaskId;

}  // namespace

void RegionMap::Clear() {
  buffers_.clear();
  unordered_.resize(1);
  rares_.resize(1);
  chunks_.resize(1);
  free_chunk_ = 0;
  grids_.Clear();
  boxes_.Clear();
}

Rare& RegionMap::AddRare(Buffer& buffer) {
  if (buffer.rare == 0) {
    buffer.rare = static_cast<uint32_t>(rares_.size());
    rares_.emplace_back();
  }
  return rares_[buffer.rare];
}

void RegionMap::AppendReader(LiveRegion& region, TaskId task) {
  if (region.chunk != 0) {
    ReaderChunk& newest = chunks_[region.chunk];
    if (newest.readers < kChunkReaders) {
      newest.reader[newest.readers++] = task;
      return;
    }
  }
  uint32_t number = free_chunk_;
  if (number != 0) {
    free_chunk_ = chunks_[number].older;
  } else {
    number = static_cast<uint32_t>(chunks_.size());
    chunks_.emplace_back();
  }
  ReaderChunk& chunk = chunks_[number];
  chunk.reader[0] = task;
  chunk.readers = 1;
  chunk.older = region.chunk;
  region.chunk = number;
}

void RegionMap::FreeChunks(LiveRegion& region) {
  while (region.chunk != 0) {
    ReaderChunk& chunk = chunks_[region.chunk];
    uint32_t older = chunk.older;
    chunk.older = free_chunk_;
    free_chunk_ = region.chunk;
    region.chunk = older;
  }
}

// What a write of the region waits for: its readers, or, without any, its writer.
void RegionMap::CollectAccesses(const LiveRegion& region, TaskId task, TaskId floor) const {
  auto collect = [&](TaskId user) {
    if (user != task && user >= floor) producers_.push_back(user);
  };
  if (region.reader[0] == 0) {
    if (region.writer != 0) collect(region.writer);
    return;
  }
  collect(region.reader[0]);
  if (region.reader[1] != 0) collect(region.reader[1]);
  for (uint32_t i = region.chunk; i != 0; i = chunks_[i].older) {
    const ReaderChunk& chunk = chunks_[i];
    for (uint32_t r = 0; r < chunk.readers; ++r) collect(chunk.reader[r]);
  }
}

// Drops what R5 makes superfluous, and adds the claim where nothing implies it.
void RegionMap::FinishProducers(const Buffer& buffer, TaskId task, TaskId floor) {
  if (producers_.size() > 1 && floor != 0) {
    std::erase_if(producers_, [floor](TaskId producer) { return producer < floor; });
  }
  TaskId claim = RareOf(buffer).claim;
  if (producers_.empty() && floor == 0 && claim != 0 && claim != task) producers_.push_back(claim);
}

// The live region that is exactly this one, and where it is or would be in the grid.
LiveRegion* RegionMap::FindExact(Buffer& buffer, RegionGrid::Grid* grid, RegionGrid::Spot* spot,
                                 LiveRegion* live, const Region& region) {
  bool looked = live != nullptr;
  if (!looked && buffer.first.key != LiveRegion::kNone &&
      boxes_.Same(buffer.first, region.begin, region.layout_id)) {
    live = &buffer.first;
    looked = true;
  }
  if (grid == nullptr) return live;
  looked = looked || grid->layout == region.layout_id;
  *spot = grids_.Locate(*grid, region.begin, region.layout_id, boxes_[region.layout_id]);
  if (!looked || (live == nullptr && spot->whole_rows)) {
    live = grids_.Find(*spot, region.begin, region.layout_id, boxes_);
  }
  return live;
}

// The buffer's grid, seen in a way that suits the box; null if it has none.
RegionGrid::Grid* RegionMap::FitGrid(Buffer& buffer, const Box& box, LiveRegion** live) {
  if (buffer.grid == 0) return nullptr;
  RegionGrid::Grid& grid = grids_[buffer.grid];
  RegionGrid::Pitch now = grid.pitch(), better = RegionGrid::Pitch::Of(box);
  if (better.row == 0 || better == now) return &grid;
  bool finer = now.row == 0 || (now.plane == 0 && better.plane != 0 &&
                                (now.row == better.row || now.row == better.plane));
  // A search that meets many regions for nothing suggests that another view tells them apart.
  if (finer || grid.wasted > 64 + 32 * uint64_t{grid.count[RegionGrid::kAll]}) {
    grids_.SetPitch(grid, better, boxes_);
    if (*live != &buffer.first) *live = nullptr;  // it moved
  }
  return &grid;
}

LiveRegion& RegionMap::AddRegion(Buffer& buffer, bool written, RegionGrid::Spot& spot,
                                 const Region& region) {
  if (buffer.first.key == LiveRegion::kNone) {
    buffer.first = {region.begin, region.layout_id, 0, 0, {0, 0}, 0};
    return buffer.first;
  }
  const Box& box = boxes_[region.layout_id];
  if (buffer.grid == 0) {
    buffer.grid = grids_.Add(buffer.bytes);
    const Box& first_box = boxes_[buffer.first.layout()];
    RegionGrid::Grid& grid = grids_[buffer.grid];
    const Box& guide = box.axes >= first_box.axes ? box : first_box;
    if (guide.axes > 0) grids_.SetPitch(grid, RegionGrid::Pitch::Of(guide), boxes_);
    spot = grids_.Locate(grid, region.begin, region.layout_id, box);
  }
  if (buffer.first.writer == 0) buffer.first.key |= LiveRegion::kForeignRead;
  return grids_.Insert(grids_[buffer.grid], written, spot, region.begin, region.layout_id);
}

std::span<const TaskId> RegionMap::ReadSlowly(Buffer& buffer, LiveRegion* live,
                                              const Region& region, TaskId task) {
  boxes_.Learn(region);
  const Box& box = boxes_[region.layout_id];
  producers_.clear();
  RegionGrid::Grid* grid = FitGrid(buffer, box, &live);
  RegionGrid::Spot spot{};
  LiveRegion* target = FindExact(buffer, grid, &spot, live, region);
  TaskId own = target != nullptr ? target->writer : 0;
  if (own != 0 && own != task) producers_.push_back(own);
  TaskId floor = own, newest = 0;
  if (target == nullptr || (target->key & LiveRegion::kForeignWrite) != 0) {
    auto meet = [&](LiveRegion& other) {
      if (&other == target || other.writer == 0) return Then::keep;
      if (other.last_access() < floor) return Then::skip;
      const Box& other_box = boxes_[other.layout()];
      if (!Overlaps(other.begin, other_box, region.begin, box)) {
        if (grid != nullptr) ++grid->wasted;
        return Then::keep;
      }
      other.key |= LiveRegion::kForeignRead;
      newest = std::max(newest, other.writer);
      if (other.writer > floor) {
        if (other.writer != task) producers_.push_back(other.writer);
        if (Covers(other.begin, other_box, region.begin, box)) floor = other.writer;
      }
      return Then::keep;
    };
    if (buffer.first.key != LiveRegion::kNone) meet(buffer.first);
    if (grid != nullptr) grids_.Visit(*grid, RegionGrid::kWritten, spot, meet);
  }
  FinishProducers(buffer, task, floor);
  if (target == nullptr) {
    target = &AddRegion(buffer, false, spot, region);
    target->key |= LiveRegion::kForeignRead;
  }
  if (newest != 0 && newest >= own) {  // equal: one task wrote both, this one perhaps first
    target->key |= LiveRegion::kForeignWrite;
  } else {
    target->key &= ~LiveRegion::kForeignWrite;
  }
  AddReader(*target, task);
  return producers_;
}

std::span<const TaskId> RegionMap::WriteSlowly(Buffer& buffer, LiveRegion* live,
                                               const Region& region, TaskId task) {
  boxes_.Learn(region);
  const Box& box = boxes_[region.layout_id];
  producers_.clear();
  RegionGrid::Grid* grid = FitGrid(buffer, box, &live);
  RegionGrid::Spot spot{};
  LiveRegion* target = FindExact(buffer, grid, &spot, live, region);
  if (target != nullptr && target->writer == 0 && target != &buffer.first) {
    target = nullptr;  // only read so far: it is retired, and added as written
  }
  TaskId floor = target != nullptr ? target->writer : 0;
  if (target != nullptr) CollectAccesses(*target, task, 0);
  if (target == nullptr || (target->key & LiveRegion::kFlags) != 0) {
    auto meet = [&](LiveRegion& other) {
      if (&other == target) return Then::keep;
      if (other.writer != 0 && other.last_access() < floor) return Then::skip;
      const Box& other_box = boxes_[other.layout()];
      bool covered = boxes_.Same(other, region.begin, region.layout_id) ||
                     Covers(region.begin, box, other.begin, other_box);
      if (!covered && !Overlaps(other.begin, other_box, region.begin, box)) {
        if (grid != nullptr) ++grid->wasted;
        return Then::keep;
      }
      CollectAccesses(other, task, floor + 1);
      if (covered && !PRECAST_PLANTED("order.covered-kept")) {
        FreeChunks(other);
        return Then::retire;
      }
      if (!PRECAST_PLANTED("order.foreign-write")) other.key |= LiveRegion::kForeignWrite;
      if (other.writer > floor && Covers(other.begin, other_box, region.begin, box)) {
        floor = other.writer;
      }
      return Then::keep;
    };
    if (buffer.first.key != LiveRegion::kNone && meet(buffer.first) == Then::retire) {
      buffer.first.key = LiveRegion::kNone;
    }
    if (grid != nullptr) grids_.Visit(*grid, RegionGrid::kAll, spot, meet);
  }
  FinishProducers(buffer, task, floor);
  if (target == nullptr) target = &AddRegion(buffer, true, spot, region);
  target->key &= LiveRegion::kLayoutMask;
  target->writer = task;
  target->reader[0] = target->reader[1] = 0;
  FreeChunks(*target);
  return producers_;
}

void RegionMap::Unordered(BufferId id, const Region& region, TaskId task) {
  Buffer& buffer = buffers_[id];
  Rare& rare = AddRare(buffer);
  if (rare.unordered == 0) {
    rare.unordered = static_cast<uint32_t>(unordered_.size());
    unordered_.push_back(NewBuffer(buffer.bytes));
  }
  ReadSlowly(unordered_[rare.unordered], nullptr, region, task);
}

TaskId RegionMap::Find(const Buffer& buffer, const Region& region, bool readers) const {
  boxes_.Learn(region);
  const Box& box = boxes_[region.layout_id];
  TaskId found = 0;
  auto meet = [&](const LiveRegion& other) {
    TaskId user = other.writer == 0 && readers ? other.reader[0] : other.writer;
    if (user == 0 || !Overlaps(other.begin, boxes_[other.layout()], region.begin, box)) {
      return Then::keep;
    }
    found = user;
    return Then::stop;
  };
  if (buffer.first.key != LiveRegion::kNone) meet(buffer.first);
  if (found != 0 || buffer.grid == 0) return found;
  RegionGrid::Grid& grid = grids_[buffer.grid];
  RegionGrid::Spot spot = grids_.Locate(grid, region.begin, region.layout_id, box);
  grids_.Visit(grid, readers ? RegionGrid::kAll : RegionGrid::kWritten, spot, meet);
  return found;
}

TaskId RegionMap::FindWriter(BufferId id, const Region& region) const {
  const Buffer& buffer = buffers_[id];
  TaskId found = Find(buffer, region, false);
  uint32_t unordered = RareOf(buffer).unordered;
  return found != 0 || unordered == 0 ? found : Find(unordered_[unordered], region, true);
}

TaskId RegionMap::FindAccess(BufferId id, const Region& region) const {
  const Buffer& buffer = buffers_[id];
  TaskId found = Find(buffer, region, true);
  uint32_t unordered = RareOf(buffer).unordered;
  return found != 0 || unordered == 0 ? found : Find(unordered_[unordered], region, true);
}

std::span<const TaskId> RegionMap::CollectLive(BufferId id, uint64_t enough) const {
  const Buffer& buffer = buffers_[id];
  producers_.clear();
  auto meet = [&](const LiveRegion& region) {
    CollectAccesses(region, 0, 0);
    return producers_.size() > enough ? Then::stop : Then::keep;
  };
  auto collect = [&](const Buffer& from) {
    if (from.first.key != LiveRegion::kNone) meet(from.first);
    if (from.grid == 0) return;
    RegionGrid::Grid& grid = grids_[from.grid];
    if (producers_.size() > enough) return;
    grids_.Visit(grid, RegionGrid::kAll, grids_.Everything(grid), meet);
  };
  collect(buffer);
  const Rare& rare = RareOf(buffer);
  if (rare.unordered != 0) collect(unordered_[rare.unordered]);
  if (producers_.empty() && rare.claim != 0) producers_.push_back(rare.claim);
  return producers_;
}

}  // namespace precast::graph
