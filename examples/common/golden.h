// Golden: compares results with a reference, element by element, for `CaseRun::Check`.
//
//   Golden golden;
//   for (…) golden.Expect("z", i, z[i], reference, tolerance);
//   return golden.result();
#pragma once

#include <precast/program.h>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace precast::examples {

class Golden {
 public:
  Golden() { result_.pass = true; }

  /// Element `index` of `tensor` must be within `tolerance` of `expected`. NaN never is.
  void Expect(std::string_view tensor, int64_t index, double found, double expected,
              double tolerance) {
    double error = std::abs(found - expected);
    if (std::isnan(error)) error = std::numeric_limits<double>::max();
    result_.max_abs_err = std::max(result_.max_abs_err, error);
    if (error <= tolerance || !result_.pass) return;
    result_.pass = false;
    result_.detail = fmt::format("{}[{}] is {}, expected {} with a tolerance of {:.3g}", tensor,
                                 index, found, expected, tolerance);
  }

  const GoldenResult& result() const { return result_; }

 private:
  GoldenResult result_;
};

}  // namespace precast::examples
