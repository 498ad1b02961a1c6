#include "fuzz/body_generator.h"

#include "fuzz/draw.h"
#include "fuzz/kernels.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace precast::fuzz {

Taste::Taste(Random& random) {
  size = random.Percent(75) ? random.Between(1, 20) : random.Between(20, 150);
  if (random.Percent(4)) size = random.Between(150, 2000);
  for (uint64_t* percent : {&graphs, &repeats, &predicates, &afters, &allocs, &pauses, &no_deps,
                            &many_blocks, &aliases, &hosts}) {
    *percent = random.Percent(40) ? 0 : random.Below(60);
  }
}

bool BodyGenerator::TooMuch(const Cost& more) const {
  const Cost& total = drawing_.total;
  return total.tasks + cost_.tasks + more.tasks > kMaxTasks ||
         total.records + cost_.records + more.records > kMaxRecords;
}

ScalarRef BodyGenerator::DrawScalarRef(DType dtype) {
  ScalarRef scalar{.dtype = dtype, .bits = DrawScalar(drawing_.random, dtype)};
  for (uint32_t i = 0; i < frame_.scalars.size(); ++i) {
    if (frame_.scalars[i] != dtype || !drawing_.random.Percent(60)) continue;
    scalar.index = i;
    scalar.source =
        drawing_.random.Percent(25) ? ScalarRef::Source::value : ScalarRef::Source::bound;
    break;
  }
  return scalar;
}

TensorRef BodyGenerator::DrawBase() {
  size_t arguments = frame_.arguments.size(), created = frame_.created.size();
  if (arguments + created == 0) return {TensorRef::Base::created, 0, {}};
  size_t i = drawing_.random.Below(arguments + created);
  if (created > 4 && drawing_.random.Percent(50))
    i = arguments + created - 1 - drawing_.random.Below(4);
  if (i < arguments) return {TensorRef::Base::argument, static_cast<uint32_t>(i), {}};
  auto at = frame_.created.begin();
  std::advance(at, i - arguments);
  return {TensorRef::Base::created, at->first, {}};
}

TensorRef BodyGenerator::DrawTensor() {
  if (!recent_.empty() && drawing_.random.Percent(40)) {
    const TensorRef& ref =
        recent_[recent_.size() - 1 - drawing_.random.Below(std::min<size_t>(recent_.size(), 12))];
    if (drawing_.model.Find(frame_, ref)) return ref;
  }
  TensorRef ref = DrawBase();
  if (std::optional<Place> place = drawing_.model.Find(frame_, ref))
    DrawSteps(drawing_.random, *place, &ref.steps);
  return ref;
}

Use BodyGenerator::DrawUse() {
  Use use{.tensor = DrawTensor()};
  std::optional<Place> place = drawing_.model.Find(frame_, use.tensor);
  if (!place) return use;
  bool defined = drawing_.model.IsDefined(*place);
  if (place->writable) {
    use.direction = !defined ? Direction::out
                             : drawing_.random.Pick({Direction::in, Direction::in, Direction::out,
                                                     Direction::inout});
    if (defined && drawing_.random.Percent(drawing_.taste.no_deps / 3)) {
      use.direction = Direction::no_dep;
      use.stores = drawing_.random.Percent(40);
    }
  }
  use.own = drawing_.random.Percent(15);
  return use;
}

void BodyGenerator::DrawOptions(Item* item) {
  if (!frame_.tasks.empty() && drawing_.random.Percent(drawing_.taste.afters)) {
    auto at = frame_.tasks.end();
    std::advance(at, -static_cast<int64_t>(
                         1 + drawing_.random.Below(std::min<size_t>(frame_.tasks.size(), 10))));
    item->after.push_back(at->first);
  }
  if (drawing_.random.Percent(drawing_.taste.predicates)) {
    TensorRef ref = DrawBase();
    std::optional<Place> place = drawing_.model.Find(frame_, ref);
    if (place && !IsFloat(place->dtype)) {
      for (int axis = place->rank; axis > 0; --axis) {
        ref.steps.push_back(
            {ViewStep::Kind::select, {0, drawing_.random.Between(0, place->shape[0] - 1)}});
        place = Apply(*place, {ref.steps.back()});
      }
      auto compare = static_cast<Compare>(drawing_.random.Below(6));
      int64_t constant = drawing_.random.Percent(60) ? 0 : drawing_.random.Between(-3, 130);
      item->when = When{std::move(ref), compare, constant};
    }
  }
  if (!frame_.gets.empty() && drawing_.random.Percent(40)) {
    item->condition = {*frame_.gets.rbegin(), drawing_.random.Percent(50)};
  }
}

