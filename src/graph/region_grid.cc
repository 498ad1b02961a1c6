#include "graph/region_grid.h"

#include <utility>

namespace precast::graph {

namespace {

constexpr size_t kFirstLines = 64;
constexpr size_t kLinesForOneRegion = 16;  // its block and the nodes above

// Sizes h and h' are in one class when this is equal.
uint8_t SizeLog(uint64_t size) { return static_cast<uint8_t>(std::bit_width(size - 1)); }

}  // namespace

void BoxTable::Clear() {
  if (++epoch_ == 0) {
    boxes_.clear();
    epoch_ = 1;
  }
}

const Box& BoxTable::Learn(uint32_t id, const abi::Layout& layout) {
  if (id >= boxes_.size()) boxes_.resize(std::max<size_t>({id + 1, boxes_.size() * 2, 64}));
  boxes_[id] = {epoch_, Normalize(layout)};
  return boxes_[id].box;
}

Divider Divider::By(uint64_t value) {
  // floor(n / value) = floor(n · ceil(2^(63+l) / value) / 2^(63+l)) for n < 2^63, l = ceil(log2 value).
  __extension__ using Wide = unsigned __int128;
  uint32_t log = static_cast<uint32_t>(std::bit_width(value - 1));
  Wide power = static_cast<Wide>(1) << (63 + log);
  return {value, static_cast<uint64_t>((power + value - 1) / value), log};
}

RegionGrid::RegionGrid() : lines_(kFirstLines), regions_(64), classes_(1), grids_(1) {
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(lines_.size()));
}

void RegionGrid::Clear() {
  if (++epoch_ == 0) {
    for (Line& line : lines_) line.epoch = 0;
    epoch_ = 1;
  }
  lines_used_ = 0;
  regions_used_ = 1;
  free_region_ = 0;
  classes_.resize(1);
  grids_.resize(1);
}

uint32_t RegionGrid::Add(uint64_t bytes) {
  grids_.emplace_back().bytes = bytes;
  return static_cast<uint32_t>(grids_.size() - 1);
}

RegionGrid::Spot RegionGrid::Locate(Grid& grid, uint64_t begin, uint32_t layout, const Box& box) {
  uint64_t pitch = grid.pitch.value;
  uint64_t row = 0, column = begin;
  if (pitch != 0) {
    row = grid.pitch.Quotient(begin);
    column = begin - row * pitch;
  }
  if (grid.layout != layout) {
    uint64_t rows = 1, width = box.run;
    for (uint32_t i = 0; i < box.axes; ++i) {
      uint64_t steps = box.count[i] - 1;
      if (pitch != 0 && box.stride[i] % pitch == 0) {
        rows += steps * (box.stride[i] / pitch);
      } else {
        width += steps * box.stride[i];
      }
    }
    grid.layout = layout;
    grid.rows = rows;
    grid.width = width;
    bool within = pitch == 0 || width <= pitch;
    grid.size_class[0] = within ? FindClass(grid, kWritten, rows, width) : 0;
    grid.size_class[1] = within ? FindClass(grid, kOnlyRead, rows, width) : 0;
  }
  if (pitch == 0 || column + grid.width <= pitch) {
    return {row, row + grid.rows - 1, column, column + grid.width - 1,
            {grid.size_class[0], grid.size_class[1]}};
  }
  // It crosses the end of a row: whole rows.
  Spot spot{row, grid.pitch.Quotient(begin + box.extent - 1), 0, pitch - 1, {}};
  uint64_t rows = spot.last_row - row + 1;
  spot.size_class[0] = FindClass(grid, kWritten, rows, pitch);
  spot.size_class[1] = FindClass(grid, kOnlyRead, rows, pitch);
  return spot;
}

RegionGrid::Spot RegionGrid::Everything(const Grid& grid) const {
  uint64_t last = std::max<uint64_t>(grid.bytes, 1) - 1, pitch = grid.pitch.value;
  if (pitch == 0) return {0, 0, 0, last, {}};
  return {0, grid.pitch.Quotient(last), 0, pitch - 1, {}};
}

