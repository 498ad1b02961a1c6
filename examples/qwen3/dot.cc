#include "qwen3/dot.h"

#include "common/simd.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace precast::qwen3 {

namespace {

using examples::Exp;
using examples::Floats;
using examples::Ints;
using examples::Load;
using examples::LoadWords;
using examples::Simd;
using examples::Store;
using examples::Sum;
using examples::Words;

constexpr size_t kGroup = 32;       // elements that are added at a time, and of a Q8_0 block
constexpr size_t kBlockBytes = 34;  // of a Q8_0 block: its f16 scale and its elements
// How far ahead of a row's bytes the processor is told what comes. It stops at the end of a page by
// itself; farther ahead, looking up the pages costs more than is gained.
constexpr size_t kAhead = 1024;

PRECAST_INLINE float FromF16(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
PRECAST_INLINE float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
PRECAST_INLINE float ScaleOf(const uint8_t* block) {
  uint16_t bits;
  std::memcpy(&bits, block, sizeof(bits));
  return FromF16(bits);
}

/// f16 in the low halves of words. Not for infinities.
template <size_t N>
PRECAST_INLINE Floats<N> FromF16(Words<N> bits) {
  Words<N> sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  // The exponent's bias is larger by 112; the multiplication makes subnormal numbers normal.
  return (Floats<N>)(sign | (Words<N>)((Floats<N>)rest * 0x1p112f));
}

// Elements 2 i and 2 i + 1 of a group share word i.
template <RowType kType, size_t N>
PRECAST_INLINE void AddGroup(Floats<N> (&sum)[kGroup / N], const char* w, const float* x) {
  if constexpr (kType == RowType::f32) {
    for (size_t i = 0; i < kGroup / N; ++i) {
      sum[i] += (Floats<N>)LoadWords<N>(w + i * 4 * N) * Load<N>(x + i * N);
    }
  } else {
    constexpr size_t kVectors = kGroup / 2 / N;
    for (size_t i = 0; i < kVectors; ++i) {
      Words<N> words = LoadWords<N>(w + i * 4 * N);
      Floats<N> even, odd;
      if constexpr (kType == RowType::bf16) {
        even = (Floats<N>)(words << 16);
        odd = (Floats<N>)(words & 0xffff0000u);
      } else {
        even = FromF16<N>(words & 0xffffu);
        odd = FromF16<N>(words >> 16);
      }
      sum[i] += even * Load<N>(x + i * N);
      sum[kVectors + i] += odd * Load<N>(x + kGroup / 2 + i * N);
    }
  }
}

template <RowType kType>
constexpr size_t kElementBytes = kType == RowType::f32 ? 4 : 2;

/// x beyond n counts as zeros.
template <RowType kType, size_t N>
PRECAST_INLINE float DotOf(const char* w, const float* x, size_t n) {
  constexpr size_t kBytes = kElementBytes<kType>;
  Floats<N> sum[kGroup / N] = {};
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    for (size_t line = 0; line < kGroup * kBytes; line += 64) {
      __builtin_prefetch(w + i * kBytes + line + kAhead);
    }
    AddGroup<kType, N>(sum, w + i * kBytes, x + i);
  }
  if (i < n) {
    char rest[kGroup * kBytes] = {};
    std::memcpy(rest, w + i * kBytes, (n - i) * kBytes);
    AddGroup<kType, N>(sum, rest, x + i);
  }
  return Sum<N>(sum);
}

/// The signed bytes at the high ends of words.
template <size_t N>
PRECAST_INLINE Floats<N> HighBytes(Words<N> words) {
  return __builtin_convertvector((Ints<N>)words >> 24, Floats<N>);
}

/// The sum of a Q8_0 block: byte k of word i is element 4 i + k.
template <size_t N>
PRECAST_INLINE void AddBlock(Floats<N>* sum, const char* block, const float* x) {
  Floats<N> scale = Floats<N>{} + ScaleOf(reinterpret_cast<const uint8_t*>(block));
  for (size_t i = 0; i < 8 / N; ++i) {
    Words<N> words = LoadWords<N>(block + 2 + i * 4 * N);
    Floats<N> part = HighBytes<N>(words << 24) * Load<N>(x + i * N);
    part += HighBytes<N>(words << 16) * Load<N>(x + 8 + i * N);
    part += HighBytes<N>(words << 8) * Load<N>(x + 16 + i * N);
    part += HighBytes<N>(words) * Load<N>(x + 24 + i * N);
    sum[i] += scale * part;
  }
}

template <size_t N>
PRECAST_INLINE float DotQ8(const char* w, const float* x, size_t n) {
  constexpr size_t kOfBlock = 8 / N;  // vectors of a block; four blocks fill the 32 lanes
  Floats<N> sum[kGroup / N] = {};
  size_t i = 0;
  for (; i + 4 * kGroup <= n; i += 4 * kGroup, w += 4 * kBlockBytes) {
    __builtin_prefetch(w + kAhead);
    __builtin_prefetch(w + kAhead + 64);
    for (size_t b = 0; b < 4; ++b) {
      AddBlock<N>(sum + b * kOfBlock, w + b * kBlockBytes, x + i + b * kGroup);
    }
  }
  for (; i < n; i += kGroup, w += kBlockBytes) AddBlock<N>(sum, w, x + i);
  return Sum<N>(sum);
}

template <RowType kType>
struct Multiply {
  template <size_t N>
  PRECAST_INLINE static void Run(const char* w, size_t stride, size_t rows, const float* x,
                                 size_t n, bool add, float* y) {
    for (size_t r = 0; r < rows; ++r, w += stride) {
      float value;
      if constexpr (kType == RowType::q8) {
        value = DotQ8<std::min<size_t>(N, 8)>(w, x, n);
      } else {
        value = DotOf<kType, N>(w, x, n);
      }
      y[r] = add ? y[r] + value : value;
    }
  }
};

/// Element (i, k) of each group, as a matrix of words and their parts, goes to (k, i).
template <size_t kParts>
struct Spread {
  template <size_t N>
  PRECAST_INLINE static void Run(const float* x, size_t groups, float* arranged) {
    constexpr size_t kWords = kGroup / kParts;
    for (size_t g = 0; g < groups; ++g, x += kGroup, arranged += kGroup) {
      for (size_t k = 0; k < kParts; ++k) {
        for (size_t i = 0; i < kWords; ++i) arranged[k * kWords + i] = x[i * kParts + k];
      }
    }
  }
};

struct ScoresBody {
  template <size_t N>
  PRECAST_INLINE static float Run(const float* q, const float* const* key, size_t count, size_t n,
                                  float scale, float* score) {
    float largest = -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < count; ++i) {
      score[i] = DotOf<RowType::f32, N>(reinterpret_cast<const char*>(key[i]), q, n) * scale;
      largest = std::max(largest, score[i]);
    }
    return largest;
  }
};

