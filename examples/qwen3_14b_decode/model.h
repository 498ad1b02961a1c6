// Sizes of the models that the cases of qwen3_14b_decode run, and what is in them. Contents follow
// from the sizes alone, so that the reference makes again what was copied to the device.
#pragma once

#include "qwen3_14b_decode/decode.h"

#include <precast/precast.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace precast::qwen3_14b {

struct Sizes {
  int64_t hidden, heads, kv_heads, dim, ffn, vocab;
  int64_t block, columns;        // tokens of a block of the KV pools; of the block table
  std::vector<int32_t> lengths;  // of the sequences, the newest token included

  int64_t batch() const { return static_cast<int64_t>(lengths.size()); }
  int64_t positions() const { return block * columns; }
  /// Blocks of the pools: those that the sequences have, and three more.
  int64_t pool() const;
};

/// Qwen3-14B: 16 sequences of up to 1024 tokens.
Sizes FullSizes();
/// The same tasks with small widths: 3 sequences of up to 32 tokens.
Sizes SmallSizes();

inline constexpr float kEps = 1e-6f;

/// Shape and dtype of tensor `which` of a layer (argument::Layer).
std::pair<Shape, DType> LayerForm(const Sizes& sizes, size_t which);

/// The values of such a tensor, row-major: of one of bf16 …
std::vector<bf16> LayerValues(const Sizes& sizes, int64_t layer, size_t which);
/// … and of the scales of matrix `which`.
std::vector<float> LayerScales(const Sizes& sizes, int64_t layer, size_t which);

/// The same for `token_embd`, `output_norm` and `output` (argument::Tensors).
std::vector<bf16> ModelValues(const Sizes& sizes, size_t which);
std::vector<float> OutputScales(const Sizes& sizes);

std::vector<int32_t> Tokens(const Sizes& sizes);
/// [batch, columns]: the blocks of each sequence in shuffled order, -1 behind them.
std::vector<int32_t> BlockTable(const Sizes& sizes);
/// Cosines or sines of rotary embedding, [positions, dim / 2].
std::vector<float> RopeTable(const Sizes& sizes, bool sines);

}  // namespace precast::qwen3_14b
