#include "qwen3/config.h"

#include "qwen3/utf8.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>

namespace precast::qwen3 {

namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxSize = 1 << 20;  // of a dimension; the product of two fits easily
constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();  // of tokens and positions

constexpr std::string_view kTokenEmbedding = "token_embd.weight";
constexpr std::string_view kOutput = "output.weight";

[[noreturn]] void FailMissing(const GgufFile& file, std::string_view name) {
  Fail(ErrorCode::bad_file, "{}: missing tensor '{}'", file.name(), name);
}

int64_t CheckSize(const GgufFile& file, std::string_view key, uint64_t value, int64_t max) {
  if (value < 1 || value > static_cast<uint64_t>(max)) {
    Fail(ErrorCode::bad_file, "{}: {} is {}; allowed: 1 to {}", file.name(), key, value, max);
  }
  return static_cast<int64_t>(value);
}

int64_t RequireSize(const GgufFile& file, std::string_view key, int64_t max) {
  return CheckSize(file, key, file.Require<uint64_t>(key), max);
}

float RequirePositive(const GgufFile& file, std::string_view key) {
  const auto value = file.Require<float>(key);
  if (!std::isfinite(value) || value <= 0) {
    Fail(ErrorCode::bad_file, "{}: {} is {}; allowed: finite numbers above 0", file.name(), key,
         value);
  }
  return value;
}

/// Refuses a key that changes the computation, unless it has the value that changes nothing.
template <typename T>
void RequireNeutral(const GgufFile& file, std::string_view key, const T& neutral) {
  if (const auto value = file.Find<T>(key); value && *value != neutral) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      Fail(ErrorCode::unsupported, "{}: {} is '{}'; supported: '{}'", file.name(), key,
           Printable(*value), neutral);
    } else {
      Fail(ErrorCode::unsupported, "{}: {} is {}; supported: {}", file.name(), key, *value,
           neutral);
    }
  }
}

void ReadHeads(const GgufFile& file, Config* config) {
  constexpr std::string_view kHeads = "qwen3.attention.head_count";
  constexpr std::string_view kKvHeads = "qwen3.attention.head_count_kv";
  constexpr std::string_view kKeyLength = "qwen3.attention.key_length";

  config->heads = RequireSize(file, kHeads, kMaxSize);
  const auto kv_heads = file.Find<uint64_t>(kKvHeads);
  config->kv_heads = CheckSize(file, kKvHeads, kv_heads.value_or(config->heads), kMaxSize);
  if (config->heads % config->kv_heads != 0) {
    Fail(ErrorCode::bad_file, "{}: {} is {}; allowed: divisors of {}, which is {}", file.name(),
         kKvHeads, config->kv_heads, kHeads, config->heads);
  }
  const auto key_length = file.Find<uint64_t>(kKeyLength);
  if (!key_length && config->embedding % config->heads != 0) {
    Fail(ErrorCode::bad_file, "{}: no key {}, and {} heads do not divide the embedding of {}",
         file.name(), kKeyLength, config->heads, config->embedding);
  }
  config->head_dim =
      CheckSize(file, kKeyLength, key_length.value_or(config->embedding / config->heads), kMaxSize);
  if (config->head_dim % 2 != 0) {
    Fail(ErrorCode::bad_file, "{}: the head dimension is {}; allowed: even numbers", file.name(),
         config->head_dim);
  }
  RequireNeutral<int64_t>(file, "qwen3.attention.value_length", config->head_dim);
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Looks tensors up by name and shape and remembers which ones were asked for.
class Finder {
 public:
  explicit Finder(const GgufFile& file) : file_(file) {}

  const GgufTensor* Find(std::string_view name, std::vector<int64_t> dimensions) {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) FailMissing(file_, name);
    const std::vector<uint64_t> expected(dimensions.begin(), dimensions.end());
    if (tensor->shape != expected) {
      Fail(ErrorCode::bad_file, "{}: tensor '{}' has shape {}; expected: {}", file_.name(), name,
           ShapeText(tensor->shape), ShapeText(expected));
    }
    found_.insert(tensor);
    return tensor;
  }

  void RefuseOthers() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (found_.contains(&tensor)) continue;
      Fail(ErrorCode::unsupported, "{}: tensor '{}' is not one of the qwen3 architecture's",
           file_.name(), Printable(tensor.name));
    }
  }

 private:
  const GgufFile& file_;
  std::set<const GgufTensor*> found_;
};

}  // namespace

