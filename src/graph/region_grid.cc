#include "graph/region_grid.h"

#include <utility>

namespace precast::graph {

namespace {

constexpr size_t kFirstLines = 256;

// Sizes with the same logarithm are in one class.
uint8_t SizeLog(uint64_t size) { return static_cast<uint8_t>(std::bit_width(size - 1)); }

RegionGrid::Point SizeOf(const RegionGrid::Spot& spot) {
  RegionGrid::Point size;
  for (int i = 0; i < 3; ++i) size[i] = spot.last[i] - spot.first[i] + 1;
  return size;
}

}  // namespace

RegionGrid::RegionGrid() : lines_(kFirstLines), regions_(64), classes_(1), grids_(1) {
  SetLines(lines_.size());
}

void RegionGrid::Clear() {
  if (++epoch_ == 0) {
    for (Line& line : lines_) line.tag = 0;
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

RegionGrid::Pitch RegionGrid::Pitch::Of(const Box& box) {
  if (box.axes == 0) return {};
  if (box.axes == 1 || box.stride[0] % box.stride[1] != 0) return {0, box.stride[0]};
  return {box.stride[0], box.stride[1]};
}

RegionGrid::Spot RegionGrid::Locate(Grid& grid, uint64_t begin, uint32_t layout, const Box& box) {
  if (grid.layout != layout) {
    uint64_t plane = grid.plane.value, row = grid.row.value;
    Point size{1, 1, box.run};
    for (uint32_t i = 0; i < box.axes; ++i) {
      uint64_t steps = box.count[i] - 1, stride = box.stride[i];
      if (plane != 0 && stride % plane == 0) {
        size[0] += steps * (stride / plane);
      } else if (row != 0 && stride % row == 0) {
        size[1] += steps * (stride / row);
      } else {
        size[2] += steps * stride;
      }
    }
    grid.layout = layout;
    grid.size = size;
    grid.size_class = grid.Fits({}) ? FindClass(grid, size) : 0;
  }
  Spot spot;
  spot.first = grid.At(begin);
  if (grid.Fits(spot.first)) {
    for (int i = 0; i < 3; ++i) spot.last[i] = spot.first[i] + grid.size[i] - 1;
    EnterClass(spot, grid.size_class);
    return spot;
  }
  spot.whole_rows = true;
  spot.last = grid.At(begin + box.extent - 1);
  spot.first[2] = 0;
  spot.last[2] = grid.row.value - 1;
  if (spot.first[0] != spot.last[0]) {
    spot.first[1] = 0;
    spot.last[1] = grid.rows_of_plane - 1;
  }
  EnterClass(spot, FindClass(grid, SizeOf(spot)));
  return spot;
}

RegionGrid::Spot RegionGrid::Everything(const Grid& grid) const {
  Spot spot;
  spot.last = grid.At(std::max<uint64_t>(grid.bytes, 1) - 1);
  if (grid.row.value != 0) spot.last[2] = grid.row.value - 1;
  if (grid.plane.value != 0) spot.last[1] = grid.rows_of_plane - 1;
  return spot;
}

LiveRegion* RegionGrid::Find(const Spot& spot, uint64_t begin, uint32_t layout,
                             const BoxTable& boxes) {
  if (spot.size_class == 0) return nullptr;
  const SizeClass& c = classes_[spot.size_class];
  uint32_t column = spot.first_cell[2];
  Line* line = FindLine(spot.size_class << 4, c.RowOf(spot.first_cell), column >> 3);
  return line == nullptr ? nullptr : FindIn(&line->cell[column & 7], begin, layout, boxes);
}

inline LiveRegion& RegionGrid::Put(Line* line, Grid& grid, uint32_t size_class, uint32_t column,
                                   bool written, Key key) {
  uint32_t number = NewRegion();
  uint32_t* link = &line->cell[column & 7];
  if (!written) {
    while (*link != 0 && regions_[*link].writer != 0) link = &regions_[*link].next;
  }
  LiveRegion& region = regions_[number];
  region = {key.begin, key.layout, 0, *link, {0, 0}, 0};
  *link = number;
  ++grid.count[kAll];
  ++classes_[size_class].count[kAll];
  if (line->count[kAll]++ == 0) Mark(kAll, *line);
  if (written) CountWritten(line, grid, size_class);
  return region;
}

void RegionGrid::CountWritten(Line* line, Grid& grid, uint32_t size_class) {
  ++grid.count[kWritten];
  ++classes_[size_class].count[kWritten];
  if (line->count[kWritten]++ == 0) Mark(kWritten, *line);
}

LiveRegion* RegionGrid::FindIn(uint32_t* cell, uint64_t begin, uint32_t layout,
                               const BoxTable& boxes) {
  constexpr int kFew = 8;
  uint32_t* link = cell;
  for (int i = 0; i < kFew && *link != 0; ++i, link = &regions_[*link].next) {
    uint32_t number = *link;
    LiveRegion& region = regions_[number];
    if (boxes.Same(region, begin, layout)) {
      if (region.writer != 0) {  // to the front
        *link = region.next;
        region.next = *cell;
        *cell = number;
      }
      return &region;
    }
  }
  return nullptr;
}

LiveRegion* RegionGrid::FindOrAdd(uint32_t number, bool write, LiveRegion& first, uint64_t begin,
                                  uint32_t layout, const BoxTable& boxes, abi::TaskId* also) {
  Grid& grid = grids_[number];
  uint32_t id = grid.size_class;
  if (grid.layout != layout || id == 0) return nullptr;
  Point at = grid.At(begin);
  if (!grid.Fits(at)) return nullptr;
  const SizeClass& c = classes_[id];
  Cell cell = c.At(at);
  Line* line = FindLine(id << 4, c.RowOf(cell), cell[2] >> 3);
  if (line != nullptr && line->cell[cell[2] & 7] != 0) {
    LiveRegion* found = &regions_[line->cell[cell[2] & 7]];
    if (found->begin != begin || found->layout() != layout) {
      found = FindIn(&line->cell[cell[2] & 7], begin, layout, boxes);
      return found != nullptr && (!write || found->writer != 0) ? found : nullptr;
    }
    if (!write || found->writer != 0) [[likely]]
      return found;
    if (found->next != 0) return nullptr;
  }
  return AddPlainly(grid, write, first, {begin, layout}, at, line, cell, boxes, also);
}

// Adds a region, or lists one that was only read so far as written, if it is alone in its cell and
// plainly overlaps nothing else in the grid.
LiveRegion* RegionGrid::AddPlainly(Grid& grid, bool write, LiveRegion& first, Key key, Point at,
                                   Line* line, Cell cell, const BoxTable& boxes,
                                   abi::TaskId* also) {
  uint32_t id = grid.size_class;
  const SizeClass& c = classes_[id];
  Which which = write ? kAll : kWritten;
  if (grid.count[which] != c.count[which] || c.beyond) return nullptr;
  for (int i = 0; i < 3; ++i) {
    if (at[i] + c.shift[i] + grid.size[i] > (cell[i] + uint64_t{1}) * c.cell[i].value)
      return nullptr;
  }
  LiveRegion* found = nullptr;
  if (line != nullptr && line->cell[cell[2] & 7] != 0) {
    found = &regions_[line->cell[cell[2] & 7]];
    if (found->chunk != 0) return nullptr;
  }
  uint32_t flags = write ? 0 : LiveRegion::kForeignRead;
  if (first.key != LiveRegion::kNone) {
    const Box& box = boxes[key.layout];
    const Box& first_box = boxes[first.layout()];
    if (Overlaps(first.begin, first_box, key.begin, box)) {
      bool larger = first_box.extent > box.extent;  // so that it stays live
      if (!larger || first.writer == 0 || (write && first.reader[0] != 0)) return nullptr;
      *also = first.writer;
      first.key |= write ? LiveRegion::kForeignWrite : LiveRegion::kForeignRead;
      if (!write) flags |= LiveRegion::kForeignWrite;
    }
  }
  if (found != nullptr) {
    CountWritten(line, grid, id);
    found->key &= LiveRegion::kLayoutMask;
    return found;
  }
  if (line == nullptr) {
    MakeRoom();
    line = FindOrAddLine(id << 4, c.RowOf(cell), cell[2] >> 3);
  }
  LiveRegion& added = Put(line, grid, id, cell[2], write, key);
  added.key |= flags;
  return &added;
}

LiveRegion& RegionGrid::Insert(Grid& grid, bool written, Spot& spot, uint64_t begin,
                               uint32_t layout) {
  MakeRoom();
  if (spot.size_class == 0) {
    Point size = SizeOf(spot);
    EnterClass(spot, AddClass(grid, spot));
    if (grid.layout == layout && grid.size == size) grid.size_class = spot.size_class;
  }
  SizeClass& c = classes_[spot.size_class];
  for (int i = 0; i < 3; ++i) {
    c.reach[i] = std::max(c.reach[i], spot.last_cell[i] - spot.first_cell[i]);
    c.beyond = c.beyond || c.reach[i] != 0;
  }
  uint32_t column = spot.first_cell[2];
  Line* line = FindOrAddLine(spot.size_class << 4, c.RowOf(spot.first_cell), column >> 3);
  return Put(line, grid, spot.size_class, column, written, {begin, layout});
}

void RegionGrid::SetPitch(Grid& grid, Pitch pitch, const BoxTable& boxes) {
  detached_.clear();
  detached_.reserve(grid.count[kAll]);
  Visit(grid, kAll, Everything(grid), [](LiveRegion&) { return Then::detach; });
  std::sort(detached_.begin(), detached_.end(), [this](uint32_t a, uint32_t b) {
    return regions_[a].last_access() < regions_[b].last_access();
  });
  grid.row = Divider::By(pitch.row);
  grid.plane = {};
  grid.rows_of_plane = ~uint64_t{0};
  if (pitch.plane != 0) {
    grid.plane = Divider::By(pitch.plane);
    grid.rows_of_plane = pitch.plane / pitch.row;
  }
  grid.newest_class = 0;
  grid.layout = LiveRegion::kNone;
  grid.wasted = 0;
  for (uint32_t number : detached_) {
    LiveRegion old = regions_[number];
    regions_[number].next = free_region_;
    free_region_ = number;
    Spot spot = Locate(grid, old.begin, old.layout(), boxes[old.layout()]);
    LiveRegion& region = Insert(grid, old.writer != 0, spot, old.begin, old.layout());
    old.next = region.next;
    region = old;
  }
}

uint32_t RegionGrid::FindClass(const Grid& grid, const Point& size) const {
  std::array<uint8_t, 3> log = {SizeLog(size[0]), SizeLog(size[1]), SizeLog(size[2])};
  for (uint32_t id = grid.newest_class; id != 0; id = classes_[id].next) {
    if (classes_[id].log == log) return id;
  }
  return 0;
}

uint32_t RegionGrid::AddClass(Grid& grid, const Spot& spot) {
  Point size = SizeOf(spot);
  Spot all = Everything(grid);
  SizeClass c{};
  // Cells and rows are numbered with 32 bits.
  constexpr uint32_t kPlaneBits = 15, kRowBits = 30;
  uint32_t row_bits = grid.plane.value != 0 ? kRowBits - kPlaneBits : kRowBits;
  c.cell[0] = Divider::By(std::max(size[0], (all.last[0] >> kPlaneBits) + 1));
  c.cell[1] = Divider::By(std::max(size[1], (all.last[1] >> row_bits) + 1));
  c.cell[2] = Divider::By(std::max(size[2], (all.last[2] >> kRowBits) + 1));
  for (int i = 0; i < 3; ++i) {
    c.log[i] = SizeLog(size[i]);
    uint64_t cell = c.cell[i].value;
    c.shift[i] = i == 0 ? 0 : (cell - spot.first[i] % cell) % cell;
  }
  c.next = grid.newest_class;
  Cell last = c.At(all.last);
  c.rows_of_plane = last[1] + 1;
  c.last_row = c.RowOf(last);
  c.last_block = last[2] >> 3;
  c.row_bits = c.last_row == 0 ? 0 : c.last_block == 0 ? 6 : 3;
  c.column_bits = static_cast<uint8_t>(6 - c.row_bits);
  while (uint64_t{c.last_row} >> (c.row_bits * c.levels) != 0 ||
         uint64_t{c.last_block} >> (c.column_bits * c.levels) != 0) {
    ++c.levels;
  }
  classes_.push_back(c);
  return grid.newest_class = static_cast<uint32_t>(classes_.size() - 1);
}

RegionGrid::Line* RegionGrid::FindOrAddLine(uint32_t owner, uint32_t row, uint32_t column) {
  uint64_t tag = uint64_t{owner} << 32 | epoch_, place = uint64_t{row} << 32 | column;
  for (size_t i = HomeOf(owner, row, column);; i = (i + kStep) & mask_) {
    Line& line = lines_[i];
    if (line.place == place && line.tag == tag) return &line;
    if (static_cast<uint32_t>(line.tag) != epoch_) {
      ++lines_used_;
      line = Line{tag, place, {}, {0, 0}, {0, 0}};
      return &line;
    }
  }
}

// Keeps the table at most half full. Lines that hold nothing any more are left behind.
void RegionGrid::Rehash() {
  auto kept = static_cast<size_t>(std::count_if(
      lines_.begin(), lines_.end(), [this](const Line& line) { return line.holds(epoch_); }));
  size_t size = lines_.size();
  while ((kept + kLinesForOneRegion) * 3 > size) size *= 2;
  std::vector<Line> old(size);
  std::swap(lines_, old);
  SetLines(size);
  lines_used_ = 0;
  for (const Line& line : old) {
    if (line.holds(epoch_)) *FindOrAddLine(line.owner(), line.row(), line.column()) = line;
  }
}

void RegionGrid::Mark(Which which, const Line& block) {
  uint32_t id = block.owner() >> 4, row = block.row(), column = block.column();
  const SizeClass& c = classes_[id];
  uint32_t rows = (1u << c.row_bits) - 1, columns = (1u << c.column_bits) - 1;
  for (uint32_t level = 1; level <= c.levels; ++level) {
    uint32_t bit = (row & rows) << c.column_bits | (column & columns);
    row >>= c.row_bits;
    column >>= c.column_bits;
    Line* line = FindOrAddLine(id << 4 | level, row, column);
    uint64_t before = line->bits[which];
    line->bits[which] |= uint64_t{1} << bit;
    if (before != 0) return;
  }
}

void RegionGrid::Unmark(Which which, const Line& block) {
  uint32_t id = block.owner() >> 4, row = block.row(), column = block.column();
  const SizeClass& c = classes_[id];
  uint32_t rows = (1u << c.row_bits) - 1, columns = (1u << c.column_bits) - 1;
  for (uint32_t level = 1; level <= c.levels; ++level) {
    uint32_t bit = (row & rows) << c.column_bits | (column & columns);
    row >>= c.row_bits;
    column >>= c.column_bits;
    Line* line = FindLine(id << 4 | level, row, column);
    line->bits[which] &= ~(uint64_t{1} << bit);
    if (line->bits[which] != 0) return;
  }
}

}  // namespace precast::graph
