// RegionGrid: the live regions of many buffers, found by where they lie.
//
// The region map owns one and asks it two things: is exactly this region live, and which live
// regions may touch this area? Regions of up to a million tiles of one buffer, from one element to
// the whole, come in any order.
//
// A buffer's bytes are seen as planes of rows; its first strided regions say how long those are
// (without any, the buffer is one row). A region is seen as the box of planes, rows and columns
// that bounds it. Regions of about the same size, within a factor of two in each direction, form a
// *size class* with a grid of cells as large as the first region of the class, so that tiles of any
// size fall on cells exactly. A region is listed in the one cell that holds its first byte's
// corner; a class knows how many cells further its regions reach at most. Eight cells in a row make
// a *block*, one cache line in one hash table for all buffers. Nodes above, a bit for each of 64
// blocks or nodes, lead a large area past what is empty.
//
// Why a hash grid: a prototype paid 83 ns a tile at 10,000 tiles and 104 at 1,000,000; bands with a
// B-tree paid 136 and 302; a B-tree over byte extents 590 at 100,000, because a tile's extent meets
// that of √n others. The short cut (FindOrAdd) halves what this one costs, from 113 to 52 ns a task
// of a wavefront over 10,000 tiles, with three accesses each.
//
// Invariants
//   G1  A live region stands in exactly one cell, of the class that its size gives under the
//       buffer's pitch. In the list of a cell, those that a task wrote come before all others, so
//       that a reader is not delayed by any number of readers; and of those, the one accessed last
//       comes first, so that a search can end early.
//   G2  The bit of a block (or node) in its parent is set when it holds anything; a second one when
//       it holds anything written.
//   G3  A line of the table counts only when it carries the current epoch; that is how Clear
//   forgets
//       everything at once.
//   G4  A reference to a LiveRegion is valid until the next FindOrAdd, Insert or SetPitch.
//
// Threads: one at a time.
#pragma once

#include "abi/image.h"
#include "graph/box_table.h"
#include "graph/divider.h"
#include "graph/overlap.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace precast::graph {

class RegionGrid {
 public:
  enum Which : uint32_t { kAll = 0, kWritten = 1 };
  /// What a visitor wants: go on; go on without this region (and with its memory: detach); skip the
  /// written regions of the cell that were last accessed before this one; end.
  enum class Then : uint8_t { keep, retire, detach, skip, stop };

  // Positions and sizes: plane, row, column.
  using Point = std::array<uint64_t, 3>;
  using Cell = std::array<uint32_t, 3>;

  /// The box of a region, both ends included; its class (0: not there) and its cells in that.
  struct Spot {
    Point first = {}, last = {};
    bool whole_rows = false;  // because it crosses the end of a row or plane
    uint32_t size_class = 0;
    Cell first_cell = {}, last_cell = {};
  };

  /// How the bytes of a buffer are seen. 0: there is one plane (one row).
  struct Pitch {
    uint64_t plane = 0, row = 0;

    /// What suits a box; row is 0 for a contiguous one.
    static Pitch Of(const Box& box);
    bool operator==(const Pitch&) const = default;
  };

  struct Grid {
    Divider plane, row;  // by Pitch
    uint64_t bytes = 0;
    uint64_t rows_of_plane = ~uint64_t{0};
    uint32_t count[2] = {0, 0};  // of regions: all, written
    uint32_t wasted = 0;         // candidates that did not overlap after all, since SetPitch
    uint32_t newest_class = 0;
    // The layout located last, its size and class.
    uint32_t layout = LiveRegion::kNone;
    uint32_t size_class = 0;
    Point size = {};

    Pitch pitch() const { return {plane.value, row.value}; }
    Point At(uint64_t byte) const {
      Point at{0, 0, byte};
      if (plane.value != 0) {
        at[0] = plane.Quotient(byte);
        at[2] -= at[0] * plane.value;
      }
      if (row.value != 0) {
        at[1] = row.Quotient(at[2]);
        at[2] -= at[1] * row.value;
      }
      return at;
    }
    bool Fits(const Point& at) const {
      return (row.value == 0 || at[2] + size[2] <= row.value) && at[1] + size[1] <= rows_of_plane;
    }
  };

  RegionGrid();
  /// Forgets everything in O(1); keeps capacity.
  void Clear();

  /// A grid for a buffer; numbers start at 1.
  uint32_t Add(uint64_t bytes);
  Grid& operator[](uint32_t grid) { return grids_[grid]; }

