#include "device/tracing_driver.h"

#include "device/host_trace.h"

namespace precast::device {

namespace {

/// One call, until the end of the scope. Calls have the names that the costs of the modelled clock
/// have.
struct Traced : HostTraceSpan {
  Traced(const Driver* driver, std::string_view call, uint64_t bytes = 0)
      : HostTraceSpan(HostTrace::Current(driver), HostTrace::Kind::driver, call, bytes) {}
};

}  // namespace

Address TracingDriver::Allocate(uint64_t bytes) {
  Traced traced(this, "allocate", bytes);
  return driver_->Allocate(bytes);
}

void TracingDriver::Free(Address address) {
  Traced traced(this, "free");
  driver_->Free(address);
}

void TracingDriver::CopyToDevice(Address target, const void* source, uint64_t bytes) {
  Traced traced(this, "copy to device", bytes);
  driver_->CopyToDevice(target, source, bytes);
}

void TracingDriver::CopyToHost(void* target, Address source, uint64_t bytes) {
  Traced traced(this, "copy to host", bytes);
  driver_->CopyToHost(target, source, bytes);
}

void TracingDriver::Fill(Address target, uint8_t value, uint64_t bytes) {
  Traced traced(this, "fill", bytes);
  driver_->Fill(target, value, bytes);
}

void* TracingDriver::AllocatePinned(uint64_t bytes) {
  Traced traced(this, "allocate pinned", bytes);
  return driver_->AllocatePinned(bytes);
}

void TracingDriver::FreePinned(void* memory) {
  Traced traced(this, "free pinned");
  driver_->FreePinned(memory);
}

void* TracingDriver::RegisterHostView(Address allocation, uint64_t bytes) {
  Traced traced(this, "register", bytes);
  return driver_->RegisterHostView(allocation, bytes);
}

void TracingDriver::UnregisterHostView(Address allocation, void* view) {
  Traced traced(this, "unregister");
  driver_->UnregisterHostView(allocation, view);
}

void TracingDriver::LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
  Traced traced(this, "load kernels");
  driver_->LoadKernels(first, kernels);
}

Ticket TracingDriver::Execute(const Launch& launch) {
  Traced traced(this, "launch", launch.image_bytes);
  return driver_->Execute(launch);
}

bool TracingDriver::Wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  // A look whether it has ended is no work of the host.
  if (timeout.count() == 0) return driver_->Wait(ticket, timeout);
  Traced traced(this, "wait");
  return driver_->Wait(ticket, timeout);
}

Outcome TracingDriver::Collect(Ticket ticket) {
  Traced traced(this, "collect");
  return driver_->Collect(ticket);
}

}  // namespace precast::device
