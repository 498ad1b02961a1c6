// RegionGrid: the live regions of many buffers, found by where they lie.
//
// The region map owns one and asks it two things: is exactly this region live, and which live
// regions may touch this area? Regions of up to a million tiles of one buffer, from one element to the
// whole, come in any order.
//
// A buffer's bytes are seen as rows of *pitch* bytes (its first strided region says how long; without
// one the buffer is one row), a region as the rectangle that bounds it. Regions of about the same
// size, a factor of two in each direction, form a *size class* with its own grid of cells, as large
// as the first region of the class. So tiles fall on cells exactly, whatever their size. A
// region is listed in the one cell that holds its top left corner; a class knows how many cells its
// regions reach further at most. Eight cells in a row make a *block*, one cache line in one hash table for
// all buffers. Nodes over blocks, a bit for each of 64, lead a large area past what is empty.
//
// Why a hash grid: a prototype paid 83 ns a tile at 10,000 tiles and 104 at 1,000,000; bands with a
// B-tree paid 136 and 302; a B-tree over byte extents 590 at 100,000, because a tile's extent meets
// that of √n others.
//
// Invariants
//   G1  A live region stands in exactly one cell, of the class that its size gives under the
//       buffer's pitch. Classes of what tasks wrote and of what they only read are apart.
//   G2  The bit of a block (or node) in its parent is set when it holds anything.
//   G3  An entry of the table counts only when it carries the current epoch; that is how Clear
//       forgets everything at once.
//   G4  A reference to a LiveRegion is valid until the next Insert or SetPitch.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "abi/image.h"
#include "graph/overlap.h"

namespace precast::graph {

/// A region and the accesses to it that later tasks have to wait for.
struct LiveRegion {
  static constexpr uint32_t kForeignWrite = 1u << 28;
  static constexpr uint32_t kForeignRead = 1u << 29;
  static constexpr uint32_t kLayoutMask = kForeignWrite - 1;
  static constexpr uint32_t kNone = kLayoutMask;

  uint64_t begin;
  uint32_t key;             // layout id | flags; kNone: nothing here
  abi::TaskId writer;       // 0: only read
  uint32_t next;            // in the cell, or among free ones
  abi::TaskId reader[2];    // the first two since the write
  uint32_t chunk;           // newest chunk with more of them

  uint32_t layout() const { return key & kLayoutMask; }
};
static_assert(sizeof(LiveRegion) == 32);

/// The normal forms of the layouts seen since Clear.
class BoxTable {
 public:
  void Clear();
  bool Knows(uint32_t id) const { return id < boxes_.size() && boxes_[id].epoch == epoch_; }
  const Box& Learn(uint32_t id, const abi::Layout& layout);
  /// Requires: learned since Clear.
  const Box& operator[](uint32_t id) const { return boxes_[id].box; }

  /// Are these the same bytes of a buffer? (A reshape has another layout id.)
  bool Same(const LiveRegion& region, uint64_t begin, uint32_t layout) const {
    return region.begin == begin &&
           (region.layout() == layout || boxes_[region.layout()].box == boxes_[layout].box);
  }

 private:
  struct Entry {
    uint32_t epoch = 0;
    Box box;
  };
  std::vector<Entry> boxes_;
  uint32_t epoch_ = 1;
};

/// Divides by a number that stays: one multiplication. Dividends are below 2^63.
struct Divider {
  uint64_t value = 0;
  uint64_t magic = 0;
  uint32_t shift = 0;

  static Divider By(uint64_t value);
  uint64_t Quotient(uint64_t n) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(n << 1) * magic) >> 64) >> shift;
  }
};

class RegionGrid {
 public:
  enum Kind : uint32_t { kWritten = 0, kOnlyRead = 1 };
  enum class Then : uint8_t { keep, retire, detach, stop };  // detach: unlink, but do not free

  /// The rectangle of a region, both ends included, and its classes (0: not there).
  struct Spot {
    uint64_t row, last_row, column, last_column;
    uint32_t size_class[2];
  };

  struct Grid {
    Divider pitch;  // value 0: the buffer is one row
    uint64_t bytes = 0;
    uint32_t live = 0;    // regions
    uint32_t wasted = 0;  // candidates that turned out not to overlap, for SetPitch
    uint32_t newest_class = 0;
    // The last layout that was located.
    uint32_t layout = LiveRegion::kNone;
    uint64_t rows = 0, width = 0;
    uint32_t size_class[2] = {0, 0};
  };

