// WorkerImpl: one device with all that belongs to it, and the pool of run contexts.
//
// Used by worker.cc. The order of members is the order of their construction; the destructor ends
// them in the order that the device needs: runs, host views, pinned memory, memory of contexts,
// definitions, allocations, the device itself.
//
// Threads: every call from any thread.
#pragma once

#include "base/dynamic_library.h"
#include "base/log.h"
#include "device/device_memory.h"
#include "device/driver.h"
#include "run/definition_store.h"
#include "run/inspector.h"
#include "run/kernel_registry.h"
#include "run/run_state.h"

#include <precast/worker.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace precast::detail {

class WorkerImpl final : public ContextOwner {
 public:
  WorkerImpl(WorkerOptions options, std::unique_ptr<device::Driver> driver);
  ~WorkerImpl() override;

  std::unique_ptr<RunState> Launch(const Orchestration& orchestration, ArgList args,
                                   const RunOptions& options, const Program* program,
                                   bool caller_waits);
  const Program& Load(const Program& program);
  const Program& Load(const std::string& path);

  // As in Worker.
  Tensor Malloc(const Shape& shape, DType dtype);
  void Free(const Tensor& tensor);
  void CopyTo(const Tensor& device, const void* source, Bytes bytes);
  void CopyFrom(void* target, const Tensor& device, Bytes bytes);
  void Memset(const Tensor& device, uint8_t value);

  /// Shows it every run from now on; null: none. Not while a run is being bound.
  void set_inspector(run::Inspector inspector) { inspector_ = std::move(inspector); }
  /// The same for the calls of kernels; it outlives the runs. One run at a time then.
  void set_observer(sched::TaskObserver* observer) { observer_ = observer; }
  device::Driver& driver() { return *driver_; }
  device::DeviceMemory& memory() { return *memory_; }
  WorkerProperties properties();

  // ContextOwner.
  void Return(RunState* run, std::unique_ptr<RunContext> context,
              device::Ticket quarantined) noexcept override;
  std::mutex& launch_mutex() override { return launch_mutex_; }

 private:
  struct Quarantined {
    std::unique_ptr<RunContext> context;
    device::Ticket ticket;   // of the launch that may still write its memory
    bool collected = false;  // the launch itself has ended; one of its kernels may not have
  };

  void CheckNotInKernel(const char* call) const;
  std::unique_ptr<RunContext> MakeContext();
  std::unique_ptr<RunContext> TakeContext();
  bool Settled(Quarantined& entry);
  void ReleaseSettled();
  /// Calls `access` with a contiguous tensor's address and bytes when no unfinished run writes it
  /// (or, for `writes`, touches it), and none is launched meanwhile.
  template <typename Access>
  void WithMemory(const char* call, const Tensor& tensor, std::optional<Bytes> bytes, bool writes,
                  Access&& access);

  const WorkerOptions options_;
  const Log log_;
  std::vector<DynamicLibrary> libraries_;  // kernels are in them, so they outlive the driver
  std::unique_ptr<device::Driver> driver_;
  std::unique_ptr<device::DeviceMemory> memory_;
  run::KernelRegistry kernels_;
  run::DefinitionStore definitions_;
  run::Inspector inspector_;
  sched::TaskObserver* observer_ = nullptr;
  std::string_view assumed_;  // costs, see device::Properties
  std::atomic<uint32_t> next_serial_;
  std::mutex launch_mutex_;
  mutable std::mutex mutex_;  // guards what follows, and libraries_
  // Both have room for all contexts there are, so that a run that ends can always return its own.
  std::vector<std::unique_ptr<RunContext>> contexts_;
  std::vector<Quarantined> quarantined_;
  size_t taken_ = 0;  // contexts that runs have
  std::unordered_set<const Program*> loaded_;
  std::unordered_set<RunState*> in_flight_;  // submitted and not finished
};

}  // namespace precast::detail
