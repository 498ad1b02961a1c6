// The orchestration of one token: a decoder step as a task graph.
//
// Arguments of a run, in order:
//   token (i32), wants_logits (i32), eps (f32), rope_base (f32)
//   out   logits  f32 [vocab]
//   inout lengths i32 [1]                 tokens in the cache so far
//   inout table   i32 [pages]             physical page of each logical page, -1: none yet
//   in    order   i32 [pages]             the physical pages in the order in which they are given
//   inout keys    f32 [layers, pages, page, kv_heads * head_dim]
//   inout values  the same
//   in    weights: token_embd, output_norm, output, then per layer attn_norm, attn_q, attn_k,
//         attn_v, attn_q_norm, attn_k_norm, attn_output, ffn_norm, ffn_gate, ffn_up, ffn_down
//
// Lengths, table and cache live on the device across runs. The orchestration reads how far the
// cache is filled, adds a page to the table where one begins, and submits each layer as a recorded
// graph. This has one attention task for each chunk of 64 positions, so it is recorded when a new
// chunk begins and at no other token: weights and cache are its boundary, the position is bound.
#pragma once

#include <precast/program.h>

namespace precast::qwen3 {

inline constexpr int64_t kPage = 16;   // positions of a page of the cache
inline constexpr int64_t kChunk = 64;  // positions of an attention task

/// Position of each argument among the tensors, and of weights within their groups.
namespace argument {
enum Tensors { logits, lengths, table, order, keys, values, weights };
enum Model { token_embd, output_norm, output, layers };
enum Layer {
  attn_norm,
  attn_q,
  attn_k,
  attn_v,
  attn_q_norm,
  attn_k_norm,
  attn_output,
  ffn_norm,
  ffn_gate,
  ffn_up,
  ffn_down,
  per_layer
};
}  // namespace argument

void Decode(Orchestrator& o, const Args& args);

/// The signature of the arguments above.
std::vector<ArgSpec> DecodeSignature();

}  // namespace precast::qwen3
