#include "qwen3/config.h"

#include "qwen3/gguf_test_writer.h"
#include "qwen3/random_model.h"
#include "qwen3/reference.h"
#include "qwen3/testing.h"
#include "qwen3/tokenizer.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace precast::qwen3 {
namespace {

using ::precast::qwen3::testing::ExpectError;

using Tensors = std::vector<std::pair<std::string, std::vector<uint64_t>>>;

Config SmallConfig() {
  return {.layers = 2,
          .embedding = 6,
          .feed_forward = 10,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .context = 16,
          .vocab = 12,
          .rms_eps = 1e-6f,
          .rope_base = 10000,
          .tied_output = true};
}

/// A model of zeros with the given tensors; `keys` writes the metadata.
std::string Model(const std::function<void(GgufWriter&)>& keys, const Tensors& tensors) {
  std::ostringstream out;
  GgufWriter writer(out);
  keys(writer);
  for (const auto& [name, shape] : tensors) writer.Tensor(name, GgufType::f32, shape);
  for (const auto& [name, shape] : tensors) {
    uint64_t elements = 1;
    for (const uint64_t size : shape) elements *= size;
    writer.Append(std::vector<float>(elements));
  }
  writer.Finish();
  return std::move(out).str();
}

std::string Model(const Config& config, const Tensors& tensors) {
  return Model([&](GgufWriter& writer) { WriteConfig(writer, config); }, tensors);
}

std::string Model(const Config& config) { return Model(config, ModelTensors(config)); }

/// Reads everything that a model must have.
Config Check(const std::string& bytes) {
  const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
  const Config config = ReadConfig(file);
  FindWeights(file, config);
  return config;
}

void ExpectConfigError(const Config& config, const std::vector<std::string>& parts) {
  const std::string bytes = Model(config, {{"token_embd.weight", {12, 6}}});
  ExpectError(ErrorCode::bad_file, parts, [&] { Check(bytes); });
}

TEST(Qwen3ConfigTest, ReadsAllSizes) {
  const Config config = Check(Model(SmallConfig()));
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.embedding, 6);
  EXPECT_EQ(config.feed_forward, 10);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.context, 16);
  EXPECT_EQ(config.vocab, 12);
  EXPECT_EQ(config.rms_eps, 1e-6f);
  EXPECT_EQ(config.rope_base, 10000);
  EXPECT_TRUE(config.tied_output);
  EXPECT_EQ(config.query_width(), 32);
  EXPECT_EQ(config.kv_width(), 16);
}

TEST(Qwen3ConfigTest, FindsEveryWeight) {
  Config config = SmallConfig();
  config.tied_output = false;
  const std::string bytes = Model(config);
  const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
  EXPECT_FALSE(ReadConfig(file).tied_output);
  const Weights weights = FindWeights(file, ReadConfig(file));
  EXPECT_EQ(weights.output, file.FindTensor("output.weight"));
  EXPECT_EQ(weights.token_embd, file.FindTensor("token_embd.weight"));
  EXPECT_EQ(weights.output_norm, file.FindTensor("output_norm.weight"));
  ASSERT_EQ(weights.layers.size(), 2u);
  EXPECT_EQ(weights.layers[1].attn_norm, file.FindTensor("blk.1.attn_norm.weight"));
  EXPECT_EQ(weights.layers[1].attn_q, file.FindTensor("blk.1.attn_q.weight"));
  EXPECT_EQ(weights.layers[1].attn_k, file.FindTensor("blk.1.attn_k.weight"));
  EXPECT_EQ(weights.layers[1].attn_v, file.FindTensor("blk.1.attn_v.weight"));
  EXPECT_EQ(weights.layers[1].attn_q_norm, file.FindTensor("blk.1.attn_q_norm.weight"));
  EXPECT_EQ(weights.layers[1].attn_k_norm, file.FindTensor("blk.1.attn_k_norm.weight"));
  EXPECT_EQ(weights.layers[1].attn_output, file.FindTensor("blk.1.attn_output.weight"));
  EXPECT_EQ(weights.layers[1].ffn_norm, file.FindTensor("blk.1.ffn_norm.weight"));
  EXPECT_EQ(weights.layers[1].ffn_gate, file.FindTensor("blk.1.ffn_gate.weight"));
  EXPECT_EQ(weights.layers[1].ffn_up, file.FindTensor("blk.1.ffn_up.weight"));
  EXPECT_EQ(weights.layers[1].ffn_down, file.FindTensor("blk.1.ffn_down.weight"));
}

