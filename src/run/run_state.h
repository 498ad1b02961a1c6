// RunState: one run, from its arguments to its results. Its phases are those of the report.
//
// Used by the worker: `Launch` on the orchestration's thread, then `Wait` and `Finish` on whichever
// thread asks for the result. What a run needs of host and device memory is its RunContext, which
// the worker keeps for the next run, so a warm run allocates nothing on the device and pins
// nothing. A context that the device may still write when its run is over is quarantined with all
// that the run had claimed.
//
// Threads: one at a time.
#pragma once

#include "base/process_mark.h"
#include "device/pinned_arena.h"
#include "graph/builder.h"
#include "run/inspector.h"
#include "run/run_builder.h"
#include "run/run_tracer.h"

#include <precast/report.h>
#include <precast/worker.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace precast::detail {

/// Memory and tables of one run at a time.
struct RunContext {
  explicit RunContext(const RunDevice& device);
  ~RunContext();
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  /// Makes the device block at least this large. Its bytes are then undefined.
  void ReserveDevice(uint64_t bytes);
  /// Copies the record and the bindings of each graph task of the image alone, into memory of its
  /// own. Gives the numbers of copies and bytes.
  std::pair<uint64_t, uint64_t> UploadSubmissions();
  /// Gives that memory back. Gives the error met. Idempotent.
  std::optional<Error> ReleaseSubmissions() noexcept;

  // Give back the image's memory, then the device block: in this order. Idempotent. They give the
  // error met; what they release is gone all the same.
  std::optional<Error> ReleasePinned() noexcept;
  std::optional<Error> ReleaseDevice() noexcept;

  RunDevice device;
  device::PinnedArena arena;
  device::PinnedArena upload;  // new definitions, on their way
  graph::ImageMemory image;    // a view of the arena
  RunBuilder builder;
  device::Address block = 0;  // image, staging and graph heap
  uint64_t block_bytes = 0;
  std::vector<device::Address> submissions;  // copied alone
  std::vector<abi::Slot> slots;              // of the run being bound
  run::TraceMemory trace;                    // in which a launch that was left alone may record
  std::optional<Error> failed_release;       // of memory that was replaced by more, for the report
};

class RunState;

/// The worker, as its runs see it.
class ContextOwner {
 public:
  const ProcessMark process;  ///< that the device is of

  /// Remembers the first error that says `device_lost`; others are of no interest.
  void NoteLoss(const Error& error) noexcept;
  /// Throws what was remembered: the device is gone for good, whatever it says later.
  void CheckNotLost() const {
    if (lost_.load(std::memory_order_acquire)) [[unlikely]]
      throw Error(*loss_);
  }
  virtual ~ContextOwner() = default;
  /// A run is over and gives its context back. `quarantined`: that launch may still write the
  /// context's device memory and what the run claimed; 0: none.
  virtual void Return(RunState* run, std::unique_ptr<RunContext> context,
                      device::Ticket quarantined) noexcept = 0;
  /// Held while a run is launched and its uses are noted, so that copies see both or none.
  virtual std::mutex& launch_mutex() = 0;

 private:
  std::mutex loss_mutex_;
  std::optional<Error> loss_;      // never changes once it is there
  std::atomic<bool> lost_{false};  // the release pairs with the acquire of CheckNotLost
};

struct RunParameters {
  uint32_t serial = 0;
  int threads = 0;
  Bytes heap = 0;
  std::chrono::nanoseconds kernel_timeout{0};
  bool caller_waits = false;
  HostViewPolicy host_views = HostViewPolicy::cache;
  UploadMode upload = UploadMode::one;
  std::string_view assumed;                   // as in the report
  const run::Inspector* inspector = nullptr;  // null: nobody looks
  sched::TaskObserver* observer = nullptr;    // the same
  Trace* trace = nullptr;
  std::string platform;  // for the trace, as what follows
  const void* worker = nullptr;
  RunOptions options;
};

class RunState {
 public:
  RunState(ContextOwner* owner, const RunParameters& parameters)
      : owner_(owner), parameters_(parameters) {}
  /// Waits and finishes.
  ~RunState();

  /// Before Launch, and from then on the run's, which returns it to the owner.
  void set_context(std::unique_ptr<RunContext> context) { context_ = std::move(context); }
  /// Binds and starts the run. Throws what failed; the context has then been returned.
  void Launch(const Orchestration& orchestration, ArgList args, const Program* program);

  /// True when the run has ended within `timeout`, well or not; its results are then in place.
  /// Throws `invalid_argument` inside a kernel of the same device, where it would never end.
  bool Wait(std::chrono::nanoseconds timeout);
  /// Waits; gives the report or throws what failed the run.
  const RunReport& Result();
  /// Waits, and lets go of the worker.
  void Detach() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Moment {  // on both clocks; the modelled one is the calling thread's
    Clock::time_point wall;
    uint64_t modelled_ps;
  };

  void Bind(const Orchestration& orchestration, ArgList args, const Program* program);
  void Finish() noexcept;
  void Collect(device::Ticket* quarantined);
  void Return(device::Ticket quarantined) noexcept;
  Moment Now() const;
  /// Ends a phase that began at `*since`; the next one begins now.
  void EndPhase(Phase phase, Moment* since, uint64_t bytes);
  void CloseHostViews(Moment* since);
  void UploadSubmissions(Moment* since);
  /// In a handler: the run has failed with the current exception.
  void NoteFailure() noexcept;
  void BeginTrace(const Program* program);
  void EndTrace() noexcept;
  device::HostTrace* host_trace() { return tracer_ == nullptr ? nullptr : &tracer_->host(); }
  run::TracedImage Image() const;

  ContextOwner* owner_;
  std::unique_ptr<RunContext> context_;
  RunParameters parameters_;
  RunReport report_;
  std::unique_ptr<run::RunTracer> tracer_;  // until the trace is delivered; null: none is made
  device::Ticket ticket_ = 0;
  device::Address staging_ = 0;
  Clock::time_point begun_;
  Clock::time_point launched_;
  bool collected_ = false;  // the launch: it records no more
  bool finished_ = false;
  std::optional<Error> error_;
};

}  // namespace precast::detail