  Spot Locate(Grid& grid, uint64_t begin, uint32_t layout, const Box& box);
  Spot Everything(const Grid& grid) const;

  /// The live region that is exactly this one, for an access to it; null if it is not among the
  /// first few of its cell: there may be any number, and one listed twice does no harm.
  LiveRegion* Find(const Spot& spot, uint64_t begin, uint32_t layout, const BoxTable& boxes);

  /// A short cut for tiles and blocks: the live region that is exactly this one; or a new one
  /// without accesses when it plainly meets no written region (`write`: no other at all) in the
  /// grid. Null when it cannot tell. `first` is the buffer's region outside the grid: when a new
  /// region meets it, `also` is set to its writer; null when there would be more to do. For
  /// `write`, the region given is listed as written: the caller sets its writer.
  LiveRegion* FindOrAdd(uint32_t grid, bool write, LiveRegion& first, uint64_t begin,
                        uint32_t layout, const BoxTable& boxes, abi::TaskId* also);

  /// Adds a region without accesses. `written`: the caller sets its writer, and there is no other
  /// written region exactly here.
  LiveRegion& Insert(Grid& grid, bool written, Spot& spot, uint64_t begin, uint32_t layout);

  /// Calls then = f(LiveRegion&) for each region whose rectangle may meet the spot's.
  template <typename F>
  void Visit(Grid& grid, Which which, const Spot& spot, F&& f);

  /// Sees the buffer in another way from now on; O(live regions). Requires: pitch.row != 0.
  void SetPitch(Grid& grid, Pitch pitch, const BoxTable& boxes);

 private:
  struct alignas(64) Line {  // a block (level 0) or a node
    uint64_t tag;            // class << 36 | level << 32 | epoch
    uint64_t place;          // row << 32 | column
    union {
      uint32_t cell[8];  // block: first region of each cell
      uint64_t bits[2];  // node: children that hold regions: all, written
    };
    uint32_t count[2];  // block: regions in all cells: all, written
    uint32_t reserved[2];

    uint32_t owner() const { return static_cast<uint32_t>(tag >> 32); }
    uint32_t row() const { return static_cast<uint32_t>(place >> 32); }
    uint32_t column() const { return static_cast<uint32_t>(place); }
    bool holds(uint32_t epoch) const {
      if (static_cast<uint32_t>(tag) != epoch) return false;
      return (owner() & 15) == 0 ? count[kAll] != 0 : bits[kAll] != 0;
    }
  };
  static_assert(sizeof(Line) == 64);

  struct SizeClass {
    std::array<Divider, 3> cell;
    Point shift;                    // so that a cell begins where the first region did
    uint32_t rows_of_plane;         // in cells
    uint32_t next;                  // class of the same grid
    uint32_t count[2];              // regions: all, written
    uint32_t last_row, last_block;  // of the grid of blocks, plane after plane
    Cell reach;
    bool beyond;                    // any reach
    std::array<uint8_t, 3> log;     // what sizes belong here
    uint8_t levels;                 // of nodes
    uint8_t row_bits, column_bits;  // of a child in its node: together 6

    Cell At(const Point& p) const {
      return {static_cast<uint32_t>(p[0] == 0 ? 0 : cell[0].Quotient(p[0] + shift[0])),
              static_cast<uint32_t>(cell[1].Quotient(p[1] + shift[1])),
              static_cast<uint32_t>(cell[2].Quotient(p[2] + shift[2]))};
    }
    uint32_t RowOf(const Cell& at) const { return at[0] * rows_of_plane + at[1]; }
  };
  struct Range {  // of cells, both ends included; rows plane after plane
    uint32_t row, last_row, column, last_column;
  };

  void EnterClass(Spot& spot, uint32_t size_class) const {
    spot.size_class = size_class;
    if (size_class == 0) return;
    spot.first_cell = classes_[size_class].At(spot.first);
    spot.last_cell = classes_[size_class].At(spot.last);
  }
  uint32_t FindClass(const Grid& grid, const Point& size) const;
  uint32_t AddClass(Grid& grid, const Spot& spot);

