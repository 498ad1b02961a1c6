// Output: standard output whose errors are not lost, and styles for terminals.
//
// Everything a command prints goes through one Output, on one thread. A write that fails (a closed
// pipe, a full disk) throws at once, so that long work stops when nobody can read it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace precast::cli {

class Output {
 public:
  /// `stream` must outlive the object.
  explicit Output(std::FILE* stream);

  /// Throws `Error{io}`.
  void Write(std::string_view text);
  /// The same, then sends on what is buffered.
  void WriteNow(std::string_view text);
  /// Starts a new line unless at the start of one.
  void EndLine();
  void Flush();

  bool is_terminal() const { return terminal_; }
  /// A write failed: nothing more will arrive.
  bool failed() const { return failed_; }

  // Text in a style on a terminal; the text alone elsewhere.
  std::string Bold(std::string_view text) const { return Styled("1", text); }
  std::string Dim(std::string_view text) const { return Styled("2", text); }
  std::string Red(std::string_view text) const { return Styled("31", text); }
  std::string Green(std::string_view text) const { return Styled("32", text); }
  std::string Yellow(std::string_view text) const { return Styled("33", text); }

 private:
  std::string Styled(std::string_view code, std::string_view text) const;
  [[noreturn]] void FailWrite();

  std::FILE* stream_;
  bool terminal_;
  bool color_;
  bool line_start_ = true;
  bool failed_ = false;
};

}  // namespace precast::cli
