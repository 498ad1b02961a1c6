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
          .memory_bytes = profile.memory_bytes};
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

device::Address SimDriver::Allocate(uint64_t bytes) { return memory_->Allocate(bytes); }

void SimDriver::Free(device::Address address) { memory_->Free(address); }

void SimDriver::CopyToDevice(device::Address target, const void* source, uint64_t bytes) {
  CheckHost("copy to device", source);
  std::memcpy(memory_->Locate("copy to device", target, bytes), source, bytes);
}

void SimDriver::CopyToHost(void* target, device::Address source, uint64_t bytes) {
  CheckHost("copy to host", target);
  std::memcpy(target, memory_->Locate("copy to host", source, bytes), bytes);
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
  std::lock_guard lock(pinned_mutex_);
  pinned_.insert(block);
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
  return memory_->MapView(allocation, bytes);
}

void SimDriver::UnregisterHostView(device::Address allocation, void* view) {
  memory_->UnmapView(allocation, view);
}

void SimDriver::LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
  executor_.LoadKernels(first, kernels);
}

device::Ticket SimDriver::Execute(const device::Launch& launch) {
  memory_->Locate("execute", launch.image, launch.image_bytes);
  return executor_.Execute(launch);
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
