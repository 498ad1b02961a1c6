#include "cli/progress.h"

#include "base/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace precast::cli {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kQuiet{500};  // work that takes less shows nothing
constexpr std::chrono::milliseconds kRedraw{100};

bool CanRedraw() {
  const char* term = std::getenv("TERM");
  return IsTerminal(STDERR_FILENO) && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

Progress::Progress(bool wanted) : start_(steady_clock::now()) {
  if (wanted && CanRedraw()) thread_ = std::thread([this] { Draw(); });
}

Progress::~Progress() { Stop(); }

void Progress::Stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Progress::Show(std::string what) {
  if (!thread_.joinable()) return;
  std::lock_guard lock(mutex_);
  if (what_.empty() && !what.empty()) start_ = steady_clock::now();
  what_ = std::move(what);
  if (what_.empty()) Clear();  // before the caller writes to the same terminal
}

void Progress::Draw() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    auto elapsed = steady_clock::now() - start_;
    if (!what_.empty() && elapsed >= kQuiet) {
      std::string line = fmt::format("precast: {} ({:.1f} s)", what_,
                                     std::chrono::duration<double>(elapsed).count());
      line.resize(std::min(line.size(), static_cast<size_t>(TerminalColumns(STDERR_FILENO) - 1)));
      WriteError(fmt::format("\r\x1b[K{}", line));
      drawn_ = true;
    }
    changed_.wait_for(lock, kRedraw);
  }
  Clear();
}

void Progress::Clear() {
  if (!std::exchange(drawn_, false)) return;
  WriteError("\r\x1b[K");
}

}  // namespace precast::cli
