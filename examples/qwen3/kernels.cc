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

/// A matrix argument, whatever the type of its weights.
struct Matrix {
  Matrix(const KernelContext& k, size_t i) {
    auto set = [this](const auto& w, RowType row_type) {
      type = row_type;
      data = reinterpret_cast<const char*>(w.data());
      stride = static_cast<size_t>(w.stride(0)) * sizeof(*w.data());
      rows = w.shape(0);
    };
    switch (k.dtype(i)) {
      case DType::f32:
        set(k.tensor<const float>(i), RowType::f32);
        break;
      case DType::f16:
        set(k.tensor<const f16>(i), RowType::f16);
        break;
      case DType::bf16:
        set(k.tensor<const bf16>(i), RowType::bf16);
        break;
      case DType::u8:
        set(k.tensor<const uint8_t>(i), RowType::q8);
        break;
      default:
        k.fail("weights of a type that the kernel does not know");
    }
  }

  /// y[i] = W[first + i] . x, or y[i] += that, for `count` rows.
  void Multiply(const float* x, size_t n, int64_t first, int64_t count, bool add, float* y) const {
    thread_local std::vector<float> buffer;
    MultiplyRows(type, data + static_cast<size_t>(first) * stride, stride,
                 static_cast<size_t>(count), Arrange(type, x, n, &buffer), n, add, y);
  }

  RowType type;
  const char* data;
  size_t stride;  // bytes from row to row
  int64_t rows;
};

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
  auto x = k.tensor<const float>(0);
  RmsNorm(x.data(), k.tensor<const float>(1).data(), k.scalar<float>(0),
          static_cast<size_t>(x.size()), k.tensor<float>(2).data());
}

void MatVec(const KernelContext& k) {
  auto x = k.tensor<const float>(0);
  int64_t total = 0;
  for (size_t i = 1; i < k.tensors(); i += 2) total += Matrix(k, i).rows;
  int64_t begin = k.block_begin(total), end = k.block_end(total);
  for (size_t i = 1; i < k.tensors() && end > 0; i += 2) {
    Matrix w(k, i);
    int64_t first = std::max<int64_t>(begin, 0), count = std::min(end, w.rows) - first;
    if (count > 0) {
      w.Multiply(x.data(), static_cast<size_t>(x.size()), first, count, false,
                 k.tensor<float>(i + 1).data() + first);
    }
    begin -= w.rows;
    end -= w.rows;
  }
}

void MatVecAdd(const KernelContext& k) {
  auto x = k.tensor<const float>(0);
  Matrix w(k, 1);
  int64_t first = k.block_begin(w.rows), count = k.block_end(w.rows) - first;
  w.Multiply(x.data(), static_cast<size_t>(x.size()), first, count, true,
             k.tensor<float>(2).data() + first);
}

void GatedMatVec(const KernelContext& k) {
  constexpr int64_t kRows = 64;
  auto x = k.tensor<const float>(0);
  size_t n = static_cast<size_t>(x.size());
  Matrix gate(k, 1), up(k, 2);
  float* y = k.tensor<float>(3).data();
  float gates[kRows], ups[kRows];
  int64_t end = k.block_end(gate.rows);
  for (int64_t row = k.block_begin(gate.rows); row < end; row += kRows) {
    int64_t count = std::min(kRows, end - row);
    gate.Multiply(x.data(), n, row, count, false, gates);
    up.Multiply(x.data(), n, row, count, false, ups);
    SwiGlu(gates, ups, static_cast<size_t>(count), y + row);
  }
}

void Rotation(const KernelContext& k) {
  auto turn = k.tensor<float>(0);
  double base = k.scalar<float>(0), position = k.scalar<int32_t>(1);
  int64_t head_dim = turn.size(), half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    // The angle in double: positions are large, and the error of a float angle grows with them.
    double angle =
        position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    turn[i] = static_cast<float>(std::cos(angle));
    turn[half + i] = static_cast<float>(std::sin(angle));
  }
}

