// RunModel: one run as the model of the chip's timeline takes it.
//
// Instances of recorded graphs are expanded. A graph task becomes two tasks without a kernel: one
// for which the instance's first tasks wait, and one that waits for its last. Predicates are taken
// to hold.
//
// Threads: plain data.
#pragma once

#include "view/run_graph.h"
#include "view/timeline_model.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace precast::view {

struct RunModel {
  /// What a task of the model is in the run.
  struct Origin {
    uint64_t number;  ///< in the expanded graph
    uint32_t graph;   ///< into RunGraph::graphs
    uint32_t task;
  };

  RunGraph run;
  ModelGraph graph;
  std::vector<Origin> origins;  ///< by task of the model
  uint64_t predicated = 0;      ///< tasks with a predicate
  /// Kernels without a cost of their own, each once.
  std::vector<std::string> undeclared;

  const GraphTask& task(uint32_t model_task) const {
    const Origin& origin = origins[model_task];
    return run.graphs[origin.graph].tasks[origin.task];
  }
  const std::string& name(uint32_t model_task) const { return run.names[task(model_task).name]; }
};

/// Calls the cost functions of the kernels. Throws `Error{invalid_argument}` when one gives a
/// negative cost, and what one throws, each with the task. Requires: the arguments of an Inspector.
RunModel ModelRun(const detail::RunBuilder& builder, std::span<const std::byte> image);

/// From now on calls `use` with the model of each run of the worker once it is bound, on the
/// orchestration's thread; what it throws fails the run. Replaces CaptureRuns.
void ModelRuns(Worker& worker, std::function<void(RunModel model)> use);

}  // namespace precast::view
