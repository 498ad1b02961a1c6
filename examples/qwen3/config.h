// What a Qwen3 model consists of: its sizes and its weights, checked against each other.
//
// With a `Config` and `Weights` in hand, no later code needs to look at the file again or to doubt
// a shape. Everything a file gets wrong is reported here: another architecture (`unsupported`), a
// missing or senseless key, a missing tensor, a wrong shape (`bad_file`, with found and expected),
// a variant this program does not compute (`unsupported`).
#pragma once

#include "qwen3/gguf.h"

#include <cstdint>
#include <vector>

namespace precast::qwen3 {

/// The sizes of a model. Invariants: all are positive; `kv_heads` divides `heads`; `head_dim` is
/// even; products of any two are far from overflow.
struct Config {
  int64_t layers = 0;        ///< qwen3.block_count
  int64_t embedding = 0;     ///< qwen3.embedding_length
  int64_t feed_forward = 0;  ///< qwen3.feed_forward_length
  int64_t heads = 0;         ///< qwen3.attention.head_count
  int64_t kv_heads = 0;      ///< qwen3.attention.head_count_kv, or `heads`
  int64_t head_dim = 0;      ///< qwen3.attention.key_length, or `embedding / heads`; values too
  int64_t context = 0;       ///< qwen3.context_length, in tokens
  int64_t vocab = 0;         ///< rows of token_embd.weight
  float rms_eps = 0;         ///< qwen3.attention.layer_norm_rms_epsilon
  float rope_base = 0;       ///< qwen3.rope.freq_base
  bool tied_output = false;  ///< the output matrix is token_embd.weight

  int64_t query_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
};

/// Reads and checks the metadata. Throws as described above.
Config ReadConfig(const GgufFile& file);

/// The tensors of one layer, never null. A matrix of shape [rows, cols] maps cols numbers to rows.
struct LayerWeights {
  const GgufTensor* attn_norm;    ///< [embedding]
  const GgufTensor* attn_q;       ///< [query_width, embedding]
  const GgufTensor* attn_k;       ///< [kv_width, embedding]
  const GgufTensor* attn_v;       ///< [kv_width, embedding]
  const GgufTensor* attn_q_norm;  ///< [head_dim], for each query head
  const GgufTensor* attn_k_norm;  ///< [head_dim], for each key head
  const GgufTensor* attn_output;  ///< [embedding, query_width]
  const GgufTensor* ffn_norm;     ///< [embedding]
  const GgufTensor* ffn_gate;     ///< [feed_forward, embedding]
  const GgufTensor* ffn_up;       ///< [feed_forward, embedding]
  const GgufTensor* ffn_down;     ///< [embedding, feed_forward]
};

/// The tensors of a model, never null; they belong to the file and live as long as it does.
struct Weights {
  const GgufTensor* token_embd;   ///< [vocab, embedding]
  const GgufTensor* output_norm;  ///< [embedding]
  const GgufTensor* output;       ///< [vocab, embedding]; `token_embd` if tied
  std::vector<LayerWeights> layers;
};

/// Finds all tensors and checks their shapes. A tensor that the architecture does not have is
/// `unsupported`: leaving it out would give wrong text.
Weights FindWeights(const GgufFile& file, const Config& config);

}  // namespace precast::qwen3