  RegionGrid();
  /// Forgets everything in O(1); keeps capacity.
  void Clear();

  /// A grid for a buffer; numbers start at 1.
  uint32_t Add(uint64_t bytes);
  Grid& operator[](uint32_t grid) { return grids_[grid]; }

  Spot Locate(Grid& grid, uint64_t begin, uint32_t layout, const Box& box);
  Spot Everything(const Grid& grid) const;

  /// The live region that is exactly this one; null if none. Among regions that are only read it
  /// looks at a few: those in a cell need not be few, and one listed twice does no harm.
  LiveRegion* Find(const Spot& spot, Kind kind, uint64_t begin, uint32_t layout,
                   const BoxTable& boxes);

  /// Requires: no such region of kind kWritten. Gives it without accesses.
  LiveRegion& Insert(Grid& grid, Kind kind, const Spot& spot, uint64_t begin, uint32_t layout);

  /// Calls then = f(LiveRegion&) for each region whose rectangle may meet the spot's.
  template <typename F>
  void Visit(Grid& grid, Kind kind, const Spot& spot, F&& f);

  /// Sees the buffer as rows of `pitch` bytes from now on; O(live regions).
  void SetPitch(Grid& grid, uint64_t pitch, const BoxTable& boxes);

 private:
  struct alignas(64) Line {  // a block (level 0) or a node
    uint32_t epoch;
    uint32_t owner;  // class << 4 | level
    uint32_t row, column;
    uint32_t cell[8];  // block: first region of each cell
    uint64_t bits;     // node: children that hold something
    uint32_t regions;  // block: in all cells
    uint32_t reserved;
  };
  static_assert(sizeof(Line) == 64);

  struct SizeClass {
    Divider cell_rows, cell_columns;
    uint32_t next;
    uint32_t regions;
    uint32_t last_row, last_block;  // of the grid of blocks
    uint32_t reach_rows, reach_columns;
    uint8_t log_rows, log_columns;
    uint8_t kind;
    uint8_t levels;                 // of nodes
    uint8_t row_bits, column_bits;  // of a child in its node; together at most 6
  };

  struct CellRange {
    uint32_t row, last_row, column, last_column;  // cells
  };

  uint32_t FindClass(const Grid& grid, Kind kind, uint64_t rows, uint64_t width) const;
  uint32_t AddClass(Grid& grid, Kind kind, uint64_t rows, uint64_t width);
  uint32_t NewRegion();
  size_t HomeOf(uint32_t owner, uint32_t row, uint32_t column) const;
  Line* FindLine(uint32_t owner, uint32_t row, uint32_t column);
  Line* FindOrAddLine(uint32_t owner, uint32_t row, uint32_t column);
  void MakeRoom();
  void Mark(uint32_t size_class, uint32_t row, uint32_t block);
  void Unmark(uint32_t size_class, uint32_t row, uint32_t block);
  template <typename F>
  bool VisitBlock(Grid& grid, uint32_t size_class, uint32_t row, uint32_t block,
                  const CellRange& range, F& f);
  template <typename F>
  bool VisitNode(Grid& grid, uint32_t size_class, uint32_t level, uint32_t row, uint32_t column,
                 const CellRange& range, F& f);

  std::vector<Line> lines_;  // a power of two
  uint32_t shift_ = 0;       // 64 - log2 of that
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
  uint64_t key = (uint64_t{row} << 32 | column >> 3) ^ owner * 0x9E3779B97F4A7C15u;
  return (key * 0xD6E8FEB86659FD93u >> shift_) ^ (column & 7);
}

inline RegionGrid::Line* RegionGrid::FindLine(uint32_t owner, uint32_t row, uint32_t column) {
  size_t mask = lines_.size() - 1;
  for (size_t i = HomeOf(owner, row, column);; i = (i + 9) & mask) {
    Line& line = lines_[i];
    if (line.epoch != epoch_) return nullptr;
    if (line.owner == owner && line.row == row && line.column == column) return &line;
  }
}

