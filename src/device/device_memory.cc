#include "device/device_memory.h"

#include "base/planted_fault.h"
#include "base/tensor_access.h"
#include "device/host_trace.h"

#include <bit>
#include <memory>
#include <random>
#include <utility>

namespace precast::device {
namespace {

using detail::TensorAccess;

uint16_t RandomMark() {
  std::random_device random;
  return static_cast<uint16_t>(1 + random() % 65535);
}

uint32_t RandomEven() {
  std::random_device random;
  return static_cast<uint32_t>(random()) & ~1u;
}

template <typename F>
void Attempt(std::optional<Error>* failure, F&& call) noexcept {
  try {
    call();
  } catch (const Error& error) {
    if (!failure->has_value()) failure->emplace(error);
  } catch (const std::exception& error) {
    if (!failure->has_value()) failure->emplace(ErrorCode::internal, error.what());
  }
}

// Raises a ticket that several threads may raise.
void Raise(std::atomic<Ticket>* latest, Ticket ticket) {
  Ticket seen = latest->load(std::memory_order_relaxed);
  while (seen < ticket && !latest->compare_exchange_weak(seen, ticket, std::memory_order_release,
                                                         std::memory_order_relaxed)) {
  }
}

const char* KindName(Tensor::Kind kind) {
  switch (kind) {
    case Tensor::Kind::none:
      return "a tensor that names nothing";
    case Tensor::Kind::host:
      return "a host tensor";
    case Tensor::Kind::device:
      return "a device tensor";
    case Tensor::Kind::run:
      return "a tensor of a run";
  }
  return "a corrupted tensor";
}

}  // namespace

DeviceMemory::DeviceMemory(Driver* driver, uint64_t view_budget, const Log* log)
    : driver_(driver),
      view_budget_(view_budget),
      log_(log),
      owner_(RandomMark()),
      first_generation_(RandomEven()) {}

DeviceMemory::~DeviceMemory() {
  DropViews();
  FreeAll();
  for (std::atomic<Entry*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

DeviceMemory::Entry* DeviceMemory::Find(uint32_t index) const {
  uint32_t group = (index >> kFirstChunkBits) + 1;
  int chunk = std::bit_width(group) - 1;
  if (chunk >= kChunks) return nullptr;
  Entry* entries = chunks_[static_cast<size_t>(chunk)].load(std::memory_order_acquire);
  if (entries == nullptr) return nullptr;
  return entries + (index - (((1u << chunk) - 1) << kFirstChunkBits));
}

DeviceMemory::Entry& DeviceMemory::EntryOf(const Tensor& tensor) const {
  if (tensor.kind() != Tensor::Kind::device || TensorAccess::Owner(tensor) != owner_) [[unlikely]] {
    FailForeign(tensor);
  }
  Entry* entry = Find(TensorAccess::Buffer(tensor));
  if (entry == nullptr) [[unlikely]] {
    FailStale(tensor);
  }
  return *entry;
}

void DeviceMemory::FailForeign(const Tensor& tensor) const {
  if (tensor.kind() != Tensor::Kind::device) {
    Fail(ErrorCode::mismatch,
         "{} ({}) where device memory of this worker is needed (from malloc or tensor_at)",
         KindName(tensor.kind()), tensor.ToString());
  }
  Fail(ErrorCode::mismatch,
       "device tensor {} is memory of another worker (mark {:#06x}; this worker's is {:#06x})",
       tensor.ToString(), TensorAccess::Owner(tensor), owner_);
}

void DeviceMemory::FailStale(const Tensor& tensor) const {
  Fail(ErrorCode::stale, "device tensor {} is stale: its allocation (number {}) has been freed",
       tensor.ToString(), TensorAccess::Buffer(tensor));
}

uint32_t DeviceMemory::NextIndex() {
  if (!free_.empty()) return free_.back();
  // Room for every index, so that giving one back cannot fail.
  if (free_.capacity() <= size_) free_.reserve(2 * size_t{size_} + 64);
  if (Find(size_) == nullptr) {
    int chunk = std::bit_width((size_ >> kFirstChunkBits) + 1) - 1;
    if (chunk >= kChunks) Fail(ErrorCode::out_of_memory, "{} device allocations", size_);
    size_t entries = size_t{1} << (kFirstChunkBits + chunk);
    auto added = std::make_unique<Entry[]>(entries);
    for (size_t i = 0; i < entries; ++i) {
      added[i].state.store(State(first_generation_), std::memory_order_relaxed);
    }
    chunks_[static_cast<size_t>(chunk)].store(added.release(), std::memory_order_release);
  }
  return size_;
}

Tensor DeviceMemory::Malloc(const Shape& shape, DType dtype) {
  std::lock_guard lock(mutex_);
  uint32_t index = NextIndex();
  Entry& entry = *Find(index);
  uint32_t generation = Generation(entry.state.load(std::memory_order_relaxed)) + 1;
  Tensor tensor = TensorAccess::Make(Tensor::Kind::device, shape, dtype, index, generation, owner_);
  uint64_t bytes = tensor.extent_bytes();
  Address address = driver_->Allocate(bytes);
  try {
    by_address_.emplace(address, index);
  } catch (...) {
    driver_->Free(address);
    throw;
  }
  if (index == size_) {
    ++size_;
  } else {
    free_.pop_back();
  }
  entry.address = address;
  entry.bytes = bytes;
  entry.view = kUnknown;
  entry.view_users = 0;
  entry.last_write.store(0, std::memory_order_relaxed);
  entry.last_use.store(0, std::memory_order_relaxed);
  entry.state.store(State(generation), std::memory_order_release);  // pairs with Claim
  ++usage_.allocations;
  usage_.bytes += bytes;
  return tensor;
}

void DeviceMemory::Free(const Tensor& tensor) {
  std::lock_guard lock(mutex_);
  Entry& entry = EntryOf(tensor);
  uint32_t generation = TensorAccess::Generation(tensor);
  uint64_t state = entry.state.load(std::memory_order_relaxed);
  if (Generation(state) != generation) FailStale(tensor);
  uint64_t begin = TensorAccess::Offset(tensor);
  uint64_t bytes = static_cast<uint64_t>(tensor.size()) * SizeOf(tensor.dtype());
  if (begin != 0 || bytes != entry.bytes) {
    Fail(ErrorCode::invalid_argument,
         "free of {}, a view of {} of the {} bytes of its allocation, from byte {}; allowed: the "
         "tensor that malloc returned",
         tensor.ToString(), bytes, entry.bytes, begin);
  }
  // Only claims can come in between, and they change the pins. Acquire pairs with Release.
  uint64_t unpinned = State(generation);
  uint32_t next = PRECAST_PLANTED("memory.generation-kept") ? generation : generation + 1;
  if (!entry.state.compare_exchange_strong(unpinned, State(next), std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
    Fail(ErrorCode::invalid_argument,
         "free of {}: pinned by {} runs in flight or copies; wait for them first",
         tensor.ToString(), static_cast<uint32_t>(unpinned));
  }
  std::optional<Error> failure;
  ReleaseEntry(TensorAccess::Buffer(tensor), &failure);
  if (failure.has_value()) throw *failure;
}

void DeviceMemory::ReleaseEntry(uint32_t index, std::optional<Error>* failure) noexcept {
  Entry& entry = *Find(index);
  if (!PRECAST_PLANTED("view.kept-after-free")) DropView(entry, failure);
  Attempt(failure, [&] { driver_->Free(entry.address); });
  by_address_.erase(entry.address);
  --usage_.allocations;
  usage_.bytes -= entry.bytes;
  if (Generation(entry.state.load(std::memory_order_relaxed)) != first_generation_) {
    free_.push_back(index);
  }
}

void DeviceMemory::DropView(Entry& entry, std::optional<Error>* failure) noexcept {
  uintptr_t view = std::exchange(entry.view, kUnknown);
  if (view == kUnknown || view == kRefused) return;
  Attempt(failure,
          [&] { driver_->UnregisterHostView(entry.address, reinterpret_cast<void*>(view)); });
  --usage_.views;
  usage_.mapped_bytes -= entry.bytes;
  Attempt(failure, [&] { NoteMapped("dropped", entry); });
}

Tensor DeviceMemory::TensorAt(Address address, const Shape& shape, DType dtype) const {
  std::lock_guard lock(mutex_);
  auto after = by_address_.upper_bound(address);
  const Entry* entry = nullptr;
  uint32_t index = 0;
  if (after != by_address_.begin()) {
    index = std::prev(after)->second;
    entry = Find(index);
  }
  if (entry == nullptr || address - entry->address >= entry->bytes) {
    Fail(ErrorCode::invalid_argument,
         "{}{} at device address {:#x}, which is in no live allocation of this worker; allowed: "
         "addresses inside what malloc returned and free did not end",
         Name(dtype), shape.ToString(), address);
  }
  uint32_t generation = Generation(entry->state.load(std::memory_order_relaxed));
  Tensor tensor = TensorAccess::Make(Tensor::Kind::device, shape, dtype, index, generation, owner_);
  if (address % SizeOf(dtype) != 0) {
    Fail(ErrorCode::invalid_argument, "{} at device address {:#x}; allowed: a multiple of {}",
         tensor.ToString(), address, SizeOf(dtype));
  }
  uint64_t begin = address - entry->address, extent = tensor.extent_bytes();
  if (extent > entry->bytes - begin) {
    Fail(ErrorCode::out_of_range,
         "{} at device address {:#x} takes {} bytes from byte {} of an allocation of {} bytes; "
         "allowed: at most {}",
         tensor.ToString(), address, extent, begin, entry->bytes, entry->bytes - begin);
  }
  return TensorAccess::Rebase(tensor, Tensor::Kind::device, begin, index, generation, owner_);
}

Address DeviceMemory::Of(const Tensor& tensor) const {
  std::lock_guard lock(mutex_);
  const Entry& entry = EntryOf(tensor);
  if (Generation(entry.state.load(std::memory_order_relaxed)) != TensorAccess::Generation(tensor)) {
    FailStale(tensor);
  }
  return entry.address + TensorAccess::Offset(tensor);
}

Claimed DeviceMemory::Claim(const Tensor& tensor) {
  Entry& entry = EntryOf(tensor);
  uint32_t generation = TensorAccess::Generation(tensor);
  uint64_t state = entry.state.load(std::memory_order_relaxed);
  do {
    if (Generation(state) != generation) [[unlikely]] {
      FailStale(tensor);
    }
  } while (!entry.state.compare_exchange_weak(
      state, PRECAST_PLANTED("memory.no-pin") ? state : state + 1, std::memory_order_acquire,
      std::memory_order_relaxed));
  return {TensorAccess::Buffer(tensor), entry.address, entry.bytes};
}

void DeviceMemory::Release(uint32_t index) {
  Find(index)->state.fetch_sub(1, std::memory_order_release);  // pairs with Free
}

void DeviceMemory::MarkUse(uint32_t index, Ticket ticket, bool writes) {
  Entry& entry = *Find(index);
  if (PRECAST_PLANTED("order.across-runs")) return;
  Raise(&entry.last_use, ticket);
  if (!writes) return;
  Raise(&entry.last_write, ticket);
  write_epoch_.fetch_add(1, std::memory_order_release);  // pairs with readers of write_epoch
}

Ticket DeviceMemory::LastWrite(uint32_t index) const {
  return Find(index)->last_write.load(std::memory_order_acquire);
}

Ticket DeviceMemory::LastUse(uint32_t index) const {
  return Find(index)->last_use.load(std::memory_order_acquire);
}

bool DeviceMemory::MakeRoom(uint64_t bytes, uint32_t* dropped) {
  if (bytes > view_budget_) return false;
  while (usage_.mapped_bytes > view_budget_ - bytes) {
    Entry* oldest = nullptr;
    for (const auto& [address, index] : by_address_) {
      Entry* entry = Find(index);
      if (entry->view <= kRefused) continue;
      if (entry->view_users > 0 && !PRECAST_PLANTED("view.dropped-in-use")) continue;
      if (oldest == nullptr || entry->view_stamp < oldest->view_stamp) oldest = entry;
    }
    if (oldest == nullptr) return false;
    std::optional<Error> failure;
    DropView(*oldest, &failure);
    ++*dropped;
    if (failure) throw *failure;
  }
  return true;
}

HostView DeviceMemory::AcquireView(uint32_t index) {
  using enum HostView::Is;
  std::lock_guard lock(mutex_);
  Entry& entry = *Find(index);
  HostView result{.is = reused};
  if (entry.view == kRefused) return {};
  if (entry.view == kUnknown) {
    if (!MakeRoom(entry.bytes, &result.dropped)) {
      result.is = over_budget;
      return result;
    }
    void* mapped = driver_->RegisterHostView(entry.address, entry.bytes);
    entry.view = mapped == nullptr ? kRefused : reinterpret_cast<uintptr_t>(mapped);
    if (mapped == nullptr && PRECAST_PLANTED("view.refusal-forgotten")) entry.view = kUnknown;
    result.is = mapped == nullptr ? refused : established;
    if (mapped == nullptr) return result;
    ++usage_.views;
    usage_.mapped_bytes += entry.bytes;
    NoteMapped("mapped", entry);
  }
  ++entry.view_users;
  entry.view_stamp = ++stamp_;
  result.data = reinterpret_cast<void*>(entry.view);
  return result;
}

bool DeviceMemory::ReleaseView(uint32_t index, bool drop) {
  std::lock_guard lock(mutex_);
  Entry& entry = *Find(index);
  if (--entry.view_users > 0 || !drop) return false;
  std::optional<Error> failure;
  DropView(entry, &failure);
  if (failure) throw *failure;
  return true;
}

void DeviceMemory::NoteMapped(const char* what, const Entry& entry) const {
  if (HostTrace* trace = HostTrace::Current(driver_)) trace->NoteMapped(usage_.mapped_bytes);
  if (log_ == nullptr) return;
  log_->Info("host views: {} {} bytes at {:#x}; {} bytes in {} views now", what, entry.bytes,
             entry.address, usage_.mapped_bytes, usage_.views);
}

std::optional<Error> DeviceMemory::DropViews() noexcept {
  std::optional<Error> failure;
  std::lock_guard lock(mutex_);
  for (const auto& [address, index] : by_address_) DropView(*Find(index), &failure);
  return failure;
}

std::optional<Error> DeviceMemory::FreeAll() noexcept {
  std::optional<Error> failure;
  std::lock_guard lock(mutex_);
  while (!by_address_.empty()) {
    uint32_t index = by_address_.begin()->second;
    Entry& entry = *Find(index);
    uint32_t generation = Generation(entry.state.load(std::memory_order_relaxed));
    entry.state.store(State(generation + 1), std::memory_order_release);
    ReleaseEntry(index, &failure);
  }
  return failure;
}

DeviceMemory::Usage DeviceMemory::usage() const {
  std::lock_guard lock(mutex_);
  return usage_;
}

}  // namespace precast::device
