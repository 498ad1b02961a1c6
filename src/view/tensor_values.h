// TensorValues: the elements of one tensor at one moment: statistics over all of them, and a copy
// of the first, bounded in bytes.
//
// Threads: plain data.
#pragma once

#include "abi/image.h"

#include <precast/dtype.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace precast::view {

struct TensorValues {
  DType dtype = DType::none;
  std::vector<uint32_t> shape;
  uint64_t elements = 0;
  // Of those that are no NaN.
  double min = 0, max = 0, mean = 0;
  uint64_t nans = 0;
  uint64_t hash = 0;        ///< of all elements in row-major order
  std::vector<char> first;  ///< the first elements in row-major order

  uint64_t kept() const { return first.size() / SizeOf(dtype); }
};

/// `data` is element 0. Keeps at most `bytes` of elements.
TensorValues ReadValues(const char* data, const abi::Layout& layout, uint64_t bytes);

/// "min -1.5, max 3, mean 0.25, no NaN"
std::string StatisticsText(const TensorValues& values);
/// "[0.5, 1, -3, …]": at most `count` elements.
std::string ElementsText(const TensorValues& values, uint64_t count);

/// How `found` differs from `expected`, element by element and bit by bit: "equal in all 64
/// elements", or the first differences. Only what both keep can be shown; it says so.
std::string DifferenceText(const TensorValues& found, const TensorValues& expected,
                           std::string_view expected_name);

}  // namespace precast::view
