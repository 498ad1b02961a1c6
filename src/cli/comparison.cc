#include "cli/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace precast::cli {
namespace {

double MedianOfSorted(const std::vector<double>& values) {
  size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return MedianOfSorted(values);
}

}  // namespace

Summary Summarize(const Segments& segments, size_t trim) {
  std::vector<double> values;
  for (const std::vector<double>& segment : segments) {
    values.insert(values.end(), segment.begin(), segment.end());
  }
  std::sort(values.begin(), values.end());
  auto cut = static_cast<std::ptrdiff_t>(trim);
  double sum = std::accumulate(values.begin() + cut, values.end() - cut, 0.0);
  return {sum / static_cast<double>(values.size() - 2 * trim), MedianOfSorted(values),
          values.front()};
}

Comparison Compare(const Segments& a, const Segments& b, size_t trim) {
  Comparison result;
  result.a = Summarize(a, trim);
  result.b = Summarize(b, trim);
  for (size_t i = 0; i < a.size(); ++i) {
    double of_a = Median(a[i]), of_b = Median(b[i]);
    result.a_ahead += of_a < of_b ? 1 : 0;
    result.b_ahead += of_b < of_a ? 1 : 0;
  }
  double mean_a = result.a.trimmed_mean, mean_b = result.b.trimmed_mean;
  if (result.a_ahead + result.b_ahead == 0 && mean_a == mean_b) {
    result.verdict = Verdict::equal;
  } else if (result.a_ahead == a.size() && mean_a < mean_b) {
    result.verdict = Verdict::a_faster;
    result.percent = 100 * (mean_b - mean_a) / mean_b;
  } else if (result.b_ahead == a.size() && mean_b < mean_a) {
    result.verdict = Verdict::b_faster;
    result.percent = 100 * (mean_a - mean_b) / mean_a;
  }
  return result;
}

std::string ToString(const Comparison& comparison) {
  switch (comparison.verdict) {
    case Verdict::a_faster:
      return fmt::format("A faster by {:.1f} %", comparison.percent);
    case Verdict::b_faster:
      return fmt::format("B faster by {:.1f} %", comparison.percent);
    case Verdict::equal:
      return "equal";
    case Verdict::not_resolved:
      break;
  }
  return "not resolved";
}

}  // namespace precast::cli
