// SimDriver: the driver boundary on a simulated chip: a Profile (data), a SimMemory and an
// Executor.
//
// Used through device::Driver; only the registry makes one. Copies are checked against the live
// allocations; a copy or fill of 0 bytes is an error. Each call advances the modelled clock of the
// thread that makes it, by what the profile says; a call that fails takes no modelled time.
//
// Threads: every call may be made from any thread.
#pragma once

#include "device/driver.h"
#include "platforms/sim/executor.h"
#include "platforms/sim/profile.h"
#include "platforms/sim/sim_memory.h"

#include <memory>
#include <mutex>
#include <unordered_set>

namespace precast::sim {

/// The properties of a driver for this profile, with nothing allocated. `threads` as for SimDriver.
device::Properties PropertiesOf(const Profile& profile, int threads);

class SimDriver final : public device::Driver {
 public:
  /// `threads` execute kernels: 0 to 256, 0 is one per processor.
  /// Throws `Error{invalid_argument}`, or `Error{io}` when memory cannot be mapped.
  SimDriver(Profile profile, int threads);
  ~SimDriver() override;

  device::Properties properties() const override;
  uint64_t ModelledPicoseconds() const override;

  device::Address Allocate(uint64_t bytes) override;
  void Free(device::Address address) override;
  void CopyToDevice(device::Address target, const void* source, uint64_t bytes) override;
  void CopyToHost(void* target, device::Address source, uint64_t bytes) override;
  void Fill(device::Address target, uint8_t value, uint64_t bytes) override;

  void* AllocatePinned(uint64_t bytes) override;
  void FreePinned(void* memory) override;

  void* RegisterHostView(device::Address allocation, uint64_t bytes) override;
  void UnregisterHostView(device::Address allocation, void* view) override;

  void LoadKernels(uint32_t first, std::span<const Kernel> kernels) override;
  void Prepare(const device::Launch& launch) override { executor_.Prepare(launch); }
  device::Ticket Execute(const device::Launch& launch) override;
  bool Wait(device::Ticket ticket, std::chrono::nanoseconds timeout) override;
  device::Outcome Collect(device::Ticket ticket) override;
  bool Settled(device::Ticket ticket) override { return executor_.Settled(ticket); }
  bool InKernel() const override { return executor_.InKernel(); }

  /// Releases what is left, as a device reset does.
  void Reset() override;

  /// What is held now, so that tests can see a leak.
  struct Held {
    uint64_t allocations = 0;
    uint64_t pinned_blocks = 0;
    uint64_t host_views = 0;
  };
  Held held() const;

 private:
  void Advance(Priced call, uint64_t bytes = 0) const;

  const Profile profile_;
  const device::Properties properties_;
  // Shared with the executor's translation function, which a kernel thread that was given up holds
  // on to: such a thread may outlive the driver, and must not find the memory gone.
  const std::shared_ptr<SimMemory> memory_;

  mutable std::mutex pinned_mutex_;
  std::unordered_set<void*> pinned_;

  Executor executor_;  // last: its threads use all of the above
};

}  // namespace precast::sim
