// Interruption: what SIGINT and SIGTERM do to long work: a report of what there is so far, then the
// end of the process with 128 + the signal, within a second whatever the work is at.
//
//   Interruption interruption([&](std::string_view signal) { Print(result); });
//   ...
//   { auto lock = interruption.Lock(); result.rounds.push_back(report); }
//
// Made before the threads of the work, which then leave the signals to it. The report is made on a
// thread of its own while no other holds the lock: output and what is reported belong under it. Who
// holds the lock for half a second keeps the report from being made. A second signal ends the
// process at once.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <signal.h>
#include <string_view>
#include <thread>

namespace precast::cli {

class Interruption {
 public:
  using Report = std::function<void(std::string_view signal)>;
  explicit Interruption(Report report);
  /// From here on signals do what they did before.
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> Lock() { return std::unique_lock(mutex_); }

 private:
  void Watch();

  const Report report_;
  std::mutex mutex_;
  sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> over_{false};  // set before the thread is woken
  std::thread thread_;
};

}  // namespace precast::cli
