#include "base/alternate_stack.h"

#include <sys/mman.h>

namespace precast {

AlternateStack::AlternateStack() {
  stack_t before{};
  if (sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t mine{};
  mine.ss_sp = memory;
  mine.ss_size = kBytes;
  if (sigaltstack(&mine, nullptr) == 0) {
    memory_ = memory;
  } else {
    munmap(memory, kBytes);
  }
}

AlternateStack::~AlternateStack() {
  if (memory_ == nullptr) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory_, kBytes);
}

}  // namespace precast
