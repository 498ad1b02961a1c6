// Generator: draws a plan from a seed. The same seed gives the same plan everywhere.
//
// Threads: pure function.
#pragma once

#include "fuzz/plan.h"

#include <cstdint>

namespace precast::fuzz {

/// A plan that CheckPlan accepts: 1 to 2,000 tasks, most plans a few.
Plan Generate(uint64_t seed);

}  // namespace precast::fuzz
