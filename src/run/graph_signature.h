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

#include <precast/argument.h>

#include <cstdint>
#include <span>
#include <vector>

namespace precast::run {

class GraphSignature {
 public:
  /// Requires: the tensors are tensors of one run, which has checked them.
  explicit GraphSignature(ArgList args);

  /// Whether a submission with these arguments has this signature. `layouts` remembers the numbers
  /// that layouts have in this run: empty at first, and then as the last call left it. Takes
  /// some ns a tensor and allocates nothing when tensors lie in the order they were recorded in.
  bool Matches(ArgList args, std::vector<uint32_t>* layouts) const;

  bool operator==(const GraphSignature& other) const = default;

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
    uint64_t begin;
    uint32_t buffer;
  };
  enum class Order { same, other, differs };
  /// Whether the tensors lie as this signature says: yes, no, or they are in another order than
  /// when it was made.
  Order Compare(const Position* positions) const;
  void MakePlaces(std::span<const Tensor* const> tensors);

  struct View {  // of a tensor
    uint32_t shape[kMaxRank], strides[kMaxRank];
    DType dtype;
    Direction direction;
    uint8_t rank;
    bool operator==(const View&) const = default;
  };
  static View ViewOf(const Arg& arg);
  static bool Same(const View& view, const Arg& arg);

  std::vector<Direction> directions_;  // of all arguments, in order
  std::vector<View> tensors_;
  std::vector<DType> scalars_;
  std::vector<uint32_t> order_;  // of the tensors, by buffer and first byte
  std::vector<Place> places_;    // by tensor
  std::vector<Slot> slots_;
};

}  // namespace precast::run
