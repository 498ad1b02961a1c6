#include "qwen3_14b_decode/model.h"

#include "common/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace precast::qwen3_14b {

namespace {

using examples::Random;

int64_t BlocksOf(const Sizes& sizes, int32_t length) {
  return (length + sizes.block - 1) / sizes.block;
}

Random RandomFor(int64_t layer, size_t which) {
  return Random(static_cast<uint64_t>(layer + 2) << 8 | which);
}

/// Between 3/4 and 5/4.
std::vector<bf16> NormValues(int64_t n, Random random) {
  std::vector<bf16> values(static_cast<size_t>(n));
  random.Fill(values, 0.25f);
  for (bf16& value : values) value = bf16(1 + static_cast<float>(value));
  return values;
}

std::vector<bf16> MatrixValues(int64_t n, Random random) {
  std::vector<bf16> values(static_cast<size_t>(n));
  random.Fill(values, 1);
  return values;
}

/// Scales of rows of `cols` values of a matrix, so that outputs are about `size` times the inputs.
std::vector<float> Scales(int64_t rows, int64_t cols, float size, Random random) {
  std::vector<float> scales(static_cast<size_t>(rows));
  random.Fill(scales);
  float middle = size * std::sqrt(3.0f / static_cast<float>(cols));
  for (float& scale : scales) scale = middle * (1 + scale / 2);
  return scales;
}

}  // namespace

int64_t Sizes::pool() const {
  int64_t blocks = 3;
  for (int32_t length : lengths) blocks += BlocksOf(*this, length);
  return blocks;
}

Sizes FullSizes() {
  Sizes sizes{5120, 40, 8, 128, 17408, 151936, 128, 8, {}};
  for (int32_t i = 0; i < 16; ++i) sizes.lengths.push_back(1024 - 37 * i);
  return sizes;
}

Sizes SmallSizes() { return {80, 40, 8, 4, 68, 97, 4, 8, {32, 1, 13}}; }

std::pair<Shape, DType> LayerForm(const Sizes& s, size_t which) {
  int64_t query = s.heads * s.dim, kv = s.kv_heads * s.dim;
  switch (which) {
    case argument::attn_norm:
    case argument::ffn_norm:
      return {{s.hidden}, DType::bf16};
    case argument::q_norm:
    case argument::k_norm:
      return {{s.dim}, DType::bf16};
    case argument::q:
      return {{query, s.hidden}, DType::bf16};
    case argument::k:
    case argument::v:
      return {{kv, s.hidden}, DType::bf16};
    case argument::o:
      return {{s.hidden, query}, DType::bf16};
    case argument::gate:
    case argument::up:
      return {{s.ffn, s.hidden}, DType::bf16};
    case argument::down:
      return {{s.hidden, s.ffn}, DType::bf16};
    case argument::keys:
    case argument::values:
      return {{s.pool(), s.block, s.kv_heads, s.dim}, DType::bf16};
    default:  // the scales of the matrix before
      return {{LayerForm(s, which - 1).first[0]}, DType::f32};
  }
}

std::vector<bf16> LayerValues(const Sizes& s, int64_t layer, size_t which) {
  Random random = RandomFor(layer, which);
  Shape shape = LayerForm(s, which).first;
  if (shape.rank() == 1) return NormValues(shape[0], random);
  if (shape.rank() == 2) return MatrixValues(shape.size(), random);
  // What no sequence has is NaN, and so is the place of the new token: who reads it is found out.
  int64_t row = s.kv_heads * s.dim;
  std::vector<bf16> pool(static_cast<size_t>(shape.size()),
                         bf16(std::numeric_limits<float>::quiet_NaN()));
  std::vector<int32_t> table = BlockTable(s);
  for (int64_t b = 0; b < s.batch(); ++b) {
    for (int64_t t = 0; t < s.lengths[static_cast<size_t>(b)] - 1; ++t) {
      int64_t block = table[static_cast<size_t>(b * s.columns + t / s.block)];
      auto place = static_cast<size_t>((block * s.block + t % s.block) * row);
      random.Fill(std::span(pool).subspan(place, static_cast<size_t>(row)), 2);
    }
  }
  return pool;
}

std::vector<float> LayerScales(const Sizes& s, int64_t layer, size_t which) {
  // What is added to the hidden state is small beside it, as in a trained model.
  float size = which == argument::o || which == argument::down ? 0.25f : 1;
  Shape shape = LayerForm(s, which).first;
  return Scales(shape[0], shape[1], size, RandomFor(layer, which + 128));
}

std::vector<bf16> ModelValues(const Sizes& s, size_t which) {
  Random random = RandomFor(-1, which);
  if (which == argument::output_norm) return NormValues(s.hidden, random);
  return MatrixValues(s.vocab * s.hidden, random);
}

std::vector<float> OutputScales(const Sizes& s) {
  return Scales(s.vocab, s.hidden, 1, RandomFor(-1, argument::output_scale));
}

std::vector<int32_t> Tokens(const Sizes& s) {
  std::vector<int32_t> tokens;
  Random random(5);
  for (int64_t b = 0; b < s.batch(); ++b) {
    tokens.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(s.vocab))));
  }
  return tokens;
}

std::vector<int32_t> BlockTable(const Sizes& s) {
  std::vector<int32_t> order = Random(7).Permutation(static_cast<size_t>(s.pool()));
  std::vector<int32_t> table(static_cast<size_t>(s.batch() * s.columns), -1);
  auto next = order.begin();
  for (int64_t b = 0; b < s.batch(); ++b) {
    int64_t blocks = BlocksOf(s, s.lengths[static_cast<size_t>(b)]);
    std::copy_n(next, blocks, table.begin() + b * s.columns);
    next += blocks;
  }
  return table;
}

std::vector<float> RopeTable(const Sizes& s, bool sines) {
  constexpr double kBase = 1e6;
  std::vector<float> table;
  for (int64_t position = 0; position < s.positions(); ++position) {
    for (int64_t i = 0; i < s.dim / 2; ++i) {
      double frequency =
          std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(s.dim));
      double angle = static_cast<double>(position) * frequency;
      table.push_back(static_cast<float>(sines ? std::sin(angle) : std::cos(angle)));
    }
  }
  return table;
}

}  // namespace precast::qwen3_14b
