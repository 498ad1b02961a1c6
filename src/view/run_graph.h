// RunGraph: the task graph of one run as plain data, to look at.
//
// Captured from the image of a run and from what its builders logged beside it, whether or not the
// run executes (CaptureRuns). Everything is named by index; tasks by their number in program order.
// graphs[0] is the run; every definition that it submits, directly or inside others, follows once.
//
// Invariants
//   G1  Edges go from smaller to larger task numbers, and each is there once.
//   G2  No definition holds itself, so graphs may be visited recursively from 0.
//
// Threads: plain data; functions on it are pure.
#pragma once

#include "abi/image.h"

#include <precast/argument.h>
#include <precast/kernel.h>
#include <precast/orchestrator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace precast {
class Worker;
namespace detail {
class RunBuilder;
}
}  // namespace precast

namespace precast::view {

inline constexpr uint32_t kNone = 0xffffffff;

struct GraphKernel {
  std::string name;
  Core core = Core::vector;
};

/// A piece of memory with a life of its own, as the inference of order sees it.
struct GraphTensor {
  enum class Kind : uint8_t {
    argument,  ///< of the run
    device,    ///< child memory that is no argument
    created,   ///< by Orchestrator::alloc
    boundary,  ///< of the definition: all arguments of the graph that share memory
    scratch,   ///< of the instance that a graph task makes
  };
  Kind kind = Kind::created;
  uint32_t index = 0;  ///< among those of its kind; of a scratch: the last task that uses it
  uint32_t slot = 0;
  uint64_t base = 0;  ///< bytes, in the slot
  uint64_t bytes = 0;
  /// The task that comes before all other users, because the bytes were another tensor's before.
  uint32_t claim = kNone;
};

struct TaskArgument {
  uint32_t tensor = kNone;  ///< kNone in graphs without a log
  uint32_t slot = 0;
  uint64_t offset = 0;  ///< of element 0, in bytes, in the slot
  uint32_t layout = 0;
  Direction direction = Direction::in;
};

struct TaskPredicate {
  TaskArgument operand;
  Compare compare = Compare::equal;
  int64_t constant = 0;
};

struct GraphTask {
  uint32_t name = 0;                            ///< into RunGraph::names
  uint32_t kernels[3] = {kNone, kNone, kNone};  ///< more than one: a mixed task
  uint32_t definition = kNone;                  ///< of a graph task: into RunGraph::graphs
  uint32_t blocks = 0;                          ///< of each kernel; 0 without one
  uint32_t scope = 0;                           ///< into TaskGraph::outer_scope
  uint32_t scalars = 0;                         ///< how many
  uint32_t predicate = kNone;                   ///< into TaskGraph::predicates
  /// Of a graph task, into TaskGraph::tensors; kNone where a later graph task uses the same one.
  uint32_t scratch = kNone;
  // Where its ranges begin; see the functions of TaskGraph.
  uint32_t arguments = 0, producers = 0, consumers = 0, after = 0;

  bool is_graph() const { return definition != kNone; }
};

/// One image: the run, or a definition.
struct TaskGraph {
  std::string name;
  /// Whether its builder kept a log. Without one (a definition recorded before anybody looked)
  /// there are no tensors, no arguments of graph tasks and no scopes, and why an edge is there
  /// isn't known.
  bool logged = false;
  std::vector<GraphTask> tasks;  // one more than there are, for the ends of ranges
  std::vector<GraphTensor> tensors;
  std::vector<std::string> argument_names;  ///< of tensors of kind `argument`, by index
  std::vector<abi::Layout> layouts;
  std::vector<TaskPredicate> predicates;
  std::vector<uint32_t> outer_scope;  ///< the outermost scope is 0 and its own
  uint64_t edges = 0;
  uint64_t expanded = 0;  ///< tasks, those inside of graph tasks included

  // What the ranges of a task are ranges of.
  std::vector<TaskArgument> all_arguments;
  std::vector<uint32_t> all_producers, all_consumers, all_after;