template <typename F>
bool RegionGrid::VisitBlock(Grid& grid, uint32_t size_class, uint32_t row, uint32_t block,
                            const CellRange& range, F& f) {
  Line* line = FindLine(size_class << 4, row, block);
  if (line == nullptr) return true;
  uint32_t first = std::max(range.column, block * 8) & 7;
  uint32_t last = std::min(range.last_column, block * 8 + 7) & 7;
  bool go_on = true;
  uint32_t removed = 0;
  for (uint32_t cell = first; cell <= last && go_on; ++cell) {
    for (uint32_t* link = &line->cell[cell]; *link != 0;) {
      uint32_t number = *link;
      LiveRegion& region = regions_[number];
      Then then = f(region);
      if (then == Then::stop) {
        go_on = false;
        break;
      }
      if (then == Then::keep) {
        link = &region.next;
        continue;
      }
      ++removed;
      *link = region.next;
      if (then == Then::detach) {
        detached_.push_back(number);
      } else {
        region.next = free_region_;
        free_region_ = number;
      }
    }
  }
  if (removed != 0) {
    line->regions -= removed;
    classes_[size_class].regions -= removed;
    grid.live -= removed;
    if (line->regions == 0) Unmark(size_class, row, block);
  }
  return go_on;
}

template <typename F>
bool RegionGrid::VisitNode(Grid& grid, uint32_t size_class, uint32_t level, uint32_t row,
                           uint32_t column, const CellRange& range, F& f) {
  Line* line = FindLine(size_class << 4 | level, row, column);
  if (line == nullptr) return true;
  const SizeClass& c = classes_[size_class];
  uint32_t row_bits = c.row_bits, column_bits = c.column_bits;
  // Children in the range: rows below … below_last, columns within the node right … right_last.
  uint32_t row_shift = row_bits * (level - 1), column_shift = column_bits * (level - 1);
  uint32_t rows = (1u << row_bits) - 1, columns = (1u << column_bits) - 1;
  uint32_t below = std::max(range.row >> row_shift, row << row_bits);
  uint32_t below_last = std::min(range.last_row >> row_shift, (row << row_bits) + rows);
  uint32_t right = std::max(range.column >> 3 >> column_shift, column << column_bits) & columns;
  uint32_t right_last =
      std::min(range.last_column >> 3 >> column_shift, (column << column_bits) + columns) & columns;
  uint64_t wanted = (~uint64_t{0} >> (63 - (right_last - right))) << right;
  for (uint32_t r = below; r <= below_last; ++r) {
    uint64_t children = line->bits >> ((r & rows) << column_bits) & wanted;
    for (; children != 0; children &= children - 1) {
      uint32_t child = (column << column_bits) + static_cast<uint32_t>(std::countr_zero(children));
      bool go_on = level == 1 ? VisitBlock(grid, size_class, r, child, range, f)
                              : VisitNode(grid, size_class, level - 1, r, child, range, f);
      if (!go_on) return false;
    }
  }
  return true;
}

template <typename F>
void RegionGrid::Visit(Grid& grid, Kind kind, const Spot& spot, F&& f) {
  constexpr uint64_t kFewBlocks = 16;
  for (uint32_t id = grid.newest_class; id != 0; id = classes_[id].next) {
    const SizeClass& c = classes_[id];
    if (c.kind != kind || c.regions == 0) continue;
    CellRange range;
    range.row = static_cast<uint32_t>(c.cell_rows.Quotient(spot.row));
    range.last_row = static_cast<uint32_t>(c.cell_rows.Quotient(spot.last_row));
    range.column = static_cast<uint32_t>(c.cell_columns.Quotient(spot.column));
    range.last_column = static_cast<uint32_t>(c.cell_columns.Quotient(spot.last_column));
    range.row -= std::min(range.row, c.reach_rows);
    range.column -= std::min(range.column, c.reach_columns);
    uint32_t block = range.column >> 3, last_block = range.last_column >> 3;
    uint64_t blocks = uint64_t{range.last_row - range.row + 1} * (last_block - block + 1);
    if (blocks > kFewBlocks && c.levels > 0) {
      if (!VisitNode(grid, id, c.levels, 0, 0, range, f)) return;
      continue;
    }
    for (uint32_t row = range.row; row <= range.last_row; ++row) {
      for (uint32_t b = block; b <= last_block; ++b) {
        if (!VisitBlock(grid, id, row, b, range, f)) return;
      }
    }
  }
}

}  // namespace precast::graph
