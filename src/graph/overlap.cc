#include "graph/overlap.h"

#include "base/planted_fault.h"

#include <algorithm>

namespace precast::graph {

namespace {

// What is left of a region once its bytes are counted in larger and larger digits: axes `axis` and
// up of a box over runs of `run` bytes, from byte `begin` on. Without axes it is `run` bytes.
struct Rest {
  uint64_t begin;
  const Box* box;
  uint32_t axis;
  uint64_t run;

  bool contiguous() const { return axis == box->axes; }
  uint64_t top_stride() const { return contiguous() ? 0 : box->stride[axis]; }
  uint64_t extent() const {
    uint64_t extent = run;
    for (uint32_t i = axis; i < box->axes; ++i) extent += (box->count[i] - 1) * box->stride[i];
    return extent;
  }
};

// A part of a region, cut along a stride: in each of the rows first … last, `rest`, which lies
// within the row.
struct Part {
  uint64_t first, last;
  Rest rest;
};

// Cuts `region` into rows of `stride` bytes, at least its largest stride. Gives the number of
// parts, or 0 when a strided remainder crosses the end of a row.
int Cut(const Rest& region, uint64_t stride, Part parts[3]) {
  uint64_t row = region.begin / stride;
  Rest rest = region;
  rest.begin = region.begin % stride;
  uint64_t count = 1;
  if (region.top_stride() == stride) {
    count = region.box->count[region.axis];
    ++rest.axis;
  }
  uint64_t extent = rest.extent();
  if (rest.begin + extent <= stride) {
    parts[0] = {row, row + count - 1, rest};
    return 1;
  }
  if (!rest.contiguous()) return 0;
  // A run that crosses: the end of the first row, whole rows, the beginning of the last row. Runs
  // that repeat in each row are no longer than a row.
  uint64_t over = rest.begin + extent - stride;
  uint64_t whole = over / stride, tail = over % stride;
  if (count > 1 && whole > 0) return 0;
  int n = 0;
  Rest part = rest;
  part.run = stride - rest.begin;
  parts[n++] = {row, row + count - 1, part};
  part.begin = 0;
  if (whole > 0) {
    part.run = stride;
    parts[n++] = {row + 1, row + whole, part};
  }
  if (tail > 0) {
    part.run = tail;
    parts[n++] = {row + whole + 1, row + whole + count, part};
  }
  return n;
}

struct Parts {
  int of_a = 0, of_b = 0;
  Part a[3], b[3];
};

// Cuts both in the same way; false when that cannot be done. Where rows begin is free: the tensor
// that both are views of need not begin at byte 0.
bool CutBoth(const Rest& a, const Rest& b, Parts* parts) {
  uint64_t stride = std::max(a.top_stride(), b.top_stride());
  for (uint64_t row_begin : {uint64_t{0}, a.begin % stride, b.begin % stride}) {
    Rest moved_a = a, moved_b = b;
    moved_a.begin += stride - row_begin;
    moved_b.begin += stride - row_begin;
    parts->of_a = Cut(moved_a, stride, parts->a);
    parts->of_b = Cut(moved_b, stride, parts->b);
    if (parts->of_a > 0 && parts->of_b > 0) return true;
  }
  return false;
}

bool MayOverlap(const Rest& a, const Rest& b) {
  uint64_t short_by = PRECAST_PLANTED("overlap.off-by-one") ? 1 : 0;
  if (a.begin + a.extent() <= b.begin + short_by || b.begin + b.extent() <= a.begin + short_by) {
    return false;
  }
  if (a.contiguous() && b.contiguous()) return true;
  Parts parts;
  if (!CutBoth(a, b, &parts)) return true;
  for (int i = 0; i < parts.of_a; ++i) {
    for (int j = 0; j < parts.of_b; ++j) {
      if (parts.a[i].first <= parts.b[j].last && parts.b[j].first <= parts.a[i].last &&
          MayOverlap(parts.a[i].rest, parts.b[j].rest)) {
        return true;
      }
    }
  }
  return false;
}

bool SurelyCovers(const Rest& outer, const Rest& inner) {
  if (outer.begin > inner.begin || inner.begin + inner.extent() > outer.begin + outer.extent()) {
    return false;
  }
  if (outer.contiguous()) return true;
  Parts parts;
  if (!CutBoth(outer, inner, &parts)) return false;
  for (int j = 0; j < parts.of_b; ++j) {
    bool covered = false;
    for (int i = 0; i < parts.of_a && !covered; ++i) {
      covered = parts.a[i].first <= parts.b[j].first && parts.b[j].last <= parts.a[i].last &&
                SurelyCovers(parts.a[i].rest, parts.b[j].rest);
    }
    if (!covered) return false;
  }
  return true;
}

}  // namespace

bool Box::operator==(const Box& other) const {
  return extent == other.extent && run == other.run && axes == other.axes &&
         irregular == other.irregular && std::equal(count, count + axes, other.count) &&
         std::equal(stride, stride + axes, other.stride);
}

Box Normalize(const abi::Layout& layout) {
  Box box;
  box.extent = layout.extent;
  box.axes = 0;
  box.irregular = false;
  box.run = layout.element_bytes;
  if (layout.contiguous != 0) {
    box.run = layout.extent;
    return box;
  }
  // Axes of more than one element, from the smallest stride to the largest.
  struct Axis {
    uint64_t stride, count;
  };
  Axis axis[abi::kMaxRank];
  uint32_t axes = 0;
  for (uint32_t i = 0; i < layout.rank; ++i) {
    if (layout.shape[i] <= 1) continue;
    Axis added{uint64_t{layout.strides[i]} * layout.element_bytes, layout.shape[i]};
    uint32_t at = axes++;
    for (; at > 0 && axis[at - 1].stride > added.stride; --at) axis[at] = axis[at - 1];
    axis[at] = added;
  }
  uint64_t inner = box.run;  // extent of the axes so far
  uint64_t count[abi::kMaxRank], stride[abi::kMaxRank];
  uint32_t n = 0;
  for (uint32_t i = 0; i < axes; ++i) {
    auto [s, c] = axis[i];
    if (s < inner) {
      box.irregular = true;
      box.run = box.extent;
      return box;
    }
    if (n == 0 && s == box.run) {
      box.run *= c;
    } else if (n > 0 && s == count[n - 1] * stride[n - 1]) {
      count[n - 1] *= c;
    } else {
      count[n] = c;
      stride[n++] = s;
    }
    inner += (c - 1) * s;
  }
  box.axes = n;
  for (uint32_t i = 0; i < n; ++i) {
    box.count[i] = count[n - 1 - i];
    box.stride[i] = stride[n - 1 - i];
  }
  return box;
}

namespace internal {

bool OverlapsInGeneral(uint64_t begin_a, const Box& a, uint64_t begin_b, const Box& b) {
  return MayOverlap({begin_a, &a, 0, a.run}, {begin_b, &b, 0, b.run});
}

}  // namespace internal

bool Covers(uint64_t begin_outer, const Box& outer, uint64_t begin_inner, const Box& inner) {
  if (begin_outer > begin_inner || begin_inner + inner.extent > begin_outer + outer.extent) {
    return false;
  }
  if (outer.irregular && !PRECAST_PLANTED("overlap.covers-gaps")) return false;
  if (outer.axes == 0) return true;
  return SurelyCovers({begin_outer, &outer, 0, outer.run}, {begin_inner, &inner, 0, inner.run});
}

bool Overlaps(const Region& a, const Region& b) {
  return Overlaps(a.begin, Normalize(*a.layout), b.begin, Normalize(*b.layout));
}

bool Covers(const Region& outer, const Region& inner) {
  return Covers(outer.begin, Normalize(*outer.layout), inner.begin, Normalize(*inner.layout));
}

}  // namespace precast::graph
