#include "view/critical_path.h"

#include <algorithm>

namespace precast::view {
namespace {

class Paths {
 public:
  Paths(const RunGraph& run, PathWeight weight)
      : run_(run), weight_(weight), paths_(run.graphs.size()), known_(run.graphs.size()) {}

  const CriticalPath& Of(uint32_t index) {
    CriticalPath& path = paths_[index];
    if (known_[index]) return path;
    known_[index] = true;
    const TaskGraph& graph = run_.graphs[index];
    std::vector<uint64_t> length(graph.size());  // of the longest path that ends with the task
    std::vector<uint32_t> before(graph.size(), kNone);
    uint32_t last = kNone;
    for (uint32_t task = 0; task < graph.size(); ++task) {
      for (uint32_t producer : graph.producers(task)) {
        if (before[task] == kNone || length[producer] > length[before[task]]) {
          before[task] = producer;
        }
      }
      length[task] =
          WeightOf(graph.tasks[task]) + (before[task] == kNone ? 0 : length[before[task]]);
      if (last == kNone || length[task] > length[last]) last = task;
    }
    if (last != kNone) path.weight = length[last];
    for (; last != kNone; last = before[last]) path.tasks.push_back(last);
    std::reverse(path.tasks.begin(), path.tasks.end());
    return path;
  }

  std::vector<CriticalPath> Take() {
    for (uint32_t graph = 0; graph < run_.graphs.size(); ++graph) Of(graph);
    return std::move(paths_);
  }

 private:
  uint64_t WeightOf(const GraphTask& task) {
    if (task.is_graph()) return Of(task.definition).weight;
    return weight_ == PathWeight::blocks ? task.blocks : 1;
  }

  const RunGraph& run_;
  const PathWeight weight_;
  std::vector<CriticalPath> paths_;
  std::vector<bool> known_;
};

}  // namespace

std::string_view NameOf(PathWeight weight) {
  return weight == PathWeight::blocks ? "blocks" : "tasks";
}

std::vector<CriticalPath> CriticalPaths(const RunGraph& run, PathWeight weight) {
  return Paths(run, weight).Take();
}

}  // namespace precast::view
