#include <precast/error.h>

namespace precast {

std::string_view Name(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::out_of_range:
      return "out_of_range";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::stale:
      return "stale";
    case ErrorCode::not_ready:
      return "not_ready";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::bad_file:
      return "bad_file";
    case ErrorCode::io:
      return "io";
    case ErrorCode::kernel_failed:
      return "kernel_failed";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::fatal:
      return "fatal";
    case ErrorCode::orchestration:
      return "orchestration";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace precast