TEST(Qwen3ConfigTest, TiesTheOutputIfTheFileHasNone) {
  const std::string bytes = Model(SmallConfig());
  const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
  const Weights weights = FindWeights(file, ReadConfig(file));
  EXPECT_EQ(weights.output, weights.token_embd);
}

TEST(Qwen3ConfigTest, NamesAnotherArchitecture) {
  auto keys = [](GgufWriter& writer) { writer.Key("general.architecture", "llama"); };
  const std::string bytes = Model(keys, {});
  ExpectError(ErrorCode::unsupported, {"test: the architecture is 'llama'", "expected: 'qwen3'"},
              [&] { Check(bytes); });
  const std::string none = Model([](GgufWriter&) {}, {});
  ExpectError(ErrorCode::bad_file, {"missing key 'general.architecture'"}, [&] { Check(none); });
}

TEST(Qwen3ConfigTest, RefusesSenselessSizes) {
  const Config good = SmallConfig();
  Config c = good;
  c.layers = 0;
  ExpectConfigError(c, {"qwen3.block_count is 0", "1 to 4096"});
  c.layers = 1 << 30;
  ExpectConfigError(c, {"qwen3.block_count is 1073741824", "1 to 4096"});
  c = good;
  c.embedding = 0;
  ExpectConfigError(c, {"qwen3.embedding_length is 0", "1 to 1048576"});
  c = good;
  c.feed_forward = 1 << 21;
  ExpectConfigError(c, {"qwen3.feed_forward_length is 2097152"});
  c = good;
  c.heads = 0;
  ExpectConfigError(c, {"qwen3.attention.head_count is 0"});
  c = good;
  c.kv_heads = 0;
  ExpectConfigError(c, {"qwen3.attention.head_count_kv is 0"});
  c.kv_heads = 3;
  ExpectConfigError(c,
                    {"head_count_kv is 3", "divisors of qwen3.attention.head_count, which is 4"});
  c = good;
  c.head_dim = 7;
  ExpectConfigError(c, {"head dimension is 7", "even"});
  c = good;
  c.context = 0;
  ExpectConfigError(c, {"qwen3.context_length is 0", "1 to 2147483647"});
  c = good;
  for (const float eps : {0.0f, -1.0f, INFINITY, NAN}) {
    c.rms_eps = eps;
    ExpectConfigError(c, {"layer_norm_rms_epsilon is", "finite numbers above 0"});
  }
  c = good;
  c.rope_base = 0;
  ExpectConfigError(c, {"qwen3.rope.freq_base is 0"});
}

TEST(Qwen3ConfigTest, DerivesSizesThatAFileMayLeaveOut) {
  auto keys = [](uint32_t embedding) {
    return [embedding](GgufWriter& writer) {
      writer.Key("general.architecture", "qwen3");
      writer.Key("qwen3.block_count", uint32_t{1});
      writer.Key("qwen3.embedding_length", embedding);
      writer.Key("qwen3.feed_forward_length", uint32_t{10});
      writer.Key("qwen3.attention.head_count", uint32_t{2});
      writer.Key("qwen3.context_length", uint64_t{16});
      writer.Key("qwen3.attention.layer_norm_rms_epsilon", 1e-6);
      writer.Key("qwen3.rope.freq_base", 1e6f);
    };
  };
  const std::string bytes = Model(keys(8), {{"token_embd.weight", {12, 8}}});
  const Config config = ReadConfig(GgufFile::Parse("test", AsBytes(bytes)));
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 4);
  const std::string odd = Model(keys(7), {{"token_embd.weight", {12, 7}}});
  ExpectError(ErrorCode::bad_file, {"no key qwen3.attention.key_length", "2 heads", "7"},
              [&] { Check(odd); });
}

