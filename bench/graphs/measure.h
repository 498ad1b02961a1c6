// Measuring on a machine whose speed changes: medians of interleaved repetitions, each between two
// timings of a fixed arithmetic loop that say how fast the machine was just then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace precast::bench {

/// Times the fixed loop: some 0.2 ms of dependent multiplications, no memory.
double TimeFixedLoop();

/// "model name, N processors".
std::string MachineName();

struct Row {
  std::vector<double> ns;     ///< per task, one a repetition
  std::vector<double> loops;  ///< the slower fixed loop around that repetition
  double bytes_per_task = 0;
};

struct Summary {
  double median = 0, min = 0;
  bool fast = true;
};

/// A repetition is fast if its loops took at most 1.15 times the fastest loop of this process. A
/// row is fast if at least half of its repetitions are, and is then the median of those; else it is
/// the median of all.
Summary Summarize(const Row& row, double fastest_loop);

double Median(std::vector<double> values);

}  // namespace precast::bench
