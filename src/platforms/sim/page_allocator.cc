#include "platforms/sim/page_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace precast::sim {
namespace {

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

constexpr uint64_t kNoBoundary = uint64_t{1} << 63;

}  // namespace

std::optional<uint64_t> PageAllocator::FreeList::Take(uint64_t bytes) {
  auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return std::nullopt;
  auto [length, offset] = *found;
  Remove(offset, length);
  if (length > bytes) {
    Insert(offset + bytes, length - bytes);
  }
  return offset;
}

std::pair<uint64_t, uint64_t> PageAllocator::FreeList::Add(uint64_t offset, uint64_t bytes) {
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == offset + bytes && next->first % boundary_ != 0) {
    auto [next_offset, next_bytes] = *next;
    bytes += next_bytes;
    ++next;
    Remove(next_offset, next_bytes);
  }
  if (next != by_offset_.begin() && offset % boundary_ != 0) {
    auto [previous_offset, previous_bytes] = *std::prev(next);
    if (previous_offset + previous_bytes == offset) {
      offset = previous_offset;
      bytes += previous_bytes;
      Remove(previous_offset, previous_bytes);
    }
  }
  Insert(offset, bytes);
  return {offset, bytes};
}

void PageAllocator::FreeList::Insert(uint64_t offset, uint64_t bytes) {
  Node node = std::move(spare_->back());
  spare_->pop_back();
  node.by_offset.key() = offset;
  node.by_offset.mapped() = bytes;
  node.by_size.value() = {bytes, offset};
  by_offset_.insert(std::move(node.by_offset));
  by_size_.insert(std::move(node.by_size));
}

void PageAllocator::FreeList::Remove(uint64_t offset, uint64_t bytes) {
  spare_->push_back({by_offset_.extract(offset), by_size_.extract({bytes, offset})});
}

PageAllocator::PageAllocator(uint64_t bytes)
    : size_(bytes / kGranuleBytes * kGranuleBytes),
      granules_(kNoBoundary, &spare_),
      pages_(kGranuleBytes, &spare_) {
  Prepare(1);
  if (size_ > 0) granules_.Add(0, size_);
}

void PageAllocator::Prepare(uint64_t spare) {
  while (spare_.size() < spare) {
    if (spare_.capacity() == nodes_) spare_.reserve(2 * nodes_ + 8);
    ByOffset by_offset;
    BySize by_size;
    by_offset.emplace();
    by_size.emplace();
    spare_.push_back({by_offset.extract(by_offset.begin()), by_size.extract(by_size.begin())});
    ++nodes_;
  }
}

uint64_t PageAllocator::Rounded(uint64_t bytes) {
  uint64_t pages = RoundUp(bytes, kPageBytes);
  return pages < kGranuleBytes ? pages : RoundUp(bytes, kGranuleBytes);
}

std::optional<uint64_t> PageAllocator::Allocate(uint64_t bytes) {
  if (bytes > size_) return std::nullopt;
  Prepare(live_ + 2);  // one for the rest of a granule, one to free this
  uint64_t rounded = Rounded(bytes);
  std::optional<uint64_t> offset;
  if (rounded < kGranuleBytes) {
    offset = pages_.Take(rounded);
    if (!offset.has_value()) {
      offset = granules_.Take(kGranuleBytes);
      if (offset.has_value()) pages_.Add(*offset + rounded, kGranuleBytes - rounded);
    }
  } else {
    offset = granules_.Take(rounded);
  }
  if (offset.has_value()) {
    in_use_ += rounded;
    ++live_;
  }
  return offset;
}

void PageAllocator::Free(uint64_t offset, uint64_t bytes) noexcept {
  uint64_t rounded = Rounded(bytes);
  --live_;
  in_use_ -= rounded;
  if (rounded < kGranuleBytes) {
    auto [joined_offset, joined_bytes] = pages_.Add(offset, rounded);
    if (joined_bytes < kGranuleBytes) return;
    pages_.Remove(joined_offset, joined_bytes);
    offset = joined_offset;
    rounded = joined_bytes;
  }
  granules_.Add(offset, rounded);
}

uint64_t PageAllocator::largest_free() const {
  return std::max(granules_.largest(), pages_.largest());
}

}  // namespace precast::sim
