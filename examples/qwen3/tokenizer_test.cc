#include "qwen3/tokenizer.h"

#include "qwen3/gguf_test_writer.h"
#include "qwen3/random_model.h"
#include "qwen3/testing.h"
#include "qwen3/utf8.h"

#include <precast/error.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace precast::qwen3 {
namespace {

using ::precast::qwen3::testing::ExpectError;

/// A vocabulary of the 256 bytes, in order, and what a test adds.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types = std::vector<int32_t>(256, 1);
  std::vector<std::string> merges;
  std::string model = "gpt2";
  std::string pre = "qwen2";
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};

  Vocabulary() {
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLetter(byte));
  }
  Vocabulary& Merge(const std::string& left, const std::string& right) {
    merges.push_back(left + " " + right);
    return Add(left + right, 1);
  }
  Vocabulary& Add(const std::string& token, int32_t type) {
    tokens.push_back(token);
    types.push_back(type);
    return *this;
  }
  Tokenizer Build() const {
    std::ostringstream out;
    GgufWriter writer(out);
    writer.Key("tokenizer.ggml.model", model);
    writer.Key("tokenizer.ggml.pre", pre);
    writer.Key("tokenizer.ggml.tokens", tokens);
    writer.Key("tokenizer.ggml.token_type", types);
    writer.Key("tokenizer.ggml.merges", merges);
    more(writer);
    writer.Finish();
    const std::string bytes = std::move(out).str();
    return Tokenizer(GgufFile::Parse("test", AsBytes(bytes)));
  }
};

/// Merges that spell "hello", " world" and "é"; "Ġ" stands for a space.
Vocabulary SmallVocabulary() {
  Vocabulary v;
  v.Merge("l", "l").Merge("h", "e").Merge("he", "ll").Merge("hell", "o");
  v.Merge("Ġ", "w").Merge("o", "r").Merge("Ġw", "or").Merge("l", "d").Merge("Ġwor", "ld");
  v.Merge("Ã", "©").Merge("Ċ", "Ċ").Merge("'", "s").Merge("1", "2").Merge("a", "a");
  v.Add("<|im_end|>", 3).Add("<tool>", 4).Add("<tool>>", 4);
  return v;
}

/// The tokens of `text` between bars, as their bytes.
std::string Show(const Tokenizer& tokenizer, std::string_view text) {
  std::string result;
  for (const int32_t token : tokenizer.Encode(text)) {
    if (!result.empty()) result += "|";
    result += tokenizer.Bytes(token);
  }
  return result;
}

TEST(TokenizerTest, MergesByRank) {
  const Tokenizer tokenizer = SmallVocabulary().Build();
  EXPECT_EQ(Show(tokenizer, "hello world"), "hello| world");
  EXPECT_EQ(Show(tokenizer, "hell"), "hell");
  EXPECT_EQ(Show(tokenizer, "helo"), "he|l|o");
  EXPECT_EQ(Show(tokenizer, "lll"), "ll|l");  // equal ranks: the leftmost first
  EXPECT_EQ(Show(tokenizer, "lld"), "ll|d");  // "l l" comes before "l d"
  EXPECT_EQ(Show(tokenizer, "aaaaa"), "aa|aa|a");
  EXPECT_EQ(Show(tokenizer, "é"), "é");
  EXPECT_EQ(Show(tokenizer, ""), "");
}

TEST(TokenizerTest, AMergeOfLowerRankWinsAlsoWhenItAppearsLater) {
  Vocabulary v;
  v.Merge("b", "c").Merge("a", "bc").Merge("a", "b").Merge("c", "d");
  const Tokenizer tokenizer = v.Build();
  EXPECT_EQ(Show(tokenizer, "abcd"), "abc|d");
  EXPECT_EQ(Show(tokenizer, "abab"), "ab|ab");
}

TEST(TokenizerTest, NeverMergesAcrossPieces) {
  const Tokenizer tokenizer = SmallVocabulary().Build();
  EXPECT_EQ(Show(tokenizer, "it's"), "i|t|'s");
  EXPECT_EQ(Show(tokenizer, "12"), "1|2");  // digits are pieces of their own
  EXPECT_EQ(Show(tokenizer, "a\n\nb"), "a|\n\n|b");
  EXPECT_EQ(Show(tokenizer, "a  world"), "a| | world");
}

TEST(TokenizerTest, TakesSpecialTokensWhole) {
  const Tokenizer tokenizer = SmallVocabulary().Build();
  EXPECT_EQ(Show(tokenizer, "hello<|im_end|>hello"), "hello|<|im_end|>|hello");
  EXPECT_EQ(tokenizer.Encode("<|im_end|>").size(), 1);
  EXPECT_EQ(Show(tokenizer, "<tool><tool>>"), "<tool>|<tool>>");  // the longest
  EXPECT_EQ(tokenizer.Encode("<|im_end|").size(), 9);
  EXPECT_EQ(Show(tokenizer, "a <tool>"), "a| |<tool>");
}

TEST(TokenizerTest, SpellsBytesThatAreNotUtf8) {
  const Tokenizer tokenizer = SmallVocabulary().Build();
  EXPECT_EQ(tokenizer.Encode("a\xFF\xC3z"), (std::vector<int32_t>{'a', 0xFF, 0xC3, 'z'}));
  EXPECT_EQ(tokenizer.Encode("\xC3"), (std::vector<int32_t>{0xC3}));
  EXPECT_EQ(Show(tokenizer, "hello\xE2\x82hello"), "hello|\xE2|\x82|hello");
}

