#include "parsers/target.h"
#include "qwen3/config.h"
#include "qwen3/dequantize.h"
#include "qwen3/gguf.h"
#include "qwen3/tokenizer.h"

#include <precast/error.h>

#include <string_view>
#include <vector>

namespace precast::test {
namespace {

using namespace qwen3;

/// Errors that a file may deserve.
template <typename Call>
void MayRefuse(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file && error.code() != ErrorCode::unsupported) throw;
  }
}

template <typename T>
void ReadAs(const GgufFile& file, std::string_view key) {
  MayRefuse([&] { (void)file.Find<T>(key); });
  if constexpr (!std::is_same_v<T, bool>) {
    MayRefuse([&] { (void)file.Find<std::vector<T>>(key); });
  }
}

void CheckTensor(const GgufFile& file, const GgufTensor& tensor, Input bytes) {
  constexpr uint64_t kMostElements = 1 << 16;
  const auto* begin = reinterpret_cast<const uint8_t*>(tensor.data.data());
  Require(!tensor.data.empty() && begin >= bytes.data() &&
              begin + tensor.data.size() <= bytes.data() + bytes.size(),
          "a tensor lies inside its file");
  Require(tensor.rows() * tensor.row_bytes() == tensor.data.size(), "a tensor is whole rows");
  Require(file.FindTensor(tensor.name) == &tensor, "a tensor is found by its name");
  if (tensor.rows() * tensor.cols() <= kMostElements) (void)Dequantize(tensor);
}

void CheckModel(const GgufFile& file) {
  Config config = ReadConfig(file);
  Weights weights = FindWeights(file, config);
  Require(weights.layers.size() == static_cast<size_t>(config.layers), "each layer has weights");
  Require(static_cast<int64_t>(weights.output->rows()) == config.vocab, "a row for each token");
}

void CheckTokenizer(const GgufFile& file) {
  constexpr std::string_view kText = "It's 12 o'clock,\n\n  said <|end|> \xff\xc3\xa9.";
  Tokenizer tokenizer(file);
  Require(tokenizer.Decode(tokenizer.Encode(kText)) == kText, "tokens spell the text");
}

}  // namespace

void FuzzGguf(Input bytes) {
  MayRefuse([&] {
    GgufFile file = GgufFile::Parse("input", std::as_bytes(bytes));
    for (const GgufTensor& tensor : file.tensors()) CheckTensor(file, tensor, bytes);
    for (std::string_view key : {"a", "general.architecture", "tokenizer.ggml.tokens"}) {
      ReadAs<bool>(file, key);
      ReadAs<int8_t>(file, key);
      ReadAs<uint64_t>(file, key);
      ReadAs<float>(file, key);
      ReadAs<std::string_view>(file, key);
      MayRefuse([&] { (void)file.FindArraySize(key); });
    }
    MayRefuse([&] { CheckModel(file); });
    MayRefuse([&] { CheckTokenizer(file); });
  });
}

}  // namespace precast::test
