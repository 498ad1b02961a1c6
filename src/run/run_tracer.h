// RunTracer: what a run that is traced keeps beside it, from its first phase until its trace is
// complete: the events of the host, and the buffer in which the device records.
//
// Used by RunState, if RunOptions::trace asks for it.
//
// Threads: one at a time, as its run.
#pragma once

#include "abi/trace.h"
#include "device/host_trace.h"
#include "run/definition_store.h"
#include "run/kernel_registry.h"

#include <precast/report.h>
#include <precast/trace.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace precast::run {

/// An image in host memory, with the definitions that its graph tasks name.
struct TracedImage {
  const void* bytes = nullptr;
  std::span<Definition* const> definitions;

  const abi::Header& header() const { return *static_cast<const abi::Header*>(bytes); }
};

struct FreeTraceMemory {
  void operator()(abi::TraceHeader* buffer) const;
};
using TraceMemory = std::unique_ptr<abi::TraceHeader, FreeTraceMemory>;

class RunTracer {
 public:
  using Clock = device::HostTrace::Clock;

  RunTracer(Trace* trace, const device::Driver* driver, Clock::time_point begun)
      : host_(trace, driver) {
    trace_.begin_ns = host_.At(begun);
  }

  device::HostTrace& host() { return host_; }
  /// What the finished trace says about the run.
  RunTrace& trace() { return trace_; }

  /// A phase, or a part of one. `waited`: on the calling thread.
  void AddPhase(Phase phase, Clock::time_point begin, Clock::time_point end, uint64_t bytes,
                uint64_t modelled_ps, bool waited);

  /// Makes the buffer, large enough for one execution of the image if the trace's options allow
  /// that. Throws `bad_alloc`.
  abi::TraceHeader* MakeBuffer(const TracedImage& image, int threads, bool poisons);

  /// The buffer of a launch that may still be recording: the trace will be without it.
  TraceMemory TakeBuffer() { return std::move(buffer_); }

  /// Completes the trace and gives it to the Trace. `image`: null bytes if none was launched.
  /// Kernels and definitions are still claimed. `error`: what failed the run. Gives a sentence
  /// about what was dropped; empty: nothing.
  std::string Deliver(const TracedImage& image, const KernelRegistry& kernels,
                      std::string_view error);
  /// Gives it up instead.
  void Lose() noexcept { host_.trace().NoteLost(); }

 private:
  device::HostTrace host_;
  RunTrace trace_;
  Clock::time_point last_;  // the end of the last phase
  TraceMemory buffer_;
};

}  // namespace precast::run
