#include "cli/output.h"

#include "base/terminal.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace precast::cli {

Output::Output(std::FILE* stream)
    : stream_(stream), terminal_(IsTerminal(fileno(stream))), color_(UseColor(fileno(stream))) {}

void Output::Write(std::string_view text) {
  if (text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size()) FailWrite();
  line_start_ = text.back() == '\n';
}

void Output::WriteNow(std::string_view text) {
  Write(text);
  Flush();
}

void Output::EndLine() {
  if (!line_start_) Write("\n");
}

void Output::Flush() {
  if (std::fflush(stream_) != 0 || std::ferror(stream_) != 0) FailWrite();
}

std::string Output::Styled(std::string_view code, std::string_view text) const {
  if (!color_ || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void Output::FailWrite() {
  failed_ = true;
  Fail(ErrorCode::io, "cannot write to standard output: {}",
       std::generic_category().message(errno != 0 ? errno : EIO));
}

}  // namespace precast::cli
