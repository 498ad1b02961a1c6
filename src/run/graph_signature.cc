#include "run/graph_signature.h"

#include "base/tensor_access.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace precast::run {

namespace {

using detail::TensorAccess;

constexpr size_t kFewTensors = 64;  // that Matches keeps on the stack

std::pair<uint32_t, uint64_t> PlaceOf(const Tensor& tensor) {
  return {TensorAccess::Buffer(tensor), TensorAccess::Offset(tensor)};
}

}  // namespace

GraphSignature::View GraphSignature::ViewOf(const Arg& arg) {
  const Tensor& tensor = arg.tensor();
  View view{};
  std::memcpy(view.shape, TensorAccess::Extents(tensor), sizeof(view.shape));
  std::memcpy(view.strides, TensorAccess::Strides(tensor), sizeof(view.strides));
  view.dtype = tensor.dtype();
  view.direction = arg.direction();
  view.rank = static_cast<uint8_t>(tensor.rank());
  return view;
}

bool GraphSignature::Same(const View& view, const Arg& arg) {
  const Tensor& tensor = arg.tensor();
  return view.dtype == tensor.dtype() && view.rank == tensor.rank() &&
         std::memcmp(view.shape, TensorAccess::Extents(tensor), sizeof(view.shape)) == 0 &&
         std::memcmp(view.strides, TensorAccess::Strides(tensor), sizeof(view.strides)) == 0;
}

GraphSignature::GraphSignature(ArgList args) {
  std::vector<const Tensor*> tensors;
  for (const Arg& arg : args) {
    directions_.push_back(arg.direction());
    if (arg.is_scalar()) {
      scalars_.push_back(arg.dtype());
    } else {
      tensors_.push_back(ViewOf(arg));
      tensors.push_back(&arg.tensor());
    }
  }
  MakePlaces(tensors);
}

void GraphSignature::MakePlaces(std::span<const Tensor* const> tensors) {
  order_.resize(tensors.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return PlaceOf(*tensors[a]) < PlaceOf(*tensors[b]);
  });
  places_.resize(tensors.size());
  slots_.clear();
  uint32_t buffer = 0;
  uint64_t begin = 0;
  for (uint32_t t : order_) {
    auto [its_buffer, its_begin] = PlaceOf(*tensors[t]);
    uint64_t extent = tensors[t]->extent_bytes();
    if (slots_.empty() || its_buffer != buffer || its_begin >= begin + slots_.back().bytes) {
      slots_.push_back({t, 0});
      buffer = its_buffer;
      begin = its_begin;
    }
    places_[t] = {static_cast<uint32_t>(slots_.size() - 1), its_begin - begin};
    slots_.back().bytes = std::max(slots_.back().bytes, its_begin - begin + extent);
  }
  // Numbered in the order of their first tensors as arguments, wherever they lie.
  constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint32_t> numbers(slots_.size(), kNone);
  std::vector<Slot> numbered;
  for (Place& place : places_) {
    uint32_t& number = numbers[place.slot];
    if (number == kNone) {
      number = static_cast<uint32_t>(numbered.size());
      numbered.push_back(slots_[place.slot]);
    }
    place.slot = number;
  }
  slots_ = std::move(numbered);
}

GraphSignature::Order GraphSignature::Compare(const Position* positions) const {
  // The places are what this signature says of slots, so it is enough to compare these. Positions
  // are read field by field: they were just written so.
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

bool GraphSignature::Matches(ArgList args, std::vector<uint32_t>* layouts) const {
  if (args.size() != directions_.size()) return false;
  if (layouts->size() != args.size()) layouts->assign(args.size(), 0);
  Position few[kFewTensors];
  std::vector<Position> many;
  Position* positions = few;
  if (tensors_.size() > kFewTensors) [[unlikely]] {
    many.resize(tensors_.size());
    positions = many.data();
  }
  size_t tensors = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const Arg& arg = args[i];
    if (arg.direction() != directions_[i]) return false;
    if (arg.is_scalar()) {
      if (arg.dtype() != scalars_[i - tensors]) return false;
      continue;
    }
    const Tensor& tensor = arg.tensor();
    uint32_t layout = TensorAccess::Layout(tensor);
    if (layout == 0 || layout != (*layouts)[i]) [[unlikely]] {
      if (!Same(tensors_[tensors], arg)) return false;
      (*layouts)[i] = layout;
    }
    positions[tensors].begin = TensorAccess::Offset(tensor);
    positions[tensors].buffer = TensorAccess::Buffer(tensor);
    ++tensors;
  }
  Order order = Compare(positions);
  if (order != Order::other) return order == Order::same;
  GraphSignature other(args);
  return other.places_ == places_ && other.slots_ == slots_;
}

}  // namespace precast::run
