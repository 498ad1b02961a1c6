// The trained model of this folder against the numbers that the framework which trained it
// computed: train/train.py --logits wrote models/shakespeare.expected.json.
#include "qwen3/gguf.h"
#include "qwen3/reference.h"
#include "qwen3/sampler.h"
#include "qwen3/tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

namespace precast::qwen3 {
namespace {

const std::string kModels = PRECAST_SOURCE_DIR "/examples/qwen3/models/";

class ShakespeareTest : public ::testing::Test {
 protected:
  ShakespeareTest() {
    std::ifstream stream(kModels + "shakespeare.expected.json");
    stream >> expected_;
  }

  /// The logits after the prompt.
  std::span<const float> ReadPrompt() {
    std::span<const float> logits;
    for (const int32_t token : tokenizer_.Encode(expected_["prompt"].get<std::string>())) {
      logits = reference_.Forward(token);
    }
    return logits;
  }

  nlohmann::json expected_;
  GgufFile file_ = GgufFile::Open(kModels + "shakespeare.gguf");
  Tokenizer tokenizer_{file_};
  Reference reference_{file_};
};

TEST_F(ShakespeareTest, LogitsAreThoseOfTheTrainer) {
  const auto expected = expected_["logits"].get<std::vector<float>>();
  const auto logits = ReadPrompt();
  ASSERT_EQ(logits.size(), expected.size());
  float largest = 0;
  for (const float x : expected) largest = std::max(largest, std::fabs(x));
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-3 * largest);
}

TEST_F(ShakespeareTest, GreedyTextIsThatOfTheTrainer) {
  const auto expected = expected_["greedy_text"].get<std::string>();
  Sampler sampler({});
  auto logits = ReadPrompt();
  std::string text;
  while (text.size() < expected.size()) {
    const int32_t token = sampler.Sample(logits);
    text += tokenizer_.Bytes(token);
    logits = reference_.Forward(token);
  }
  EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace precast::qwen3
