// The Qwen2 pre-tokenizer: cuts text into the pieces within which byte pairs are merged.
//
// It finds what this regular expression finds, match after match:
//   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} |
//    ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
// (spaces around the bars are for reading only). Written out by hand because a backtracking engine
// needs stack in proportion to the text and has its own idea of `\s`; this takes linear time, and
// ICU decides the classes: `\p{L}` and `\p{N}` are general categories, `\s` is White_Space.
#pragma once

#include <string_view>
#include <vector>

namespace precast::qwen3 {

/// The pieces of `text` in order; together they are the whole text. The end of `text` counts as
/// the end for `(?!\S)`. Requires: `text` is valid UTF-8.
std::vector<std::string_view> SplitQwen2(std::string_view text);

}  // namespace precast::qwen3
