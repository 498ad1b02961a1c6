#include "qwen3_14b_decode/kernels.h"

#include <precast/dtype.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace precast::qwen3_14b {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// The inner product of two rows. Partial sums in lanes let the compiler use vector registers.
float Dot(const float* a, const float* b, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (float lane : lanes) sum += lane;
  return sum;
}

/// Reused by the blocks that a thread runs.
float* Buffer(int64_t n) {
  static thread_local std::vector<float> buffer;
  if (static_cast<size_t>(n) > buffer.size()) buffer.resize(static_cast<size_t>(n));
  return buffer.data();
}

/// A row of bf16 as f32, valid until the next call on this thread.
const float* Converted(const bf16* row, int64_t n) {
  float* buffer = Buffer(n);
  for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(row[i]);
  return buffer;
}

float RmsScale(const float* x, int64_t n, float eps) {
  return 1 / std::sqrt(Dot(x, x, n) / static_cast<float>(n) + eps);
}

/// One head: RMS norm, then rotary embedding.
template <typename Target>
void NormRotateHead(const float* x, const TensorView<const bf16>& weight, const float* cosine,
                    const float* sine, float eps, Target* y) {
  int64_t dim = weight.size(), half = dim / 2;
  float scale = RmsScale(x, dim, eps);
  for (int64_t i = 0; i < half; ++i) {
    float a = x[i] * scale * static_cast<float>(weight[i]);
    float b = x[i + half] * scale * static_cast<float>(weight[i + half]);
    y[i] = Target(a * cosine[i] - b * sine[i]);
    y[i + half] = Target(b * cosine[i] + a * sine[i]);
  }
}

template <bool kAdd>
void ProjectRows(const KernelContext& k) {
  auto matrix = k.tensor<const bf16>(0);
  auto scale = k.tensor<const float>(1), x = k.tensor<const float>(2);
  auto y = k.tensor<float>(3);
  int64_t rows = matrix.shape(0), cols = matrix.shape(1), batch = x.shape(0);
  for (int64_t r = k.block_begin(rows); r < k.block_end(rows); ++r) {
    const float* row = Converted(&matrix(r, 0), cols);
    for (int64_t b = 0; b < batch; ++b) {
      float value = Dot(row, &x(b, 0), cols) * scale[r];
      y(b, r) = kAdd ? y(b, r) + value : value;
    }
  }
}

/// Where tokens of the paged cache lie, for the part of the block table that a task is given.
class Pages {
 public:
  Pages(const TensorView<const bf16>& pool, const TensorView<const int32_t>& blocks,
        const TensorView<const int32_t>& lengths, int32_t first)
      : pool_(pool), blocks_(blocks), lengths_(lengths), first_(first) {}

  /// Tokens of the sequence that lie in this part.
  int64_t Tokens(int64_t sequence) const {
    return std::clamp<int64_t>(lengths_[sequence] - first_, 0, blocks_.shape(1) * pool_.shape(1));
  }
  const bf16* Row(int64_t sequence, int64_t token) const {
    int64_t block = pool_.shape(1);
    return &pool_(blocks_(sequence, token / block), token % block, 0);
  }

 private:
  const TensorView<const bf16>& pool_;
  const TensorView<const int32_t>&blocks_, &lengths_;
  int64_t first_;
};

}  // namespace

void Embed(const KernelContext& k) {
  auto table = k.tensor<const bf16>(0);
  auto tokens = k.tensor<const int32_t>(1);
  auto x = k.tensor<float>(2);
  for (int64_t b = k.block_begin(x.shape(0)); b < k.block_end(x.shape(0)); ++b) {
    if (tokens[b] < 0 || tokens[b] >= table.shape(0)) k.fail("a token that is not in the table");
    for (int64_t i = 0; i < x.shape(1); ++i) x(b, i) = static_cast<float>(table(tokens[b], i));
  }
}

void RopeRows(const KernelContext& k) {
  auto lengths = k.tensor<const int32_t>(2);
  for (size_t which = 0; which < 2; ++which) {
    auto table = k.tensor<const float>(which);
    auto row = k.tensor<float>(3 + which);
    for (int64_t b = k.block_begin(row.shape(0)); b < k.block_end(row.shape(0)); ++b) {
      std::copy_n(&table(lengths[b] - 1, 0), row.shape(1), &row(b, 0));
    }
  }
}

