// Random: the numbers that a plan is drawn from. The same seed gives the same numbers on every
// machine and with every library: std::mt19937_64 is defined to the bit, and so is every draw here,
// while the standard distributions are not.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace precast::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  /// 0 … count - 1. Requires: count > 0. Favours small numbers by less than count / 2^64.
  uint64_t Below(uint64_t count) { return engine_() % count; }
  /// low … high.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  bool Percent(uint64_t percent) { return Below(100) < percent; }
  template <typename T>
  const T& Pick(const std::vector<T>& values) {
    return values[Below(values.size())];
  }
  template <typename T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Below(values.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace precast::fuzz
