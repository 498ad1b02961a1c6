// HeapUse: how many bytes of the graph heap hold values that some task still needs, as a run goes.
//
// Used for traces. It looks at the image of the run, whose arguments say which bytes of the heap
// each task touches, and at when the tasks ran. Bytes are needed from the task that writes a value
// until the last one that uses it; the scratch of a recorded graph while its instance lives.
// Tensors with gaps count from their first byte to their last.
#pragma once

#include "run/run_tracer.h"

#include <cstdint>
#include <vector>

namespace precast::run {

/// A counter changes.
struct Change {
  int64_t at_ns;
  int64_t by;
};

/// When a task ran; end -1: it didn't.
struct TaskTime {
  int64_t begin_ns = 0, end_ns = -1;
};

/// Where the number of bytes changes. `times`: of the run's tasks, by number. Empty if the tensors
/// overlap in so many ways that it would take too long.
std::vector<Change> HeapUse(const TracedImage& image, const std::vector<TaskTime>& times);

}  // namespace precast::run