void NewSlots(const KernelContext& k) {
  auto table = k.tensor<const int32_t>(0), lengths = k.tensor<const int32_t>(1);
  auto slots = k.tensor<int32_t>(2);
  int32_t block = k.scalar<int32_t>(0);
  for (int64_t b = k.block_begin(slots.size()); b < k.block_end(slots.size()); ++b) {
    int32_t position = lengths[b] - 1;
    slots[b] = table(b, position / block) * block + position % block;
  }
}

void RmsNorm(const KernelContext& k) {
  auto x = k.tensor<const float>(0);
  auto weight = k.tensor<const bf16>(1);
  auto y = k.tensor<float>(2);
  int64_t n = x.shape(1);
  for (int64_t b = k.block_begin(x.shape(0)); b < k.block_end(x.shape(0)); ++b) {
    float scale = RmsScale(&x(b, 0), n, k.scalar<float>(0));
    for (int64_t i = 0; i < n; ++i) y(b, i) = x(b, i) * scale * static_cast<float>(weight[i]);
  }
}

void Project(const KernelContext& k) { ProjectRows<false>(k); }
void ProjectAdd(const KernelContext& k) { ProjectRows<true>(k); }

void NormRotate(const KernelContext& k) {
  auto q = k.tensor<const float>(0);
  auto weight = k.tensor<const bf16>(1);
  auto cosine = k.tensor<const float>(2), sine = k.tensor<const float>(3);
  auto y = k.tensor<float>(4);
  for (int64_t b = k.block_begin(q.shape(0)); b < k.block_end(q.shape(0)); ++b) {
    for (int64_t h = 0; h < q.shape(1); ++h) {
      NormRotateHead(&q(b, h, 0), weight, &cosine(b, 0), &sine(b, 0), k.scalar<float>(0),
                     &y(b, h, 0));
    }
  }
}

void StoreKeys(const KernelContext& k) {
  auto x = k.tensor<const float>(0);
  auto weight = k.tensor<const bf16>(1);
  auto cosine = k.tensor<const float>(2), sine = k.tensor<const float>(3);
  auto slots = k.tensor<const int32_t>(4);
  auto keys = k.tensor<bf16>(5);
  int64_t block = keys.shape(1);
  for (int64_t b = k.block_begin(x.shape(0)); b < k.block_end(x.shape(0)); ++b) {
    NormRotateHead(&x(b, 0), weight, &cosine(b, 0), &sine(b, 0), k.scalar<float>(0),
                   &keys(slots[b] / block, slots[b] % block, 0));
  }
}

void StoreValues(const KernelContext& k) {
  auto x = k.tensor<const float>(0);
  auto slots = k.tensor<const int32_t>(1);
  auto values = k.tensor<bf16>(2);
  int64_t block = values.shape(1);
  for (int64_t b = k.block_begin(x.shape(0)); b < k.block_end(x.shape(0)); ++b) {
    bf16* target = &values(slots[b] / block, slots[b] % block, 0);
    for (int64_t i = 0; i < x.shape(1); ++i) target[i] = bf16(x(b, i));
  }
}

void Scores(const KernelContext& k) {
  auto q = k.tensor<const float>(0);
  auto keys = k.tensor<const bf16>(1);
  auto blocks = k.tensor<const int32_t>(2), lengths = k.tensor<const int32_t>(3);
  auto target = k.tensor<float>(4);
  Pages pages(keys, blocks, lengths, k.scalar<int32_t>(0));
  int64_t heads = q.shape(1), dim = q.shape(2);
  float scale = 1 / std::sqrt(static_cast<float>(dim));
  for (int64_t b = k.block_begin(q.shape(0)); b < k.block_end(q.shape(0)); ++b) {
    int64_t tokens = pages.Tokens(b);
    for (int64_t t = 0; t < tokens; ++t) {
      const float* key = Converted(pages.Row(b, t), dim);
      for (int64_t h = 0; h < heads; ++h) target(b, h, t) = Dot(&q(b, h, 0), key, dim) * scale;
    }
    for (int64_t h = 0; h < heads; ++h) {
      std::fill_n(&target(b, h, 0) + tokens, target.shape(2) - tokens, kNone);
    }
  }
}