TEST(TokenizerTest, AnyBytesComeBack) {
  const Tokenizer tokenizer = SmallVocabulary().Build();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(all)), all);

  const std::vector<std::string> parts = {"hello", " world",  "<|im_end|>", "<tool>",
                                          "é",     "e\u0301", "\xC3",       "\xA9",
                                          "\xFF",  "\n",      "  ",         "12"};
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (uint32_t n = random() % 10; n > 0; --n) {
      text += random() % 3 ? parts[random() % parts.size()]
                           : std::string(1, static_cast<char>(random()));
    }
    ASSERT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text);
  }
}

TEST(TokenizerTest, EncodesALongPiece) {
  const Tokenizer tokenizer = SmallVocabulary().Build();
  const std::string text(1 << 18, 'a');
  EXPECT_EQ(tokenizer.Encode(text).size(), text.size() / 2);
}

TEST(TokenizerTest, KnowsWhichTokensEndAText) {
  Vocabulary v = SmallVocabulary();
  EXPECT_EQ(v.Build().eos(), std::nullopt);
  EXPECT_FALSE(v.Build().IsEnd(0));
  v.more = [](GgufWriter& writer) {
    writer.Key("tokenizer.ggml.eos_token_id", uint32_t{5});
    writer.Key("tokenizer.ggml.eot_token_id", int32_t{6});
  };
  const Tokenizer tokenizer = v.Build();
  EXPECT_EQ(tokenizer.eos(), 5);
  EXPECT_TRUE(tokenizer.IsEnd(5));
  EXPECT_TRUE(tokenizer.IsEnd(6));
  EXPECT_FALSE(tokenizer.IsEnd(7));
}

TEST(TokenizerTest, StreamsWholeCharacters) {
  const Tokenizer tokenizer = Vocabulary().Build();
  Utf8Stream stream;
  std::vector<std::string> shown;
  for (const int32_t token : tokenizer.Encode("a€")) {
    shown.push_back(stream.Push(tokenizer.Bytes(token)));
  }
  EXPECT_EQ(shown, (std::vector<std::string>{"a", "", "", "€"}));
}

TEST(TokenizerTest, RefusesTokensOutsideTheVocabulary) {
  const Tokenizer tokenizer = Vocabulary().Build();
  ExpectError(ErrorCode::out_of_range, {"token 256", "0 to 255"}, [&] { tokenizer.Bytes(256); });
  ExpectError(ErrorCode::out_of_range, {"token -1", "0 to 255"},
              [&] { tokenizer.Decode(std::vector<int32_t>{-1}); });
}

TEST(TokenizerTest, NamesUnsupportedTokenizers) {
  Vocabulary v;
  v.model = "llama";
  ExpectError(ErrorCode::unsupported, {"tokenizer.ggml.model is 'llama'", "'gpt2'"},
              [&] { v.Build(); });
  v.model = "gpt2";
  v.pre = "llama-bpe";
  ExpectError(ErrorCode::unsupported, {"tokenizer.ggml.pre is 'llama-bpe'", "'qwen2'"},
              [&] { v.Build(); });
  v.pre = "qwen2";
  v.more = [](GgufWriter& writer) { writer.Key("tokenizer.ggml.add_bos_token", true); };
  ExpectError(ErrorCode::unsupported, {"add_bos_token is true"}, [&] { v.Build(); });
}

TEST(TokenizerTest, RefusesContradictions) {
  auto expect = [](std::vector<std::string> parts, const Vocabulary& v) {
    ExpectError(ErrorCode::bad_file, parts, [&] { v.Build(); });
  };
  Vocabulary no_space;
  no_space.tokens[' '] = "other";
  expect({"no token 'Ġ' for the byte 0x20"}, no_space);

  Vocabulary types;
  types.types.pop_back();
  expect({"255 types for 256 tokens"}, types);

  expect({"token 256 ('x') has type 7", "1 to 6"}, Vocabulary().Add("x", 7));
  expect({"token 256 ('a b')", "outside the 256"}, Vocabulary().Add("a b", 1));
  expect({"token 256 ('\\xff')", "outside the 256"}, Vocabulary().Add("\xFF", 1));

  for (const char* merge : {"ab", "a ", " b", "", " "}) {
    Vocabulary v;
    v.merges = {merge};
    expect({fmt::format("merge 0 is '{}'", merge), "two tokens"}, v);
  }
  Vocabulary missing = SmallVocabulary();
  missing.merges.push_back("q u");
  expect({"merge 14 ('q u') needs the token 'qu'"}, missing);
  missing.merges.back() = "qu i";
  expect({"needs the token 'qu'"}, missing);
  missing.merges.back() = "a b c";
  expect({"needs the token 'b c'"}, missing);

  Vocabulary eos;
  eos.more = [](GgufWriter& writer) { writer.Key("tokenizer.ggml.eos_token_id", uint32_t{256}); };
  expect({"eos_token_id is 256", "0 to 255"}, eos);

  const std::string empty = ByteSink().Header(0, 0).bytes();
  ExpectError(ErrorCode::bad_file, {"missing key 'tokenizer.ggml.model'"},
              [&] { Tokenizer(GgufFile::Parse("test", AsBytes(empty))); });
}

}  // namespace
}  // namespace precast::qwen3
