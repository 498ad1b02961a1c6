// Divider: division by a number that stays, as one multiplication.
//
// Used by the region grid, which turns a byte offset into a row, a column and a cell for each
// access: three divisions, at 3 to 4 cycles each instead of 10 to 18.
//
// Threads: a value.
#pragma once

#include <bit>
#include <cstdint>

namespace precast::graph {

struct Divider {
  uint64_t value = 0;
  uint64_t magic = 0;
  uint32_t shift = 0;

  /// Requires: 1 <= value <= 2^62.
  static Divider By(uint64_t value) {
    // floor(n / value) = floor(n · ceil(2^(63+l) / value) / 2^(63+l)) for n < 2^63, where
    // l = ceil(log2 value).
    auto log = static_cast<uint32_t>(std::bit_width(value - 1));
    Wide power = static_cast<Wide>(1) << (63 + log);
    return {value, static_cast<uint64_t>((power + value - 1) / value), log};
  }

  /// n / value. Requires: n < 2^63.
  uint64_t Quotient(uint64_t n) const {
    return static_cast<uint64_t>((static_cast<Wide>(n << 1) * magic) >> 64) >> shift;
  }

 private:
  __extension__ using Wide = unsigned __int128;
};

}  // namespace precast::graph
