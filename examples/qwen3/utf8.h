// Small helpers for bytes that may or may not be UTF-8.
//
// The tokenizer, the text stream and error messages share one strict decoder: no overlong forms,
// no surrogates, nothing above U+10FFFF. All functions are pure; everything here is thread-safe
// except a `Utf8Stream`, which belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace precast::qwen3 {

/// The first character of a text, or what stands there instead.
struct Utf8Char {
  enum class Kind : uint8_t {
    valid,       ///< `code` is the character, `length` its bytes
    invalid,     ///< the first `length` bytes can't be part of any character
    incomplete,  ///< the text ends within a character: all its `length` bytes
  };
  Kind kind;
  char32_t code;  ///< 0 unless valid
  size_t length;  ///< 1 to 4
};

/// Decodes the first character of `text`, which must not be empty.
Utf8Char DecodeUtf8(std::string_view text);

/// `code` as UTF-8. Requires: `code` is at most U+10FFFF and not a surrogate.
std::string EncodeUtf8(char32_t code);

/// `text` with each stretch of bytes that is no character replaced by U+FFFD; valid UTF-8, as JSON
/// needs it.
std::string ReplaceInvalidUtf8(std::string_view text);

/// `text` for an error message: control characters and bytes that are not UTF-8 as `\xNN`, cut
/// after 64 bytes with "…".
std::string Printable(std::string_view text);

/// Cuts a stream of bytes at characters, so that a terminal never gets half of one:
///   Utf8Stream stream;
///   for (int32_t token : tokens) fmt::print("{}", stream.Push(tokenizer.Bytes(token)));
///   fmt::print("{}", stream.Finish());
///
/// Guarantees: the concatenation of everything returned is the concatenation of everything pushed;
/// at most 3 bytes are held back. Bytes that can't become a character pass through unchanged.
class Utf8Stream {
 public:
  /// Adds bytes; returns all that is complete by now.
  std::string Push(std::string_view bytes);

  /// Returns the bytes held back, an incomplete character or nothing; the stream is empty then.
  std::string Finish();

 private:
  std::string held_;
};

}  // namespace precast::qwen3