LiveRegion* RegionGrid::Find(const Spot& spot, Kind kind, uint64_t begin, uint32_t layout,
                             const BoxTable& boxes) {
  uint32_t id = spot.size_class[kind];
  if (id == 0) return nullptr;
  const SizeClass& c = classes_[id];
  if (c.regions == 0) return nullptr;
  uint32_t row = static_cast<uint32_t>(c.cell_rows.Quotient(spot.row));
  uint32_t column = static_cast<uint32_t>(c.cell_columns.Quotient(spot.column));
  Line* line = FindLine(id << 4, row, column >> 3);
  if (line == nullptr) return nullptr;
  constexpr uint32_t kFew = 8;
  uint32_t looked_at = 0;
  for (uint32_t i = line->cell[column & 7]; i != 0; i = regions_[i].next) {
    if (boxes.Same(regions_[i], begin, layout)) return &regions_[i];
    if (kind == kOnlyRead && ++looked_at == kFew) return nullptr;
  }
  return nullptr;
}

LiveRegion& RegionGrid::Insert(Grid& grid, Kind kind, const Spot& spot, uint64_t begin,
                               uint32_t layout) {
  MakeRoom();
  uint32_t id = spot.size_class[kind];
  if (id == 0) {
    uint64_t rows = spot.last_row - spot.row + 1;
    uint64_t width = spot.last_column - spot.column + 1;
    id = AddClass(grid, kind, rows, width);
    if (grid.layout == layout && grid.rows == rows && grid.width == width) {
      grid.size_class[kind] = id;
    }
  }
  uint32_t number = NewRegion();
  SizeClass& c = classes_[id];
  uint32_t row = static_cast<uint32_t>(c.cell_rows.Quotient(spot.row));
  uint32_t column = static_cast<uint32_t>(c.cell_columns.Quotient(spot.column));
  c.reach_rows = std::max(
      c.reach_rows, static_cast<uint32_t>(c.cell_rows.Quotient(spot.last_row)) - row);
  c.reach_columns = std::max(
      c.reach_columns, static_cast<uint32_t>(c.cell_columns.Quotient(spot.last_column)) - column);
  ++c.regions;
  ++grid.live;
  Line* line = FindOrAddLine(id << 4, row, column >> 3);
  uint32_t& cell = line->cell[column & 7];
  LiveRegion& region = regions_[number];
  region = {begin, layout, 0, cell, {0, 0}, 0};
  cell = number;
  if (line->regions++ == 0) Mark(id, row, column >> 3);
  return region;
}

void RegionGrid::SetPitch(Grid& grid, uint64_t pitch, const BoxTable& boxes) {
  detached_.clear();
  detached_.reserve(grid.live);
  Spot all = Everything(grid);
  auto detach = [](LiveRegion&) { return Then::detach; };
  Visit(grid, kWritten, all, detach);
  Visit(grid, kOnlyRead, all, detach);
  grid.pitch = Divider::By(pitch);
  grid.newest_class = 0;
  grid.layout = LiveRegion::kNone;
  grid.wasted = 0;
  for (uint32_t number : detached_) {
    LiveRegion old = regions_[number];
    regions_[number].next = free_region_;
    free_region_ = number;
    Spot spot = Locate(grid, old.begin, old.layout(), boxes[old.layout()]);
    LiveRegion& region =
        Insert(grid, old.writer != 0 ? kWritten : kOnlyRead, spot, old.begin, old.layout());
    uint32_t next = region.next;
    region = old;
    region.next = next;
  }
}

uint32_t RegionGrid::FindClass(const Grid& grid, Kind kind, uint64_t rows, uint64_t width) const {
  uint8_t log_rows = SizeLog(rows), log_columns = SizeLog(width);
  for (uint32_t id = grid.newest_class; id != 0; id = classes_[id].next) {
    const SizeClass& c = classes_[id];
    if (c.kind == kind && c.log_rows == log_rows && c.log_columns == log_columns) return id;
  }
  return 0;
}

