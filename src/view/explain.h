// Says in words why one task of a run waits for another, or that it does not.
//
// Threads: pure functions.
#pragma once

#include "view/task_path.h"

#include <string>

namespace precast::view {

/// Why `to` waits for `from`: the reasons of the edge between them, or a shortest chain of edges,
/// or that there is none. Of tasks inside different instances it tells about the graph tasks around
/// them: everything inside waits with these.
std::string Explain(const RunGraph& run, const TaskPath& from, const TaskPath& to);

/// One reason as what the consumer does: "reads bytes 64 … 127 of x, which task 0 'a' writes".
std::string ReasonText(const RunGraph& run, uint32_t graph, uint32_t producer,
                       const EdgeReason& reason);

}  // namespace precast::view
