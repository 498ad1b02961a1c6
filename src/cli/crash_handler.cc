#include "cli/crash_handler.h"

#include "cli/command.h"
#include "sched/running.h"

#include <fmt/format.h>
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unistd.h>

namespace precast::cli {
namespace {

uintptr_t StackPointer([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.sp;
#else
  return 0;
#endif
}

/// A frame that does not fit touches memory close to the stack pointer: a little below it, by a
/// push or a call, or above, inside the new frame.
bool IsOverflow(uintptr_t address, uintptr_t stack_pointer) {
  constexpr uintptr_t kNear = uintptr_t{64} << 10;
  return stack_pointer != 0 && address + kNear > stack_pointer && address < stack_pointer + kNear;
}

void Handle(int signal, siginfo_t* info, void* context) {
  char task[300], line[500];
  size_t bytes = sched::DescribeRunning(task, sizeof(task));
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (bytes == 0) {  // no kernel's fault: it happens again, and does what it did without us
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    return;
  }
  std::string_view name(task, bytes);
  auto end = IsOverflow(address, StackPointer(context))
                 ? fmt::format_to_n(line, sizeof(line), "precast: {}: stack overflow\n", name)
                 : fmt::format_to_n(line, sizeof(line),
                                    "precast: {}: access to address {:#x}, where no memory is\n",
                                    name, address);
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line, std::min(end.size, sizeof(line)));
  _exit(kFailure);
}

}  // namespace

CrashHandler::CrashHandler() {
  struct sigaction action {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &segv_);
  sigaction(SIGBUS, &action, &bus_);
}

CrashHandler::~CrashHandler() {
  sigaction(SIGSEGV, &segv_, nullptr);
  sigaction(SIGBUS, &bus_, nullptr);
}

}  // namespace precast::cli
