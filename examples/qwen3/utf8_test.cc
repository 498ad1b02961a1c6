#include "qwen3/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

namespace precast::qwen3 {
namespace {

using Kind = Utf8Char::Kind;

TEST(Utf8Test, DecodesEveryCharacterAndNoSurrogate) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    const std::string bytes = EncodeUtf8(char32_t{code});
    const Utf8Char c = DecodeUtf8(bytes);
    if (code >= 0xD800 && code < 0xE000) {
      ASSERT_EQ(c.kind, Kind::invalid) << code;
      continue;
    }
    ASSERT_EQ(c.kind, Kind::valid) << code;
    ASSERT_EQ(static_cast<uint32_t>(c.code), code);
    ASSERT_EQ(c.length, bytes.size());
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const Utf8Char part = DecodeUtf8(std::string_view(bytes).substr(0, cut));
      ASSERT_EQ(part.kind, Kind::incomplete) << code;
      ASSERT_EQ(part.length, cut);
    }
  }
}

TEST(Utf8Test, RefusesOverlongFormsAndCodesPastTheLast) {
  for (const char* bytes : {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF",
                            "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80",
                            "\xBF", "\xFE", "\xFF", "\xC3(", "\xE2\x82("}) {
    EXPECT_EQ(DecodeUtf8(bytes).kind, Kind::invalid) << ReplaceInvalidUtf8(bytes);
  }
  EXPECT_EQ(DecodeUtf8("\xE2\x82(").length, 2);
  EXPECT_EQ(DecodeUtf8("\xE0\x80\x80").length, 1);
}

TEST(Utf8Test, ReplacesWhatIsNoCharacter) {
  EXPECT_EQ(ReplaceInvalidUtf8("a\xFFz\xE2\x82"), "a\uFFFDz\uFFFD");
  EXPECT_EQ(ReplaceInvalidUtf8("grün €"), "grün €");
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
}

TEST(Utf8Test, PrintableEscapesAndCuts) {
  EXPECT_EQ(Printable("blk.0 é"), "blk.0 é");
  EXPECT_EQ(Printable(std::string_view("a\0\n\x1b\x7f\xC2\x85\xFF", 8)),
            "a\\x00\\x0a\\x1b\\x7f\\xc2\\x85\\xff");
  EXPECT_EQ(Printable(std::string(64, 'x')), std::string(64, 'x'));
  EXPECT_EQ(Printable(std::string(65, 'x')), std::string(64, 'x') + "…");
  EXPECT_EQ(Printable(std::string(63, 'x') + "é"), std::string(63, 'x') + "…");
}

TEST(Utf8StreamTest, HoldsBackOnlyWhatMayBecomeACharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xE2"), "a");
  EXPECT_EQ(stream.Push("\x82"), "");
  EXPECT_EQ(stream.Push("\xACz"), "€z");
  EXPECT_EQ(stream.Push("\xF0\x9F"), "");
  EXPECT_EQ(stream.Push("x"), "\xF0\x9Fx");
  EXPECT_EQ(stream.Push("\xC3"), "");
  EXPECT_EQ(stream.Finish(), "\xC3");
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_EQ(stream.Push("b"), "b");
}

TEST(Utf8StreamTest, LosesNothing) {
  std::mt19937 random(3);
  const std::string alphabet = "a\xE2\x82\xAC\xF0\x9F\x98\x80\xFF\xC3\xA9";
  for (int round = 0; round < 2000; ++round) {
    Utf8Stream stream;
    std::string in;
    std::string out;
    for (int i = 0; i < 20; ++i) {
      std::string piece;
      for (uint32_t n = random() % 4; n > 0; --n) piece += alphabet[random() % alphabet.size()];
      in += piece;
      out += stream.Push(piece);
      ASSERT_GE(out.size() + 3, in.size());
    }
    ASSERT_EQ(out + stream.Finish(), in);
  }
}

}  // namespace
}  // namespace precast::qwen3
