#include "cli/interruption.h"

#include <chrono>
#include <exception>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace precast::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kPause{1};

}  // namespace

Interruption::Interruption(Report report) : report_(std::move(report)) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  try {
    thread_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {  // no thread to be had: signals do what they did before
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
}

Interruption::~Interruption() {
  if (!thread_.joinable()) return;
  over_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interruption::Watch() {
  int signal = 0;
  if (sigwait(&signals_, &signal) != 0 || over_) return;
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (auto waited = kPause; !lock.owns_lock() && waited < kPatience; waited += kPause) {
    std::this_thread::sleep_for(kPause);
    lock.try_lock();
  }
  if (lock.owns_lock()) {
    try {
      report_(signal == SIGINT ? "SIGINT" : "SIGTERM");
    } catch (const std::exception&) {
      // Nowhere to write it.
    }
  }
  _exit(128 + signal);
}

}  // namespace precast::cli
