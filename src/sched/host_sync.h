// HostSync: the atomics with which the scheduler runs on threads of the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace precast::sched {

struct HostSync {
  template <typename T>
  using Atomic = std::atomic<T>;

  static void Pause() { __builtin_ia32_pause(); }

  // The futex itself: std::atomic::wait yields the processor a few times before it sleeps, which on
  // a busy machine takes milliseconds.

  /// Sleeps while `word` holds `seen`; may return early.
  static void Wait(const std::atomic<uint32_t>& word, uint32_t seen) {
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr);
  }
  /// Wakes the thread that sleeps on `word`, if one does. Requires: at most one.
  static void Wake(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
  }

  /// A task's count of unfinished producers. `Decrement` gives the new value; the thread that sees
  /// zero also sees everything that earlier decrements published.
  static uint32_t Decrement(uint32_t* counter) {
    return std::atomic_ref<uint32_t>(*counter).fetch_sub(1, std::memory_order_acq_rel) - 1;
  }
};

}  // namespace precast::sched
