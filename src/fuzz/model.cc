#include "fuzz/model.h"

#include <algorithm>

namespace precast::fuzz {

Model::Model(const Plan& plan, std::vector<Leaf>* leaves) : plan_(&plan), leaves_(leaves) {
  if (leaves != nullptr) layout_.emplace(plan);
  for (const Buffer& buffer : plan.buffers) AddRoot(buffer.shape.size(), false, true);
}

uint32_t Model::AddRoot(int64_t elements, bool created, bool defined) {
  roots_.push_back({created, std::vector<bool>(static_cast<size_t>(elements), defined)});
  return static_cast<uint32_t>(roots_.size() - 1);
}

void Model::Define(const Place& place, bool defined) {
  std::vector<bool>& bits = roots_[place.root].defined;
  place.ForEach([&](int64_t element) { bits[static_cast<size_t>(element)] = defined; });
}

bool Model::IsDefined(const Place& place) const {
  const std::vector<bool>& bits = roots_[place.root].defined;
  bool all = true;
  place.ForEach([&](int64_t element) { all = all && bits[static_cast<size_t>(element)]; });
  return all;
}

std::optional<Place> Model::Find(const Frame& frame, const TensorRef& ref) const {
  if (ref.base == TensorRef::Base::argument) {
    if (ref.index >= frame.arguments.size()) return std::nullopt;
    return Apply(frame.arguments[ref.index], ref.steps);
  }
  auto found = frame.created.find(ref.index);
  if (ref.base != TensorRef::Base::created || found == frame.created.end()) return std::nullopt;
  return Apply(found->second, ref.steps);
}

// Bodies.

/// Takes what `frame->arguments` name: 'out' has no value yet, 'in' is not written.
Model::Problem Model::BeginArguments(Frame* frame) {
  frame->scopes.emplace_back();
  frame->written.assign(frame->arguments.size(), 0);
  for (size_t i = 0; i < frame->arguments.size(); ++i) {
    Place& place = frame->arguments[i];
    Direction direction = frame->parameters[i].direction;
    if (Writes(direction) && !place.writable) return "writes what is 'in'";
    if (direction != Direction::out && !IsDefined(place)) return "passes what has no value";
    place.writable = Writes(direction);
    place.readable = place.readable && direction != Direction::out;
    if (direction != Direction::out) continue;
    for (size_t j = 0; j < frame->arguments.size(); ++j) {
      if (j != i && place.MayMeet(frame->arguments[j])) return "'out' overlaps another argument";
    }
  }
  for (size_t i = 0; i < frame->arguments.size(); ++i) {
    if (frame->parameters[i].direction == Direction::out) Define(frame->arguments[i], false);
  }
  return nullptr;
}

Model::Frame Model::BeginBody(const Body& body) {
  Frame frame;
  frame.parameters = body.tensors;
  frame.scalars = body.scalars;
  frame.is_recorded = true;
  for (const Parameter& p : body.tensors) {
    uint32_t root = AddRoot(p.shape.size(), false, true);
    frame.arguments.push_back(Whole(root, p.dtype, p.shape));
  }
  BeginArguments(&frame);
  return frame;
}

Model::Problem Model::BeginRun(const Step& step, Frame* frame) {
  const Body& body = plan_->bodies[step.body];
  if (step.tensors.size() != body.tensors.size() || step.scalars.size() != body.scalars.size()) {
    return "another number of arguments";
  }
  *frame = {};
  frame->parameters = body.tensors;
  frame->scalars = body.scalars;
  frame->is_run = true;
  frame->is_recorded = step.replayable;
  stretches_.clear();
  run_buffers_.clear();
  for (size_t i = 0; i < step.tensors.size(); ++i) {
    const TensorRef& ref = step.tensors[i];
    if (ref.base != TensorRef::Base::buffer || ref.index >= plan_->buffers.size()) {
      return "no buffer";
    }
    const Buffer& buffer = plan_->buffers[ref.index];
    std::optional<Place> place = Apply(Whole(ref.index, buffer.dtype, buffer.shape), ref.steps);
    const Parameter& parameter = body.tensors[i];
    if (!place || place->dtype != parameter.dtype ||
        Whole(0, parameter.dtype, parameter.shape).shape != place->shape ||
        parameter.shape.rank() != place->rank) {
      return "an argument of another shape";
    }
    if (busy_.contains(ref.index)) return "a buffer that a run in flight writes";
    for (size_t j = 0; j < i; ++j) {
      if (!buffer.device && place->MayMeet(frame->arguments[j]) &&
          (Writes(parameter.direction) || Writes(body.tensors[j].direction))) {
        return "host arguments overlap and one is written";
      }
    }
    run_buffers_.push_back(ref.index);
    frame->arguments.push_back(*place);
  }
  return BeginArguments(frame);
}

Model::Problem Model::End(const Frame& frame) {
  if (frame.submitted == 0) return "a body that may submit nothing";
  if (!frame.is_recorded) return nullptr;
  for (size_t i = 0; i < frame.arguments.size(); ++i) {
    if (frame.parameters[i].direction == Direction::out &&
        frame.written[i] < frame.arguments[i].size()) {
      return "a body that does not write all of an 'out'";
    }
  }
  return nullptr;
}

void Model::EndRun(const Step& step) {
  for (size_t i = 0; i < run_buffers_.size(); ++i) {
    uint32_t buffer = run_buffers_[i];
    roots_[buffer].defined.assign(roots_[buffer].defined.size(), true);
    if (!step.in_flight) continue;
    if (plan_->buffers[buffer].device) {
      pinned_.insert(buffer);
    } else if (Writes(plan_->bodies[step.body].tensors[i].direction)) {
      busy_.insert(buffer);
    }
  }
  for (size_t i = plan_->buffers.size(); i < roots_.size(); ++i) {
    if (roots_[i].created) std::vector<bool>().swap(roots_[i].defined);
  }
}

Model::Problem Model::Do(const Step& step) {
  if (step.kind == Step::Kind::run) {
    Frame frame;
    if (Problem problem = BeginRun(step, &frame)) return problem;
    frame.record = records_;
    if (layout_) records_ += layout_->OfBody(step.body);
    const std::vector<Item>& items = plan_->bodies[step.body].items;
    for (size_t i = 0; i < items.size(); ++i) {
      uint64_t record = layout_ ? layout_->OfItem(step.body, i) : 0;
      if (Problem problem = Add(&frame, items[i], record)) return problem;
    }
    if (Problem problem = End(frame)) return problem;
    EndRun(step);
    return nullptr;
  }
  if (step.kind == Step::Kind::wait) {
    busy_.clear();
    pinned_.clear();
    return nullptr;
  }
  if (step.buffer >= plan_->buffers.size()) return "no buffer";
  if (busy_.contains(step.buffer)) return "a buffer that a run in flight writes";
  bool device = plan_->buffers[step.buffer].device;
  if (step.kind == Step::Kind::fill && !device) return "fills host memory";
  if (step.kind == Step::Kind::renew && (!device || pinned_.contains(step.buffer))) {
    return "renews host memory, or what a run in flight uses";
  }
  return nullptr;
}

// Items.

Model::Problem Model::Add(Frame* frame, const Item& item, uint64_t record) {
  switch (item.kind) {
    case Item::Kind::task:
      return AddTask(frame, item, record);
    case Item::Kind::graph:
      return AddGraph(frame, item, record);
    case Item::Kind::alloc: {
      uint32_t root = AddRoot(item.shape.size(), true, item.fill.has_value());
      frame->created[item.id] = Whole(root, item.dtype, item.shape);
      frame->scopes.back().push_back(item.id);
      if (item.fill) {  // by a task that nobody can name
        frame->accesses.push_back({frame->created[item.id], true, false, item.id});
        ++frame->submitted;
      }
      return nullptr;
    }
    case Item::Kind::scope_begin:
      frame->scopes.emplace_back();
      return nullptr;
    case Item::Kind::scope_end:
      if (frame->scopes.size() < 2) return "ends a scope that was not opened";
      for (Id id : frame->scopes.back()) frame->created.erase(id);
      frame->scopes.pop_back();
      return nullptr;
    case Item::Kind::get:
    case Item::Kind::set:
      break;
  }
  return AddHostAccess(frame, item);
}

/// The item has been accepted: what it leaves.
void Model::Note(Frame* frame, const Item& item, const std::vector<Place>& places) {
  bool certain = !MaySkip(item);
  for (size_t i = 0; i < places.size(); ++i) {
    const Use& use = item.uses[i];
    const Place& place = places[i];
    bool no_dep = use.direction == Direction::no_dep;
    if (certain && use.direction == Direction::out) {
      bool met = std::any_of(frame->accesses.begin(), frame->accesses.end(),
                             [&](const Frame::Access& a) { return a.place.MayMeet(place); });
      for (size_t n = 0; n < frame->arguments.size(); ++n) {
        const Place& argument = frame->arguments[n];
        if (!argument.MayMeet(place)) continue;
        if (place.size() == argument.size()) frame->written[n] = argument.size();
        if (!met) frame->written[n] += place.size();
      }
    }
    // Without a condition it is submitted, and what it leaves when it is skipped is a value, too.
    if (!item.condition && Writes(use.direction)) Define(place, true);
    frame->accesses.push_back({place, Writes(use), no_dep, item.id});
    stretches_.push_back({place.root, place.offset, place.end(), Writes(use) || no_dep});
  }
  if (item.when) {
    Place place = *Find(*frame, item.when->element);
    frame->accesses.push_back({place, false, false, item.id});
    stretches_.push_back({place.root, place.offset, place.end(), false});
  }
  if (!item.condition) ++frame->submitted;
}

Model::Problem Model::AddTask(Frame* frame, const Item& item, uint64_t record) {
  std::vector<Place> places;
  if (item.blocks == 0) return "no block";
  if (Problem problem = CheckUses(*frame, item, &places)) return problem;
  if (Problem problem = CheckPairs(item, places)) return problem;
  if (Problem problem = CheckNoDep(*frame, item, places)) return problem;
  if (item.form == Item::Form::order_only) {  // it writes nothing, so it gives nothing a value
    for (size_t i = 0; i < places.size(); ++i) {
      if (!IsDefined(places[i])) return "a dependency on what has no value";
    }
  }
  Note(frame, item, places);
  uint32_t first = leaves_ ? static_cast<uint32_t>(leaves_->size()) : 0;
  frame->tasks[item.id] = {first, first + 1};
  if (leaves_ == nullptr) return nullptr;
  Leaf leaf;
  leaf.record = frame->record + record;
  leaf.records = RecordsOf(item);
  leaf.item = item.id;
  for (size_t i = 0; i < places.size(); ++i) {
    leaf.accesses.push_back({places[i], Reads(item.uses[i]), Writes(item.uses[i])});
  }
  if (item.when) leaf.accesses.push_back({*Find(*frame, item.when->element), true, false});
  leaves_->push_back(std::move(leaf));
  NoteLeaves(*frame, item, first);
  return nullptr;
}

/// What an item's options say about its leaves, which are those from `first` on.
void Model::NoteLeaves(const Frame& frame, const Item& item, uint32_t first) {
  for (uint32_t i = first; i < leaves_->size(); ++i) {
    Leaf& leaf = (*leaves_)[i];
    // A look at a predicate that was not made, since something around it was skipped, must not
    // order what it would have: so it counts only between those that conflict anyway.
    if (leaf.predicate) continue;
    leaf.certain = leaf.certain && !MaySkip(item);
    for (Id id : item.after) {
      auto [begin, end] = frame.tasks.at(id);
      for (uint32_t n = begin; n < end; ++n) leaf.after.push_back(n);
    }
  }
}

Model::Problem Model::AddGraph(Frame* frame, const Item& item, uint64_t record) {
  if (frame->depth >= kMaxDepth) return "graphs too deep in each other";
  const Body& body = plan_->bodies[item.body];
  if (item.uses.size() != body.tensors.size() || item.scalars.size() != body.scalars.size()) {
    return "another number of arguments";
  }
  std::vector<Place> places;
  if (Problem problem = CheckUses(*frame, item, &places)) return problem;
  Frame inner;
  for (size_t i = 0; i < places.size(); ++i) {
    const Parameter& parameter = body.tensors[i];
    if (item.uses[i].direction != parameter.direction || places[i].dtype != parameter.dtype ||
        places[i].rank != parameter.shape.rank() ||
        places[i].shape != Whole(0, parameter.dtype, parameter.shape).shape) {
      return "a graph's argument of another kind";
    }
    inner.arguments.push_back(places[i]);
  }
  for (size_t i = 0; i < item.scalars.size(); ++i) {
    if (item.scalars[i].dtype != body.scalars[i]) return "a graph's scalar of another type";
  }
  if (Problem problem = CheckNoDep(*frame, item, places)) return problem;
  inner.parameters = body.tensors;
  inner.scalars = body.scalars;
  inner.is_recorded = true;
  inner.depth = frame->depth + 1;
  inner.record = frame->record + record;
  uint32_t first = leaves_ ? static_cast<uint32_t>(leaves_->size()) : 0;
  if (item.when && leaves_ != nullptr) {  // read before all inside, and only then
    leaves_->push_back({.item = item.id, .predicate = true});
    leaves_->back().accesses.push_back({*Find(*frame, item.when->element), true, false});
  }

  // A problem inside leaves the model as it was before the outermost graph.
  std::vector<Root> roots;
  size_t stretches = stretches_.size();
  if (expanding_ == 0) roots = roots_;
  ++expanding_;
  Problem problem = BeginArguments(&inner);
  for (size_t i = 0; i < body.items.size() && problem == nullptr; ++i) {
    problem = Add(&inner, body.items[i], layout_ ? layout_->OfItem(item.body, i) : 0);
  }
  if (problem == nullptr) problem = End(inner);
  --expanding_;
  if (problem != nullptr) {
    if (expanding_ == 0) roots_ = std::move(roots);
    stretches_.resize(stretches);
    return problem;
  }
  Note(frame, item, places);
  uint32_t last = leaves_ ? static_cast<uint32_t>(leaves_->size()) : 0;
  frame->tasks[item.id] = {first, last};
  if (leaves_ == nullptr) return nullptr;
  NoteLeaves(*frame, item, first);
  for (uint32_t i = first + 1; item.when && i < last; ++i) (*leaves_)[i].after.push_back(first);
  return nullptr;
}

Model::Problem Model::AddHostAccess(Frame* frame, const Item& item) {
  if (item.uses.size() != 1) return "a host access without its tensor";
  std::optional<Place> place = Find(*frame, item.uses[0].tensor);
  if (!place) return "no tensor";
  bool sets = item.kind == Item::Kind::set;
  if (sets && frame->is_recorded) return "a set in a graph";
  if (roots_[place->root].created || !place->readable) return "the host looks at no value";
  if (sets && !place->writable) return "a set of what is 'in'";
  if (place->size() > 1 && !place->is_contiguous()) return "not contiguous";
  for (const Stretch& stretch : stretches_) {
    if (stretch.root == place->root && stretch.begin < place->end() &&
        place->offset < stretch.end && (sets || stretch.writes)) {
      return "a task of the run uses it";
    }
  }
  if (!sets) frame->gets.insert(item.id);
  return nullptr;
}

Model::Problem CheckPlan(const Plan& plan, std::vector<Leaf>* leaves) {
  Model model(plan, leaves);
  for (const Step& step : plan.steps) {
    if (Model::Problem problem = model.Do(step)) return problem;
  }
  return nullptr;
}

}  // namespace precast::fuzz
