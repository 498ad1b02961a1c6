#include "platforms/sim/sim_memory.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <iterator>
#include <mutex>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace precast::sim {
namespace {

[[noreturn]] void FailSystem(const char* call, uint64_t bytes) {
  std::string reason = std::generic_category().message(errno);
  Fail(ErrorCode::io, "simulated device memory: {} of {} bytes: {}", call, bytes, reason);
}

// Address space without access rights, aligned to a granule.
uint64_t ReserveAddresses(uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* mapped = mmap(nullptr, bytes + kGranuleBytes, PROT_NONE, flags, -1, 0);
  if (mapped == MAP_FAILED) FailSystem("mmap", bytes + kGranuleBytes);
  uint64_t begin = reinterpret_cast<uint64_t>(mapped);
  uint64_t aligned = (begin + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
  uint64_t before = aligned - begin;
  if (before > 0) munmap(mapped, before);
  munmap(reinterpret_cast<void*>(aligned + bytes), kGranuleBytes - before);
  return aligned;
}

void* MapFile(void* where, uint64_t bytes, int file, uint64_t offset) {
  const int flags = MAP_SHARED | MAP_NORESERVE | (where != nullptr ? MAP_FIXED : 0);
  void* mapped =
      mmap(where, bytes, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) FailSystem("mmap", bytes);
  return mapped;
}

}  // namespace

SimMemory::SimMemory(uint64_t bytes, bool unified) : unified_(unified), pages_(bytes) {
  try {
    Open();
  } catch (...) {
    Close();
    throw;
  }
}

SimMemory::~SimMemory() {
  Clear();
  Close();
}

void SimMemory::Open() {
  file_ = memfd_create("precast-device", MFD_CLOEXEC);
  if (file_ < 0) FailSystem("memfd_create", size());
  if (ftruncate(file_, static_cast<off_t>(size())) != 0) FailSystem("ftruncate", size());
  base_ = ReserveAddresses(size());
  uint64_t kernels = unified_ ? base_ : ReserveAddresses(size());
  distance_ = static_cast<int64_t>(kernels - base_);
  void* mapped = MapFile(reinterpret_cast<void*>(kernels), size(), file_, 0);
  madvise(mapped, size(), MADV_DONTDUMP);  // a core file would hold all of it; a hint, may fail
}

void SimMemory::Close() {
  if (distance_ != 0) {
    munmap(reinterpret_cast<void*>(base_ + static_cast<uint64_t>(distance_)), size());
  }
  if (base_ != 0) munmap(reinterpret_cast<void*>(base_), size());
  if (file_ >= 0) close(file_);
}

uint64_t SimMemory::Allocate(uint64_t bytes) {
  if (bytes == 0) {
    Fail(ErrorCode::invalid_argument, "allocation of 0 device bytes; allowed: 1 or more");
  }
  Table entry;
  entry.emplace(0, Allocation{.bytes = bytes});  // first: then nothing fails once there are pages
  std::unique_lock lock(mutex_);
  std::optional<uint64_t> offset = pages_.Allocate(bytes);
  if (!offset.has_value()) {
    Fail(ErrorCode::out_of_memory,
         "out of device memory: {} bytes asked, {} in use, {} available ({} in one piece)", bytes,
         pages_.in_use(), pages_.size() - pages_.in_use(), pages_.largest_free());
  }
  auto node = entry.extract(entry.begin());
  node.key() = base_ + *offset;
  live_.insert(std::move(node));
  return base_ + *offset;
}

void SimMemory::Free(uint64_t address) {
  std::unique_lock lock(mutex_);
  Table::iterator found = Base("free", address);
  if (found->second.view != nullptr) {
    Fail(ErrorCode::invalid_argument,
         "free: the allocation of {} bytes at device address {:#x} still has a host view",
         found->second.bytes, address);
  }
  uint64_t bytes = found->second.bytes;
  live_.erase(found);
  // Its pages are neither live nor free now, so nobody waits for the operating system.
  lock.unlock();
  Discard(address, bytes);
  lock.lock();
  pages_.Free(Offset(address), bytes);
}

void SimMemory::Discard(uint64_t address, uint64_t bytes) {
  int result;
  do {
    result = fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(Offset(address)),
                       static_cast<off_t>(PageAllocator::Rounded(bytes)));
  } while (result != 0 && errno == EINTR);
  // If it is refused, the bytes stay committed, as Committed() shows, until they are used again.
}

