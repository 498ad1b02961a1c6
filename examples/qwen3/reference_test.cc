#include "qwen3/reference.h"

#include "qwen3/dequantize.h"
#include "qwen3/gguf_test_writer.h"
#include "qwen3/random_model.h"
#include "qwen3/testing.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace precast::qwen3 {
namespace {

using ::precast::qwen3::testing::ExpectError;

using Floats = std::vector<float>;

/// A model whose tensors are `weights`, by name; those not named are zeros.
class HandMade {
 public:
  HandMade(const Config& config, const std::map<std::string, Floats>& weights)
      : bytes_(Write(config, weights)),
        file_(GgufFile::Parse("hand-made", AsBytes(bytes_))),
        reference_(file_) {}

  Floats Forward(int32_t token) {
    const auto logits = reference_.Forward(token);
    return {logits.begin(), logits.end()};
  }

 private:
  static std::string Write(const Config& config, std::map<std::string, Floats> weights) {
    std::ostringstream out;
    GgufWriter writer(out);
    WriteConfig(writer, config);
    const auto tensors = ModelTensors(config);
    for (const auto& [name, shape] : tensors) writer.Tensor(name, GgufType::f32, shape);
    for (const auto& [name, shape] : tensors) {
      uint64_t elements = 1;
      for (const uint64_t size : shape) elements *= size;
      Floats& values = weights[name];
      values.resize(elements);
      writer.Append(values);
    }
    writer.Finish();
    return std::move(out).str();
  }

