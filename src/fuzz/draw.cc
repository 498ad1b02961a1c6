#include "fuzz/draw.h"

#include <utility>

namespace precast::fuzz {

DType DrawDType(Random& random) {
  if (random.Percent(60)) return random.Pick({DType::i32, DType::f32, DType::u8, DType::u64});
  return static_cast<DType>(random.Between(1, 13));
}

Shape DrawShape(Random& random) {
  int rank = static_cast<int>(random.Between(0, random.Percent(20) ? 5 : 3));
  if (random.Percent(10)) return Shape{random.Between(1, 2000)};
  std::vector<int64_t> extents;
  int64_t most = rank <= 2 ? 24 : rank == 3 ? 10 : 4;
  for (int i = 0; i < rank; ++i) extents.push_back(random.Between(1, most));
  return Shape(extents);
}

std::vector<DType> DrawScalarTypes(Random& random) {
  std::vector<DType> types;
  int64_t count = random.Percent(50) ? 0 : random.Between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    types.push_back(random.Pick({DType::u64, DType::i32, DType::f32, DType::u8}));
  }
  return types;
}

uint64_t DrawScalar(Random& random, DType dtype) {
  // Few values, so that specialized graphs are replayed, too.
  uint64_t bits = random.Percent(70) ? random.Below(3) : random.Bits();
  size_t size = SizeOf(dtype);
  return size == 8 ? bits : bits & ((uint64_t{1} << (8 * size)) - 1);
}

void DrawSteps(Random& random, Place place, std::vector<ViewStep>* steps) {
  int64_t count = random.Percent(45) ? 0 : random.Between(1, 3);
  for (int64_t n = 0; n < count; ++n) {
    ViewStep step;
    size_t rank = static_cast<size_t>(place.rank);
    int64_t axis = rank == 0 ? 0 : random.Between(0, place.rank - 1);
    int64_t extent = rank == 0 ? 1 : place.shape[static_cast<size_t>(axis)];
    switch (random.Below(5)) {
      case 0:
        step.numbers.resize(2 * rank);
        for (size_t i = 0; i < rank; ++i) {
          int64_t begin = random.Between(0, place.shape[i] - 1);
          step.numbers[i] = begin;
          step.numbers[rank + i] = random.Between(1, place.shape[i] - begin);
        }
        break;
      case 1: {
        int64_t begin = random.Between(0, extent - 1);
        step = {ViewStep::Kind::slice,
                {axis, begin, random.Between(begin + 1, extent),
                 random.Percent(60) ? 1 : random.Between(1, 4)}};
        break;
      }
      case 2:
        step = {ViewStep::Kind::select, {axis, random.Between(0, extent - 1)}};
        break;
      case 3:
        step = {ViewStep::Kind::transpose,
                {axis, rank == 0 ? 0 : random.Between(0, place.rank - 1)}};
        break;
      case 4:
        step.kind = ViewStep::Kind::reshape;
        step.numbers = {place.size()};
        if (place.size() % 2 == 0 && random.Percent(50)) step.numbers = {place.size() / 2, 2};
        break;
    }
    std::optional<Place> next = Apply(place, {step});
    if (!next) continue;
    place = *next;
    steps->push_back(std::move(step));
  }
}

std::optional<std::vector<ViewStep>> DrawStepsTo(Random& random, Place place, const Shape& shape) {
  std::vector<ViewStep> steps;
  while (place.rank > shape.rank()) {
    int64_t axis = random.Between(0, place.rank - 1);
    ViewStep step{ViewStep::Kind::select,
                  {axis, random.Between(0, place.shape[static_cast<size_t>(axis)] - 1)}};
    place = *Apply(place, {step});
    steps.push_back(std::move(step));
  }
  if (place.rank < shape.rank()) return std::nullopt;
  for (int axis = 0; axis < place.rank; ++axis) {
    int64_t extent = place.shape[static_cast<size_t>(axis)], wanted = shape[axis];
    if (wanted > extent) return std::nullopt;
    if (wanted == extent) continue;
    int64_t step =
        wanted > 1 && random.Percent(30) ? random.Between(1, (extent - 1) / (wanted - 1)) : 1;
    int64_t span = (wanted - 1) * step + 1;
    int64_t begin = random.Between(0, extent - span);
    steps.push_back({ViewStep::Kind::slice, {axis, begin, begin + span, step}});
  }
  return steps;
}

}  // namespace precast::fuzz
