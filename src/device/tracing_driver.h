// TracingDriver: passes every call on to another driver, and records those that are made for a run
// that is traced: when, how long, how many bytes, and what they take on the modelled clock.
//
// The worker has one around its platform's driver. A call for a run that is not traced costs one
// more virtual call and a look at a thread-local pointer.
//
// Threads: as the driver inside.
#pragma once

#include "device/driver.h"

#include <cstdint>
#include <memory>
#include <utility>

namespace precast::device {

class TracingDriver final : public Driver {
 public:
  explicit TracingDriver(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

  Properties properties() const override { return driver_->properties(); }
  uint64_t ModelledPicoseconds() const override { return driver_->ModelledPicoseconds(); }
  Address Allocate(uint64_t bytes) override;
  void Free(Address address) override;
  void CopyToDevice(Address target, const void* source, uint64_t bytes) override;
  void CopyToHost(void* target, Address source, uint64_t bytes) override;
  void Fill(Address target, uint8_t value, uint64_t bytes) override;
  void* AllocatePinned(uint64_t bytes) override;
  void FreePinned(void* memory) override;
  void* RegisterHostView(Address allocation, uint64_t bytes) override;
  void UnregisterHostView(Address allocation, void* view) override;
  void LoadKernels(uint32_t first, std::span<const Kernel> kernels) override;
  void Prepare(const Launch& launch) override { driver_->Prepare(launch); }
  Ticket Execute(const Launch& launch) override;
  bool Wait(Ticket ticket, std::chrono::nanoseconds timeout) override;
  Outcome Collect(Ticket ticket) override;
  bool Settled(Ticket ticket) override { return driver_->Settled(ticket); }
  bool InKernel() const override { return driver_->InKernel(); }
  void Reset() override { driver_->Reset(); }

 private:
  const std::unique_ptr<Driver> driver_;
};

}  // namespace precast::device
