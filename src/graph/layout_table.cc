#include "graph/layout_table.h"

#include "base/planted_fault.h"
#include "base/tensor_access.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace precast::graph {

namespace {

using detail::TensorAccess;

// Extents and strides lie side by side in a tensor and in a layout; dtype and rank make the seed.
constexpr size_t kKeyBytes = sizeof(abi::Layout::shape) + sizeof(abi::Layout::strides);
static_assert(offsetof(abi::Layout, strides) == sizeof(abi::Layout::shape));

uint64_t Hash(const uint32_t* extents, uint64_t dtype, uint64_t rank) {
  return XXH3_64bits_withSeed(extents, kKeyBytes, dtype << 8 | rank);
}

}  // namespace

void LayoutTable::Clear() {
  constexpr size_t kSlots = 256;
  bool roomy = table_.size() > kSlots && layouts_.size() * 8 < table_.size();
  layouts_.clear();
  layouts_.emplace_back();
  table_.assign(table_.empty() || roomy ? kSlots : table_.size(), 0);
}

uint32_t LayoutTable::Intern(const Tensor& tensor) {
  const uint32_t* extents = TensorAccess::Extents(tensor);
  auto dtype = static_cast<uint8_t>(tensor.dtype());
  auto rank = static_cast<uint8_t>(tensor.rank());
  auto same = [&](const abi::Layout& layout) {
    size_t bytes = PRECAST_PLANTED("layout.strides") ? sizeof(layout.shape) : kKeyBytes;
    return layout.dtype == dtype && layout.rank == rank &&
           std::memcmp(layout.shape, extents, bytes) == 0;
  };
  if (same(layouts_.back()) && layouts_.size() > 1) {  // many tensors of one shape in a row
    return static_cast<uint32_t>(layouts_.size() - 1);
  }
  size_t mask = table_.size() - 1;
  size_t slot = Hash(extents, dtype, rank) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (same(layouts_[table_[slot]])) return table_[slot];
  }
  if (layouts_.size() >= abi::kMaxLayouts) {
    Fail(ErrorCode::out_of_memory, "a run with more than {} different tensor layouts",
         abi::kMaxLayouts - 1);
  }
  abi::Layout layout{};
  std::memcpy(layout.shape, extents, kKeyBytes);
  layout.dtype = dtype;
  layout.rank = rank;
  layout.contiguous = tensor.is_contiguous() ? 1 : 0;
  layout.element_bytes = static_cast<uint8_t>(SizeOf(tensor.dtype()));
  layout.elements = static_cast<uint64_t>(tensor.size());
  layout.extent = tensor.extent_bytes();
  layouts_.push_back(layout);
  uint32_t id = static_cast<uint32_t>(layouts_.size() - 1);
  table_[slot] = id;
  if (layouts_.size() * 2 > table_.size()) Rehash(table_.size() * 2);
  return id;
}

void LayoutTable::Rehash(size_t slots) {
  table_.assign(slots, 0);
  for (uint32_t id = 1; id < layouts_.size(); ++id) {
    size_t slot = Hash(layouts_[id].shape, layouts_[id].dtype, layouts_[id].rank) & (slots - 1);
    while (table_[slot] != 0) slot = (slot + 1) & (slots - 1);
    table_[slot] = id;
  }
}

}  // namespace precast::graph
