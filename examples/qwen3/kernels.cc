#include "qwen3/kernels.h"

#include "qwen3/dot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace precast::qwen3 {

namespace {

// f16 and bf16 elements are read as their bits.
const uint16_t* Bits(const f16* p) { return reinterpret_cast<const uint16_t*>(p); }
const uint16_t* Bits(const bf16* p) { return reinterpret_cast<const uint16_t*>(p); }

/// Calls store(row, dot(W[row], x)) for the rows of this block.
template <typename Store>
void ForRows(const KernelContext& k, Store&& store) {
  auto x = k.tensor<const float>(1);
  size_t n = static_cast<size_t>(x.size());
  auto rows = [&](const auto& w, auto dot) {
    int64_t count = w.shape(0);
    for (int64_t row = k.block_begin(count); row < k.block_end(count); ++row) {
      store(row, dot(w.data() + row * w.stride(0), x.data(), n));
    }
  };
  switch (k.dtype(0)) {
    case DType::f32:
      return rows(k.tensor<const float>(0), &Dot);
    case DType::f16:
      return rows(k.tensor<const f16>(0),
                  [](const f16* row, const float* v, size_t m) { return DotF16(Bits(row), v, m); });
    case DType::bf16:
      return rows(k.tensor<const bf16>(0), [](const bf16* row, const float* v, size_t m) {
        return DotBf16(Bits(row), v, m);
      });
    case DType::u8:
      return rows(k.tensor<const uint8_t>(0), &DotQ8);
    default:
      k.fail("weights of a type that mat_vec does not know");
  }
}

float RmsScale(const float* x, size_t n, float eps) {
  return 1.0f / std::sqrt(Dot(x, x, n) / static_cast<float>(n) + eps);
}

}  // namespace

void Embed(const KernelContext& k) {
  auto x = k.tensor<float>(1);
  int64_t token = k.scalar<int32_t>(0);
  size_t n = static_cast<size_t>(x.size());
  switch (k.dtype(0)) {
    case DType::f32: {
      auto w = k.tensor<const float>(0);
      std::copy_n(w.data() + token * w.stride(0), n, x.data());
      return;
    }
    case DType::f16: {
      auto w = k.tensor<const f16>(0);
      return WidenF16(Bits(w.data() + token * w.stride(0)), x.data(), n);
    }
    case DType::bf16: {
      auto w = k.tensor<const bf16>(0);
      return WidenBf16(Bits(w.data() + token * w.stride(0)), x.data(), n);
    }
    case DType::u8: {
      auto w = k.tensor<const uint8_t>(0);
      return WidenQ8(w.data() + token * w.stride(0), x.data(), n);
    }
    default:
      k.fail("weights of a type that embed does not know");
  }
}

void RmsNorm(const KernelContext& k) {
  auto x = k.tensor<const float>(0), weight = k.tensor<const float>(1);
  auto y = k.tensor<float>(2);
  float scale = RmsScale(x.data(), static_cast<size_t>(x.size()), k.scalar<float>(0));
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
}

void MatVec(const KernelContext& k) {
  float* y = k.tensor<float>(2).data();
  ForRows(k, [y](int64_t row, float value) { y[row] = value; });
}

void MatVecAdd(const KernelContext& k) {
  float* y = k.tensor<float>(2).data();
  ForRows(k, [y](int64_t row, float value) { y[row] += value; });
}

