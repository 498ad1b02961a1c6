// The driver boundary: everything that Precast asks of a device.
//
// A platform implements this class once. CUDA (cuMemAlloc, cuMemcpyHtoDAsync, cuMemHostAlloc, no
// host views) and Ascend (aclrtMalloc, aclrtMemcpy, aclrtMallocHost, halHostRegister) fit as they
// are. A call that fails throws precast::Error; `device_lost` is final. Calls may come from any
// thread. Device addresses are opaque: nothing but the driver and kernels dereferences them.
#pragma once

#include <precast/error.h>
#include <precast/kernel.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace precast::sched {
class TaskObserver;
}

namespace precast::abi {
struct TraceHeader;
}

namespace precast::device {

using Address = uint64_t;

/// What one call costs on a platform's modelled clock, in integer picoseconds.
struct CallCost {
  std::string_view call;
  uint64_t floor = 0, per_page = 0, per_huge_page = 0, per_byte = 0;
  std::string_view assumed = "";  ///< which of these nobody measured, in words; "" none, "all"
};

struct Properties {
  std::string platform;
  int cube_cores = 0;
  int vector_cores = 0;
  int threads = 0;
  bool host_views = false;
  uint64_t host_page_bytes = 4096;
  uint64_t memory_bytes = 0;
  uint64_t memory_in_use = 0;
  uint64_t memory_committed = 0;
  // Of the modelled clock, in static storage; empty where there is none.
  std::span<const CallCost> costs;
  std::string_view assumed;  ///< which costs nobody measured, for reports
  ChipRates rates;           ///< of the modelled timeline; zero where there is none
};

/// How to execute one image. The definitions that it names stay in device memory until the launch
/// is settled.
struct Launch {
  Address image = 0;
  uint64_t image_bytes = 0;
  int threads = 0;  // that execute kernels; 0: the driver's default
  std::chrono::nanoseconds kernel_timeout{0};
  /// The launching thread calls `Wait` at once and without a limit: it does the work itself, and no
  /// other thread is woken to begin it.
  bool caller_waits = false;
  bool oracle = false;
  bool reverse_blocks = false;
  bool poison_outputs = false;
  bool measure_kernels = false;
  /// Sees every call of a kernel; null: nobody does. It stays until the launch has been collected,
  /// and no kernel is loaded meanwhile. A device whose kernels are no functions of the host does
  /// not call it.
  sched::TaskObserver* observer = nullptr;
  /// Host memory in which to record what is executed (abi/trace.h); null: nothing is. It stays
  /// until the launch has been collected.
  abi::TraceHeader* trace = nullptr;
};

/// Names a launch; launches of one device execute in the order of their tickets.
using Ticket = uint64_t;

struct Outcome {
  bool ok = true;
  ErrorCode code = ErrorCode::kernel_failed;  // when not ok
  std::string message;                        // when not ok: task, kernel, reason, what did not run
  uint64_t completed = 0;                     // tasks
  double in_kernels_us = -1;                  // with measure_kernels
  /// A kernel of this launch was given up and may still write: its memory must not be used again
  /// before `Settled` says so.
  bool quarantined = false;
  std::chrono::steady_clock::time_point ended;  // on the device; unset: not known
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual Properties properties() const = 0;
  /// Modelled time, in picoseconds, of all driver calls that the calling thread has made; only
  /// differences mean something. Optional: none.
  virtual uint64_t ModelledPicoseconds() const { return 0; }

  /// At least 64-byte aligned. Throws `out_of_memory` with bytes asked, in use and available.
  virtual Address Allocate(uint64_t bytes) = 0;
  virtual void Free(Address address) = 0;

  virtual void CopyToDevice(Address target, const void* source, uint64_t bytes) = 0;
  virtual void CopyToHost(void* target, Address source, uint64_t bytes) = 0;
  virtual void Fill(Address target, uint8_t value, uint64_t bytes) = 0;

  /// Host memory that copies fast; 64-byte aligned in absolute address.
  virtual void* AllocatePinned(uint64_t bytes) = 0;
  virtual void FreePinned(void* memory) = 0;

  /// A host address for an allocation, or null when the platform refuses. Optional: refuses.
  virtual void* RegisterHostView(Address /*allocation*/, uint64_t /*bytes*/) { return nullptr; }
  virtual void UnregisterHostView(Address /*allocation*/, void* /*view*/) {}

  /// Makes kernels [first, first + size) known. Indices are never reused.
  virtual void LoadKernels(uint32_t first, std::span<const Kernel> kernels) = 0;

  /// A launch like this one (its image is of no interest) will follow soon: gets ready, e.g. starts
  /// threads. Never fails where `Execute` would not. Optional.
  virtual void Prepare(const Launch& /*launch*/) {}
  /// Starts executing an image; returns before it has ended.
  virtual Ticket Execute(const Launch& launch) = 0;
  /// Waits for a launch and those before it, taking part in the work where that is possible. False
  /// when the time passed first; `nanoseconds::max()` waits without limit.
  virtual bool Wait(Ticket ticket, std::chrono::nanoseconds timeout) = 0;
  /// How an ended launch went. Each ticket is collected once.
  virtual Outcome Collect(Ticket ticket) = 0;
  /// Whether every kernel of a collected launch has returned. Optional: a device whose kernels are
  /// never given up says yes.
  virtual bool Settled(Ticket /*ticket*/) { return true; }
  /// Whether the calling thread is inside a kernel of this device, so that waiting for a launch
  /// would never end. Optional: a device whose kernels are no threads of the host says no.
  virtual bool InKernel() const { return false; }

  /// The last call: after views, pinned memory and allocations have been released.
  virtual void Reset() = 0;
};

}  // namespace precast::device
