#include "graph/name_table.h"

#define XXH_INLINE_ALL
#include <precast/error.h>

#include <xxhash.h>

#include <algorithm>
#include <limits>

namespace precast::graph {

void NameTable::Clear() {
  if (names_.empty() && !table_.empty()) return;
  names_.clear();
  bytes_.clear();
  if (table_.empty()) table_.resize(64);
  std::fill(table_.begin(), table_.end(), 0);
}

std::string_view NameTable::operator[](uint32_t id) const {
  if (id == 0) return {};
  const abi::Name& name = names_[id - 1];
  return {bytes_.data() + name.offset, name.bytes};
}

uint32_t NameTable::Intern(std::string_view name) {
  if (name.empty()) return 0;
  size_t mask = table_.size() - 1;
  size_t slot = XXH3_64bits(name.data(), name.size()) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if ((*this)[table_[slot]] == name) return table_[slot];
  }
  if (name.size() > std::numeric_limits<uint32_t>::max() - bytes_.size()) {
    Fail(ErrorCode::out_of_memory, "task names of one run exceed {} bytes",
         std::numeric_limits<uint32_t>::max());
  }
  names_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(name.size())});
  bytes_.insert(bytes_.end(), name.begin(), name.end());
  uint32_t id = static_cast<uint32_t>(names_.size());
  table_[slot] = id;
  if (names_.size() * 2 > table_.size()) Rehash(table_.size() * 2);
  return id;
}

void NameTable::Rehash(size_t slots) {
  table_.assign(slots, 0);
  for (uint32_t id = 1; id <= names_.size(); ++id) {
    std::string_view name = (*this)[id];
    size_t slot = XXH3_64bits(name.data(), name.size()) & (slots - 1);
    while (table_[slot] != 0) slot = (slot + 1) & (slots - 1);
    table_[slot] = id;
  }
}

}  // namespace precast::graph