void BodyGenerator::OrderNoDep(Item* item) {
  auto order = [&](const TensorRef& tensor, bool no_dep) {
    std::optional<Place> place = drawing_.model.Find(frame_, tensor);
    if (!place) return;
    for (const Model::Frame::Access& access : frame_.accesses) {
      if ((!no_dep && !access.no_dep) || !Overlap(*place, access.place)) continue;
      if (std::find(item->after.begin(), item->after.end(), access.item) == item->after.end()) {
        item->after.push_back(access.item);
      }
    }
  };
  for (const Use& use : item->uses) order(use.tensor, use.direction == Direction::no_dep);
  if (item->when) order(item->when->element, false);
}

Item BodyGenerator::DrawTask() {
  Item item{.kind = Item::Kind::task, .id = drawing_.plan.next_id++};
  uint64_t form = drawing_.random.Below(20);
  item.form = form < 10   ? Item::Form::vector
              : form < 15 ? Item::Form::cube
              : form < 17 ? Item::Form::mixed2
              : form < 19 ? Item::Form::mixed3
                          : Item::Form::order_only;
  int64_t uses =
      drawing_.random.Percent(3) ? drawing_.random.Between(5, 24) : drawing_.random.Between(1, 4);
  for (int64_t i = 0; i < uses; ++i) {
    item.uses.push_back(DrawUse());
    if (!drawing_.random.Percent(drawing_.taste.aliases / 2)) continue;
    Use again = item.uses.back();  // the same region once more
    again.direction = drawing_.random.Pick({Direction::in, Direction::out, Direction::inout});
    again.stores = false;
    again.own = true;
    item.uses.back().own = true;
    item.uses.push_back(std::move(again));
  }
  if (drawing_.random.Percent(drawing_.taste.many_blocks)) {
    item.blocks =
        static_cast<uint32_t>(drawing_.random.Percent(80) ? drawing_.random.Between(2, 9)
                                                          : drawing_.random.Between(10, 70));
  }
  if (drawing_.random.Percent(drawing_.taste.pauses / 2))
    item.pause_us = static_cast<uint32_t>(drawing_.random.Between(1, 200));
  if (drawing_.taste.size > 100 && item.pause_us > 20) item.pause_us = 0;
  item.salt = drawing_.random.Bits();
  DrawOptions(&item);
  if (item.form == Item::Form::order_only) {
    item.blocks = 1;
    item.pause_us = 0;
  } else {
    int64_t scalars = drawing_.random.Percent(60) ? 0 : drawing_.random.Between(1, 3);
    for (int64_t i = 0; i < scalars; ++i) {
      DType dtype = drawing_.random.Pick({DType::u64, DType::i32, DType::f32, DType::u8});
      if (!frame_.scalars.empty() && drawing_.random.Percent(70))
        dtype = drawing_.random.Pick(frame_.scalars);
      item.scalars.push_back(DrawScalarRef(dtype));
    }
  }
  OrderNoDep(&item);
  return item;
}

Item BodyGenerator::DrawGraph(uint32_t callee) {
  Item item{.kind = Item::Kind::graph, .id = drawing_.plan.next_id++};
  item.body = callee;
  const Body& called = drawing_.plan.bodies[callee];
  for (const Parameter& parameter : called.tensors) {
    std::optional<TensorRef> found;
    for (int i = 0; i < 6 && !found; ++i) {
      TensorRef ref = DrawBase();
      std::optional<Place> place = drawing_.model.Find(frame_, ref);
      if (!place || place->dtype != parameter.dtype) continue;
      if (parameter.direction != Direction::in && !place->writable) continue;
      std::optional<std::vector<ViewStep>> steps =
          DrawStepsTo(drawing_.random, *place, parameter.shape);
      if (!steps) continue;
      ref.steps = std::move(*steps);
      if (parameter.direction == Direction::out ||
          drawing_.model.IsDefined(*drawing_.model.Find(frame_, ref))) {
        found = std::move(ref);
      }
    }
    if (!found) {
      Item created{.kind = Item::Kind::alloc, .id = drawing_.plan.next_id++};
      created.shape = parameter.shape;
      created.dtype = parameter.dtype;
      if (parameter.direction != Direction::out)
        created.fill = static_cast<double>(drawing_.random.Below(2));
      found = TensorRef{TensorRef::Base::created, created.id, {}};
      Put(std::move(created));
    }
    item.uses.push_back({.direction = parameter.direction, .tensor = std::move(*found)});
  }
  for (DType dtype : called.scalars) item.scalars.push_back(DrawScalarRef(dtype));
  item.param = drawing_.random.Percent(70) ? 0 : drawing_.random.Below(3);
  DrawOptions(&item);
  if (!drawing_.random.Percent(30)) item.condition.reset();
  OrderNoDep(&item);
  return item;
}