  uint32_t size() const { return static_cast<uint32_t>(tasks.size()) - 1; }
  std::span<const TaskArgument> arguments(uint32_t task) const {
    return Range(all_arguments, tasks[task].arguments, tasks[task + 1].arguments);
  }
  /// Tasks that it waits for, and that wait for it, ascending.
  std::span<const uint32_t> producers(uint32_t task) const {
    return Range(all_producers, tasks[task].producers, tasks[task + 1].producers);
  }
  std::span<const uint32_t> consumers(uint32_t task) const {
    return Range(all_consumers, tasks[task].consumers, tasks[task + 1].consumers);
  }
  /// What its submission named with `after`.
  std::span<const uint32_t> after(uint32_t task) const {
    return Range(all_after, tasks[task].after, tasks[task + 1].after);
  }

 private:
  template <typename T>
  static std::span<const T> Range(const std::vector<T>& all, uint32_t begin, uint32_t end) {
    return std::span<const T>(all).subspan(begin, end - begin);
  }
};

struct RunGraph {
  std::vector<GraphKernel> kernels;
  std::vector<std::string> names;
  std::vector<TaskGraph> graphs;

  const TaskGraph& run() const { return graphs.front(); }
};

/// Requires: the arguments of an Inspector.
RunGraph CaptureRun(const detail::RunBuilder& builder, std::span<const std::byte> image);

/// From now on calls `use` with the graph of each run of the worker once it is bound, on the
/// orchestration's thread; what it throws fails the run. An empty `use` ends that.
void CaptureRuns(Worker& worker, std::function<void(RunGraph graph)> use);

// The expanded graph: in place of a graph task, the task and behind it what its instance consists
// of. Numbers count these in program order from 0. Tasks of an instance without producers wait for
// the producers of its graph task; consumers of a graph task wait for its tasks without consumers.

struct ExpandedTask {
  uint64_t number = 0;
  uint64_t parent = ~uint64_t{0};  ///< the graph task around it; the largest number at the top
  uint32_t graph = 0;              ///< into RunGraph::graphs
  uint32_t task = 0;
  uint32_t depth = 0;
};

/// Calls visit(const ExpandedTask&) for all of them in order of their numbers.
template <typename Visit>
void ForEachExpanded(const RunGraph& run, Visit&& visit, const ExpandedTask& first = {}) {
  const TaskGraph& graph = run.graphs[first.graph];
  ExpandedTask at = first;
  for (at.task = 0; at.task < graph.size(); ++at.task) {
    visit(static_cast<const ExpandedTask&>(at));
    uint32_t definition = graph.tasks[at.task].definition;
    uint64_t inside = 0;
    if (definition != kNone) {
      inside = run.graphs[definition].expanded;
      ForEachExpanded(run, visit, {at.number + 1, at.number, definition, 0, at.depth + 1});
    }
    at.number += 1 + inside;
  }
}

/// Where an expanded number stands, from the outermost graph task to the task itself. Requires:
/// number < run().expanded.
std::vector<ExpandedTask> PathTo(const RunGraph& run, uint64_t number);

// Why an edge is there.

struct EdgeReason {
  enum class Kind : uint8_t {
    read_after_write,
    write_after_write,
    write_after_read,
    heap_reuse,  ///< the consumer's tensor got bytes of one that the producer used
    explicit_,   ///< `after`
  };
  Kind kind = Kind::explicit_;
  uint32_t tensor = kNone;   ///< both use it; heap_reuse: the consumer's; explicit_: kNone
  uint32_t earlier = kNone;  ///< heap_reuse: the producer's, unless the producer has the same one
                             ///< and is merely the first of its users
  uint64_t begin = 0, end = 0;  ///< bytes of `tensor` between which the two meet
  bool exact = false;           ///< they share all of these; else some of them
};

/// Why `consumer` waits for `producer` directly. Empty when there is no such edge, or no log.
std::vector<EdgeReason> ReasonsOf(const TaskGraph& graph, uint32_t producer, uint32_t consumer);

std::string_view NameOf(EdgeReason::Kind kind);  ///< "read-after-write"

// How people are told.

/// "x", "argument 3", "created 5", "boundary 0", "scratch of task 7"
std::string TensorName(const TaskGraph& graph, uint32_t tensor);
/// "softmax", "qk + softmax", "dependency"; of a graph task its name
std::string KernelName(const RunGraph& run, const GraphTask& task);
/// "task 12 'softmax' (kernel softmax)"
std::string TaskLabel(const RunGraph& run, uint32_t graph, uint32_t task);

}  // namespace precast::view
