#include "graph/layout_table.h"

#define XXH_INLINE_ALL
#include "base/tensor_access.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace precast::graph {

namespace {

// What makes two layouts the same: everything up to the rank.
constexpr size_t kKeyBytes = offsetof(abi::Layout, contiguous);

uint64_t Hash(const abi::Layout& layout) { return XXH3_64bits(&layout, kKeyBytes); }

}  // namespace

void LayoutTable::Clear() {
  layouts_.clear();
  layouts_.emplace_back();
  if (table_.empty()) table_.resize(256);
  std::fill(table_.begin(), table_.end(), 0);
}

uint32_t LayoutTable::Intern(const Tensor& tensor) {
  using detail::TensorAccess;
  abi::Layout layout{};
  std::memcpy(layout.shape, TensorAccess::Extents(tensor), sizeof(layout.shape));
  std::memcpy(layout.strides, TensorAccess::Strides(tensor), sizeof(layout.strides));
  layout.dtype = static_cast<uint8_t>(tensor.dtype());
  layout.rank = static_cast<uint8_t>(tensor.rank());
  size_t mask = table_.size() - 1;
  size_t slot = Hash(layout) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (std::memcmp(&layouts_[table_[slot]], &layout, kKeyBytes) == 0) return table_[slot];
  }
  layout.contiguous = tensor.is_contiguous() ? 1 : 0;
  layout.element_bytes = static_cast<uint8_t>(SizeOf(tensor.dtype()));
  layout.elements = static_cast<uint64_t>(tensor.size());
  layout.extent = tensor.extent_bytes();
  if (layouts_.size() >= abi::kMaxLayouts) {
    Fail(ErrorCode::out_of_memory, "a run with more than {} different tensor layouts",
         abi::kMaxLayouts - 1);
  }
  layouts_.push_back(layout);
  uint32_t id = static_cast<uint32_t>(layouts_.size() - 1);
  table_[slot] = id;
  if (layouts_.size() * 2 > table_.size()) Rehash(table_.size() * 2);
  return id;
}

void LayoutTable::Rehash(size_t slots) {
  table_.assign(slots, 0);
  for (uint32_t id = 1; id < layouts_.size(); ++id) {
    size_t slot = Hash(layouts_[id]) & (slots - 1);
    while (table_[slot] != 0) slot = (slot + 1) & (slots - 1);
    table_[slot] = id;
  }
}

}  // namespace precast::graph
