// Arguments: what a builder has found out about the arguments of the task under construction.
//
// Used inside the builder, and by the run layer to compare the arguments of a graph task with what
// a recording is for before it submits the task.
#pragma once

#include <precast/argument.h>

#include <cstdint>
#include <span>

namespace precast::graph {

/// A tensor argument.
struct alignas(32) Access {
  uint64_t begin;
  uint32_t buffer;
  uint32_t layout;
  Direction direction;
  Direction given;  // by the caller; what a task with a predicate writes is `inout`
  bool repeats;     // the same region as an earlier one, so it orders nothing more
  bool unplaced;    // its buffer had no place when the task came
};

struct Arguments {
  std::span<Access> tensors;            ///< in order
  std::span<const Arg* const> scalars;  ///< in order
  bool apart = true;                    ///< no two of the tensors lie in one buffer
};

}  // namespace precast::graph
