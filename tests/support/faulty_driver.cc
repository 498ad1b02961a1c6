#include "support/faulty_driver.h"

#include <algorithm>
#include <numeric>

namespace precast::device {

std::string_view Name(Call call) {
  constexpr std::string_view names[] = {"allocate",
                                        "free",
                                        "copy_to_device",
                                        "copy_to_host",
                                        "fill",
                                        "allocate_pinned",
                                        "free_pinned",
                                        "register_host_view",
                                        "unregister_host_view",
                                        "load_kernels",
                                        "execute",
                                        "wait",
                                        "collect",
                                        "reset"};
  static_assert(std::size(names) == kCalls);
  return names[static_cast<size_t>(call)];
}

void FaultyDriver::FailNth(uint64_t n, ErrorCode code, std::initializer_list<Call> calls) {
  std::lock_guard lock(mutex_);
  mask_ = calls.size() == 0 ? ~0u : 0;
  for (Call call : calls) mask_ |= 1u << static_cast<unsigned>(call);
  remaining_ = n;
  struck_ = for_good_ = false;
  code_ = code;
}

void FaultyDriver::LoseFrom(uint64_t n) {
  FailNth(n, ErrorCode::device_lost);
  std::lock_guard lock(mutex_);
  for_good_ = true;
}

void FaultyDriver::FailNone() {
  std::lock_guard lock(mutex_);
  remaining_ = 0;
}

bool FaultyDriver::struck() const {
  std::lock_guard lock(mutex_);
  return struck_;
}

void FaultyDriver::RefuseHostViews(bool refuse) {
  std::lock_guard lock(mutex_);
  refuse_views_ = refuse;
}

void FaultyDriver::RefusePinned(bool refuse) {
  std::lock_guard lock(mutex_);
  refuse_pinned_ = refuse;
}

uint64_t FaultyDriver::calls() const {
  std::lock_guard lock(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

uint64_t FaultyDriver::calls(Call call) const {
  std::lock_guard lock(mutex_);
  return counts_[static_cast<size_t>(call)];
}

std::optional<Error> FaultyDriver::Strikes(Call call) {
  std::lock_guard lock(mutex_);
  ++counts_[static_cast<size_t>(call)];
  if (remaining_ == 0 || ((mask_ >> static_cast<unsigned>(call)) & 1u) == 0) return std::nullopt;
  if (--remaining_ > 0) return std::nullopt;
  if (for_good_) remaining_ = 1;
  struck_ = true;
  return Error(code_, fmt::format("injected failure of the driver call {}", Name(call)));
}

// Calls that acquire, move or start something fail without doing it.

Address FaultyDriver::Allocate(uint64_t bytes) {
  if (auto error = Strikes(Call::allocate)) throw *error;
  return driver_->Allocate(bytes + shift_) + shift_;
}

void FaultyDriver::CopyToDevice(Address target, const void* source, uint64_t bytes) {
  if (auto error = Strikes(Call::copy_to_device)) throw *error;
  if (on_copy_) on_copy_(target, source, bytes);
  driver_->CopyToDevice(target, source, bytes);
}

void FaultyDriver::CopyToHost(void* target, Address source, uint64_t bytes) {
  if (auto error = Strikes(Call::copy_to_host)) throw *error;
  driver_->CopyToHost(target, source, bytes);
}

void FaultyDriver::Fill(Address target, uint8_t value, uint64_t bytes) {
  if (auto error = Strikes(Call::fill)) throw *error;
  driver_->Fill(target, value, bytes);
}

void* FaultyDriver::AllocatePinned(uint64_t bytes) {
  if (auto error = Strikes(Call::allocate_pinned)) throw *error;
  {
    std::lock_guard lock(mutex_);
    if (refuse_pinned_) Fail(ErrorCode::out_of_memory, "pinned memory is refused by the test");
  }
  return driver_->AllocatePinned(bytes);
}

void* FaultyDriver::RegisterHostView(Address allocation, uint64_t bytes) {
  if (auto error = Strikes(Call::register_host_view)) throw *error;
  {
    std::lock_guard lock(mutex_);
    if (refuse_views_) return nullptr;
  }
  return driver_->RegisterHostView(allocation, bytes);
}

void FaultyDriver::LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
  if (auto error = Strikes(Call::load_kernels)) throw *error;
  driver_->LoadKernels(first, kernels);
}

Ticket FaultyDriver::Execute(const Launch& launch) {
  if (auto error = Strikes(Call::execute)) throw *error;
  return driver_->Execute(launch);
}

// Calls that release or wait do it, then report the failure.

void FaultyDriver::Free(Address address) {
  auto error = Strikes(Call::free);
  driver_->Free(address - shift_);
  if (error) throw *error;
}

void FaultyDriver::FreePinned(void* memory) {
  auto error = Strikes(Call::free_pinned);
  driver_->FreePinned(memory);
  if (error) throw *error;
}

void FaultyDriver::UnregisterHostView(Address allocation, void* view) {
  auto error = Strikes(Call::unregister_host_view);
  driver_->UnregisterHostView(allocation, view);
  if (error) throw *error;
}

bool FaultyDriver::Wait(Ticket ticket, std::chrono::nanoseconds timeout) {
  auto error = Strikes(Call::wait);
  bool ended = driver_->Wait(ticket, timeout);
  if (error) throw *error;
  return ended;
}

Outcome FaultyDriver::Collect(Ticket ticket) {
  auto error = Strikes(Call::collect);
  Outcome outcome = driver_->Collect(ticket);
  if (error) throw *error;
  return outcome;
}

void FaultyDriver::Reset() {
  auto error = Strikes(Call::reset);
  if (before_reset_) before_reset_();
  driver_->Reset();
  if (error) throw *error;
}

}  // namespace precast::device