struct ExponentialsBody {
  template <size_t N>
  PRECAST_INLINE static float Run(float* score, size_t padded, float largest) {
    Floats<N> sum[kGroup / N] = {};
    for (size_t i = 0; i < padded; i += kGroup) {
      for (size_t j = 0; j < kGroup / N; ++j) {
        Floats<N> value = Exp<N>(Load<N>(score + i + j * N) - largest);
        Store<N>(score + i + j * N, value);
        sum[j] += value;
      }
    }
    return Sum<N>(sum);
  }
};

struct WeightedSumBody {
  template <size_t N, size_t kWide>
  PRECAST_INLINE static void Columns(const float* weight, const float* const* row, size_t count,
                                     size_t column, float* y) {
    Floats<N> sum[kWide] = {};
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < kWide; ++j) sum[j] += weight[i] * Load<N>(row[i] + column + j * N);
    }
    for (size_t j = 0; j < kWide; ++j) Store<N>(y + column + j * N, sum[j]);
  }
  template <size_t N>
  PRECAST_INLINE static void Run(const float* weight, const float* const* row, size_t count,
                                 size_t n, float* y) {
    constexpr size_t kWide = 64 / N;
    size_t column = 0;
    for (; column + kWide * N <= n; column += kWide * N) {
      Columns<N, kWide>(weight, row, count, column, y);
    }
    for (; column + N <= n; column += N) Columns<N, 1>(weight, row, count, column, y);
    for (; column < n; ++column) {
      float sum = 0;
      for (size_t i = 0; i < count; ++i) sum += weight[i] * row[i][column];
      y[column] = sum;
    }
  }
};

struct RmsNormBody {
  template <size_t N>
  PRECAST_INLINE static void Run(const float* x, const float* weight, float scale, size_t n,
                                 float* y) {
    size_t i = 0;
    for (; i + N <= n; i += N) Store<N>(y + i, Load<N>(x + i) * scale * Load<N>(weight + i));
    for (; i < n; ++i) y[i] = x[i] * scale * weight[i];
  }
};

