#include "device/pinned_arena.h"

#include "base/planted_fault.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace precast::device {
namespace {

constexpr uint64_t kLeast = 64 * 1024;         // bytes of the first block
constexpr uint64_t kMost = uint64_t{1} << 62;  // bytes; no machine has as many

constexpr uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

PinnedArena::~PinnedArena() { Release(); }

PinnedArena::PinnedArena(PinnedArena&& other) noexcept
    : driver_(other.driver_),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      pinned_(std::exchange(other.pinned_, true)) {}

PinnedArena& PinnedArena::operator=(PinnedArena&& other) noexcept {
  PinnedArena taken(std::move(other));
  std::swap(driver_, taken.driver_);
  std::swap(data_, taken.data_);
  std::swap(capacity_, taken.capacity_);
  std::swap(pinned_, taken.pinned_);
  return *this;
}

char* PinnedArena::TryPinned(uint64_t bytes) {
  try {
    return static_cast<char*>(driver_->AllocatePinned(bytes));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
    return nullptr;
  }
}

std::optional<Error> PinnedArena::Reserve(uint64_t bytes, uint64_t used) {
  if (bytes <= capacity_) return std::nullopt;
  if (bytes > kMost) {
    Fail(ErrorCode::out_of_memory, "an arena of {} bytes; allowed: at most {}", bytes, kMost);
  }
  // From the best to the least: room to grow, just enough, memory that is not pinned.
  uint64_t enough = RoundUp(bytes);
  uint64_t capacity = std::max({kLeast, enough, 2 * capacity_});
  char* block = TryPinned(capacity);
  if (block == nullptr && capacity > enough) {
    capacity = enough;
    block = TryPinned(capacity);
  }
  bool pinned = block != nullptr;
  if (!pinned) block = static_cast<char*>(std::aligned_alloc(kArenaAlignment, capacity));
  if (block == nullptr) {
    Fail(ErrorCode::out_of_memory,
         "out of host memory: an arena of {} bytes, refused as pinned and as pageable memory; {} "
         "in use",
         capacity, capacity_);
  }
  if (used > 0 && !PRECAST_PLANTED("arena.grows-empty")) std::memcpy(block, data_, used);
  PinnedArena old(driver_);
  old.data_ = std::exchange(data_, block);
  old.capacity_ = std::exchange(capacity_, capacity);
  old.pinned_ = std::exchange(pinned_, pinned);
  return old.Release();
}

std::optional<Error> PinnedArena::Release() noexcept {
  char* block = std::exchange(data_, nullptr);
  capacity_ = 0;
  bool was_pinned = std::exchange(pinned_, true);
  if (block == nullptr) return std::nullopt;
  if (!was_pinned) {
    std::free(block);
    return std::nullopt;
  }
  try {
    driver_->FreePinned(block);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception&) {
    return Error(ErrorCode::internal, "not an Error");  // short, so that it needs no memory
  }
  return std::nullopt;
}

}  // namespace precast::device