  [[gnu::noinline]] LiveRegion* FindIn(uint32_t* cell, uint64_t begin, uint32_t layout,
                                       const BoxTable& boxes);
  struct Key {
    uint64_t begin;
    uint32_t layout;
  };
  [[gnu::noinline]] LiveRegion* AddPlainly(Grid& grid, bool write, LiveRegion& first, Key key,
                                           Point at, Line* line, Cell cell, const BoxTable& boxes,
                                           abi::TaskId* also);
  LiveRegion& Put(Line* line, Grid& grid, uint32_t size_class, uint32_t column, bool written,
                  Key key);
  void CountWritten(Line* line, Grid& grid, uint32_t size_class);
  uint32_t NewRegion() {
    uint32_t number = free_region_;
    if (number != 0) {
      free_region_ = regions_[number].next;
      return number;
    }
    if (regions_used_ == regions_.size()) [[unlikely]]
      regions_.resize(regions_.size() * 2);
    return regions_used_++;
  }

  // The hash table of lines.
  static constexpr size_t kLinesForOneRegion = 32;  // its block and the nodes above
  static constexpr size_t kStep = 9;                // odd, and not among the same eight
  size_t HomeOf(uint32_t owner, uint32_t row, uint32_t column) const;
  Line* FindLine(uint32_t owner, uint32_t row, uint32_t column);
  Line* FindOrAddLine(uint32_t owner, uint32_t row, uint32_t column);
  void MakeRoom() {
    if ((lines_used_ + kLinesForOneRegion) * 2 > lines_.size()) [[unlikely]]
      Rehash();
  }
  void Rehash();
  void Mark(Which which, const Line& block);
  void Unmark(Which which, const Line& block);

  template <typename F>
  bool VisitBlock(Grid& grid, Which which, uint32_t size_class, uint32_t row, uint32_t block,
                  const Range& range, F& f);
  template <typename F>
  bool VisitNode(Grid& grid, Which which, uint32_t size_class, uint32_t level, uint32_t row,
                 uint32_t column, const Range& range, F& f);
  template <typename F>
  bool VisitRange(Grid& grid, Which which, uint32_t size_class, const Range& range, F& f);

  void SetLines(size_t size) {
    mask_ = size - 1;
    shift_ = 64 - static_cast<uint32_t>(std::countr_zero(size));
  }
  std::vector<Line> lines_;  // a power of two
  size_t mask_ = 0;          // that minus 1
  uint32_t shift_ = 0;       // 64 - its log2
  uint32_t epoch_ = 1;
  size_t lines_used_ = 0;
  std::vector<LiveRegion> regions_;  // entry 0 is none
  uint32_t regions_used_ = 1;
  uint32_t free_region_ = 0;
  std::vector<SizeClass> classes_;  // entry 0 is none
  std::vector<Grid> grids_;         // entry 0 is none
  std::vector<uint32_t> detached_;
};

inline size_t RegionGrid::HomeOf(uint32_t owner, uint32_t row, uint32_t column) const {
  // Neighbours are spread evenly, better than at random; eight blocks in a row stay together.
  uint64_t hash =
      row * 0x9E3779B97F4A7C15u + (column >> 3) * 0xBF58476D1CE4E5B9u + owner * 0x94D049BB133111EBu;
  return (hash >> shift_) ^ (column & 7);
}

inline RegionGrid::Line* RegionGrid::FindLine(uint32_t owner, uint32_t row, uint32_t column) {
  uint64_t tag = uint64_t{owner} << 32 | epoch_, place = uint64_t{row} << 32 | column;
  for (size_t i = HomeOf(owner, row, column);; i = (i + kStep) & mask_) {
    Line& line = lines_[i];
    if (line.place == place && line.tag == tag) return &line;
    if (static_cast<uint32_t>(line.tag) != epoch_) return nullptr;
  }
}

template <typename F>
bool RegionGrid::VisitBlock(Grid& grid, Which which, uint32_t size_class, uint32_t row,
                            uint32_t block, const Range& range, F& f) {
  Line* line = FindLine(size_class << 4, row, block);
  if (line == nullptr) return true;
  uint32_t first = std::max(range.column, block * 8) & 7;
  uint32_t last = std::min(range.last_column, block * 8 + 7) & 7;
  bool go_on = true;
  uint32_t removed[2] = {0, 0};
  for (uint32_t cell = first; cell <= last && go_on; ++cell) {
    for (uint32_t* link = &line->cell[cell]; *link != 0;) {
      uint32_t number = *link;
      LiveRegion& region = regions_[number];
      if (which == kWritten && region.writer == 0) break;
      Then then = f(region);
      if (then == Then::stop) {
        go_on = false;
        break;
      }
      if (then == Then::skip && line->count[kAll] == line->count[kWritten]) break;
      if (then == Then::keep || then == Then::skip) {
        link = &region.next;
        continue;
      }
      ++removed[kAll];
      removed[kWritten] += region.writer != 0;
      *link = region.next;
      if (then == Then::detach) {
        detached_.push_back(number);
      } else {
        region.next = free_region_;
        free_region_ = number;
      }
    }
  }
  if (removed[kAll] != 0) {
    for (Which w : {kAll, kWritten}) {
      grid.count[w] -= removed[w];
      classes_[size_class].count[w] -= removed[w];
      line->count[w] -= removed[w];
      if (removed[w] != 0 && line->count[w] == 0) Unmark(w, *line);
    }
  }
  return go_on;
}

