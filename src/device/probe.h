// Probe: what the driver calls behind host views cost on a device, on both clocks.
//
// Used by `precast probe`. It measures as the figures for a2a3 were: register and unregister apart,
// 7 sizes, rotating over 4 allocations; small copies from the device; allocations, each with a
// first copy to it. From that follow a floor and a slope per page regime, how many accesses of one
// run make a mapping worth its price, what it costs to map two tensors of a bind anew in every run,
// and a verdict.
//
// Threads: the calling thread; nothing else should use the device.
#pragma once

#include "device/driver.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace precast::device {

/// Microseconds.
struct Sampled {
  double min = 0;
  double median = 0;
};

/// One clock's results.
struct ProbeClock {
  struct View {
    uint64_t bytes = 0;
    bool maps = false;  ///< without it the rest is 0
    Sampled enter, leave, pair;
    uint64_t accesses_to_break_even = 0;  ///< so many copies cost more than a pair
  };
  struct Copy {
    uint64_t bytes = 0;
    Sampled us;
  };
  /// Of a pair, against pages: ordinary ones (allocations under 2 MiB), then huge ones.
  struct Fit {
    double floor_us = 0, page_us = 0;
  };

  std::vector<View> views;        ///< by size
  std::vector<View> bind_views;   ///< of the two tensors of a bind
  std::vector<Copy> copies;       ///< device to host
  std::vector<Copy> allocations;  ///< allocate, and copy to there
  std::optional<Fit> ordinary, huge;
  std::optional<double> rebuild_us;  ///< a pair for both tensors of a bind; none: one does not map
  std::string verdict;               ///< "cache", "rebuild" or "copy"
  std::string reason;                ///< a sentence, with what would change the verdict
};

struct ProbeOptions {
  double budget_us = 10;  ///< what a bind may spend on mapping its two tensors anew
  int iterations = 300;
  int copy_iterations = 2000;
};

struct ProbeResult {
  ProbeClock wall;
  std::optional<ProbeClock> modelled;  ///< none where the platform has no such clock
};

/// Passes on what the driver throws; nothing stays allocated then.
ProbeResult Probe(Driver& driver, const ProbeOptions& options);

}  // namespace precast::device
