// Targets of coverage-guided fuzzing: functions that hand bytes to one parser or checker and look
// at what it makes of them.
//
// A target takes any bytes. What it tests must answer them, or refuse them with the Error that is
// meant for that; anything else is a finding: another exception, `Finding`, a crash, a sanitizer's
// report. Targets keep no state that changes what an input does, so that a finding can be replayed
// from its input alone.
//
// libFuzzer calls them in the preset `fuzz` (libfuzzer_main.cc); corpus_test.cc gives them the kept
// corpus in every other one.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace precast::test {

using Input = std::span<const uint8_t>;
using FuzzTarget = void(Input);

FuzzTarget FuzzCommand;    ///< command lines, and the values of their options
FuzzTarget FuzzGguf;       ///< GGUF files: parsing, model configuration, weights, tokenizer
FuzzTarget FuzzImage;      ///< images: what the validator accepts is executed
FuzzTarget FuzzProgram;    ///< program descriptors, and arguments against a signature
FuzzTarget FuzzTokenizer;  ///< text to tokens and back

struct NamedTarget {
  const char* name;
  FuzzTarget* run;
};
inline constexpr NamedTarget kTargets[] = {{"command", FuzzCommand},
                                           {"gguf", FuzzGguf},
                                           {"image", FuzzImage},
                                           {"program", FuzzProgram},
                                           {"tokenizer", FuzzTokenizer}};

/// A property does not hold.
struct Finding : std::logic_error {
  using std::logic_error::logic_error;
};
inline void Require(bool holds, const char* property) {
  if (!holds) throw Finding(property);
}

/// Takes values off the front of an input; 0 and nothing once it is used up.
class InputReader {
 public:
  explicit InputReader(Input bytes) : bytes_(bytes) {}

  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    uint8_t byte = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  size_t Below(size_t limit) { return Byte() % limit; }
  /// Up to the next 0, which is taken off too.
  std::string Text() {
    std::string text;
    while (!bytes_.empty()) {
      char c = static_cast<char>(Byte());
      if (c == 0) break;
      text += c;
    }
    return text;
  }
  std::string Rest() {
    std::string text(bytes_.begin(), bytes_.end());
    bytes_ = {};
    return text;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  Input bytes_;
};

}  // namespace precast::test
