// Models of the Qwen3 architecture with random weights, of any size. For tests and measurements:
// the text they write means nothing. No part of the program.
#pragma once

#include "qwen3/config.h"
#include "qwen3/gguf_test_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace precast::qwen3 {

struct RandomModelOptions {
  Config config;
  GgufType type = GgufType::f32;  ///< of the matrices; norms are F32
  uint64_t seed = 1;
  bool tokenizer = true;  ///< byte-level, without merges; needs a vocabulary of 257 or more
};

/// A model small enough for every test; its sizes all differ, and rows fit into Q8_0 blocks.
inline Config TinyConfig() {
  return {.layers = 2,
          .embedding = 32,
          .feed_forward = 96,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .context = 48,
          .vocab = 260,
          .rms_eps = 1e-6f,
          .rope_base = 10000,
          .tied_output = true};
}

/// The sizes of Qwen3-0.6B.
inline Config Qwen3SmallestConfig() {
  return {.layers = 28,
          .embedding = 1024,
          .feed_forward = 3072,
          .heads = 16,
          .kv_heads = 8,
          .head_dim = 128,
          .context = 40960,
          .vocab = 151936,
          .rms_eps = 1e-6f,
          .rope_base = 1e6f,
          .tied_output = true};
}

/// The character that stands for a byte in byte-level vocabularies.
inline std::string ByteLetter(int byte) {
  auto printable = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += !printable(b);
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// The metadata of a vocabulary: the 256 bytes, then "<|end|>" (control, the end of text), then
/// unused tokens up to `size`.
inline void WriteByteTokenizer(GgufWriter& writer, int64_t size) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLetter(byte));
  std::vector<int32_t> types(256, 1);
  tokens.emplace_back("<|end|>");
  types.push_back(3);
  for (int64_t i = 257; i < size; ++i) {
    tokens.push_back(fmt::format("[unused{}]", i));
    types.push_back(5);
  }
  writer.Key("tokenizer.ggml.model", "gpt2");
  writer.Key("tokenizer.ggml.pre", "qwen2");
  writer.Key("tokenizer.ggml.tokens", tokens);
  writer.Key("tokenizer.ggml.token_type", types);
  writer.Key("tokenizer.ggml.merges", std::vector<std::string>());
  writer.Key("tokenizer.ggml.eos_token_id", uint32_t{256});
}

/// The metadata that `ReadConfig` reads.
inline void WriteConfig(GgufWriter& writer, const Config& config) {
  auto key = [&](std::string_view name, int64_t value) {
    writer.Key(fmt::format("qwen3.{}", name), static_cast<uint32_t>(value));
  };
  writer.Key("general.architecture", "qwen3");
  key("block_count", config.layers);
  key("embedding_length", config.embedding);
  key("feed_forward_length", config.feed_forward);
  key("attention.head_count", config.heads);
  key("attention.head_count_kv", config.kv_heads);
  key("attention.key_length", config.head_dim);
  key("attention.value_length", config.head_dim);
  key("context_length", config.context);
  writer.Key("qwen3.attention.layer_norm_rms_epsilon", config.rms_eps);
  writer.Key("qwen3.rope.freq_base", config.rope_base);
}

/// All tensors of a model: name and shape, in the order in which they are written.
inline std::vector<std::pair<std::string, std::vector<uint64_t>>> ModelTensors(const Config& c) {
  const auto vocab = static_cast<uint64_t>(c.vocab), embedding = static_cast<uint64_t>(c.embedding),
             hidden = static_cast<uint64_t>(c.feed_forward),
             head = static_cast<uint64_t>(c.head_dim),
             query = static_cast<uint64_t>(c.heads * c.head_dim),
             kv = static_cast<uint64_t>(c.kv_heads * c.head_dim);
  std::vector<std::pair<std::string, std::vector<uint64_t>>> tensors;
  tensors.push_back({"token_embd.weight", {vocab, embedding}});
  for (int64_t i = 0; i < c.layers; ++i) {
    auto add = [&](std::string_view name, std::vector<uint64_t> shape) {
      tensors.emplace_back(fmt::format("blk.{}.{}.weight", i, name), std::move(shape));
    };
    add("attn_norm", {embedding});
    add("attn_q", {query, embedding});
    add("attn_k", {kv, embedding});
    add("attn_v", {kv, embedding});
    add("attn_q_norm", {head});
    add("attn_k_norm", {head});
    add("attn_output", {embedding, query});
    add("ffn_norm", {embedding});
    add("ffn_gate", {hidden, embedding});
    add("ffn_up", {hidden, embedding});
    add("ffn_down", {embedding, hidden});
  }
  tensors.push_back({"output_norm.weight", {embedding}});
  if (!c.tied_output) tensors.push_back({"output.weight", {vocab, embedding}});
  return tensors;
}

/// Writes a model row by row. The same options give the same bytes on every machine. Norm weights
/// are in 0.5..1.5, matrices are scaled to keep the size of what they multiply.
inline void WriteRandomModel(const RandomModelOptions& options, std::ostream& out) {
  GgufWriter writer(out);
  WriteConfig(writer, options.config);
  if (options.tokenizer) WriteByteTokenizer(writer, options.config.vocab);
  const auto tensors = ModelTensors(options.config);
  for (const auto& [name, shape] : tensors) {
    writer.Tensor(name, shape.size() == 1 ? GgufType::f32 : options.type, shape);
  }
  std::mt19937_64 random(options.seed);
  auto uniform = [&random] {  // in -1..1
    return static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
  };
  for (const auto& [name, shape] : tensors) {
    std::vector<float> row(shape.back());
    const bool norm = shape.size() == 1;
    const float scale = norm ? 0.5f : std::sqrt(3 / static_cast<float>(row.size()));
    for (uint64_t r = 0; r < (norm ? 1 : shape[0]); ++r) {
      for (float& x : row) x = (norm ? 1 : 0) + scale * uniform();
      writer.Append(row);
    }
  }
  writer.Finish();
}

/// A model in memory.
inline std::string RandomModel(const RandomModelOptions& options) {
  std::ostringstream out;
  WriteRandomModel(options, out);
  return std::move(out).str();
}

}  // namespace precast::qwen3
