// FaultyDriver: passes every call on to another driver, counts them, and makes chosen ones fail.
//
// Used by tests that ask, for every n, what happens when the n-th driver call fails:
//
//   FaultyDriver driver(std::move(real));
//   driver.FailNth(3, ErrorCode::out_of_memory, {Call::allocate, Call::allocate_pinned});
//
// A failing call that acquires or moves something does nothing but throw. One that releases, waits
// or collects is passed on first and then throws, so that whatever leaks afterwards is the caller's
// fault.
//
// Threads: every call may be made from any thread.
#pragma once

#include "device/driver.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace precast::device {

enum class Call : uint8_t {
  allocate,
  free,
  copy_to_device,
  copy_to_host,
  fill,
  allocate_pinned,
  free_pinned,
  register_host_view,
  unregister_host_view,
  load_kernels,
  execute,
  wait,
  collect,
  reset,
};
inline constexpr size_t kCalls = 14;

std::string_view Name(Call call);

class FaultyDriver final : public Driver {
 public:
  explicit FaultyDriver(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

  Driver& inner() { return *driver_; }

  /// From now on the n-th call (n >= 1) of one of these kinds fails with this code, once. An empty
  /// list means all kinds. Replaces an earlier order.
  void FailNth(uint64_t n, ErrorCode code, std::initializer_list<Call> calls = {});
  /// From now on the n-th call (n >= 1) and every one after it fails with `device_lost`. Replaces
  /// an earlier order.
  void LoseFrom(uint64_t n);
  /// Takes back an order that has not struck yet, or a loss.
  void FailNone();
  /// Whether the last order has struck.
  bool struck() const;

  /// From now on RegisterHostView refuses (returns null) without asking the inner driver.
  void RefuseHostViews(bool refuse);

  /// From now on AllocatePinned fails with `out_of_memory`, as often as it is asked.
  void RefusePinned(bool refuse);
  /// Device addresses are from now on this much larger than the inner driver's, so aligned no
  /// better than they have to be. Before the first allocation; a multiple of 64. Not for host
  /// views.
  void ShiftAddresses(uint64_t bytes) { shift_ = bytes; }
  /// Called with each copy to the device, on its thread.
  using OnCopy = std::function<void(Address target, const void* source, uint64_t bytes)>;
  void set_on_copy(OnCopy call) { on_copy_ = std::move(call); }

  /// What the driver calls before it is reset, to look at what the inner one still holds.
  void set_before_reset(std::function<void()> call) { before_reset_ = std::move(call); }

  /// Calls made so far, those that failed included; `properties` is not counted.
  uint64_t calls() const;
  uint64_t calls(Call call) const;

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
  void Reset() override;

 private:
  /// Counts the call; the error that it has to fail with, if any.
  std::optional<Error> Strikes(Call call);

  const std::unique_ptr<Driver> driver_;
  std::function<void()> before_reset_;
  OnCopy on_copy_;
  uint64_t shift_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  std::array<uint64_t, kCalls> counts_{};
  uint32_t mask_ = 0;       // of the kinds that may fail
  uint64_t remaining_ = 0;  // calls of those kinds until one fails; 0: none will
  bool struck_ = false;
  bool for_good_ = false;  // every call after the one that struck fails too
  bool refuse_views_ = false;
  bool refuse_pinned_ = false;
  ErrorCode code_ = ErrorCode::internal;
};

}  // namespace precast::device
