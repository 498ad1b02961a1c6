#include "qwen3/utf8.h"

#include <fmt/format.h>

#include <utility>

namespace precast::qwen3 {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr size_t kPrintableBytes = 64;

bool IsControl(char32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

}  // namespace

Utf8Char DecodeUtf8(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Char::Kind::valid, lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Char::Kind::invalid, 0, 1};

  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0xFFu >> (length + 1));
  // The second byte's range shuts out overlong forms, surrogates and codes past U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Char::Kind::incomplete, 0, i};
    if (byte(i) < low || byte(i) > high) return {Utf8Char::Kind::invalid, 0, i};
    code = code << 6 | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Char::Kind::valid, code, length};
}

std::string EncodeUtf8(char32_t code) {
  auto tail = [code](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    result += c.kind == Utf8Char::Kind::valid ? text.substr(0, c.length) : kReplacement;
    text.remove_prefix(c.length);
  }
  return result;
}

std::string Printable(std::string_view text) {
  std::string result;
  for (size_t used = 0; used < text.size();) {
    const Utf8Char c = DecodeUtf8(text.substr(used));
    if (used + c.length > kPrintableBytes) return result + "…";
    const std::string_view bytes = text.substr(used, c.length);
    if (c.kind == Utf8Char::Kind::valid && !IsControl(c.code)) {
      result += bytes;
    } else {
      for (const char byte : bytes) result += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    used += c.length;
  }
  return result;
}

std::string Utf8Stream::Push(std::string_view bytes) {
  held_ += bytes;
  size_t whole = 0;
  while (whole < held_.size()) {
    const Utf8Char c = DecodeUtf8(std::string_view(held_).substr(whole));
    if (c.kind == Utf8Char::Kind::incomplete) break;
    whole += c.length;
  }
  std::string result = held_.substr(0, whole);
  held_.erase(0, whole);
  return result;
}

std::string Utf8Stream::Finish() { return std::exchange(held_, {}); }

}  // namespace precast::qwen3
