// CrashHandler: while it lives, a kernel that overflows its stack or touches memory that is not
// there ends the process with a message that names the kernel and its task, and kFailure. Crashes
// elsewhere do what they did before. One at a time; the process has one table of handlers.
#pragma once

#include "base/alternate_stack.h"

#include <signal.h>

namespace precast::cli {

class CrashHandler {
 public:
  CrashHandler();
  ~CrashHandler();
  CrashHandler(const CrashHandler&) = delete;
  CrashHandler& operator=(const CrashHandler&) = delete;

 private:
  AlternateStack stack_;  // of this thread, which executes kernels, too
  struct sigaction segv_, bus_;
};

}  // namespace precast::cli
