// HostTrace: what the host does for one run, as it happens.
//
// Made by a run that is traced. While a thread works for that run a HostTraceScope says so, and the
// driver (TracingDriver) and the run's phases record there. It holds a bounded number of events and
// counts the others.
//
// Threads: one at a time, as its run.
#pragma once

#include <precast/trace.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace precast::device {

class Driver;

class HostTrace {
 public:
  using Clock = std::chrono::steady_clock;
  using Kind = RunTrace::HostEvent::Kind;

  HostTrace(Trace* trace, const Driver* driver) : trace_(trace), driver_(driver) {}
  /// Its scope may still be open; nothing more is recorded there.
  ~HostTrace() {
    if (current_ == this) current_ = nullptr;
  }
  HostTrace(const HostTrace&) = delete;
  HostTrace& operator=(const HostTrace&) = delete;

  /// The one of the run that the calling thread works for on this device, or null.
  static HostTrace* Current(const Driver* driver) {
    return current_ != nullptr && current_->driver_ == driver ? current_ : nullptr;
  }

  int64_t Now() const { return trace_->Nanoseconds(Clock::now()); }
  int64_t At(Clock::time_point time) const { return trace_->Nanoseconds(time); }
  /// The calling thread's number; 0 outside of a scope.
  uint32_t thread() const { return thread_; }

  void Add(const RunTrace::HostEvent& event) {
    if (events_.size() >= trace_->options().host_events) {
      ++dropped_;
    } else {
      events_.push_back(event);
    }
  }
  void NoteMapped(uint64_t bytes) {
    if (mapped_bytes_.size() < trace_->options().host_events)
      mapped_bytes_.push_back({Now(), bytes});
  }
  /// The number of a name.
  uint32_t NameOf(std::string_view name);

  std::vector<RunTrace::HostEvent>& events() { return events_; }
  std::vector<std::string>& names() { return names_; }
  uint64_t dropped() const { return dropped_; }
  /// Bytes of host views that are mapped, from each change on.
  std::vector<RunTrace::Sample>& mapped_bytes() { return mapped_bytes_; }
  Trace& trace() { return *trace_; }
  const Driver& driver() const { return *driver_; }

 private:
  friend class HostTraceScope;
  static thread_local HostTrace* current_;

  Trace* trace_;
  const Driver* driver_;
  uint32_t thread_ = 0;
  std::vector<RunTrace::HostEvent> events_;
  std::vector<std::string> names_;
  std::map<std::string, uint32_t, std::less<>> numbers_;  // of names
  std::vector<RunTrace::Sample> mapped_bytes_;
  uint64_t dropped_ = 0;
};

/// The calling thread works for the run of `trace`, or for one that is not traced (null).
class HostTraceScope {
 public:
  explicit HostTraceScope(HostTrace* trace) : outer_(std::exchange(HostTrace::current_, trace)) {
    if (trace != nullptr) trace->thread_ = trace->trace_->ThreadNumber();
  }
  ~HostTraceScope() { HostTrace::current_ = outer_; }
  HostTraceScope(const HostTraceScope&) = delete;
  HostTraceScope& operator=(const HostTraceScope&) = delete;

 private:
  HostTrace* const outer_;
};

/// Something that the host does from here to the end of the scope, also when that is left by an
/// exception. `trace`: where to record it; null: nowhere.
class HostTraceSpan {
 public:
  HostTraceSpan(HostTrace* trace, HostTrace::Kind kind, std::string_view name, uint64_t bytes = 0)
      : trace_(trace) {
    if (trace_ != nullptr) [[unlikely]]
      Begin(kind, name, bytes);
  }
  ~HostTraceSpan() {
    if (trace_ != nullptr) [[unlikely]]
      End();
  }
  HostTraceSpan(const HostTraceSpan&) = delete;
  HostTraceSpan& operator=(const HostTraceSpan&) = delete;

  void set_name(std::string_view name) {
    if (trace_ != nullptr) [[unlikely]]
      event_.name = trace_->NameOf(name);
  }

 private:
  void Begin(HostTrace::Kind kind, std::string_view name, uint64_t bytes);
  void End();

  HostTrace* const trace_;
  RunTrace::HostEvent event_;
};

}  // namespace precast::device
