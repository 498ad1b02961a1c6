#include "run/graph_signature.h"

#include "base/planted_fault.h"
#include "base/tensor_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace precast::run {

using detail::TensorAccess;

bool GraphSignature::Same(const View& view, const abi::Layout& layout) {
  return static_cast<uint8_t>(view.dtype) == layout.dtype && view.rank == layout.rank &&
         std::memcmp(view.shape, layout.shape, sizeof(view.shape)) == 0 &&
         (std::memcmp(view.strides, layout.strides, sizeof(view.strides)) == 0 ||
          PRECAST_PLANTED("graph.strides-ignored"));
}

GraphSignature::GraphSignature(ArgList args) {
  std::vector<Position> positions;
  for (const Arg& arg : args) {
    if (arg.is_scalar()) {
      scalars_.push_back(arg.dtype());
      continue;
    }
    const Tensor& tensor = arg.tensor();
    View view{};
    std::memcpy(view.shape, TensorAccess::Extents(tensor), sizeof(view.shape));
    std::memcpy(view.strides, TensorAccess::Strides(tensor), sizeof(view.strides));
    view.dtype = tensor.dtype();
    view.rank = static_cast<uint8_t>(tensor.rank());
    tensors_.push_back(view);
    directions_.push_back(arg.direction());
    positions.push_back(
        {TensorAccess::Buffer(tensor), TensorAccess::Offset(tensor), tensor.extent_bytes()});
  }
  MakePlaces(positions, &order_, &places_, &slots_);
}

std::vector<std::string> GraphSignature::Differences(const GraphSignature& other) const {
  if (directions_ != other.directions_ || scalars_ != other.scalars_) {
    return {"number, directions or types of arguments"};
  }
  std::vector<std::string> result;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i] == other.tensors_[i]) continue;
    result.push_back(fmt::format("the {} of tensor {}",
                                 tensors_[i].dtype == other.tensors_[i].dtype ? "shape" : "dtype",
                                 i));
  }
  // Shapes decide about places, too.
  if (result.empty() && (places_ != other.places_ || slots_ != other.slots_)) {
    result.push_back("how tensors overlap");
  }
  return result;
}

void GraphSignature::MakePlaces(std::span<const Position> positions, std::vector<uint32_t>* order,
                                std::vector<Place>* places, std::vector<Slot>* slots) {
  order->resize(positions.size());
  std::iota(order->begin(), order->end(), 0);
  std::stable_sort(order->begin(), order->end(), [&](uint32_t a, uint32_t b) {
    return std::pair(positions[a].buffer, positions[a].begin) <
           std::pair(positions[b].buffer, positions[b].begin);
  });
  places->resize(positions.size());
  std::vector<Slot> found;
  uint32_t buffer = 0;
  uint64_t begin = 0;
  for (uint32_t t : *order) {
    const Position& its = positions[t];
    if (found.empty() || its.buffer != buffer || its.begin >= begin + found.back().bytes) {
      found.push_back({t, 0});
      buffer = its.buffer;
      begin = its.begin;
    }
    (*places)[t] = {static_cast<uint32_t>(found.size() - 1), its.begin - begin};
    found.back().bytes = std::max(found.back().bytes, its.begin - begin + its.extent);
  }
  // Numbered in the order of their first tensors as arguments, wherever they lie.
  constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint32_t> numbers(found.size(), kNone);
  slots->clear();
  for (Place& place : *places) {
    uint32_t& number = numbers[place.slot];
    if (number == kNone) {
      number = static_cast<uint32_t>(slots->size());
      slots->push_back(found[place.slot]);
    }
    place.slot = number;
  }
}

GraphSignature::Order GraphSignature::Compare(std::span<const graph::Access> positions) const {
  // The places are what this signature says of slots, so it is enough to compare these.
  constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t slot = kNone, buffer = 0;
  uint64_t slot_begin = 0, begin = 0;
  for (uint32_t t : order_) {
    uint32_t its_buffer = positions[t].buffer;
    uint64_t its_begin = positions[t].begin;
    const Place& place = places_[t];
    if (slot != kNone && (its_buffer < buffer || (its_buffer == buffer && its_begin < begin))) {
      return Order::other;
    }
    if (place.slot != slot) {
      // A new slot: it must not overlap the one before.
      if (slot != kNone && its_buffer == buffer && its_begin < slot_begin + slots_[slot].bytes) {
        return Order::differs;
      }
      slot = place.slot;
      slot_begin = its_begin;
    } else if (its_buffer != buffer || its_begin - slot_begin != place.offset) {
      return Order::differs;
    }
    buffer = its_buffer;
    begin = its_begin;
  }
  return Order::same;
}

bool GraphSignature::Matches(const graph::Arguments& arguments, const graph::LayoutTable& layouts,
                             std::vector<uint32_t>* known) const {
  std::span<const graph::Access> tensors = arguments.tensors;
  if (tensors.size() != tensors_.size() || arguments.scalars.size() != scalars_.size()) {
    return false;
  }
  for (size_t i = 0; i < scalars_.size(); ++i) {
    if (arguments.scalars[i]->dtype() != scalars_[i]) return false;
  }
  if (known->size() != tensors.size()) known->assign(tensors.size(), 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].given != directions_[i] && !PRECAST_PLANTED("graph.direction-ignored")) {
      return false;
    }
    uint32_t layout = tensors[i].layout;
    if (layout != (*known)[i]) [[unlikely]] {
      if (!Same(tensors_[i], layouts[layout])) return false;
      (*known)[i] = layout;
    }
  }
  if (arguments.apart) return slots_.size() == tensors.size();
  if (PRECAST_PLANTED("graph.overlap-ignored")) return true;
  Order order = Compare(tensors);
  if (order != Order::other) return order == Order::same;
  std::vector<Position> positions;
  for (const graph::Access& access : tensors) {
    positions.push_back({access.buffer, access.begin, layouts[access.layout].extent});
  }
  std::vector<uint32_t> their_order;
  std::vector<Place> places;
  std::vector<Slot> slots;
  MakePlaces(positions, &their_order, &places, &slots);
  return places == places_ && slots == slots_;
}

}  // namespace precast::run
