// RunReport: where the time and the bytes of one run went.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace precast {

/// The phases of a run, in order.
enum class Phase : uint8_t {
  args,             ///< validate and claim arguments; copy host arguments to the device
  host_orch,        ///< the orchestration
  graph_upload,     ///< definitions that are new to this device, one copy; most runs have none
  arena_h2d,        ///< the image: exactly one copy
  execute,          ///< the device runs the graph
  copy_back,        ///< results to host arguments
  host_view_close,  ///< views that the policy drops; statistics
};
inline constexpr size_t kPhases = 7;
std::string_view Name(Phase phase);

struct RunReport {
  struct PhaseFigures {
    double wall_us = 0;
    uint64_t modelled_ps = 0;  ///< what its driver calls take on the platform's modelled clock
    uint64_t bytes = 0;        ///< what the phase copied; nothing is counted twice
    double modelled_us() const { return static_cast<double>(modelled_ps) / 1e6; }
  };
  struct Graph {
    uint64_t tasks = 0, edges = 0;  ///< of the run itself: a submitted graph is one task
    uint64_t blocks = 0;            ///< of all tasks, those of recorded graphs included
    uint64_t image_bytes = 0;
    uint64_t definitions_recorded = 0;  ///< bodies that were called, inner ones included
    uint64_t definitions_reused = 0;    ///< recorded in an earlier run, submitted in this one
    uint64_t definitions_shared = 0;    ///< recorded, and equal to one that was there
    uint64_t definitions_evicted = 0;   ///< by the worker so far
    uint64_t variants = 0;  ///< recordings of the graphs that were submitted, of any age
    uint64_t replays = 0;   ///< submissions of recorded graphs, the first ones included
  };
  struct Copies {
    uint64_t control = 0, staging = 0, back = 0;  ///< numbers of driver copies
    uint64_t bytes = 0;                           ///< of all of them
  };
  struct Heap {
    uint64_t peak_bytes = 0, reused_bytes = 0, added_edges = 0;
  };

  /// How get_tensor_data and set_tensor_data reached child memory.
  struct HostViews {
    uint64_t established = 0;    ///< views mapped by this run
    uint64_t reused = 0;         ///< allocations accessed through a view that was there before
    uint64_t dropped = 0;        ///< views unmapped by this run
    uint64_t refused = 0;        ///< views that the platform refused to this run
    uint64_t mapped_bytes = 0;   ///< of all views of the worker, after this run
    uint64_t devcopy = 0;        ///< accesses that were a copy from or to the device
    uint64_t devcopy_bytes = 0;  ///< copied by those
    bool operator==(const HostViews&) const = default;
  };

  std::array<PhaseFigures, kPhases> phases{};
  Graph graph;
  Copies copies;
  Heap heap;
  HostViews host_views;
  /// Which costs behind `modelled_ps` are assumed rather than measured, in words; may be empty.
  std::string_view assumed;
  int threads = 0;  ///< that could take part in `execute`
  /// Wall time of the whole call. What a submitted run waits until its result is asked for is not
  /// in it, nor is the start of threads when a worker first needs them.
  double total_us = 0;
  double in_kernels_us = -1;  ///< wall time with some thread inside a kernel; -1 if not measured
  std::vector<std::string> warnings;

  PhaseFigures& operator[](Phase phase) { return phases[static_cast<size_t>(phase)]; }
  const PhaseFigures& operator[](Phase phase) const { return phases[static_cast<size_t>(phase)]; }
  /// host_orch + graph_upload + arena_h2d.
  double control_plane_us() const;
  uint64_t modelled_ps() const;  ///< of all phases
};

/// The table of phases, several lines without a trailing newline.
std::string ToTable(const RunReport& report);
/// One JSON object: "phases", "control_plane", "modelled", "graph", "copies", "heap", "host_views".
std::string ToJson(const RunReport& report);

}  // namespace precast

template <>
struct fmt::formatter<precast::RunReport> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const precast::RunReport& report, Context& context) const {
    return fmt::formatter<std::string_view>::format(precast::ToTable(report), context);
  }
};
