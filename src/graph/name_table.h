// NameTable: the task names of one image, each stored once.
//
// Used by the builder. Ids start at 1; 0 means "no name". `Clear` keeps the memory. Threads: one at
// a time.
#pragma once

#include "abi/image.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace precast::graph {

class NameTable {
 public:
  void Clear();
  /// 0 for the empty name. Throws `out_of_memory` past 4 GiB of names.
  uint32_t Intern(std::string_view name);
  std::string_view operator[](uint32_t id) const;

  const std::vector<abi::Name>& records() const { return names_; }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  void Rehash(size_t slots);

  std::vector<abi::Name> names_;
  std::vector<char> bytes_;
  std::vector<uint32_t> table_;  // open addressing, 0: empty; a power of two in size
};

}  // namespace precast::graph
