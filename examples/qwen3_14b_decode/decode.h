// One decoding step of Qwen3-14B as a task graph: what it takes, and how it is divided.
//
// Arguments of a run, in order:
//   in    tokens       i32 [batch]                the newest token of each sequence
//   in    lengths      i32 [batch]                tokens of each sequence, the newest included
//   in    block_table  i32 [batch, columns]       blocks of the KV pools, in order
//   in    cosines      f32 [positions, dim / 2]   rotary embedding
//   in    sines        f32 [positions, dim / 2]
//   in    token_embd   bf16 [vocab, hidden]
//   in    output_norm  bf16 [hidden]
//   in    output       bf16 [vocab, hidden], output_scale f32 [vocab]
//   out   next         i32 [batch]                the likeliest next tokens
//   out   logits       f32 [batch, vocab]
//   for each of 40 layers what `argument::Layer` names
//   eps (f32), empty (i32): 1 for kernels that do nothing
#pragma once

#include <precast/program.h>

#include <cstdint>
#include <vector>

namespace precast::qwen3_14b {

namespace argument {
enum Tensors : size_t {
  tokens,
  lengths,
  block_table,
  cosines,
  sines,
  token_embd,
  output_norm,
  output,
  output_scale,
  next,
  logits,
  layers
};
/// Matrices are bf16 [rows, cols], each followed by its scales, f32 [rows]; norms bf16; pools, the
/// only ones that are `inout`, bf16 [pool, block, kv_heads, dim].
enum Layer : size_t {
  attn_norm,
  q,
  q_scale,
  k,
  k_scale,
  v,
  v_scale,
  q_norm,
  k_norm,
  o,
  o_scale,
  ffn_norm,
  gate,
  gate_scale,
  up,
  up_scale,
  down,
  down_scale,
  keys,
  values,
  per_layer
};
}  // namespace argument

inline constexpr size_t kLayers = 40;
/// Number of a layer's tensor among the arguments.
constexpr size_t LayerTensor(size_t layer, size_t which) {
  return argument::layers + layer * argument::per_layer + which;
}

// How a layer is divided. A query head and a KV head are a tile of their projection each.
inline constexpr int64_t kHiddenTiles = 20;  // of the projections that end in the hidden state
inline constexpr int64_t kFfnTiles = 17;     // of the feed-forward's width
inline constexpr int64_t kSplits = 4;        // of the block table's columns, in attention

void Decode(Orchestrator& o, const Args& args);

/// The body of the graph that is recorded: 277 tasks for 40 query and 8 KV heads. `args`: what
/// argument::Layer names, hidden state f32 [batch, hidden] (inout), block_table, lengths, slots
/// i32 [batch], cosine and sine f32 [batch, dim / 2]; eps.
void SubmitLayer(Orchestrator& o, const Args& args, bool empty);

/// The signature of the arguments above.
std::vector<ArgSpec> DecodeSignature();

}  // namespace precast::qwen3_14b