template <typename F>
bool RegionGrid::VisitNode(Grid& grid, Which which, uint32_t size_class, uint32_t level,
                           uint32_t row, uint32_t column, const Range& range, F& f) {
  Line* line = FindLine(size_class << 4 | level, row, column);
  if (line == nullptr) return true;
  uint32_t row_bits = classes_[size_class].row_bits;
  uint32_t column_bits = classes_[size_class].column_bits;
  uint32_t rows = (1u << row_bits) - 1, columns = (1u << column_bits) - 1;
  uint32_t row_shift = row_bits * (level - 1), column_shift = column_bits * (level - 1) + 3;
  // Children in the range: rows below … below_last, columns right … right_last within the node.
  uint32_t below = std::max(range.row >> row_shift, row << row_bits);
  uint32_t below_last = std::min(range.last_row >> row_shift, (row << row_bits) + rows);
  uint32_t right = std::max(range.column >> column_shift, column << column_bits) & columns;
  uint32_t right_last =
      std::min(range.last_column >> column_shift, (column << column_bits) + columns) & columns;
  uint64_t wanted = (~uint64_t{0} >> (63 - (right_last - right))) << right;
  for (uint32_t r = below; r <= below_last; ++r) {
    uint64_t children = line->bits[which] >> ((r & rows) << column_bits) & wanted;
    for (; children != 0; children &= children - 1) {
      uint32_t child = (column << column_bits) + static_cast<uint32_t>(std::countr_zero(children));
      bool go_on = level == 1 ? VisitBlock(grid, which, size_class, r, child, range, f)
                              : VisitNode(grid, which, size_class, level - 1, r, child, range, f);
      if (!go_on) return false;
    }
  }
  return true;
}

template <typename F>
bool RegionGrid::VisitRange(Grid& grid, Which which, uint32_t size_class, const Range& range,
                            F& f) {
  constexpr uint64_t kFewBlocks = 16;
  uint32_t block = range.column >> 3, last_block = range.last_column >> 3;
  uint64_t blocks = (uint64_t{range.last_row} - range.row + 1) * (last_block - block + 1);
  uint32_t levels = classes_[size_class].levels;
  if (blocks > kFewBlocks && levels > 0) {
    return VisitNode(grid, which, size_class, levels, 0, 0, range, f);
  }
  for (uint32_t row = range.row; row <= range.last_row; ++row) {
    for (uint32_t b = block; b <= last_block; ++b) {
      if (!VisitBlock(grid, which, size_class, row, b, range, f)) return false;
    }
  }
  return true;
}

template <typename F>
void RegionGrid::Visit(Grid& grid, Which which, const Spot& spot, F&& f) {
  constexpr uint32_t kFewPlanes = 16;
  for (uint32_t id = grid.newest_class; id != 0; id = classes_[id].next) {
    const SizeClass& c = classes_[id];
    if (c.count[which] == 0) continue;
    Cell first = id == spot.size_class ? spot.first_cell : c.At(spot.first);
    Cell last = id == spot.size_class ? spot.last_cell : c.At(spot.last);
    for (int i = 0; i < 3; ++i) first[i] -= std::min(first[i], c.reach[i]);
    // Plane by plane; or, over many planes, all rows from the first to the last.
    bool together = last[0] - first[0] >= kFewPlanes;
    for (uint32_t plane = first[0]; plane <= last[0]; ++plane) {
      Range range{c.RowOf({plane, first[1], 0}), c.RowOf({together ? last[0] : plane, last[1], 0}),
                  first[2], last[2]};
      if (!VisitRange(grid, which, id, range, f)) return;
      if (together) break;
    }
  }
}

}  // namespace precast::graph
