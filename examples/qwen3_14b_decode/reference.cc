#include "qwen3_14b_decode/reference.h"

#include <algorithm>
#include <cmath>

namespace precast::qwen3_14b {

namespace {

using Numbers = std::vector<float>;

Numbers Floats(const std::vector<bf16>& values) {
  Numbers floats;
  for (bf16 value : values) floats.push_back(static_cast<float>(value));
  return floats;
}

/// Everything a layer has, as float32.
struct LayerOf {
  LayerOf(const Sizes& sizes, int64_t layer) {
    for (size_t which = 0; which < argument::per_layer; ++which) {
      bool scales = LayerForm(sizes, which).second == DType::f32;
      tensors.push_back(scales ? LayerScales(sizes, layer, which - 1)
                               : Floats(LayerValues(sizes, layer, which)));
    }
  }
  Numbers& operator[](size_t which) { return tensors[which]; }
  std::vector<Numbers> tensors;
};

Numbers Normed(const float* x, const Numbers& weight) {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += static_cast<double>(x[i]) * x[i];
  double scale = 1 / std::sqrt(squares / static_cast<double>(weight.size()) + kEps);
  Numbers y;
  for (size_t i = 0; i < weight.size(); ++i)
    y.push_back(static_cast<float>(x[i] * scale) * weight[i]);
  return y;
}

Numbers Product(const Numbers& matrix, const Numbers& scales, const Numbers& x) {
  Numbers y;
  for (size_t r = 0; r < scales.size(); ++r) {
    float sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += matrix[r * x.size() + i] * x[i];
    y.push_back(sum * scales[r]);
  }
  return y;
}

class Sequence {
 public:
  Sequence(const Sizes& sizes, size_t number)
      : s_(sizes),
        number_(number),
        length_(static_cast<size_t>(sizes.lengths[number])),
        dim_(static_cast<size_t>(sizes.dim)),
        table_(BlockTable(sizes)),
        cosines_(RopeTable(sizes, false)),
        sines_(RopeTable(sizes, true)) {
    auto hidden = static_cast<size_t>(s_.hidden), token = static_cast<size_t>(Tokens(s_)[number]);
    Numbers embeddings = Floats(ModelValues(s_, argument::token_embd));
    auto row = embeddings.begin() + static_cast<ptrdiff_t>(token * hidden);
    x_.assign(row, row + static_cast<ptrdiff_t>(hidden));
  }

  void Run(LayerOf& w, Expected* expected) {
    Numbers h = Normed(x_.data(), w[argument::attn_norm]);
    Numbers q = Product(w[argument::q], w[argument::q_scale], h);
    Numbers k = Product(w[argument::k], w[argument::k_scale], h);
    Numbers v = Product(w[argument::v], w[argument::v_scale], h);
    Rotate(q, w[argument::q_norm]);
    Rotate(k, w[argument::k_norm]);
    for (Numbers* stored : {&k, &v}) {
      for (float& value : *stored) value = static_cast<float>(bf16(value));
    }
    expected->keys.insert(expected->keys.end(), k.begin(), k.end());
    expected->values.insert(expected->values.end(), v.begin(), v.end());
    Add(Product(w[argument::o], w[argument::o_scale],
                Attend(q, Gathered(w[argument::keys], k), Gathered(w[argument::values], v))));
    h = Normed(x_.data(), w[argument::ffn_norm]);
    Numbers gate = Product(w[argument::gate], w[argument::gate_scale], h);
    Numbers up = Product(w[argument::up], w[argument::up_scale], h);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    Add(Product(w[argument::down], w[argument::down_scale], gate));
  }

  Numbers Logits() const {
    return Product(Floats(ModelValues(s_, argument::output)), OutputScales(s_),
                   Normed(x_.data(), Floats(ModelValues(s_, argument::output_norm))));
  }

 private:
  void Add(const Numbers& more) {
    for (size_t i = 0; i < x_.size(); ++i) x_[i] += more[i];
  }

  /// Each head: norm, then rotation.
  void Rotate(Numbers& heads, const Numbers& weight) const {
    size_t half = dim_ / 2, row = (length_ - 1) * half;
    for (size_t head = 0; head < heads.size(); head += dim_) {
      Numbers y = Normed(&heads[head], weight);
      for (size_t i = 0; i < half; ++i) {
        float c = cosines_[row + i], s = sines_[row + i];
        heads[head + i] = y[i] * c - y[i + half] * s;
        heads[head + i + half] = y[i + half] * c + y[i] * s;
      }
    }
  }

  /// All tokens of the sequence, [length, kv_heads * dim], the new one behind those in the pool.
  Numbers Gathered(const Numbers& pool, const Numbers& last) const {
    Numbers all;
    auto block = static_cast<size_t>(s_.block), columns = static_cast<size_t>(s_.columns);
    for (size_t t = 0; t + 1 < length_; ++t) {
      auto in_pool = static_cast<size_t>(table_[number_ * columns + t / block]);
      auto row = pool.begin() + static_cast<ptrdiff_t>((in_pool * block + t % block) * last.size());
      all.insert(all.end(), row, row + static_cast<ptrdiff_t>(last.size()));
    }
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }

  Numbers Attend(const Numbers& q, const Numbers& keys, const Numbers& values) const {
    auto kv_heads = static_cast<size_t>(s_.kv_heads), row = kv_heads * dim_;
    size_t group = static_cast<size_t>(s_.heads) / kv_heads;
    Numbers attended(q.size());
    for (size_t head = 0; head < q.size() / dim_; ++head) {
      size_t column = head / group * dim_;
      Numbers weights;
      for (size_t t = 0; t < length_; ++t) {
        float sum = 0;
        for (size_t i = 0; i < dim_; ++i) sum += q[head * dim_ + i] * keys[t * row + column + i];
        weights.push_back(sum / std::sqrt(static_cast<float>(dim_)));
      }
      float largest = *std::max_element(weights.begin(), weights.end()), total = 0;
      for (float& weight : weights) total += weight = std::exp(weight - largest);
      for (size_t t = 0; t < length_; ++t) {
        for (size_t i = 0; i < dim_; ++i) {
          attended[head * dim_ + i] += weights[t] / total * values[t * row + column + i];
        }
      }
    }
    return attended;
  }

  const Sizes& s_;
  size_t number_, length_, dim_;
  std::vector<int32_t> table_;
  Numbers cosines_, sines_;
  Numbers x_;
};

}  // namespace

Expected Reference(const Sizes& sizes) {
  Expected expected;
  std::vector<Sequence> sequences;
  for (size_t b = 0; b < sizes.lengths.size(); ++b) sequences.emplace_back(sizes, b);
  for (int64_t layer = 0; layer < static_cast<int64_t>(kLayers); ++layer) {
    LayerOf weights(sizes, layer);
    for (Sequence& sequence : sequences) sequence.Run(weights, &expected);
  }
  for (Sequence& sequence : sequences) {
    Numbers logits = sequence.Logits();
    expected.logits.insert(expected.logits.end(), logits.begin(), logits.end());
  }
  return expected;
}

}  // namespace precast::qwen3_14b
