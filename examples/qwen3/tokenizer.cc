#include "qwen3/tokenizer.h"

#include "qwen3/pretokenizer.h"
#include "qwen3/utf8.h"

#include <precast/error.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

namespace precast::qwen3 {

namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

/// Ordinary tokens are written in an alphabet of 256 printable characters, one for each byte:
/// printable Latin-1 stands for itself, the other bytes for U+0100 and up, in their order.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      char_of_[byte] = itself ? static_cast<char32_t>(byte) : next++;
      byte_of_[char_of_[byte]] = static_cast<char>(byte);
    }
  }

  std::string Letter(int byte) const { return EncodeUtf8(char_of_[byte]); }

  /// The bytes that `token` spells, or nothing if it uses other characters.
  std::optional<std::string> Spell(std::string_view token) const {
    std::string bytes;
    while (!token.empty()) {
      const Utf8Char c = DecodeUtf8(token);
      if (c.kind != Utf8Char::Kind::valid) return std::nullopt;
      const auto found = byte_of_.find(c.code);
      if (found == byte_of_.end()) return std::nullopt;
      bytes += found->second;
      token.remove_prefix(c.length);
    }
    return bytes;
  }

 private:
  std::array<char32_t, 256> char_of_;
  std::map<char32_t, char> byte_of_;
};

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Tokenizer::Tokenizer(const GgufFile& file) {
  CheckModel(file);
  const TokenIds ids = ReadTokens(file);
  FindByteTokens(file, ids);
  ReadMerges(file, ids);
  eos_ = ReadTokenId(file, "tokenizer.ggml.eos_token_id");
  eot_ = ReadTokenId(file, "tokenizer.ggml.eot_token_id");
}

void Tokenizer::CheckModel(const GgufFile& file) {
  auto require = [&file](std::string_view key, std::string_view supported) {
    if (const auto found = file.Require<std::string_view>(key); found != supported) {
      Fail(ErrorCode::unsupported, "{}: {} is '{}'; supported: '{}'", file.name(), key,
           Printable(found), supported);
    }
  };
  require("tokenizer.ggml.model", "gpt2");
  require("tokenizer.ggml.pre", "qwen2");
  if (file.Find<bool>("tokenizer.ggml.add_bos_token").value_or(false)) {
    Fail(ErrorCode::unsupported, "{}: tokenizer.ggml.add_bos_token is true; supported: false",
         file.name());
  }
}

Tokenizer::TokenIds Tokenizer::ReadTokens(const GgufFile& file) {
  const auto tokens = file.Require<std::vector<std::string_view>>(kTokensKey);
  if (tokens.empty() || tokens.size() > std::numeric_limits<int32_t>::max()) {
    Fail(ErrorCode::bad_file, "{}: {} lists {} tokens; allowed: 1 to {}", file.name(), kTokensKey,
         tokens.size(), std::numeric_limits<int32_t>::max());
  }
  auto types = file.Find<std::vector<int32_t>>(kTypesKey);
  if (!types) types.emplace(tokens.size(), kNormal);
  if (types->size() != tokens.size()) {
    Fail(ErrorCode::bad_file, "{}: {} lists {} types for {} tokens; needed: one for each",
         file.name(), kTypesKey, types->size(), tokens.size());
  }

  const ByteAlphabet alphabet;
  TokenIds ids;
  bytes_.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const int32_t type = (*types)[i];
    if (type < kNormal || type > kByte) {
      Fail(ErrorCode::bad_file, "{}: token {} ('{}') has type {}; allowed: {} to {}", file.name(),
           i, Printable(tokens[i]), type, +kNormal, +kByte);
    }
    if (type == kNormal || type == kByte) {
      std::optional<std::string> bytes = alphabet.Spell(tokens[i]);
      if (!bytes) {
        Fail(ErrorCode::bad_file,
             "{}: token {} ('{}') has a character outside the 256 that stand for bytes",
             file.name(), i, Printable(tokens[i]));
      }
      bytes_.push_back(*std::move(bytes));
      ids.emplace(tokens[i], id);
    } else {
      bytes_.emplace_back(tokens[i]);
      const bool special = type == kControl || type == kUserDefined;
      if (special && !tokens[i].empty()) {
        special_[static_cast<uint8_t>(tokens[i][0])].push_back(id);
      }
    }
  }
  for (std::vector<int32_t>& candidates : special_) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [this](int32_t a, int32_t b) { return bytes_[a].size() > bytes_[b].size(); });
  }
  return ids;
}

void Tokenizer::FindByteTokens(const GgufFile& file, const TokenIds& ids) {
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string letter = alphabet.Letter(byte);
    const auto found = ids.find(letter);
    if (found == ids.end()) {
      Fail(ErrorCode::bad_file,
           "{}: {} has no token '{}' for the byte 0x{:02x}; needed: a token for each byte",
           file.name(), kTokensKey, letter, byte);
    }
    byte_token_[byte] = found->second;
  }
}

