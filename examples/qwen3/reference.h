// The Qwen3 forward pass in plain loops: what the runtime's kernels are checked against.
//
// It is written to be read, one loop per formula, and shares no computation with the kernels.
// Values are float32; sums run in double, so that the order of adding does not matter here. Rows of
// the weights are converted to float32 as they are used. Not for speed.
//
// Thread safety: one thread at a time.
#pragma once

#include "qwen3/config.h"
#include "qwen3/gguf.h"

#include <cstdint>
#include <span>
#include <vector>

namespace precast::qwen3 {

class Reference {
 public:
  /// Requires: `file` outlives this object. Throws what `ReadConfig` and `FindWeights` throw.
  explicit Reference(const GgufFile& file);

  /// Computes the token at the next position; returns `config().vocab` logits for the one after
  /// it, valid until the next call. Throws `out_of_range` for a token outside the vocabulary and
  /// when the context is full; nothing has changed then.
  std::span<const float> Forward(int32_t token);

  /// Forgets all positions.
  void Reset();

  /// Number of tokens computed since the start or the last `Reset`.
  int64_t position() const { return position_; }

  const Config& config() const { return config_; }

 private:
  /// Keys and values of one layer: `kv_width` floats for each position, keys rotated.
  struct Cache {
    std::vector<float> keys;
    std::vector<float> values;
  };

  std::vector<float> Attention(const LayerWeights& layer, std::span<const float> x, Cache* cache);
  std::vector<float> FeedForward(const LayerWeights& layer, std::span<const float> x);
  void NormalizeAndRotate(const GgufTensor& norm, std::span<float> heads) const;
  std::vector<float> Attend(std::span<const float> query, const Cache& cache) const;

  Config config_;
  Weights weights_;
  std::vector<Cache> caches_;  // one per layer
  std::vector<float> logits_;
  int64_t position_ = 0;
};

}  // namespace precast::qwen3
