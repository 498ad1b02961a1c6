// Draws the graph of a run: in the language of Graphviz, or as a JSON document.
//
// A drawing stays readable: as long as there is room, tasks stand alone; the tasks of graphs beyond
// that are grouped by kernel or definition, with counts on groups and edges. Each definition is one
// cluster, however often it is submitted.
//
// Threads: pure functions.
#pragma once

#include "view/critical_path.h"
#include "view/task_path.h"

#include <cstdint>
#include <optional>
#include <string>

namespace precast::view {

struct DrawOptions {
  std::string title = {};
  uint32_t max_tasks = 40;  ///< that stand alone, in all
  /// Draw only this task and what is at most `depth` edges away, in its graph.
  std::optional<TaskPath> focus = {};
  uint32_t depth = 2;
  std::optional<PathWeight> critical = {};  ///< mark the longest path by this
};

std::string ToDot(const RunGraph& run, const DrawOptions& options);

/// All tasks and edges of all graphs, or of the focus. docs/views.md has the keys.
std::string ToJson(const RunGraph& run, const DrawOptions& options);

/// The tasks of a graph that a focus shows, ascending.
std::vector<uint32_t> Neighbourhood(const TaskGraph& graph, uint32_t task, uint32_t depth);

/// "x, bytes 64 … 127", for where there is little room.
std::string ShortText(const TaskGraph& graph, const EdgeReason& reason);

}  // namespace precast::view
