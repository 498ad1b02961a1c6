#include "qwen3/pretokenizer.h"

#include "qwen3/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace precast::qwen3 {
namespace {

using Pieces = std::vector<std::string_view>;

TEST(PretokenizerTest, SplitsAsTheExpressionSays) {
  const std::vector<Pieces> cases = {
      {},
      {"Hello", " world"},
      {"I", "'m", " you", "'re", " he", "'ll", " we", "'ve", " it", "'s", " he", "'d", " don",
       "'t"},
      {"IT", "'S", " WE", "'Ve", " YOU", "'rE"},
      {"it", "'ſ"},             // U+017F folds to s
      {"'x", " '", " '", "x"},  // no contraction
      {"rock", "'n", "'roll"},
      {"'ll", "ama"},                       // whatever follows
      {"1", "2", "3", "a", "4", " ", "5"},  // digits one by one, without the space
      {"x", "²", "½", "٣", "Ⅷ"},            // \p{N} is more than digits
      {"über", " straße", " Привет", " 你好", "!"},
      {"a", "  ", " b"},  // the last space goes with the word
      {"a", "   "},       // trailing spaces stay together
      {"a", " \n", "b"},
      {"a", "\n\n", " b"},
      {"a", " \r\n \n", "  ", " b"},
      {"a", "\n\n"},
      {"a", "\t", "\tb"},  // a tab may precede letters
      {" ", "\t", "1"},    // but not a number
      {"!word"},
      {"a", "...\n\n", "b"},  // newlines stick to punctuation
      {"a", " ?!", " ", "1"},
      {"(a", ")", " (", "1", ")"},
      {"\u00A0x", "\u3000", "\u3000y"},  // other white space
      {"a", "\v", "\vb"},                // vertical tab and U+0085 are white space
      {"a", "\u0085", "\u0085b"},
      {"e", "\u0301x"},  // a combining mark is no letter
      {"😀", " 😀😀"},
  };
  for (const Pieces& pieces : cases) {
    std::string text;
    for (const std::string_view piece : pieces) text += piece;
    EXPECT_EQ(SplitQwen2(text), pieces) << "text: " << text;
  }
}

TEST(PretokenizerTest, PiecesAreTheWholeText) {
  const std::vector<std::string> alphabet = {"a", "s", "'",  " ",      " ",      "\n", "\r",
                                             "1", "!", "\t", "\u00E9", "\u4F60", "ſ",  "\u0301"};
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (uint32_t n = random() % 12; n > 0; --n) text += alphabet[random() % alphabet.size()];
    std::string joined;
    for (const std::string_view piece : SplitQwen2(text)) {
      ASSERT_FALSE(piece.empty());
      joined += piece;
    }
    ASSERT_EQ(joined, text);
  }
}

TEST(PretokenizerTest, TakesLinearTimeOnLongRuns) {
  for (const char* unit : {"a", " ", "\n", "!", "'", "1", " \n "}) {
    std::string text;
    while (text.size() < 200000) text += unit;
    size_t bytes = 0;
    for (const std::string_view piece : SplitQwen2(text)) bytes += piece.size();
    EXPECT_EQ(bytes, text.size());
  }
}

}  // namespace
}  // namespace precast::qwen3
