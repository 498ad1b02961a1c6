// TimelineReport: what a modelled timeline says about a run: what bounds it, what its critical path
// goes through, and what other chips would make of it.
//
// Threads: plain data; functions of their arguments.
#pragma once

#include "view/run_model.h"
#include "view/timeline_model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace precast::view {

struct TimelineReport {
  /// Tasks of one name.
  struct Group {
    std::string name;
    std::string kernel;
    std::vector<Core> cores = {};  ///< that a block holds
    uint64_t tasks = 0, blocks = 0;
    Picoseconds busy = 0;  ///< time for which they held cores, summed
    // On the critical path.
    uint64_t path_blocks = 0;
    uint64_t path_waits = 0;  ///< of those, the ones that waited for a core
    Picoseconds path_time = 0;
  };
  /// The span on another chip.
  struct WhatIf {
    std::string_view change;  ///< "twice the cores"
    Picoseconds span = 0;
  };
  /// The task whose first block was ready for longest before it got its cores.
  struct Wait {
    uint32_t task = 0, holder = 0;  ///< of the model; `holder` had the core
    Picoseconds from = 0, until = 0;
  };

  Chip chip;
  Timeline timeline;
  Bounds bounds;
  uint64_t tasks = 0, blocks = 0;  ///< with kernels
  uint64_t bytes = 0;
  uint64_t operations[2] = {};  ///< by Core
  std::vector<Group> groups;    ///< by time on the critical path, then by `busy`, most first
  std::vector<WhatIf> what_ifs;
  std::optional<Wait> longest_wait;
  uint64_t heap_edges = 0;          ///< of the critical path that only the graph heap's size makes
  std::vector<std::string> advice;  ///< sentences

  double Share(Picoseconds time) const {  ///< of the span
    return timeline.span == 0 ? 0 : static_cast<double>(time) / static_cast<double>(timeline.span);
  }
  double Busy(Core core) const;  ///< share of the span that its cores were held, on average
};

/// Simulates the run on `chip` and on what_ifs' chips.
TimelineReport ReportTimeline(const RunModel& model, const Chip& chip);

/// "task 812 'softmax' (kernel softmax)", after the graph tasks around it.
std::string ModelTaskLabel(const RunModel& model, uint32_t task);

inline double Microseconds(Picoseconds time) { return static_cast<double>(time) / 1e6; }

}  // namespace precast::view
