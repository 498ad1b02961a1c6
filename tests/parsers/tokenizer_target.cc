#include "parsers/target.h"
#include "qwen3/gguf.h"
#include "qwen3/gguf_test_writer.h"
#include "qwen3/pretokenizer.h"
#include "qwen3/random_model.h"
#include "qwen3/tokenizer.h"
#include "qwen3/utf8.h"

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace precast::test {
namespace {

using namespace qwen3;

/// All bytes, some merges that overlap each other, and special tokens one of which begins another.
Tokenizer MakeTokenizer() {
  const std::vector<std::string> merges = {"a a", "aa aa", "t h", "h e",   "th e",
                                           "i n", "in g",  "Ġ t", "Ġt he", "e e",
                                           "1 2", "' s",   "Ċ Ċ", "Ã ©",   "ing ing"};
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLetter(byte));
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    tokens.push_back(merge);
  }
  std::vector<int32_t> types(tokens.size(), 1);
  for (const char* special : {"<|end|>", "<|", "<|end", "\xff"}) {
    tokens.emplace_back(special);
    types.push_back(3);
  }
  std::ostringstream out;
  GgufWriter writer(out);
  writer.Key("tokenizer.ggml.model", "gpt2");
  writer.Key("tokenizer.ggml.pre", "qwen2");
  writer.Key("tokenizer.ggml.tokens", tokens);
  writer.Key("tokenizer.ggml.token_type", types);
  writer.Key("tokenizer.ggml.merges", merges);
  writer.Finish();
  std::string bytes = out.str();
  return Tokenizer(GgufFile::Parse("tokenizer", std::as_bytes(std::span(bytes))));
}

void CheckPieces(const std::string& text) {
  std::string joined;
  for (std::string_view piece : SplitQwen2(text)) {
    Require(!piece.empty(), "a piece is not empty");
    joined += piece;
  }
  Require(joined == text, "the pieces are the text");
}

}  // namespace

void FuzzTokenizer(Input bytes) {
  static const Tokenizer tokenizer = MakeTokenizer();
  std::string text(bytes.begin(), bytes.end());
  std::vector<int32_t> tokens = tokenizer.Encode(text);
  Require(tokenizer.Decode(tokens) == text, "tokens spell the text");
  Require(tokens.size() <= text.size(), "no token is empty");
  CheckPieces(ReplaceInvalidUtf8(text));
  (void)Printable(text);

  Utf8Stream stream;  // what a token writes, piece by piece
  std::string shown;
  for (int32_t token : tokens) shown += stream.Push(tokenizer.Bytes(token));
  Require(shown + stream.Finish() == text, "a stream shows all of the text");
}

}  // namespace precast::test