void Tokenizer::ReadMerges(const GgufFile& file, const TokenIds& ids) {
  const auto merges = file.Find<std::vector<std::string_view>>(kMergesKey);
  if (!merges) return;
  if (merges->size() > std::numeric_limits<int32_t>::max()) {
    Fail(ErrorCode::bad_file, "{}: {} lists {} merges; allowed: at most {}", file.name(),
         kMergesKey, merges->size(), std::numeric_limits<int32_t>::max());
  }
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view merge = (*merges)[rank];
    const size_t space = merge.find(' ');
    const std::string_view left = merge.substr(0, space);
    const std::string_view right =
        space == std::string_view::npos ? std::string_view() : merge.substr(space + 1);
    if (left.empty() || right.empty()) {
      Fail(ErrorCode::bad_file, "{}: merge {} is '{}'; needed: two tokens with a space between",
           file.name(), rank, Printable(merge));
    }
    auto find = [&](std::string_view token) {
      const auto found = ids.find(token);
      if (found == ids.end()) {
        Fail(ErrorCode::bad_file, "{}: merge {} ('{}') needs the token '{}', which {} lacks",
             file.name(), rank, Printable(merge), Printable(token), kTokensKey);
      }
      return found->second;
    };
    const uint64_t key = PairKey(find(left), find(right));
    const int32_t result = find(std::string(left) + std::string(right));
    merges_.emplace(key, Merge{static_cast<int32_t>(rank), result});  // the first one counts
  }
}

std::optional<int32_t> Tokenizer::ReadTokenId(const GgufFile& file, std::string_view key) const {
  const auto id = file.Find<int64_t>(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id >= size()) {
    Fail(ErrorCode::bad_file, "{}: {} is {}; allowed: 0 to {}", file.name(), key, *id, size() - 1);
  }
  return static_cast<int32_t>(*id);
}

std::string_view Tokenizer::Bytes(int32_t token) const {
  if (token < 0 || token >= size()) {
    Fail(ErrorCode::out_of_range, "token {} is outside the vocabulary; allowed: 0 to {}", token,
         size() - 1);
  }
  return bytes_[token];
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) text += Bytes(token);
  return text;
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  size_t begin = 0;  // of the ordinary text not yet encoded
  for (size_t i = 0; i < text.size();) {
    const int32_t special = SpecialAt(text.substr(i));
    if (special < 0) {
      ++i;
      continue;
    }
    EncodeOrdinary(text.substr(begin, i - begin), &tokens);
    tokens.push_back(special);
    i += bytes_[special].size();
    begin = i;
  }
  EncodeOrdinary(text.substr(begin), &tokens);
  return tokens;
}

/// The longest special token that `text` begins with, or -1.
int32_t Tokenizer::SpecialAt(std::string_view text) const {
  for (const int32_t token : special_[static_cast<uint8_t>(text[0])]) {
    if (text.starts_with(bytes_[token])) return token;
  }
  return -1;
}

/// Encodes text without special tokens, valid stretch by valid stretch.
void Tokenizer::EncodeOrdinary(std::string_view text, std::vector<int32_t>* tokens) const {
  size_t begin = 0;  // of the valid UTF-8 not yet encoded
  auto flush = [&](size_t end) {
    for (const std::string_view piece : SplitQwen2(text.substr(begin, end - begin))) {
      EncodePiece(piece, tokens);
    }
  };
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = DecodeUtf8(text.substr(i));
    if (c.kind != Utf8Char::Kind::valid) {
      flush(i);
      begin = i + c.length;
      for (const char byte : text.substr(i, c.length)) {
        tokens->push_back(byte_token_[static_cast<uint8_t>(byte)]);
      }
    }
    i += c.length;
  }
  flush(text.size());
}

const Tokenizer::Merge* Tokenizer::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

/// Merges the bytes of one piece. The symbols form a list; a queue holds the possible merges, the
/// lowest rank first. An entry whose two symbols are no longer neighbours or have changed is
/// skipped, so a piece of n bytes takes n log n steps.
void Tokenizer::EncodePiece(std::string_view piece, std::vector<int32_t>* tokens) const {
  struct Symbol {
    int32_t token;  // -1 once it was merged into the one before
    size_t before;
    size_t after;  // the piece's size: none
  };
  struct Candidate {
    int32_t rank;
    size_t left;
    size_t right;
    int32_t left_token;
    int32_t right_token;
    int32_t result;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, left) > std::tie(other.rank, other.left);
    }
  };

  const size_t end = piece.size();
  std::vector<Symbol> symbols(end);
  for (size_t i = 0; i < end; ++i) {
    symbols[i] = {byte_token_[static_cast<uint8_t>(piece[i])], i == 0 ? end : i - 1, i + 1};
  }

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  auto offer = [&](size_t left, size_t right) {
    if (left == end || right == end) return;
    const Symbol& a = symbols[left];
    const Symbol& b = symbols[right];
    if (const Merge* merge = FindMerge(a.token, b.token); merge != nullptr) {
      queue.push({merge->rank, left, right, a.token, b.token, merge->result});
    }
  };
  for (size_t i = 0; i + 1 < end; ++i) offer(i, i + 1);

  while (!queue.empty()) {
    const Candidate merge = queue.top();
    queue.pop();
    Symbol& left = symbols[merge.left];
    Symbol& right = symbols[merge.right];
    // Tokens are never -1 in a candidate, so this also refuses symbols that are gone.
    if (left.token != merge.left_token || right.token != merge.right_token) continue;
    if (left.after != merge.right) continue;
    left.token = merge.result;
    left.after = right.after;
    right.token = -1;
    if (left.after != end) symbols[left.after].before = merge.left;
    offer(left.before, merge.left);
    offer(merge.left, left.after);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.token >= 0) tokens->push_back(symbol.token);
  }
}

}  // namespace precast::qwen3