void NormRotate(const KernelContext& k) {
  auto turn = k.tensor<const float>(0);
  auto q = k.tensor<const float>(1), key = k.tensor<const float>(4),
       value = k.tensor<const float>(6);
  auto table = k.tensor<const int32_t>(7);
  auto keys = k.tensor<float>(8), values = k.tensor<float>(9);
  float eps = k.scalar<float>(0);
  int64_t position = k.scalar<int32_t>(1), page = keys.shape(1), head_dim = turn.size();
  size_t n = static_cast<size_t>(head_dim);
  auto heads = [&](const TensorView<const float>& x, const float* weight, float* y) {
    for (int64_t at = 0; at < x.size(); at += head_dim) {
      RmsNorm(x.data() + at, weight, eps, n, y + at);
      Rotate(turn.data(), turn.data() + n / 2, n / 2, y + at);
    }
  };
  int64_t row = table[position / page] * keys.stride(0) + position % page * keys.stride(1);
  heads(q, k.tensor<const float>(2).data(), k.tensor<float>(3).data());
  heads(key, k.tensor<const float>(5).data(), keys.data() + row);
  std::copy_n(value.data(), value.size(), values.data() + row);
}

void AttendChunk(const KernelContext& k) {
  auto q = k.tensor<const float>(0), keys = k.tensor<const float>(1);
  auto values = k.tensor<const float>(2);
  auto table = k.tensor<const int32_t>(3);
  auto part = k.tensor<float>(4);
  int64_t first = k.scalar<int32_t>(0), last = k.scalar<int32_t>(3);
  int64_t count = std::min<int64_t>(k.scalar<int32_t>(1), last + 1 - first);
  int64_t head_dim = k.scalar<int32_t>(2);
  int64_t heads = part.shape(0), page = keys.shape(1), kv_heads = keys.shape(2) / head_dim;
  float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  size_t n = static_cast<size_t>(head_dim), positions = static_cast<size_t>(count);

  constexpr size_t kMaxCount = 1024;
  float score[PaddedSize(kMaxCount)];
  const float *key[kMaxCount], *value[kMaxCount];
  if (positions > kMaxCount) k.fail("a chunk of more than 1024 positions");
  thread_local std::vector<float> buffer;
  int64_t located = -1;  // the head of keys and values that the rows are of
  for (int64_t head = k.block_begin(heads); head < k.block_end(heads); ++head) {
    int64_t kv_head = head / (heads / kv_heads);
    for (int64_t i = 0; i < count && kv_head != located; ++i) {
      int64_t position = first + i;
      int64_t row = table[position / page] * keys.stride(0) + position % page * keys.stride(1);
      key[i] = keys.data() + row + kv_head * head_dim;
      value[i] = values.data() + row + kv_head * head_dim;
    }
    located = kv_head;
    const float* query = Arrange(RowType::f32, q.data() + head * head_dim, n, &buffer);
    float* sum = part.data() + head * part.stride(0);
    float largest = Scores(query, key, positions, n, scale, score);
    sum[n + 1] = Exponentials(score, positions, largest);
    sum[n] = largest;
    WeightedSum(score, value, positions, n, sum);
  }
}

void AttendMerge(const KernelContext& k) {
  auto parts = k.tensor<const float>(0);
  float* y = k.tensor<float>(1).data();
  size_t chunks = static_cast<size_t>(parts.shape(0)), n = static_cast<size_t>(parts.shape(2) - 2);
  int64_t heads = parts.shape(1);
  thread_local std::vector<float> weight;
  thread_local std::vector<const float*> part;
  weight.resize(PaddedSize(chunks));
  part.resize(chunks);
  for (int64_t head = k.block_begin(heads); head < k.block_end(heads); ++head) {
    float largest = -std::numeric_limits<float>::infinity();
    for (size_t c = 0; c < chunks; ++c) {
      part[c] = parts.data() + static_cast<int64_t>(c) * parts.stride(0) + head * parts.stride(1);
      weight[c] = part[c][n];
      largest = std::max(largest, weight[c]);
    }
    Exponentials(weight.data(), chunks, largest);
    float total = 0;
    for (size_t c = 0; c < chunks; ++c) total += weight[c] * part[c][n + 1];
    for (size_t c = 0; c < chunks; ++c) weight[c] /= total;
    WeightedSum(weight.data(), part.data(), chunks, n, y + head * static_cast<int64_t>(n));
  }
}

}  // namespace precast::qwen3
