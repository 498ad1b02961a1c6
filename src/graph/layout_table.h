// LayoutTable: the distinct shapes and strides of one image, interned.
//
// Used by the builder (it interns what it has not seen) and by the region map (it compares). Equal
// shape, strides and dtype have the same id, so "the same region" is a compare of two numbers. Ids
// start at 1; 0 means "not interned". `Clear` keeps the memory.
//
// Threads: one at a time.
#pragma once

#include "abi/image.h"

#include <precast/tensor.h>

#include <cstdint>
#include <vector>

namespace precast::graph {

class LayoutTable {
 public:
  LayoutTable() { Clear(); }

  void Clear();

  /// The id of a tensor's shape, strides and dtype. Throws `out_of_memory` past 2^28 of them.
  uint32_t Intern(const Tensor& tensor);

  const abi::Layout& operator[](uint32_t id) const { return layouts_[id]; }
  /// All layouts in order of their ids; entry 0 is a rank-0 layout without a dtype.
  const std::vector<abi::Layout>& records() const { return layouts_; }

 private:
  void Rehash(size_t slots);

  std::vector<abi::Layout> layouts_;
  std::vector<uint32_t> table_;  // open addressing, 0: empty; a power of two in size
};

}  // namespace precast::graph
