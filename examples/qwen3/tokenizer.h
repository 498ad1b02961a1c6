// Byte-level byte-pair encoding, from the metadata of a GGUF file.
//
// Text becomes tokens in four steps: special tokens (token types control and user-defined) are
// taken out whole, leftmost first and the longest first; the rest is cut by the Qwen2
// pre-tokenizer; each byte of a piece becomes its byte token; neighbouring tokens are merged in the
// order of the file's merge list, for equal ranks the leftmost pair first.
//
// Any bytes can be encoded, and `Decode(Encode(bytes)) == bytes`. Bytes that are not UTF-8 become
// their byte tokens, one by one, and end the piece before them. For the same reason text is not
// normalised to NFC, as some tokenizers of this family do: a caller who wants exactly their tokens
// for decomposed accents normalises first.
//
// Invariants: each of the 256 bytes has a token; the two sides and the result of each merge are
// tokens. Thread safety: const after construction, may be used from any thread. The file may be
// closed once the tokenizer exists.
#pragma once

#include "qwen3/gguf.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace precast::qwen3 {

class Tokenizer {
 public:
  /// Reads the keys `tokenizer.ggml.*`. Throws `unsupported` for another model than "gpt2", another
  /// pre-tokenizer than "qwen2" or a file that asks for a begin token, and `bad_file` where the
  /// lists contradict each other.
  explicit Tokenizer(const GgufFile& file);

  /// The tokens of any bytes.
  std::vector<int32_t> Encode(std::string_view text) const;

  /// The bytes of a token: part of a character, a character or many; the text of a special token.
  /// Throws `out_of_range` for a token outside 0..size()-1.
  std::string_view Bytes(int32_t token) const;

  /// The bytes of all tokens.
  std::string Decode(std::span<const int32_t> tokens) const;

  /// Number of tokens.
  int32_t size() const { return static_cast<int32_t>(bytes_.size()); }

  /// True if this token ends a text (the file's end-of-sequence or end-of-turn token).
  bool IsEnd(int32_t token) const { return token == eos_ || token == eot_; }

  /// The end-of-sequence token, if the file names one.
  std::optional<int32_t> eos() const { return eos_; }

 private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  /// The ordinary tokens by their spelling in the file; of equal ones the first counts.
  using TokenIds = std::unordered_map<std::string_view, int32_t>;

  static void CheckModel(const GgufFile& file);
  TokenIds ReadTokens(const GgufFile& file);
  void FindByteTokens(const GgufFile& file, const TokenIds& ids);
  void ReadMerges(const GgufFile& file, const TokenIds& ids);
  std::optional<int32_t> ReadTokenId(const GgufFile& file, std::string_view key) const;

  int32_t SpecialAt(std::string_view text) const;
  void EncodeOrdinary(std::string_view text, std::vector<int32_t>* tokens) const;
  void EncodePiece(std::string_view piece, std::vector<int32_t>* tokens) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;

  std::vector<std::string> bytes_;                 // of each token
  std::array<int32_t, 256> byte_token_{};          // of each byte
  std::array<std::vector<int32_t>, 256> special_;  // by first byte, the longest first
  std::unordered_map<uint64_t, Merge> merges_;     // by left << 32 | right
  std::optional<int32_t> eos_;
  std::optional<int32_t> eot_;
};

}  // namespace precast::qwen3
