#include "qwen3/pretokenizer.h"

#include "qwen3/utf8.h"

#include <unicode/uchar.h>

#include <cstddef>
#include <cstdint>

namespace precast::qwen3 {

namespace {

enum class Class : uint8_t { letter, number, newline, space, other };  // space: without newlines

struct Char {
  char32_t code;
  Class kind;
  size_t offset;  // of its first byte
};

Class Classify(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  if (code == '\r' || code == '\n') return Class::newline;
  const uint32_t category = U_GET_GC_MASK(c);
  if (category & U_GC_L_MASK) return Class::letter;
  if (category & U_GC_N_MASK) return Class::number;
  return u_isUWhiteSpace(c) ? Class::space : Class::other;
}

/// The matcher: `End(i)` is where the match that begins at character i ends, always behind i.
class Matcher {
 public:
  explicit Matcher(std::string_view text) {
    for (size_t offset = 0; offset < text.size();) {
      const Utf8Char c = DecodeUtf8(text.substr(offset));
      chars_.push_back({c.code, Classify(c.code), offset});
      offset += c.length;
    }
  }

  size_t size() const { return chars_.size(); }
  size_t offset(size_t i) const { return chars_[i].offset; }

  size_t End(size_t i) const {
    if (const size_t end = ContractionEnd(i); end > i) return end;

    // [^\r\n\p{L}\p{N}]?\p{L}+
    const bool prefix = Is(i, Class::space) || Is(i, Class::other);
    if (const size_t end = Run(i + prefix, Class::letter); end > i + prefix) return end;

    if (Is(i, Class::number)) return i + 1;

    //  ?[^\s\p{L}\p{N}]+[\r\n]*
    const bool blank = chars_[i].code == ' ';
    if (const size_t end = Run(i + blank, Class::other); end > i + blank) {
      return Run(end, Class::newline);
    }
    return WhitespaceEnd(i);
  }

 private:
  bool Is(size_t i, Class kind) const { return i < size() && chars_[i].kind == kind; }

  size_t Run(size_t i, Class kind) const {
    while (Is(i, kind)) ++i;
    return i;
  }

  /// The character i, case folded; 0 past the end.
  char32_t Folded(size_t i) const {
    if (i >= size()) return 0;
    return static_cast<char32_t>(
        u_foldCase(static_cast<UChar32>(chars_[i].code), U_FOLD_CASE_DEFAULT));
  }

  size_t ContractionEnd(size_t i) const {
    if (chars_[i].code != '\'') return i;
    const char32_t first = Folded(i + 1);
    const char32_t second = Folded(i + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return i + 3;
    if (first == 'l' && second == 'l') return i + 3;
    return i;
  }

  /// `\s*[\r\n]+|\s+(?!\S)|\s+`. Requires: character i is a space or newline.
  size_t WhitespaceEnd(size_t i) const {
    size_t end = i;
    size_t behind_newline = i;
    while (Is(end, Class::space) || Is(end, Class::newline)) {
      if (Is(end++, Class::newline)) behind_newline = end;
    }
    if (behind_newline > i) return behind_newline;
    // All spaces; the last one is left to the word that follows, unless it is the only one.
    return end < size() && end > i + 1 ? end - 1 : end;
  }

  std::vector<Char> chars_;
};

}  // namespace

std::vector<std::string_view> SplitQwen2(std::string_view text) {
  const Matcher matcher(text);
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < matcher.size();) {
    const size_t end = matcher.End(i);
    const size_t begin_byte = matcher.offset(i);
    const size_t end_byte = end < matcher.size() ? matcher.offset(end) : text.size();
    pieces.push_back(text.substr(begin_byte, end_byte - begin_byte));
    i = end;
  }
  return pieces;
}

}  // namespace precast::qwen3