uint32_t RegionGrid::AddClass(Grid& grid, Kind kind, uint64_t rows, uint64_t width) {
  Spot all = Everything(grid);
  SizeClass c{};
  // Cells are numbered with 31 bits.
  c.cell_rows = Divider::By(std::max(rows, (all.last_row >> 31) + 1));
  c.cell_columns = Divider::By(std::max(width, (all.last_column >> 31) + 1));
  c.next = grid.newest_class;
  c.last_row = static_cast<uint32_t>(c.cell_rows.Quotient(all.last_row));
  c.last_block = static_cast<uint32_t>(c.cell_columns.Quotient(all.last_column) >> 3);
  c.log_rows = SizeLog(rows);
  c.log_columns = SizeLog(width);
  c.kind = static_cast<uint8_t>(kind);
  c.row_bits = c.last_row == 0 ? 0 : c.last_block == 0 ? 6 : 3;
  c.column_bits = static_cast<uint8_t>(6 - c.row_bits);
  while (uint64_t{c.last_row} >> (c.row_bits * c.levels) != 0 ||
         uint64_t{c.last_block} >> (c.column_bits * c.levels) != 0) {
    ++c.levels;
  }
  classes_.push_back(c);
  return grid.newest_class = static_cast<uint32_t>(classes_.size() - 1);
}

uint32_t RegionGrid::NewRegion() {
  if (free_region_ != 0) {
    uint32_t number = free_region_;
    free_region_ = regions_[number].next;
    return number;
  }
  if (regions_used_ == regions_.size()) regions_.resize(regions_.size() * 2);
  return regions_used_++;
}

RegionGrid::Line* RegionGrid::FindOrAddLine(uint32_t owner, uint32_t row, uint32_t column) {
  size_t mask = lines_.size() - 1;
  for (size_t i = HomeOf(owner, row, column);; i = (i + 9) & mask) {
    Line& line = lines_[i];
    if (line.epoch != epoch_) {
      ++lines_used_;
      line = {epoch_, owner, row, column, {}, 0, 0, 0};
      return &line;
    }
    if (line.owner == owner && line.row == row && line.column == column) return &line;
  }
}

// Keeps the table at most half full. Lines that hold nothing any more are left behind.
void RegionGrid::MakeRoom() {
  if ((lines_used_ + kLinesForOneRegion) * 2 <= lines_.size()) return;
  size_t kept = 0;
  for (const Line& line : lines_) {
    kept += line.epoch == epoch_ && (line.regions != 0 || line.bits != 0);
  }
  size_t size = lines_.size();
  while ((kept + kLinesForOneRegion) * 3 > size) size *= 2;
  std::vector<Line> old(size);
  std::swap(lines_, old);
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(size));
  lines_used_ = 0;
  for (const Line& line : old) {
    if (line.epoch != epoch_ || (line.regions == 0 && line.bits == 0)) continue;
    *FindOrAddLine(line.owner, line.row, line.column) = line;
  }
}

void RegionGrid::Mark(uint32_t size_class, uint32_t row, uint32_t block) {
  const SizeClass& c = classes_[size_class];
  uint32_t rows = (1u << c.row_bits) - 1, columns = (1u << c.column_bits) - 1;
  for (uint32_t level = 1; level <= c.levels; ++level) {
    uint32_t bit = (row & rows) << c.column_bits | (block & columns);
    row >>= c.row_bits;
    block >>= c.column_bits;
    Line* line = FindOrAddLine(size_class << 4 | level, row, block);
    uint64_t before = line->bits;
    line->bits |= uint64_t{1} << bit;
    if (before != 0) return;
  }
}

void RegionGrid::Unmark(uint32_t size_class, uint32_t row, uint32_t block) {
  const SizeClass& c = classes_[size_class];
  uint32_t rows = (1u << c.row_bits) - 1, columns = (1u << c.column_bits) - 1;
  for (uint32_t level = 1; level <= c.levels; ++level) {
    uint32_t bit = (row & rows) << c.column_bits | (block & columns);
    row >>= c.row_bits;
    block >>= c.column_bits;
    Line* line = FindLine(size_class << 4 | level, row, block);
    line->bits &= ~(uint64_t{1} << bit);
    if (line->bits != 0) return;
  }
}

}  // namespace precast::graph