SimMemory::Table::const_iterator SimMemory::Find(uint64_t address) const {
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return live_.end();
  auto found = std::prev(after);
  return address - found->first < found->second.bytes ? found : live_.end();
}

SimMemory::Table::iterator SimMemory::Base(const char* call, uint64_t address) {
  auto exact = live_.find(address);
  if (exact != live_.end()) return exact;
  auto inside = Find(address);
  if (inside == live_.end()) {
    Fail(ErrorCode::invalid_argument, "{}: device address {:#x} is in no live allocation", call,
         address);
  }
  Fail(ErrorCode::invalid_argument,
       "{}: device address {:#x} is byte {} of the allocation of {} bytes at {:#x}, not its start",
       call, address, address - inside->first, inside->second.bytes, inside->first);
}

void* SimMemory::Translate(uint64_t address) const {
  std::shared_lock lock(mutex_);
  if (Find(address) == live_.end()) return nullptr;
  return reinterpret_cast<void*>(address + static_cast<uint64_t>(distance_));
}

char* SimMemory::Locate(const char* call, uint64_t address, uint64_t bytes) const {
  if (bytes == 0) Fail(ErrorCode::invalid_argument, "{}: 0 bytes; allowed: 1 or more", call);
  std::shared_lock lock(mutex_);
  auto found = Find(address);
  if (found == live_.end()) {
    Fail(ErrorCode::invalid_argument,
         "{}: {} bytes at device address {:#x}, which is in no live allocation", call, bytes,
         address);
  }
  uint64_t begin = address - found->first, size = found->second.bytes;
  if (bytes > size - begin) {
    Fail(ErrorCode::invalid_argument,
         "{}: {} bytes from byte {} of the allocation of {} bytes at device address {:#x}; "
         "allowed: at most {}",
         call, bytes, begin, size, found->first, size - begin);
  }
  return reinterpret_cast<char*>(address + static_cast<uint64_t>(distance_));
}

void* SimMemory::MapView(uint64_t address, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  Table::iterator found = Base("register host view", address);
  Allocation& allocation = found->second;
  if (bytes != allocation.bytes) {
    Fail(ErrorCode::invalid_argument,
         "register host view: {} bytes of the allocation of {} bytes at device address {:#x}; "
         "allowed: all of it",
         bytes, allocation.bytes, address);
  }
  if (allocation.view != nullptr) {
    Fail(ErrorCode::invalid_argument,
         "register host view: the allocation of {} bytes at device address {:#x} has one already",
         bytes, address);
  }
  allocation.view = unified_
                        ? reinterpret_cast<void*>(address)
                        : MapFile(nullptr, PageAllocator::Rounded(bytes), file_, Offset(address));
  ++views_;
  return allocation.view;
}

uint64_t SimMemory::UnmapView(uint64_t address, void* view) {
  std::unique_lock lock(mutex_);
  Table::iterator found = Base("unregister host view", address);
  if (view == nullptr || found->second.view != view) {
    Fail(ErrorCode::invalid_argument,
         "unregister host view: {} is not the view of the allocation of {} bytes at device address "
         "{:#x}; allowed: {}",
         fmt::ptr(view), found->second.bytes, address, fmt::ptr(found->second.view));
  }
  DropView(found);
  return found->second.bytes;
}

void SimMemory::DropView(Table::iterator allocation) {
  if (!unified_) munmap(allocation->second.view, PageAllocator::Rounded(allocation->second.bytes));
  allocation->second.view = nullptr;
  --views_;
}

void SimMemory::Clear() {
  std::unique_lock lock(mutex_);
  for (auto it = live_.begin(); it != live_.end(); ++it) {
    if (it->second.view != nullptr) DropView(it);
  }
  for (const auto& [address, allocation] : live_) {
    Discard(address, allocation.bytes);
    pages_.Free(Offset(address), allocation.bytes);
  }
  live_.clear();
}

uint64_t SimMemory::InUse() const {
  std::shared_lock lock(mutex_);
  return pages_.in_use();
}

uint64_t SimMemory::Committed() const {
  struct stat status {};
  if (fstat(file_, &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

uint64_t SimMemory::Allocations() const {
  std::shared_lock lock(mutex_);
  return live_.size();
}

uint64_t SimMemory::Views() const {
  std::shared_lock lock(mutex_);
  return views_;
}

}  // namespace precast::sim