struct RotateBody {
  template <size_t N>
  PRECAST_INLINE static void Run(const float* cosine, const float* sine, size_t half, float* x) {
    float* y = x + half;
    size_t i = 0;
    for (; i + N <= half; i += N) {
      Floats<N> a = Load<N>(x + i), b = Load<N>(y + i);
      Floats<N> c = Load<N>(cosine + i), s = Load<N>(sine + i);
      Store<N>(x + i, a * c - b * s);
      Store<N>(y + i, b * c + a * s);
    }
    for (; i < half; ++i) {
      float a = x[i], b = y[i];
      x[i] = a * cosine[i] - b * sine[i];
      y[i] = b * cosine[i] + a * sine[i];
    }
  }
};

struct SwiGluBody {
  template <size_t N>
  PRECAST_INLINE static void Part(const float* gate, const float* up, float* y) {
    Floats<N> x = Load<N>(gate);
    Store<N>(y, x / (1.0f + Exp<N>(-x)) * Load<N>(up));
  }
  template <size_t N>
  PRECAST_INLINE static void Run(const float* gate, const float* up, size_t n, float* y) {
    size_t i = 0;
    for (; i + N <= n; i += N) Part<N>(gate + i, up + i, y + i);
    for (; i < n; ++i) Part<1>(gate + i, up + i, y + i);
  }
};

}  // namespace

const float* Arrange(RowType type, const float* x, size_t n, std::vector<float>* buffer) {
  size_t rest = n % kGroup, whole = n - rest;
  if (type == RowType::f32 && rest == 0) return x;
  if (buffer->size() < whole + kGroup) buffer->resize(whole + kGroup);
  float* arranged = buffer->data();
  auto spread = [type](const float* from, size_t groups, float* to) {
    if (type == RowType::f32) {
      std::copy_n(from, groups * kGroup, to);
    } else if (type == RowType::q8) {
      Simd<Spread<4>>(from, groups, to);
    } else {
      Simd<Spread<2>>(from, groups, to);
    }
  };
  spread(x, n / kGroup, arranged);
  if (rest > 0) {
    float last[kGroup] = {};
    std::copy_n(x + whole, rest, last);
    spread(last, 1, arranged + whole);
  }
  return arranged;
}

void MultiplyRows(RowType type, const void* w, size_t stride, size_t rows, const float* x, size_t n,
                  bool add, float* y) {
  const char* bytes = static_cast<const char*>(w);
  switch (type) {
    case RowType::f32:
      return Simd<Multiply<RowType::f32>>(bytes, stride, rows, x, n, add, y);
    case RowType::f16:
      return Simd<Multiply<RowType::f16>>(bytes, stride, rows, x, n, add, y);
    case RowType::bf16:
      return Simd<Multiply<RowType::bf16>>(bytes, stride, rows, x, n, add, y);
    case RowType::q8:
      return Simd<Multiply<RowType::q8>>(bytes, stride, rows, x, n, add, y);
  }
}

void RmsNorm(const float* x, const float* weight, float eps, size_t n, float* y) {
  float squares;
  std::vector<float> buffer;
  MultiplyRows(RowType::f32, x, 0, 1, Arrange(RowType::f32, x, n, &buffer), n, false, &squares);
  Simd<RmsNormBody>(x, weight, 1.0f / std::sqrt(squares / static_cast<float>(n) + eps), n, y);
}

void Rotate(const float* cosine, const float* sine, size_t half, float* x) {
  Simd<RotateBody>(cosine, sine, half, x);
}

float Scores(const float* q, const float* const* key, size_t count, size_t n, float scale,
             float* score) {
  return Simd<ScoresBody>(q, key, count, n, scale, score);
}

float Exponentials(float* score, size_t count, float largest) {
  size_t padded = PaddedSize(count);
  std::fill(score + count, score + padded, -std::numeric_limits<float>::infinity());
  return Simd<ExponentialsBody>(score, padded, largest);
}

void WeightedSum(const float* weight, const float* const* row, size_t count, size_t n, float* y) {
  Simd<WeightedSumBody>(weight, row, count, n, y);
}

void SwiGlu(const float* gate, const float* up, size_t n, float* y) {
  Simd<SwiGluBody>(gate, up, n, y);
}

void WidenF16(const uint16_t* row, float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = FromF16(row[i]);
}

void WidenBf16(const uint16_t* row, float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = FromBf16(row[i]);
}

void WidenQ8(const uint8_t* row, float* x, size_t n) {
  for (size_t i = 0; i < n; i += kGroup, row += kBlockBytes) {
    for (size_t j = 0; j < kGroup; ++j) {
      x[i + j] = ScaleOf(row) * static_cast<float>(static_cast<int8_t>(row[2 + j]));
    }
  }
}

}  // namespace precast::qwen3
