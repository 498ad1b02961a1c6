// Draws of small things: types, shapes, scalars, views.
//
// Threads: as Random.
#pragma once

#include "fuzz/place.h"
#include "fuzz/plan.h"
#include "fuzz/random.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace precast::fuzz {

DType DrawDType(Random& random);
/// At most some 2,000 elements, most often a few.
Shape DrawShape(Random& random);
/// Types of the scalars on a boundary; none to three.
std::vector<DType> DrawScalarTypes(Random& random);
/// Bits of a scalar.
uint64_t DrawScalar(Random& random, DType dtype);
/// Adds steps from `place` to some view of it; maybe none.
void DrawSteps(Random& random, Place place, std::vector<ViewStep>* steps);
/// Steps from a place to one of this shape; none if that is not easy.
std::optional<std::vector<ViewStep>> DrawStepsTo(Random& random, Place place, const Shape& shape);

}  // namespace precast::fuzz
