// The chip's own timeline: when each block of a graph would run on the cores of a chip, computed
// without executing anything, by discrete-event simulation.
//
// The model (docs/timeline.md says why):
// - A task is ready when its producers have ended. Ready tasks wait in one line, in the order in
//   which they became ready, those of the same instant in program order. Whenever cores are free,
//   the first in line whose kind of core is free starts, a block at a time.
// - A mixed task's block holds all of its cores, any that are free, from its start until its last
//   part has ended. While it is the first to wait for cores, later tasks don't take them.
// - A part of a block takes the dispatch time, then as long as its bytes or its operations take,
//   whichever is longer. Cores that move bytes at the same time share the chip's bandwidth evenly,
//   each up to what one core can move.
//
// Times are integer picoseconds, rounded up where a rate does not divide them. Nothing depends on
// the machine.
//
// Threads: functions of their arguments.
#pragma once

#include <precast/kernel.h>

#include <cstdint>
#include <span>
#include <vector>

namespace precast::view {

using Picoseconds = uint64_t;

inline constexpr uint32_t kNothing = 0xffffffff;

/// A graph, as the model takes it. Tasks are numbered in program order from 0.
class ModelGraph {
 public:
  /// What one block does on one core.
  struct Part {
    Core core = Core::vector;
    uint64_t bytes = 0;
    uint64_t operations = 0;
  };
  struct Edge {
    uint32_t from, to;
  };

  /// `parts`: one; or of a mixed task one of a cube and one or two of vector cores; or none, for a
  /// task that only orders others.
  uint32_t AddTask(uint32_t blocks, std::span<const Part> parts);
  /// Requires: from < to.
  void AddEdge(uint32_t from, uint32_t to) { edges_.push_back({from, to}); }

  uint32_t tasks() const { return static_cast<uint32_t>(tasks_.size()); }
  uint32_t blocks(uint32_t task) const { return tasks_[task].blocks; }
  std::span<const Part> parts(uint32_t task) const {
    return std::span(parts_).subspan(tasks_[task].first_part, tasks_[task].parts);
  }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  struct Task {
    uint32_t blocks, first_part, parts;
  };
  std::vector<Task> tasks_;
  std::vector<Part> parts_;
  std::vector<Edge> edges_;
};

/// Cores by kind, and what they do.
struct Chip {
  uint32_t cube_cores = 0, vector_cores = 0;
  ChipRates rates;

  uint32_t cores(Core core) const { return core == Core::cube ? cube_cores : vector_cores; }
  uint64_t operations(Core core) const {
    return core == Core::cube ? rates.cube_operations : rates.vector_operations;
  }
};

/// One part of one block on one core.
struct CoreRun {
  Picoseconds start, end;  ///< while it holds the core
  uint32_t task, block;
  uint32_t core;        ///< cube cores first, then vector cores
  uint32_t waited_for;  ///< the run that had the core for which the block waited, or kNothing
};

/// A stretch of the critical path. Each begins when the one before ends.
struct PathStep {
  enum class Why : uint8_t { start, edge, core };
  uint32_t task;
  Picoseconds start, end;
  Why why;  ///< it began then: first of all; its last producer ended; a core became free
};

/// Times below which no schedule of the graph on the chip gets.
struct Bounds {
  Picoseconds bandwidth = 0;       ///< all bytes at the chip's bandwidth
  Picoseconds arithmetic[2] = {};  ///< by Core: all operations at the rate of all cores
  Picoseconds cores[2] = {};       ///< by Core: all blocks, shared evenly by the cores
  Picoseconds chain = 0;           ///< the longest chain of tasks, on as many cores as they want
};

struct Timeline {
  Picoseconds span = 0;
  std::vector<CoreRun> runs;       ///< in the order of their start; the parts of a block together
  std::vector<Picoseconds> ready;  ///< by task
  std::vector<Picoseconds> end;    ///< by task
  std::vector<PathStep> path;      ///< from 0 to `span`
  Picoseconds busy[2] = {};        ///< by Core: time for which cores were held, summed
};

/// Throws `Error{out_of_range}` when the times do not fit, and `Error{invalid_argument}` when the
/// chip has no core of a kind that the graph needs or a rate of zero.
Timeline Simulate(const ModelGraph& graph, const Chip& chip);
Bounds BoundsOf(const ModelGraph& graph, const Chip& chip);

}  // namespace precast::view
