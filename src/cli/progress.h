// Progress: one line on standard error that says what long work is doing, while it does it.
//
//   Progress progress(true);
//   progress.Show("round 3");     // "precast: round 3 (12 s)" once that takes a moment
//
// Shows nothing unless standard error is a terminal, and nothing for work that is done at once. Its
// own thread draws the line; the calls may come from any thread, and one at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace precast::cli {

class Progress {
 public:
  explicit Progress(bool wanted);
  /// Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From now on, the work is `what`.
  void Show(std::string what);
  /// Clears the line and shows nothing until the next `Show`.
  void Pause() { Show({}); }
  /// Clears the line and shows nothing any more.
  void Stop();

 private:
  void Draw();
  void Clear();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;  // empty: paused
  bool stop_ = false;
  bool drawn_ = false;  // a line is on the terminal
  std::chrono::steady_clock::time_point start_;
  std::thread thread_;
};

}  // namespace precast::cli
