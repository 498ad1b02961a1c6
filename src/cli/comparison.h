// Comparison: the statistics of `precast ab`, which measures two sides in turns.
//
// A *segment* of a side is what one process measured: a few rounds, the first of which, a warm-up,
// is not among the values here. Segments of the two sides alternate, so that whatever else the
// machine does meets both. A difference counts when it has the same sign in each pair of segments;
// ten pairs agree by chance twice in 1024.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace precast::cli {

/// Of one side and one quantity: values by segment.
using Segments = std::vector<std::vector<double>>;

struct Summary {
  double trimmed_mean = 0, median = 0, min = 0;
};

enum class Verdict { a_faster, b_faster, equal, not_resolved };

struct Comparison {
  Summary a, b;
  size_t a_ahead = 0, b_ahead = 0;  ///< pairs of segments in which that side's median is less
  Verdict verdict = Verdict::not_resolved;
  double percent = 0;  ///< by how much the faster one's trimmed mean is less than the other's
};

/// Over all segments; the `trim` highest and `trim` lowest values don't count for the mean.
/// Requires: more than 2 * trim values.
Summary Summarize(const Segments& segments, size_t trim);

/// Requires: as many segments of `a` as of `b`, none empty.
Comparison Compare(const Segments& a, const Segments& b, size_t trim);

/// "B faster by 98.7 %", "equal" or "not resolved".
std::string ToString(const Comparison& comparison);

}  // namespace precast::cli
