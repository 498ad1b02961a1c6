// How people name a task of a run: "12" is task 12; "5.3" is task 3 inside the graph task 5, as
// messages of runs name it; and a name is every task that has it, inside graph tasks too.
//
// Threads: pure functions.
#pragma once

#include "view/run_graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace precast::view {

/// From the task of the run to the task itself; as PathTo gives it. Never empty.
using TaskPath = std::vector<ExpandedTask>;

/// The one task that `text` names. Throws `Error{usage}` when there is none, or when there are
/// several: the message then lists some of them.
TaskPath FindTask(const RunGraph& run, std::string_view text);

std::string PathText(const TaskPath& path);  ///< "5.3"
/// "task 5 (graph layer), task 3 'softmax' (kernel softmax)"
std::string Describe(const RunGraph& run, const TaskPath& path);

}  // namespace precast::view
