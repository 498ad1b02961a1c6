// AlternateStack: gives the calling thread a stack for handlers of signals, as long as it lives, so
// that one can run after the thread's own stack has overflowed. Without a handler that asks for it
// (SA_ONSTACK) it changes nothing. A thread that has one keeps that. Never fails: where the system
// refuses, the thread goes without.
#pragma once

#include <csignal>
#include <cstddef>

namespace precast {

class AlternateStack {
 public:
  AlternateStack();
  ~AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  static constexpr size_t kBytes = size_t{64} << 10;
  void* memory_ = nullptr;
};

}  // namespace precast
