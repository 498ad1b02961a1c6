// How fast this machine reads memory: what kernels that stream weights are to be compared with.
//
// Each thread sums its own part of an array far larger than the caches, with the widest vectors
// that the processor has. The array lies in pages of the usual size, as device memory of the
// simulated chips does, or in huge pages where the system gives them.
#pragma once

#include <cstddef>
#include <vector>

namespace precast::bench {

struct ReadBandwidth {
  int threads;
  bool huge_pages;
  double gb_per_s;      ///< 10^9 bytes a second, median of the repetitions
  double max_gb_per_s;  ///< of the fastest repetition
};

/// Measures with 1 and with `threads` threads, in both kinds of pages, interleaved.
std::vector<ReadBandwidth> MeasureReadBandwidth(size_t bytes, int threads, int repetitions);

}  // namespace precast::bench