Config ReadConfig(const GgufFile& file) {
  constexpr std::string_view kArchitecture = "general.architecture";
  if (const auto found = file.Require<std::string_view>(kArchitecture); found != "qwen3") {
    Fail(ErrorCode::unsupported, "{}: the architecture is '{}'; expected: 'qwen3'", file.name(),
         Printable(found));
  }
  Config config;
  config.layers = RequireSize(file, "qwen3.block_count", kMaxLayers);
  config.embedding = RequireSize(file, "qwen3.embedding_length", kMaxSize);
  config.feed_forward = RequireSize(file, "qwen3.feed_forward_length", kMaxSize);
  config.context = RequireSize(file, "qwen3.context_length", kMaxIndex);
  ReadHeads(file, &config);
  config.rms_eps = RequirePositive(file, "qwen3.attention.layer_norm_rms_epsilon");
  config.rope_base = RequirePositive(file, "qwen3.rope.freq_base");
  RequireNeutral<std::string_view>(file, "qwen3.rope.scaling.type", "none");
  RequireNeutral<int64_t>(file, "qwen3.rope.dimension_count", config.head_dim);

  const GgufTensor* embeddings = file.FindTensor(kTokenEmbedding);
  if (embeddings == nullptr) FailMissing(file, kTokenEmbedding);
  config.vocab =
      CheckSize(file, "the number of rows of token_embd.weight", embeddings->rows(), kMaxIndex);
  const auto tokens = file.FindArraySize("tokenizer.ggml.tokens");
  if (tokens && *tokens != embeddings->rows()) {
    Fail(ErrorCode::bad_file, "{}: tensor '{}' has {} rows; expected: {}, one for each token",
         file.name(), kTokenEmbedding, embeddings->rows(), *tokens);
  }
  config.tied_output = file.FindTensor(kOutput) == nullptr;
  return config;
}

Weights FindWeights(const GgufFile& file, const Config& config) {
  Finder finder(file);
  Weights weights;
  weights.token_embd = finder.Find(kTokenEmbedding, {config.vocab, config.embedding});
  weights.output_norm = finder.Find("output_norm.weight", {config.embedding});
  weights.output = config.tied_output ? weights.token_embd
                                      : finder.Find(kOutput, {config.vocab, config.embedding});
  for (int64_t i = 0; i < config.layers; ++i) {
    auto find = [&](std::string_view part, std::vector<int64_t> shape) {
      return finder.Find(fmt::format("blk.{}.{}.weight", i, part), std::move(shape));
    };
    weights.layers.push_back({
        .attn_norm = find("attn_norm", {config.embedding}),
        .attn_q = find("attn_q", {config.query_width(), config.embedding}),
        .attn_k = find("attn_k", {config.kv_width(), config.embedding}),
        .attn_v = find("attn_v", {config.kv_width(), config.embedding}),
        .attn_q_norm = find("attn_q_norm", {config.head_dim}),
        .attn_k_norm = find("attn_k_norm", {config.head_dim}),
        .attn_output = find("attn_output", {config.embedding, config.query_width()}),
        .ffn_norm = find("ffn_norm", {config.embedding}),
        .ffn_gate = find("ffn_gate", {config.feed_forward, config.embedding}),
        .ffn_up = find("ffn_up", {config.feed_forward, config.embedding}),
        .ffn_down = find("ffn_down", {config.embedding, config.feed_forward}),
    });
  }
  finder.RefuseOthers();
  return weights;
}

}  // namespace precast::qwen3
