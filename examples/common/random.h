// Random: input values for examples, the same on every machine and in every run.
//
// SplitMix64: a counter and a mixing function, so a generator costs 8 bytes and can be made for
// each block of a large tensor from the block's number alone.
#pragma once

#include <precast/dtype.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace precast::examples {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// In [0, n). Requires: n >= 1. The bias is below n / 2^64.
  uint64_t Below(uint64_t n) { return Next() % n; }

  /// Multiples of 2^-23 in [-1, 1).
  void Fill(std::span<float> values) {
    for (float& value : values) {
      value = static_cast<float>(static_cast<int64_t>(Next() >> 40) - (1 << 23)) * 0x1p-23f;
    }
  }

  /// Multiples of `scale` / 128 in [-scale, scale): exact when `scale` is a power of two. Eight
  /// values a step, from a table: the cases of paged_attention need a billion of them.
  void Fill(std::span<bf16> values, float scale) {
    std::array<bf16, 256> table;
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] = bf16((static_cast<float>(i) - 128) * (scale / 128));
    }
    for (size_t i = 0; i < values.size(); i += 8) {
      uint64_t bits = Next();
      for (bf16& value : values.subspan(i, std::min<size_t>(8, values.size() - i))) {
        value = table[bits & 255];
        bits >>= 8;
      }
    }
  }

  /// 0 … n - 1 in random order.
  std::vector<int32_t> Permutation(size_t n) {
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[Below(i)]);
    return order;
  }

 private:
  uint64_t state_;
};

}  // namespace precast::examples
