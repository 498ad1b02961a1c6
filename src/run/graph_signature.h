// GraphSignature: what must be equal for a recorded graph to be replayed: of each boundary tensor
// dtype, shape, strides and direction; how the tensors share memory; the types of the scalars.
//
// Used by the recorder (it makes one) and by each submission of a graph (it compares one).
//
// Boundary tensors whose bytes overlap share a slot; the others have one each, even inside one
// allocation. So where tensors lie is part of the signature only inside a slot.
//
// Threads: immutable once made.
#pragma once

#include "graph/arguments.h"
#include "graph/layout_table.h"

#include <precast/argument.h>

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace precast::run {

class GraphSignature {
 public:
  /// Requires: the tensors are tensors of one run, which has checked them.
  explicit GraphSignature(ArgList args);

  /// Whether a submission with these arguments has this signature. `known` remembers the numbers
  /// that layouts have in this run, one for each tensor: empty at first, and then as the last call
  /// left it. Takes some ns a tensor and allocates nothing when the tensors lie in buffers of their
  /// own, or in the order they were recorded in.
  bool Matches(const graph::Arguments& arguments, const graph::LayoutTable& layouts,
               std::vector<uint32_t>* known) const;

  bool operator==(const GraphSignature& other) const = default;
  /// What differs, for messages: "the shape of tensor 0".
  std::vector<std::string> Differences(const GraphSignature& other) const;

  size_t tensors() const { return tensors_.size(); }
  size_t scalars() const { return scalars_.size(); }
  /// The slots, each with the boundary tensor where it begins and its size.
  struct Slot {
    uint32_t first_tensor;
    uint64_t bytes;
    bool operator==(const Slot&) const = default;
  };
  std::span<const Slot> slots() const { return slots_; }
  /// Where a boundary tensor lies: number of its slot and bytes from its start.
  struct Place {
    uint32_t slot;
    uint64_t offset;
    bool operator==(const Place&) const = default;
  };
  const Place& place(size_t tensor) const { return places_[tensor]; }

 private:
  struct Position {  // of a tensor, in a run
    uint32_t buffer;
    uint64_t begin, extent;
    auto operator<=>(const Position&) const = default;
  };
  enum class Order { same, other, differs };
  /// Whether the tensors lie as this signature says: yes, no, or they are in another order than
  /// when it was made.
  Order Compare(std::span<const graph::Access> tensors) const;
  static void MakePlaces(std::span<const Position> positions, std::vector<uint32_t>* order,
                         std::vector<Place>* places, std::vector<Slot>* slots);

  struct View {  // of a tensor
    uint32_t shape[kMaxRank], strides[kMaxRank];
    DType dtype;
    uint8_t rank;
    bool operator==(const View&) const = default;
  };
  static bool Same(const View& view, const abi::Layout& layout);

  std::vector<View> tensors_;
  std::vector<Direction> directions_;  // of the tensors
  std::vector<DType> scalars_;
  std::vector<uint32_t> order_;  // of the tensors, by buffer and first byte
  std::vector<Place> places_;    // by tensor
  std::vector<Slot> slots_;
};

}  // namespace precast::run
