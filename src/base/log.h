// Messages to standard error: one Log for each worker and for each command, never a global one.
//
//   log.Info("mapped {} bytes of allocation {}", bytes, index);
//
// The text is made only when the level lets it through. Threads: all calls but `set_level` may be
// made from any thread; a line is never torn.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace precast {

/// From chatty to silent. A Log shows its level and everything above it.
enum class LogLevel : uint8_t { trace, debug, info, warn, error, off };

std::string_view Name(LogLevel level);
/// The level of that name. Throws `Error{usage}` that lists the names.
LogLevel ParseLogLevel(std::string_view name);

class Log {
 public:
  explicit Log(LogLevel level = LogLevel::warn);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  LogLevel level() const { return level_; }
  void set_level(LogLevel level) { level_ = level; }
  bool Shows(LogLevel level) const { return level >= level_ && level_ != LogLevel::off; }

  template <typename... Args>
  void Trace(fmt::format_string<Args...> text, Args&&... args) const {
    Format(LogLevel::trace, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Debug(fmt::format_string<Args...> text, Args&&... args) const {
    Format(LogLevel::debug, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Info(fmt::format_string<Args...> text, Args&&... args) const {
    Format(LogLevel::info, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Warn(fmt::format_string<Args...> text, Args&&... args) const {
    Format(LogLevel::warn, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Error(fmt::format_string<Args...> text, Args&&... args) const {
    Format(LogLevel::error, text, std::forward<Args>(args)...);
  }

 private:
  template <typename... Args>
  void Format(LogLevel level, fmt::format_string<Args...> text, Args&&... args) const {
    if (Shows(level)) Write(level, fmt::format(text, std::forward<Args>(args)...));
  }
  void Write(LogLevel level, std::string_view line) const;

  struct Sink;
  std::unique_ptr<Sink> sink_;
  LogLevel level_;
};

}  // namespace precast