  std::string bytes_;
  GgufFile file_;
  Reference reference_;
};

Config OneLayer(int64_t embedding, int64_t feed_forward, int64_t vocab) {
  return {.layers = 1,
          .embedding = embedding,
          .feed_forward = feed_forward,
          .heads = 1,
          .kv_heads = 1,
          .head_dim = embedding,
          .context = 8,
          .vocab = vocab,
          .rms_eps = 1e-12f,
          .rope_base = 10000,
          .tied_output = false};
}

Floats Identity(size_t n) {
  Floats m(n * n);
  for (size_t i = 0; i < n; ++i) m[i * n + i] = 1;
  return m;
}

void ExpectNear(const Floats& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

Floats Logits(const std::string& bytes, const std::vector<int32_t>& tokens) {
  const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
  Reference reference(file);
  Floats logits;
  for (const int32_t token : tokens) {
    const auto row = reference.Forward(token);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

TEST(Qwen3ReferenceTest, OneTokenByHand) {
  // Embedding (3, 4). Attention over one position returns the value: norm(x) = (3, 4) / sqrt(12.5)
  // = (0.8485281, 1.1313708), so x = (3.8485281, 5.1313708), of the same direction: its norm is
  // (0.8485281, 1.1313708) again. gate = first element, up = second element:
  // silu(0.8485281) * 1.1313708 = 0.8485281 / (1 + exp(-0.8485281)) * 1.1313708 = 0.6722480.
  // down adds it to the first element: x = (4.5207761, 5.1313708); mean of squares 23.3841917,
  // norm = (0.9348713, 1.0611389); the output norm doubles the second element.
  HandMade model(OneLayer(2, 1, 3), {
                                        {"token_embd.weight", {1, 0, 3, 4, 0, 1}},
                                        {"blk.0.attn_norm.weight", {1, 1}},
                                        {"blk.0.attn_v.weight", Identity(2)},
                                        {"blk.0.attn_output.weight", Identity(2)},
                                        {"blk.0.ffn_norm.weight", {1, 1}},
                                        {"blk.0.ffn_gate.weight", {1, 0}},
                                        {"blk.0.ffn_up.weight", {0, 1}},
                                        {"blk.0.ffn_down.weight", {1, 0}},
                                        {"output_norm.weight", {1, 2}},
                                        {"output.weight", {1, 0, 0, 1, 1, 1}},
                                    });
  ExpectNear(model.Forward(1), {0.9348713, 2.1222777, 3.0571490}, 1e-6);
}

TEST(Qwen3ReferenceTest, RotatesPairsHalfAHeadApart) {
  // One head of 4. Each embedding is (1, 1, 1, 1) * 2 * one unit vector's worth: norms make
  // queries and keys from the matrices below, values tell the two positions apart.
  // q = k = (2, 0, 0, 0) at both positions, so at position 1 the query and key are rotated by 1
  // radian within the pair (0, 2), whose frequency is 1: score(1, 0) = 4 cos(1) / 2, score(1, 1) =
  // 4 / 2. The other pair, (1, 3), has frequency 10000^(-1/2) = 0.01.
  auto first_weight = [](size_t element) {
    Floats projection(16);  // q and k: all of the input goes into one element
    for (size_t c = 0; c < 4; ++c) projection[element * 4 + c] = 1;
    HandMade model(OneLayer(4, 1, 2), {
                                          {"token_embd.weight", {1, 1, 1, 1, 2, 0, 1, 1}},
                                          {"blk.0.attn_norm.weight", {1, 1, 1, 1}},
                                          {"blk.0.attn_q.weight", projection},
                                          {"blk.0.attn_k.weight", projection},
                                          {"blk.0.attn_q_norm.weight", {1, 1, 1, 1}},
                                          {"blk.0.attn_k_norm.weight", {1, 1, 1, 1}},
                                          // The value's first element: x0 - x1, 0 for token 0.
                                          {"blk.0.attn_v.weight", {1, -1, 0, 0}},
                                          // It goes to the last element of the stream, where
                                          // nothing else differs between the tokens.
                                          {"blk.0.attn_output.weight",
                                           {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}},
                                          {"output_norm.weight", {1, 1, 1, 1}},
                                          // The ratio of the logits is x3 / x2, whatever the norm.
                                          {"output.weight", {0, 0, 1, 0, 0, 0, 0, 1}},
                                      });
    model.Forward(0);
    const Floats logits = model.Forward(1);
    // x3 = 1 + weight(position 1) * value; the value is 2 / sqrt(mean(4, 0, 1, 1)) = 2 / sqrt(1.5).
    const double share = (static_cast<double>(logits[1]) / logits[0] - 1) / (2 / std::sqrt(1.5));
    return 1 - share;
  };
  auto expected = [](double angle) {
    const double score = 2 * std::cos(angle) - 2;  // of position 0, minus that of position 1
    return std::exp(score) / (std::exp(score) + 1);
  };
  EXPECT_NEAR(first_weight(0), expected(1), 1e-5);
  EXPECT_NEAR(first_weight(1), expected(0.01), 1e-5);
  EXPECT_NEAR(first_weight(2), expected(1), 1e-5);
  EXPECT_NEAR(first_weight(3), expected(0.01), 1e-5);
}

TEST(Qwen3ReferenceTest, NeighbouringQueryHeadsShareAKeyHead) {
  // Heads 0, 1 use key head 0 and heads 2, 3 key head 1: copying each key head gives the same.
  Config config = TinyConfig();
  const std::string bytes = RandomModel({.config = config});
  const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
  config.kv_heads = config.heads;
  std::ostringstream out;
  GgufWriter writer(out);
  WriteConfig(writer, config);
  const auto tensors = ModelTensors(config);
  for (const auto& [name, shape] : tensors) writer.Tensor(name, GgufType::f32, shape);
  for (const auto& [name, shape] : tensors) {
    Floats values = Dequantize(*file.FindTensor(name));
    if (name.ends_with("attn_k.weight") || name.ends_with("attn_v.weight")) {
      const auto head = static_cast<ptrdiff_t>(config.head_dim * config.embedding);
      Floats copies;
      for (auto at = values.begin(); at != values.end(); at += head) {
        copies.insert(copies.end(), at, at + head);
        copies.insert(copies.end(), at, at + head);
      }
      values = copies;
    }
    writer.Append(values);
  }
  writer.Finish();
  EXPECT_EQ(Logits(bytes, {1, 2, 3, 4}), Logits(std::move(out).str(), {1, 2, 3, 4}));
}

TEST(Qwen3ReferenceTest, StoredTypesGiveWhatTheirValuesGive) {
  for (const GgufType type : {GgufType::f16, GgufType::bf16, GgufType::q8_0}) {
    const std::string bytes = RandomModel({.config = TinyConfig(), .type = type});
    const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
    std::ostringstream out;
    GgufWriter writer(out);
    WriteConfig(writer, TinyConfig());
    for (const GgufTensor& t : file.tensors()) writer.Tensor(t.name, GgufType::f32, t.shape);
    for (const GgufTensor& t : file.tensors()) writer.Append(Dequantize(t));
    writer.Finish();
    EXPECT_EQ(Logits(bytes, {5, 6, 7}), Logits(std::move(out).str(), {5, 6, 7})) << Name(type);
  }
}

TEST(Qwen3ReferenceTest, ATiedOutputIsTheEmbedding) {
  Config config = TinyConfig();
  const std::string tied = RandomModel({.config = config});
  const GgufFile file = GgufFile::Parse("test", AsBytes(tied));
  config.tied_output = false;
  std::ostringstream out;
  GgufWriter writer(out);
  WriteConfig(writer, config);
  const auto tensors = ModelTensors(config);
  for (const auto& [name, shape] : tensors) writer.Tensor(name, GgufType::f32, shape);
  for (const auto& [name, shape] : tensors) {
    const char* source = name == "output.weight" ? "token_embd.weight" : name.c_str();
    writer.Append(Dequantize(*file.FindTensor(source)));
  }
  writer.Finish();
  EXPECT_EQ(Logits(tied, {9, 8}), Logits(std::move(out).str(), {9, 8}));
}

TEST(Qwen3ReferenceTest, EarlierTokensMatterAndResetForgetsThem) {
  const std::string bytes = RandomModel({.config = TinyConfig()});
  const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
  Reference reference(file);
  auto forward = [&](int32_t token) {
    const auto logits = reference.Forward(token);
    return Floats(logits.begin(), logits.end());
  };
  const Floats alone = forward(1);
  forward(2);
  EXPECT_NE(forward(1), alone);
  EXPECT_EQ(reference.position(), 3);
  reference.Reset();
  EXPECT_EQ(reference.position(), 0);
  forward(2);
  EXPECT_NE(forward(1), alone);
  reference.Reset();
  EXPECT_EQ(forward(1), alone);
}

TEST(Qwen3ReferenceTest, ReportsBadTokensAndAFullContext) {
  Config config = OneLayer(2, 1, 3);
  const std::string bytes = RandomModel({.config = config, .tokenizer = false});
  const GgufFile file = GgufFile::Parse("test", AsBytes(bytes));
  Reference reference(file);
  ExpectError(ErrorCode::out_of_range, {"token 3", "0 to 2"}, [&] { reference.Forward(3); });
  ExpectError(ErrorCode::out_of_range, {"token -1", "0 to 2"}, [&] { reference.Forward(-1); });
  EXPECT_EQ(reference.position(), 0);
  for (int i = 0; i < 8; ++i) reference.Forward(0);
  ExpectError(ErrorCode::out_of_range, {"context is full", "8 tokens"},
              [&] { reference.Forward(0); });
  reference.Reset();
  EXPECT_NO_THROW(reference.Forward(0));
}

}  // namespace
}  // namespace precast::qwen3