TEST(Qwen3ConfigTest, NamesVariantsThatAreNotComputed) {
  auto expect = [](std::vector<std::string> parts, auto key, auto value) {
    const Tensors tensors = ModelTensors(SmallConfig());
    auto keys = [&](GgufWriter& writer) {
      WriteConfig(writer, SmallConfig());
      writer.Key(key, value);
    };
    const std::string bytes = Model(keys, tensors);
    ExpectError(ErrorCode::unsupported, parts, [&] { Check(bytes); });
  };
  expect({"rope.scaling.type is 'yarn'", "'none'"}, "qwen3.rope.scaling.type", "yarn");
  expect({"rope.dimension_count is 4", "8"}, "qwen3.rope.dimension_count", uint32_t{4});
}

TEST(Qwen3ConfigTest, NamesMissingTensors) {
  Config config = SmallConfig();
  config.tied_output = false;
  const Tensors tensors = ModelTensors(config);
  for (size_t i = 0; i + 1 < tensors.size(); ++i) {  // the last one may be missing: tied output
    Tensors fewer = tensors;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    const std::string bytes = Model(config, fewer);
    ExpectError(ErrorCode::bad_file, {"test: missing tensor '" + tensors[i].first + "'"},
                [&] { Check(bytes); });
  }
}

TEST(Qwen3ConfigTest, NamesWrongShapes) {
  Config config = SmallConfig();
  config.tied_output = false;
  const Tensors tensors = ModelTensors(config);
  for (size_t i = 1; i < tensors.size(); ++i) {
    Tensors changed = tensors;
    changed[i].second.back() += 1;
    const std::string bytes = Model(config, changed);
    ExpectError(ErrorCode::bad_file, {"tensor '" + tensors[i].first + "' has shape ["},
                [&] { Check(bytes); });
  }
  Tensors changed = tensors;
  changed[2].second = {6, 32};
  const std::string bytes = Model(config, changed);
  ExpectError(ErrorCode::bad_file,
              {"tensor 'blk.0.attn_q.weight' has shape [6, 32]; expected: [32, 6]"},
              [&] { Check(bytes); });
}

TEST(Qwen3ConfigTest, NamesTensorsOfOtherArchitectures) {
  Tensors tensors = ModelTensors(SmallConfig());
  tensors.push_back({"blk.0.attn_q.bias", {32}});
  const std::string bytes = Model(SmallConfig(), tensors);
  ExpectError(ErrorCode::unsupported, {"tensor 'blk.0.attn_q.bias' is not one of"},
              [&] { Check(bytes); });
}

TEST(Qwen3ConfigTest, VocabularyAndEmbeddingsMustAgree) {
  auto keys = [](GgufWriter& writer) {
    WriteConfig(writer, SmallConfig());
    writer.Key("tokenizer.ggml.tokens", std::vector<std::string>(11, "x"));
  };
  const std::string bytes = Model(keys, ModelTensors(SmallConfig()));
  ExpectError(ErrorCode::bad_file, {"'token_embd.weight' has 12 rows", "expected: 11"},
              [&] { Check(bytes); });
}

TEST(Qwen3ConfigTest, DamagedModelsGiveErrorsOrRun) {
  Config config = SmallConfig();
  config.vocab = 258;
  const std::string bytes = RandomModel({.config = config});
  const GgufFile whole = GgufFile::Parse("whole", AsBytes(bytes));
  const auto header = static_cast<size_t>(whole.tensors()[0].data.data() - AsBytes(bytes).data());
  std::mt19937 random(17);
  for (int round = 0; round < 3000; ++round) {
    std::string copy = bytes;
    copy[random() % header] = static_cast<char>(random());
    try {
      const GgufFile file = GgufFile::Parse("damaged", AsBytes(copy));
      const Tokenizer tokenizer(file);
      Reference reference(file);
      reference.Forward(tokenizer.Encode("a")[0]);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace precast::qwen3
