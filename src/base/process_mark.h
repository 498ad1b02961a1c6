// ProcessMark: the process that something was made in. After a fork the child has a copy of it, but
// neither the threads nor memory of its own behind it.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <sys/types.h>

namespace precast {

class ProcessMark {
 public:
  ProcessMark();
  /// Whether this is still that process. A load: no system call.
  bool here() const;
  /// Throws `Error{unsupported}` that names `what` and both processes, unless `here`.
  void Check(std::string_view what) const {
    if (!here()) [[unlikely]]
      Fail(what);
  }

 private:
  [[noreturn]] void Fail(std::string_view what) const;

  uint64_t forks_;
  pid_t pid_;
};

}  // namespace precast