void Softmax(const KernelContext& k) {
  auto source = k.tensor<const float>(0);
  auto weights = k.tensor<float>(1), tops = k.tensor<float>(2), sums = k.tensor<float>(3);
  int64_t heads = source.shape(1), tokens = source.shape(2);
  for (int64_t b = k.block_begin(source.shape(0)); b < k.block_end(source.shape(0)); ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const float* score = &source(b, h, 0);
      float largest = *std::max_element(score, score + tokens), sum = 0;
      for (int64_t t = 0; t < tokens; ++t) {
        // The difference of two infinities is no number.
        float weight = score[t] == kNone ? 0 : std::exp(score[t] - largest);
        weights(b, h, t) = weight;
        sum += weight;
      }
      tops(b, h) = largest;
      sums(b, h) = sum;
    }
  }
}

void WeightedValues(const KernelContext& k) {
  auto weights = k.tensor<const float>(0);
  auto values = k.tensor<const bf16>(1);
  auto blocks = k.tensor<const int32_t>(2), lengths = k.tensor<const int32_t>(3);
  auto sums = k.tensor<float>(4);
  Pages pages(values, blocks, lengths, k.scalar<int32_t>(0));
  int64_t heads = sums.shape(1), dim = sums.shape(2);
  for (int64_t b = k.block_begin(sums.shape(0)); b < k.block_end(sums.shape(0)); ++b) {
    for (int64_t h = 0; h < heads; ++h) std::fill_n(&sums(b, h, 0), dim, 0.0f);
    int64_t tokens = pages.Tokens(b);
    for (int64_t t = 0; t < tokens; ++t) {
      const float* value = Converted(pages.Row(b, t), dim);
      for (int64_t h = 0; h < heads; ++h) {
        float weight = weights(b, h, t), *sum = &sums(b, h, 0);
        for (int64_t i = 0; i < dim; ++i) sum[i] += weight * value[i];
      }
    }
  }
}

void Merge(const KernelContext& k) {
  auto tops = k.tensor<const float>(0), totals = k.tensor<const float>(1);
  auto sums = k.tensor<const float>(2);
  auto attended = k.tensor<float>(3);
  int64_t splits = tops.shape(0), batch = tops.shape(1), heads = tops.shape(2);
  int64_t dim = sums.shape(3);
  for (int64_t b = k.block_begin(batch); b < k.block_end(batch); ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      float largest = kNone, total = 0;
      for (int64_t s = 0; s < splits; ++s) largest = std::max(largest, tops(s, b, h));
      float* target = &attended(b, h, 0);
      std::fill_n(target, dim, 0.0f);
      for (int64_t s = 0; s < splits; ++s) {
        float factor = std::exp(tops(s, b, h) - largest);
        total += factor * totals(s, b, h);
        const float* sum = &sums(s, b, h, 0);
        for (int64_t i = 0; i < dim; ++i) target[i] += factor * sum[i];
      }
      for (int64_t i = 0; i < dim; ++i) target[i] /= total;
    }
  }
}

void SwiGlu(const KernelContext& k) {
  auto gate = k.tensor<const float>(0), up = k.tensor<const float>(1);
  auto y = k.tensor<float>(2);
  for (int64_t b = k.block_begin(y.shape(0)); b < k.block_end(y.shape(0)); ++b) {
    for (int64_t i = 0; i < y.shape(1); ++i) {
      y(b, i) = gate(b, i) / (1 + std::exp(-gate(b, i))) * up(b, i);
    }
  }
}

void TopOfPart(const KernelContext& k) {
  auto logits = k.tensor<const float>(0);
  auto value = k.tensor<float>(1);
  auto index = k.tensor<int32_t>(2);
  int64_t vocab = logits.shape(1);
  if (k.blocks() != value.shape(1)) k.fail("another number of blocks than of parts");
  for (int64_t b = 0; b < logits.shape(0); ++b) {
    float largest = kNone;
    int64_t where = 0;
    for (int64_t i = k.block_begin(vocab); i < k.block_end(vocab); ++i) {
      if (logits(b, i) > largest) largest = logits(b, i), where = i;
    }
    value(b, k.block()) = largest;
    index(b, k.block()) = static_cast<int32_t>(where);
  }
}

void Top(const KernelContext& k) {
  auto value = k.tensor<const float>(0);
  auto index = k.tensor<const int32_t>(1);
  auto token = k.tensor<int32_t>(2);
  for (int64_t b = k.block_begin(token.size()); b < k.block_end(token.size()); ++b) {
    const float* row = &value(b, 0);
    token[b] = index(b, std::max_element(row, row + value.shape(1)) - row);
  }
}

void Nothing(const KernelContext& /*k*/) {}

}  // namespace precast::qwen3_14b