Item BodyGenerator::DrawAlloc() {
  Item item{.kind = Item::Kind::alloc, .id = drawing_.plan.next_id++};
  item.shape = DrawShape(drawing_.random);
  item.dtype = DrawDType(drawing_.random);
  if (!frame_.arguments.empty() && drawing_.random.Percent(50)) {  // like one that a graph may take
    const Place& like = frame_.arguments[drawing_.random.Below(frame_.arguments.size())];
    item.dtype = like.dtype;
    item.shape = Shape(std::span(like.shape.data(), static_cast<size_t>(like.rank)));
  }
  if (drawing_.random.Percent(50)) item.fill = static_cast<double>(drawing_.random.Below(2));
  return item;
}

Item BodyGenerator::DrawHostAccess() {
  Item item{.kind = drawing_.random.Percent(65) ? Item::Kind::get : Item::Kind::set,
            .id = drawing_.plan.next_id++};
  item.salt = drawing_.random.Bits();
  TensorRef ref = DrawBase();
  std::optional<Place> place = drawing_.model.Find(frame_, ref);
  bool element = drawing_.random.Percent(60);
  for (int axis = place ? place->rank : 0; axis > 0 && element; --axis) {
    ref.steps.push_back(
        {ViewStep::Kind::select, {0, drawing_.random.Between(0, place->shape[0] - 1)}});
    place = Apply(*place, {ref.steps.back()});
  }
  if (place && !element && place->rank > 0) {
    int64_t begin = drawing_.random.Between(0, place->shape[0] - 1);
    ref.steps.push_back({ViewStep::Kind::slice,
                         {0, begin, drawing_.random.Between(begin + 1, place->shape[0]), 1}});
  }
  item.uses.push_back({.tensor = std::move(ref)});
  return item;
}

bool BodyGenerator::Put(Item item) {
  if (drawing_.model.Add(&frame_, item) != nullptr) return false;
  for (const Use& use : item.uses) recent_.push_back(use.tensor);
  if (item.kind == Item::Kind::task) {
    ++cost_.tasks;
    cost_.records += RecordsOf(item);
  } else if (item.kind == Item::Kind::graph) {
    cost_.tasks += drawing_.costs[item.body].tasks;
    cost_.records += drawing_.costs[item.body].records;
  } else if (item.kind == Item::Kind::alloc && item.fill) {
    ++cost_.tasks;
  }
  body_.items.push_back(std::move(item));
  return true;
}

bool BodyGenerator::PutGraphs(uint32_t callee) {
  Random& random = drawing_.random;
  int64_t count = random.Percent(drawing_.taste.repeats) ? random.Between(2, 6) : 1;
  std::optional<Item> last;
  for (int64_t i = 0; i < count && !TooMuch(drawing_.costs[callee]); ++i) {
    Item graph = last && random.Percent(50) ? *last : DrawGraph(callee);
    if (last) {
      graph.id = drawing_.plan.next_id++;
      graph.after.clear();
      OrderNoDep(&graph);
    }
    if (Put(graph)) last = std::move(graph);
  }
  return last.has_value();
}

void BodyGenerator::Draw(int64_t size) {
  // What tasks write cannot be read any more.
  for (int i = 0; i < 2; ++i) {
    if (drawing_.random.Percent(drawing_.taste.hosts)) Put(DrawHostAccess());
  }
  int64_t misses = 0;
  for (int64_t n = 0; n < size && misses < size + 20;) {
    if (TooMuch({1, 1})) return;
    bool put;
    if (drawing_.callees() > 0 && drawing_.random.Percent(drawing_.taste.graphs)) {
      put = PutGraphs(static_cast<uint32_t>(drawing_.random.Below(drawing_.callees())));
    } else if (drawing_.random.Percent(drawing_.taste.allocs / 2)) {
      put = Put(DrawAlloc());
    } else if (drawing_.random.Percent(drawing_.taste.allocs / 3)) {
      bool begin = frame_.scopes.size() < 2 || drawing_.random.Percent(40);
      put = Put({.kind = begin ? Item::Kind::scope_begin : Item::Kind::scope_end,
                 .id = drawing_.plan.next_id++});
    } else if (drawing_.random.Percent(drawing_.taste.hosts / 2)) {
      put = Put(DrawHostAccess());
    } else {
      put = Put(DrawTask());
    }
    put ? ++n : ++misses;
  }
}

void BodyGenerator::Complete() {
  for (uint32_t i = 0; i < frame_.arguments.size(); ++i) {
    bool out = frame_.parameters[i].direction == Direction::out;
    bool missing = out && frame_.written[i] < frame_.arguments[i].size();
    if (!missing || (!frame_.is_recorded && drawing_.random.Percent(50))) continue;
    Item item{.kind = Item::Kind::task, .id = drawing_.plan.next_id++};
    item.uses.push_back({Direction::out, {TensorRef::Base::argument, i, {}}});
    item.salt = drawing_.random.Bits();
    OrderNoDep(&item);
    Put(std::move(item));
  }
  if (frame_.submitted > 0) return;
  Item item{.kind = Item::Kind::task, .id = drawing_.plan.next_id++};
  item.salt = drawing_.random.Bits();
  Put(std::move(item));
}

}  // namespace precast::fuzz
