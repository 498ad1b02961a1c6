// Products of small matrices whose rows lie without gaps: tiles that fit into the caches.
#pragma once

#include "common/simd.h"

#include <cstddef>

namespace precast::examples {

/// Simd<Product>(a, b, c, m, n, k, add): c = a b, or c += a b; a is m x k, b is k x n. The terms of
/// an element are added in the order of k.
struct Product {
  /// Rows of adjacent elements, `stride` elements apart.
  template <typename T>
  struct Matrix {
    T* data;
    size_t stride;
    PRECAST_INLINE T* at(size_t row, size_t column) const { return data + row * stride + column; }
  };
  using In = Matrix<const float>;
  using Out = Matrix<float>;

  template <size_t N>
  PRECAST_INLINE static void Run(In a, In b, Out c, size_t m, size_t n, size_t k, bool add) {
    constexpr size_t kWide = N == 16 ? 4 : 2;  // vectors: with kTall rows what registers can hold
    size_t j = 0;
    for (; j + kWide * N <= n; j += kWide * N) Panel<N, 4, kWide>(a, b, c, m, j, k, add);
    for (; j + N <= n; j += N) Panel<N, 8, 1>(a, b, c, m, j, k, add);
    for (; j < n; ++j) {
      for (size_t i = 0; i < m; ++i) {
        float sum = add ? *c.at(i, j) : 0;
        for (size_t p = 0; p < k; ++p) sum += *a.at(i, p) * *b.at(p, j);
        *c.at(i, j) = sum;
      }
    }
  }

 private:
  /// Columns j to j + kWide N of c, kTall rows at a time.
  template <size_t N, size_t kTall, size_t kWide>
  PRECAST_INLINE static void Panel(In a, In b, Out c, size_t m, size_t j, size_t k, bool add) {
    size_t i = 0;
    for (; i + kTall <= m; i += kTall) Tile<N, kTall, kWide>(a, b, c, i, j, k, add);
    for (; i < m; ++i) Tile<N, 1, kWide>(a, b, c, i, j, k, add);
  }

  template <size_t N, size_t kTall, size_t kWide>
  PRECAST_INLINE static void Tile(In a, In b, Out c, size_t i, size_t j, size_t k, bool add) {
    Floats<N> sum[kTall][kWide] = {};
    if (add) {
      for (size_t y = 0; y < kTall; ++y) {
        for (size_t x = 0; x < kWide; ++x) sum[y][x] = Load<N>(c.at(i + y, j + x * N));
      }
    }
    for (size_t p = 0; p < k; ++p) {
      Floats<N> row[kWide];
      for (size_t x = 0; x < kWide; ++x) row[x] = Load<N>(b.at(p, j + x * N));
      for (size_t y = 0; y < kTall; ++y) {
        float factor = *a.at(i + y, p);
        for (size_t x = 0; x < kWide; ++x) sum[y][x] += factor * row[x];
      }
    }
    for (size_t y = 0; y < kTall; ++y) {
      for (size_t x = 0; x < kWide; ++x) Store<N>(c.at(i + y, j + x * N), sum[y][x]);
    }
  }
};

}  // namespace precast::examples
