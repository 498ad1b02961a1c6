// Place: which elements of which memory a view names. The fuzzer's own arithmetic, independent of
// Tensor and of the region map, and as plain as can be: overlap is asked element by element.
//
// Threads: values.
#pragma once

#include "fuzz/plan.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace precast::fuzz {

struct Place {
  uint32_t root = 0;  ///< the memory; the model numbers them
  DType dtype = DType::none;
  bool writable = true;
  bool readable = true;  ///< by the host: nothing on the way here said 'out'
  int rank = 0;
  int64_t offset = 0;  ///< in elements
  std::array<int64_t, kMaxRank> shape{}, stride{};

  int64_t size() const;
  int64_t end() const;  ///< one past the last element
  bool is_contiguous() const;
  bool SameRegion(const Place& other) const;
  bool SameStrides(const Place& other) const;
  /// Both lie in one root, and the stretches from first to last element meet.
  bool MayMeet(const Place& other) const;

  template <typename Visit>  // visit(int64_t element)
  void ForEach(Visit&& visit) const {
    VisitAxis(0, offset, visit);
  }

 private:
  template <typename Visit>
  void VisitAxis(int axis, int64_t at, Visit& visit) const {
    if (axis == rank) return visit(at);
    for (int64_t i = 0; i < shape[static_cast<size_t>(axis)]; ++i) {
      VisitAxis(axis + 1, at + i * stride[static_cast<size_t>(axis)], visit);
    }
  }
};

/// All of a root.
Place Whole(uint32_t root, DType dtype, const Shape& shape);

/// The view of `place` that the steps make; none if a step leaves its tensor.
std::optional<Place> Apply(Place place, const std::vector<ViewStep>& steps);

/// Whether an element is in both.
bool Overlap(const Place& a, const Place& b);

}  // namespace precast::fuzz
