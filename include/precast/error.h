// The one exception type of the library, and its codes.
//
// Every call of the public API reports failure by throwing `precast::Error`. A message names what
// was found and what would have been accepted (task, kernel, tensor and numbers where they exist);
// the code says which kind of failure it is, so that a program can branch on it.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace precast {

/// Kinds of failure. The number of a code never changes meaning.
enum class ErrorCode : uint16_t {
  usage = 1,             ///< a command line or option that makes no sense
  invalid_argument = 2,  ///< a value outside what the call accepts
  out_of_range = 3,      ///< an index, view or size outside its tensor, or a product that overflows
  not_found = 4,         ///< an unknown platform, program, case, kernel or file
  mismatch = 5,          ///< wrong number, dtype, rank or direction of arguments
  stale = 6,           ///< a tensor, task or handle used after its scope, run, worker or allocation
  not_ready = 7,       ///< bytes that no task has produced when they are asked for
  unsupported = 8,     ///< known, but not offered by this build or platform
  out_of_memory = 9,   ///< host, pinned or device memory is exhausted
  bad_file = 10,       ///< a file that is truncated, corrupted or of another kind
  io = 11,             ///< the operating system refused a read, write or mapping
  kernel_failed = 12,  ///< a kernel threw or reported an error
  timeout = 13,        ///< a kernel or a wait exceeded its time
  fatal = 14,          ///< the orchestration called `report_fatal`
  orchestration = 15,  ///< the orchestration threw something that is not an `Error`
  device_lost = 16,    ///< the device is gone; only destroying the worker is left
  internal = 17,       ///< a mistake of this library; please report it
};

/// The name of a code as it stands in the enumeration, e.g. "out_of_range".
std::string_view Name(ErrorCode code);

/// What every failing call of the library throws. Thread-safe to copy and read.
class Error : public std::exception {
 public:
  explicit Error(ErrorCode code, std::string message,
                 std::source_location location = std::source_location::current())
      : code_(code), message_(std::move(message)), location_(location) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// Where in the library the error was raised.
  const std::source_location& location() const { return location_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  std::source_location location_;
};

/// A format string that remembers where it was written.
template <typename... Args>
struct ErrorFormat {
  template <typename String>
  consteval ErrorFormat(const String& text,  // NOLINT: implicit by design
                        std::source_location where = std::source_location::current())
      : format(text), location(where) {}

  fmt::format_string<Args...> format;
  std::source_location location;
};

/// Throws an `Error` whose message is made with fmt's format syntax:
///   Fail(ErrorCode::out_of_range, "index {} is outside 0..{}", i, n - 1);
template <typename... Args>
[[noreturn]] void Fail(ErrorCode code, ErrorFormat<std::type_identity_t<Args>...> text,
                       Args&&... args) {
  throw Error(code, fmt::format(text.format, std::forward<Args>(args)...), text.location);
}

}  // namespace precast
