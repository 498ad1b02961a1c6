// Overlap and cover of strided regions: do two views of one buffer share a byte, and does one
// contain the other?
//
// The region map asks both for each pair of candidates; the builder asks the first for the tensors
// of one task.
//
// A layout is first brought to normal form: axes of extent 1 dropped, the others sorted by stride,
// what is contiguous merged. So a reshape or a transpose of a region is the same region, a 2-D tile
// is one axis over a run of bytes, and a contiguous tensor is a run without axes. Then
//   1. `Overlaps` is exact for contiguous regions, for regions whose strides agree, and for any two
//      that have at most one axis and the same stride; else it answers by byte extent. It is never
//      false for regions that share a byte.
//   2. `Covers` is only true when every byte of the inner region lies in the outer one. It is exact
//      when the outer region is contiguous.
//
// Threads: pure functions of their arguments.
#pragma once

#include "abi/image.h"

#include <cstdint>

namespace precast::graph {

/// A view of a buffer: element 0 stands at byte `begin`, `layout` says what follows.
struct Region {
  uint64_t begin = 0;
  /// The interned number of `layout`: two regions of a buffer with equal `begin` and `layout_id`
  /// are the same. Only the region map looks at it. Requires: < abi::kMaxLayouts - 1.
  uint32_t layout_id = 0;
  /// Valid during the call it is passed to; nobody keeps it.
  const abi::Layout* layout = nullptr;
};

/// A layout in normal form, in bytes: `axes` axes from the largest stride to the smallest over runs
/// of `run` bytes.
struct Box {
  uint64_t extent;  // from the first byte to one past the last
  uint64_t run;
  uint32_t axes;
  bool irregular;  // elements interleave or coincide; only the extent means something
  uint64_t count[abi::kMaxRank];
  uint64_t stride[abi::kMaxRank];

  bool operator==(const Box& other) const;
};

Box Normalize(const abi::Layout& layout);

namespace internal {
bool OverlapsInGeneral(uint64_t begin_a, const Box& a, uint64_t begin_b, const Box& b);
}

inline bool Overlaps(uint64_t begin_a, const Box& a, uint64_t begin_b, const Box& b) {
  if (begin_b < begin_a) return Overlaps(begin_b, b, begin_a, a);
  uint64_t distance = begin_b - begin_a;
  if (distance >= a.extent) return false;
  if (distance < a.run) return true;
  if (a.axes == 1 && (b.axes == 0 || (b.axes == 1 && b.stride[0] == a.stride[0]))) {
    uint64_t row = distance / a.stride[0], column = distance % a.stride[0];
    return column < a.run || (row + 1 < a.count[0] && a.stride[0] - column < b.run);
  }
  return internal::OverlapsInGeneral(begin_a, a, begin_b, b);
}
bool Covers(uint64_t begin_outer, const Box& outer, uint64_t begin_inner, const Box& inner);

bool Overlaps(const Region& a, const Region& b);
bool Covers(const Region& outer, const Region& inner);

}  // namespace precast::graph
