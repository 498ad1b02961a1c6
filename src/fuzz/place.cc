#include "fuzz/place.h"

#include <algorithm>

namespace precast::fuzz {

int64_t Place::size() const {
  int64_t size = 1;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) size *= shape[i];
  return size;
}

int64_t Place::end() const {
  int64_t last = offset;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) last += (shape[i] - 1) * stride[i];
  return last + 1;
}

bool Place::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = static_cast<size_t>(rank); i-- > 0;) {
    if (shape[i] != 1 && stride[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool Place::SameRegion(const Place& other) const {
  return root == other.root && offset == other.offset && shape == other.shape && SameStrides(other);
}

bool Place::SameStrides(const Place& other) const {
  return rank == other.rank && stride == other.stride;
}

bool Place::MayMeet(const Place& other) const {
  return root == other.root && offset < other.end() && other.offset < end();
}

Place Whole(uint32_t root, DType dtype, const Shape& shape) {
  Place place;
  place.root = root;
  place.dtype = dtype;
  place.rank = shape.rank();
  int64_t stride = 1;
  for (int axis = place.rank - 1; axis >= 0; --axis) {
    place.shape[static_cast<size_t>(axis)] = shape[axis];
    place.stride[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return place;
}

namespace {

bool ApplyStep(Place* place, const ViewStep& step) {
  const std::vector<int64_t>& n = step.numbers;
  size_t rank = static_cast<size_t>(place->rank);
  auto is_axis = [&](size_t i) { return n[i] >= 0 && n[i] < place->rank; };
  switch (step.kind) {
    case ViewStep::Kind::box:
      if (n.size() != 2 * rank) return false;
      for (size_t i = 0; i < rank; ++i) {
        if (n[i] < 0 || n[rank + i] < 1 || n[i] + n[rank + i] > place->shape[i]) return false;
        place->offset += n[i] * place->stride[i];
        place->shape[i] = n[rank + i];
      }
      return true;
    case ViewStep::Kind::slice: {
      if (!is_axis(0)) return false;
      size_t axis = static_cast<size_t>(n[0]);
      if (n[1] < 0 || n[1] >= n[2] || n[2] > place->shape[axis] || n[3] < 1) return false;
      place->offset += n[1] * place->stride[axis];
      place->shape[axis] = (n[2] - n[1] + n[3] - 1) / n[3];
      place->stride[axis] *= n[3];
      return true;
    }
    case ViewStep::Kind::select: {
      if (!is_axis(0)) return false;
      size_t axis = static_cast<size_t>(n[0]);
      if (n[1] < 0 || n[1] >= place->shape[axis]) return false;
      place->offset += n[1] * place->stride[axis];
      for (size_t i = axis; i + 1 < rank; ++i) {
        place->shape[i] = place->shape[i + 1];
        place->stride[i] = place->stride[i + 1];
      }
      place->shape[rank - 1] = place->stride[rank - 1] = 0;
      --place->rank;
      return true;
    }
    case ViewStep::Kind::transpose:
      if (!is_axis(0) || !is_axis(1)) return false;
      std::swap(place->shape[static_cast<size_t>(n[0])], place->shape[static_cast<size_t>(n[1])]);
      std::swap(place->stride[static_cast<size_t>(n[0])], place->stride[static_cast<size_t>(n[1])]);
      return true;
    case ViewStep::Kind::reshape: {
      int64_t size = 1;
      for (int64_t extent : n) size *= extent;
      if (!place->is_contiguous() || size != place->size() || n.size() > size_t{kMaxRank}) {
        return false;
      }
      Place whole = Whole(place->root, place->dtype, Shape(n));
      place->rank = whole.rank;
      place->shape = whole.shape;
      place->stride = whole.stride;
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Place> Apply(Place place, const std::vector<ViewStep>& steps) {
  for (const ViewStep& step : steps) {
    if (!ApplyStep(&place, step)) return std::nullopt;
  }
  return place;
}

bool Overlap(const Place& a, const Place& b) {
  if (!a.MayMeet(b)) return false;
  std::vector<int64_t> elements;
  a.ForEach([&](int64_t element) { elements.push_back(element); });
  std::sort(elements.begin(), elements.end());
  bool found = false;
  b.ForEach([&](int64_t element) {
    found = found || std::binary_search(elements.begin(), elements.end(), element);
  });
  return found;
}

}  // namespace precast::fuzz
