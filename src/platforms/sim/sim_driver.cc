#include "platforms/sim/sim_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace precast::sim {
namespace {

constexpr int kMaxThreads = Executor::kMaxThreads;
constexpr uint64_t kPinnedAlignment = 64;

// The clock of a thread rather than of a device: a phase of a run, which reads it before and after,
// sees its own calls only, whatever other runs do meanwhile.
thread_local uint64_t modelled_picoseconds = 0;

int Threads(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    Fail(ErrorCode::invalid_argument, "{} threads; allowed: 0 (one per processor) to {}", threads,
         kMaxThreads);
  }
  if (threads > 0) return threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

void CheckHost(const char* call, const void* memory) {
  if (memory == nullptr) {
    Fail(ErrorCode::invalid_argument, "{}: host memory at a null pointer", call);
  }
}

}  // namespace

device::Properties PropertiesOf(const Profile& profile, int threads) {
  return {.platform = profile.name,
          .cube_cores = profile.cube_cores,
          .vector_cores = profile.vector_cores,
          .threads = Threads(threads),
          .host_views = profile.host_views(),
          .host_page_bytes = profile.host_page_bytes,
          .memory_bytes = profile.memory_bytes,
          .costs = profile.costs == nullptr ? std::span<const device::CallCost>()
                                            : std::span<const device::CallCost>(*profile.costs),
          .assumed = profile.assumed,
          .rates = profile.rates};
}

SimDriver::SimDriver(Profile profile, int threads)
    : profile_(std::move(profile)),
      properties_(PropertiesOf(profile_, threads)),
      memory_(std::make_shared<SimMemory>(profile_.memory_bytes, profile_.unified)),
      executor_(properties_.threads, {.distance = memory_->Distance(),
                                      .translate = [memory = memory_](uint64_t address) {
                                        return memory->Translate(address);
                                      }}) {}

SimDriver::~SimDriver() {
  for (void* block : pinned_) std::free(block);
}

device::Properties SimDriver::properties() const {
  device::Properties properties = properties_;
  properties.memory_in_use = memory_->InUse();
  properties.memory_committed = memory_->Committed();
  return properties;
}

uint64_t SimDriver::ModelledPicoseconds() const { return modelled_picoseconds; }

void SimDriver::Advance(Priced call, uint64_t bytes) const {
  modelled_picoseconds += profile_.Cost(call, bytes);
}

device::Address SimDriver::Allocate(uint64_t bytes) {
  device::Address address = memory_->Allocate(bytes);
  Advance(Priced::allocate);
  return address;
}

void SimDriver::Free(device::Address address) {
  memory_->Free(address);
  Advance(Priced::free);
}

void SimDriver::CopyToDevice(device::Address target, const void* source, uint64_t bytes) {
  CheckHost("copy to device", source);
  std::memcpy(memory_->Locate("copy to device", target, bytes), source, bytes);
  Advance(Priced::copy_to_device, bytes);
}

void SimDriver::CopyToHost(void* target, device::Address source, uint64_t bytes) {
  CheckHost("copy to host", target);
  std::memcpy(target, memory_->Locate("copy to host", source, bytes), bytes);
  Advance(Priced::copy_to_host, bytes);
}

void SimDriver::Fill(device::Address target, uint8_t value, uint64_t bytes) {
  std::memset(memory_->Locate("fill", target, bytes), value, bytes);
}

void* SimDriver::AllocatePinned(uint64_t bytes) {
  if (bytes == 0) {
    Fail(ErrorCode::invalid_argument, "allocation of 0 pinned bytes; allowed: 1 or more");
  }
  // Beyond this no machine can help, and rounding up would overflow.
  constexpr uint64_t kMost = uint64_t{1} << 62;
  uint64_t rounded = (bytes + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
  void* block = bytes > kMost ? nullptr : std::aligned_alloc(kPinnedAlignment, rounded);
  if (block == nullptr) {
    Fail(ErrorCode::out_of_memory, "out of pinned memory: {} bytes asked", bytes);
  }
  std::unique_ptr<void, void (*)(void*)> guard(block, std::free);
  std::lock_guard lock(pinned_mutex_);
  pinned_.insert(block);
  (void)guard.release();
  Advance(Priced::allocate_pinned, bytes);
  return block;
}

void SimDriver::FreePinned(void* memory) {
  {
    std::lock_guard lock(pinned_mutex_);
    if (pinned_.erase(memory) == 0) {
      Fail(ErrorCode::invalid_argument, "free pinned: {} is no pinned block of this device",
           fmt::ptr(memory));
    }
  }
  std::free(memory);
}

void* SimDriver::RegisterHostView(device::Address allocation, uint64_t bytes) {
  if (bytes < profile_.host_view_minimum) return nullptr;
  void* view = memory_->MapView(allocation, bytes);
  Advance(Priced::register_view, bytes);
  return view;
}

void SimDriver::UnregisterHostView(device::Address allocation, void* view) {
  Advance(Priced::unregister_view, memory_->UnmapView(allocation, view));
}

void SimDriver::LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
  executor_.LoadKernels(first, kernels);
}

device::Ticket SimDriver::Execute(const device::Launch& launch) {
  memory_->Locate("execute", launch.image, launch.image_bytes);
  device::Ticket ticket = executor_.Execute(launch);
  Advance(Priced::launch);
  return ticket;
}

bool SimDriver::Wait(device::Ticket ticket, std::chrono::nanoseconds timeout) {
  return executor_.Wait(ticket, timeout);
}

device::Outcome SimDriver::Collect(device::Ticket ticket) { return executor_.Collect(ticket); }

void SimDriver::Reset() {
  memory_->Clear();
  std::lock_guard lock(pinned_mutex_);
  for (void* block : pinned_) std::free(block);
  pinned_.clear();
}

SimDriver::Held SimDriver::held() const {
  std::lock_guard lock(pinned_mutex_);
  return {memory_->Allocations(), pinned_.size(), memory_->Views()};
}

}  // namespace precast::sim
