#include "fuzz/model.h"

#include <algorithm>

namespace precast::fuzz {

/// What tasks and graphs have in common.
Model::Problem Model::CheckUses(const Frame& frame, const Item& item, std::vector<Place>* places) {
  if (item.condition && !frame.gets.contains(item.condition->first)) return "depends on no get";
  for (Id id : item.after) {
    if (!frame.tasks.contains(id)) return "after no task";
  }
  for (const ScalarRef& scalar : item.scalars) {
    if (scalar.source != ScalarRef::Source::constant &&
        (scalar.index >= frame.scalars.size() || frame.scalars[scalar.index] != scalar.dtype)) {
      return "no scalar";
    }
  }
  for (const Use& use : item.uses) {
    std::optional<Place> place = Find(frame, use.tensor);
    if (!place) return "no tensor";
    if (use.direction != Direction::in && !place->writable) return "writes what is 'in'";
    // What a task that is skipped leaves in an 'out' argument of the run is what was there before.
    bool keeps = !Reads(use) && frame.is_run && !frame.is_recorded &&
                 !roots_[place->root].created && !item.condition;
    if ((Reads(use) || (MaySkip(item) && !keeps)) && !IsDefined(*place)) {
      return "reads what has no value";
    }
    places->push_back(*place);
  }
  if (item.when) {
    std::optional<Place> place = Find(frame, item.when->element);
    if (!place || place->size() != 1 || IsFloat(place->dtype)) return "no predicate";
    if (!IsDefined(*place)) return "a predicate without a value";
  }
  return nullptr;
}

/// Two tensors of one task, one of them written.
Model::Problem Model::CheckPairs(const Item& item, const std::vector<Place>& places) const {
  bool one = RecordsOf(item) <= 1;
  for (size_t j = 0; j < places.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      const Use &a = item.uses[i], &b = item.uses[j];
      if ((!Writes(a) && !Writes(b)) || !places[i].MayMeet(places[j])) continue;
      bool no_dep = a.direction == Direction::no_dep || b.direction == Direction::no_dep;
      if (places[i].SameRegion(places[j]) && !no_dep) {
        if (!one && ((!Writes(a) && !a.own) || (!Writes(b) && !b.own))) {
          return "reads in all blocks what one block writes";
        }
        continue;
      }
      // For others the builder goes by the first and the last byte.
      bool alike = places[i].SameStrides(places[j]) && places[i].shape == places[j].shape;
      if (!alike || Overlap(places[i], places[j])) return "tensors of a task overlap";
    }
  }
  return nullptr;
}

/// What `no_dep` does not order has to be ordered by `after`.
Model::Problem Model::CheckNoDep(const Frame& frame, const Item& item,
                                 const std::vector<Place>& places) const {
  auto matters = [&](const Place& place, bool writes, bool no_dep) {
    return std::any_of(frame.accesses.begin(), frame.accesses.end(),
                       [&](const Frame::Access& earlier) {
                         return (no_dep || earlier.no_dep) && (writes || earlier.writes) &&
                                std::find(item.after.begin(), item.after.end(), earlier.item) ==
                                    item.after.end() &&
                                Overlap(place, earlier.place);
                       });
  };
  constexpr Problem kMatters = "'no_dep' where order matters";
  for (size_t i = 0; i < places.size(); ++i) {
    const Use& use = item.uses[i];
    if (matters(places[i], Writes(use), use.direction == Direction::no_dep)) return kMatters;
  }
  if (item.when && matters(*Find(frame, item.when->element), false, false)) return kMatters;
  return nullptr;
}

}  // namespace precast::fuzz
