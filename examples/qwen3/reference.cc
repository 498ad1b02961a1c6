#include "qwen3/reference.h"

#include "qwen3/dequantize.h"

#include <precast/error.h>

#include <algorithm>
#include <cmath>

namespace precast::qwen3 {

namespace {

/// y = W x
std::vector<float> Multiply(const GgufTensor& w, std::span<const float> x) {
  std::vector<float> row(w.cols());
  std::vector<float> y(w.rows());
  for (size_t r = 0; r < y.size(); ++r) {
    DequantizeRows(w, r, 1, row);
    double sum = 0;
    for (size_t c = 0; c < row.size(); ++c) sum += static_cast<double>(row[c]) * x[c];
    y[r] = static_cast<float>(sum);
  }
  return y;
}

/// y = x / sqrt(mean(x²) + eps) * weight
std::vector<float> RmsNorm(std::span<const float> x, const GgufTensor& weight, float eps) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<float> y = Dequantize(weight);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(x[i] * scale * y[i]);
  return y;
}

void Add(std::span<const float> x, std::vector<float>* sum) {
  for (size_t i = 0; i < x.size(); ++i) (*sum)[i] += x[i];
}

}  // namespace

Reference::Reference(const GgufFile& file)
    : config_(ReadConfig(file)),
      weights_(FindWeights(file, config_)),
      caches_(static_cast<size_t>(config_.layers)) {}

void Reference::Reset() {
  for (Cache& cache : caches_) cache = {};
  position_ = 0;
}

std::span<const float> Reference::Forward(int32_t token) {
  if (token < 0 || token >= config_.vocab) {
    Fail(ErrorCode::out_of_range, "token {} is outside the vocabulary; allowed: 0 to {}", token,
         config_.vocab - 1);
  }
  if (position_ == config_.context) {
    Fail(ErrorCode::out_of_range, "the context is full: it holds {} tokens", config_.context);
  }
  std::vector<float> x(static_cast<size_t>(config_.embedding));
  DequantizeRows(*weights_.token_embd, static_cast<uint64_t>(token), 1, x);
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const LayerWeights& layer = weights_.layers[i];
    Add(Attention(layer, RmsNorm(x, *layer.attn_norm, config_.rms_eps), &caches_[i]), &x);
    Add(FeedForward(layer, RmsNorm(x, *layer.ffn_norm, config_.rms_eps)), &x);
  }
  logits_ = Multiply(*weights_.output, RmsNorm(x, *weights_.output_norm, config_.rms_eps));
  ++position_;
  return logits_;
}

std::vector<float> Reference::Attention(const LayerWeights& layer, std::span<const float> x,
                                        Cache* cache) {
  std::vector<float> query = Multiply(*layer.attn_q, x);
  std::vector<float> key = Multiply(*layer.attn_k, x);
  const std::vector<float> value = Multiply(*layer.attn_v, x);
  NormalizeAndRotate(*layer.attn_q_norm, query);
  NormalizeAndRotate(*layer.attn_k_norm, key);
  cache->keys.insert(cache->keys.end(), key.begin(), key.end());
  cache->values.insert(cache->values.end(), value.begin(), value.end());
  return Multiply(*layer.attn_output, Attend(query, *cache));
}

/// For each head: RMSNorm, then rotate the pair (i, i + d/2) by position * base^(-2i/d).
void Reference::NormalizeAndRotate(const GgufTensor& norm, std::span<float> heads) const {
  const auto dim = static_cast<size_t>(config_.head_dim);
  for (size_t begin = 0; begin < heads.size(); begin += dim) {
    const std::span<float> head = heads.subspan(begin, dim);
    const std::vector<float> normed = RmsNorm(head, norm, config_.rms_eps);
    for (size_t i = 0; i < dim / 2; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dim);
      const double angle = static_cast<double>(position_) * std::pow(config_.rope_base, exponent);
      const double a = normed[i];
      const double b = normed[i + dim / 2];
      head[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
      head[i + dim / 2] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
    }
  }
}

/// For each query head: softmax(query · keys / sqrt(d)) · values over all positions so far.
std::vector<float> Reference::Attend(std::span<const float> query, const Cache& cache) const {
  const auto dim = static_cast<size_t>(config_.head_dim);
  const auto kv_width = static_cast<size_t>(config_.kv_width());
  const auto heads_per_kv = static_cast<size_t>(config_.heads / config_.kv_heads);
  const size_t positions = cache.keys.size() / kv_width;
  std::vector<float> result(query.size());
  for (size_t head = 0; head < query.size() / dim; ++head) {
    const float* q = &query[head * dim];
    const size_t kv_offset = head / heads_per_kv * dim;

    std::vector<double> weight(positions);
    for (size_t p = 0; p < positions; ++p) {
      const float* k = &cache.keys[p * kv_width + kv_offset];
      for (size_t i = 0; i < dim; ++i) weight[p] += static_cast<double>(q[i]) * k[i];
      weight[p] /= std::sqrt(static_cast<double>(dim));
    }
    const double max = *std::max_element(weight.begin(), weight.end());
    double total = 0;
    for (double& w : weight) total += w = std::exp(w - max);

    for (size_t i = 0; i < dim; ++i) {
      double sum = 0;
      for (size_t p = 0; p < positions; ++p) {
        sum += weight[p] / total * cache.values[p * kv_width + kv_offset + i];
      }
      result[head * dim + i] = static_cast<float>(sum);
    }
  }
  return result;
}

/// SwiGLU: down(silu(gate(x)) * up(x)), where silu(v) = v / (1 + exp(-v)).
std::vector<float> Reference::FeedForward(const LayerWeights& layer, std::span<const float> x) {
  std::vector<float> gate = Multiply(*layer.ffn_gate, x);
  const std::vector<float> up = Multiply(*layer.ffn_up, x);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double v = gate[i];
    gate[i] = static_cast<float>(v / (1 + std::exp(-v)) * up[i]);
  }
  return Multiply(*layer.ffn_down, gate);
}

}  // namespace precast::qwen3