void NormRotate(const KernelContext& k) {
  auto x = k.tensor<const float>(0), weight = k.tensor<const float>(1);
  auto y = k.tensor<float>(2);
  float eps = k.scalar<float>(0), base = k.scalar<float>(1);
  int64_t position = k.scalar<int32_t>(2);
  int64_t head_dim = weight.size(), half = head_dim / 2, heads = x.size() / head_dim;
  for (int64_t i = 0; i < half; ++i) {
    // The angle in double: positions are large, and the error of a float angle grows with them.
    double angle = static_cast<double>(position) *
                   std::pow(static_cast<double>(base),
                            -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    float cosine = static_cast<float>(std::cos(angle));
    float sine = static_cast<float>(std::sin(angle));
    for (int64_t head = 0; head < heads; ++head) {
      const float* from = x.data() + head * head_dim;
      float* to = y.data() + head * head_dim;
      float a = from[i] * weight[i], b = from[i + half] * weight[i + half];
      to[i] = a * cosine - b * sine;
      to[i + half] = b * cosine + a * sine;
    }
  }
  // The norm's scale is one number a head, so it can follow the rotation.
  for (int64_t head = 0; head < heads; ++head) {
    size_t n = static_cast<size_t>(head_dim);
    float scale = RmsScale(x.data() + head * head_dim, n, eps);
    for (int64_t i = 0; i < head_dim; ++i) y.data()[head * head_dim + i] *= scale;
  }
}

void AttendChunk(const KernelContext& k) {
  auto q = k.tensor<const float>(0), keys = k.tensor<const float>(1);
  auto values = k.tensor<const float>(2);
  auto table = k.tensor<const int32_t>(3);
  auto part = k.tensor<float>(4);
  int64_t first = k.scalar<int32_t>(0), count = k.scalar<int32_t>(1);
  int64_t head_dim = k.scalar<int32_t>(2);
  int64_t heads = part.shape(0), page = keys.shape(1), kv_heads = keys.shape(2) / head_dim;
  float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  size_t n = static_cast<size_t>(head_dim);

  constexpr int64_t kMaxCount = 1024;
  float score[kMaxCount];
  const float* value_row[kMaxCount];
  if (count > kMaxCount) k.fail("a chunk of more than 1024 positions");
  for (int64_t head = k.block_begin(heads); head < k.block_end(heads); ++head) {
    int64_t column = head / (heads / kv_heads) * head_dim;
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < count; ++i) {
      int64_t position = first + i;
      int64_t row = table[position / page] * keys.stride(0) + position % page * keys.stride(1);
      value_row[i] = values.data() + row + column;
      score[i] = Dot(q.data() + head * head_dim, keys.data() + row + column, n) * scale;
      largest = std::max(largest, score[i]);
    }
    float* sum = part.data() + head * part.stride(0);
    std::fill_n(sum, n, 0.0f);
    float total = 0;
    for (int64_t i = 0; i < count; ++i) {
      float weight = std::exp(score[i] - largest);
      total += weight;
      AddScaled(sum, weight, value_row[i], n);
    }
    sum[n] = largest;
    sum[n + 1] = total;
  }
}

void AttendMerge(const KernelContext& k) {
  auto parts = k.tensor<const float>(0);
  auto y = k.tensor<float>(1);
  int64_t chunks = parts.shape(0), heads = parts.shape(1);
  size_t n = static_cast<size_t>(parts.shape(2) - 2);
  for (int64_t head = k.block_begin(heads); head < k.block_end(heads); ++head) {
    auto part = [&](int64_t chunk) {
      return parts.data() + chunk * parts.stride(0) + head * parts.stride(1);
    };
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t c = 0; c < chunks; ++c) largest = std::max(largest, part(c)[n]);
    float total = 0;
    for (int64_t c = 0; c < chunks; ++c) total += std::exp(part(c)[n] - largest) * part(c)[n + 1];
    float* out = y.data() + head * static_cast<int64_t>(n);
    std::fill_n(out, n, 0.0f);
    for (int64_t c = 0; c < chunks; ++c) {
      AddScaled(out, std::exp(part(c)[n] - largest) / total, part(c), n);
    }
  }
}

void SwiGlu(const KernelContext& k) {
  auto gate = k.tensor<const float>(0), up = k.tensor<const float>(1);
  auto y = k.tensor<float>(2);
  for (int64_t i = k.block_begin(y.size()); i < k.block_end(y.size()); ++i) {
    y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
  }
}

}  // namespace precast::qwen3
