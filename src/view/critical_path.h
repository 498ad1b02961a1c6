// The critical path of a graph: the chain of edges along which tasks cost most in all.
//
// Threads: pure functions.
#pragma once

#include "view/run_graph.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace precast::view {

/// What a task counts on its path. A graph task counts as the critical path of its definition.
enum class PathWeight : uint8_t { blocks, tasks };
std::string_view NameOf(PathWeight weight);

struct CriticalPath {
  uint64_t weight = 0;
  std::vector<uint32_t> tasks;  ///< in program order; empty in a graph without tasks
};

/// Of each graph of the run, by its index. Among paths of equal weight that whose tasks come first.
std::vector<CriticalPath> CriticalPaths(const RunGraph& run, PathWeight weight);

}  // namespace precast::view
