// ReadTrace: what the records of a trace buffer say, in the terms of a RunTrace.
//
// Used by RunTracer. Records name tasks by instance and id; their images, still in host memory, say
// the rest.
#pragma once

#include "run/run_tracer.h"

namespace precast::run {

/// Fills instances, tasks, blocks, ready_tasks and what was dropped, and appends to `names`.
/// `clock`: whose times it is to have. Requires: the execution has ended.
void ReadTrace(abi::TraceHeader* buffer, const TracedImage& image, const KernelRegistry& kernels,
               const Trace& clock, RunTrace* trace);

}  // namespace precast::run
