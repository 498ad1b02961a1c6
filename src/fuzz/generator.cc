#include "fuzz/generator.h"

#include "fuzz/kernels.h"
#include "fuzz/model.h"
#include "fuzz/random.h"

#include <algorithm>
#include <utility>

namespace precast::fuzz {

namespace {

constexpr uint64_t kMaxTasks = 2000;
constexpr uint64_t kMaxRecords = 60'000;

/// What a body submits, graphs inside included.
struct Cost {
  uint64_t tasks = 0, records = 0;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), model_(plan_) {
    plan_.seed = seed;
    // What this plan has much of, so that plans differ from each other.
    size_ = random_.Percent(75) ? random_.Between(1, 20) : random_.Between(20, 150);
    if (random_.Percent(4)) size_ = random_.Between(150, 2000);
    for (uint64_t* percent : {&graphs_, &repeats_, &predicates_, &afters_, &allocs_, &pauses_,
                              &no_deps_, &many_blocks_, &aliases_, &hosts_}) {
      *percent = random_.Percent(40) ? 0 : random_.Below(60);
    }
  }

  Plan Draw() {
    DrawSettings();
    int64_t buffers = random_.Between(1, 6);
    for (int64_t i = 0; i < buffers; ++i) {
      Shape shape = DrawShape();
      plan_.buffers.push_back({random_.Percent(60), DrawDType(), shape, random_.Bits()});
    }
    model_ = Model(plan_);
    if (graphs_ > 0) DrawGraphBodies();
    int64_t runs = size_ > 200 ? 1 : random_.Between(1, 6);
    for (int64_t i = 0; i < runs; ++i) DrawRun(std::max<int64_t>(1, size_ / runs));
    for (int i = 0; i < 20 && runs_ == 0; ++i) DrawRun(1);
    if (runs_ == 0) DrawSimplestRun();
    return std::move(plan_);
  }

 private:
  // Small things.

  DType DrawDType() {
    if (random_.Percent(60)) return random_.Pick({DType::i32, DType::f32, DType::u8, DType::u64});
    return static_cast<DType>(random_.Between(1, 13));
  }

  Shape DrawShape() {
    int rank = static_cast<int>(random_.Between(0, random_.Percent(20) ? 5 : 3));
    if (random_.Percent(10)) return Shape{random_.Between(1, 2000)};
    std::vector<int64_t> extents;
    int64_t most = rank <= 2 ? 24 : rank == 3 ? 10 : 4;
    for (int i = 0; i < rank; ++i) extents.push_back(random_.Between(1, most));
    return Shape(extents);
  }

  void DrawSettings() {
    Settings& s = plan_.settings;
    if (random_.Percent(50)) s.heap = Bytes{256} << random_.Below(8);
    s.host_views = random_.Pick({HostViewPolicy::cache, HostViewPolicy::cache,
                                 HostViewPolicy::rebuild, HostViewPolicy::copy});
    if (random_.Percent(30))
      s.host_view_budget = random_.Pick({Bytes{0}, Bytes{4096}, Bytes{8192}});
    if (random_.Percent(30))
      s.definition_budget = random_.Pick({Bytes{0}, Bytes{1000}, Bytes{4000}});
    if (random_.Percent(30)) s.max_definitions = random_.Below(4);
    if (random_.Percent(20)) s.upload = UploadMode::per_submission;
    s.verify_replays = random_.Percent(20);
    s.kernel_timeout = random_.Percent(10);
  }

  std::vector<DType> DrawScalarTypes() {
    std::vector<DType> types;
    int64_t count = random_.Percent(50) ? 0 : random_.Between(1, 3);
    for (int64_t i = 0; i < count; ++i) {
      types.push_back(random_.Pick({DType::u64, DType::i32, DType::f32, DType::u8}));
    }
    return types;
  }

  uint64_t DrawScalar(DType dtype) {
    // Few values, so that specialized graphs are replayed, too.
    uint64_t bits = random_.Percent(70) ? random_.Below(3) : random_.Bits();
    size_t size = SizeOf(dtype);
    return size == 8 ? bits : bits & ((uint64_t{1} << (8 * size)) - 1);
  }

  ScalarRef DrawScalarRef(const Model::Frame& frame, DType dtype) {
    ScalarRef scalar{.dtype = dtype, .bits = DrawScalar(dtype)};
    for (uint32_t i = 0; i < frame.scalars.size(); ++i) {
      if (frame.scalars[i] != dtype || !random_.Percent(60)) continue;
      scalar.index = i;
      scalar.source = random_.Percent(25) ? ScalarRef::Source::value : ScalarRef::Source::bound;
      break;
    }
    return scalar;
  }

  // Views.

  /// Some view of what `place` is, which `steps` lead to.
  void DrawSteps(Place place, std::vector<ViewStep>* steps) {
    int64_t count = random_.Percent(45) ? 0 : random_.Between(1, 3);
    for (int64_t n = 0; n < count; ++n) {
      ViewStep step;
      size_t rank = static_cast<size_t>(place.rank);
      int64_t axis = rank == 0 ? 0 : random_.Between(0, place.rank - 1);
      int64_t extent = rank == 0 ? 1 : place.shape[static_cast<size_t>(axis)];
      switch (random_.Below(5)) {
        case 0:
          step.numbers.resize(2 * rank);
          for (size_t i = 0; i < rank; ++i) {
            int64_t begin = random_.Between(0, place.shape[i] - 1);
            step.numbers[i] = begin;
            step.numbers[rank + i] = random_.Between(1, place.shape[i] - begin);
          }
          break;
        case 1: {
          int64_t begin = random_.Between(0, extent - 1);
          step = {ViewStep::Kind::slice,
                  {axis, begin, random_.Between(begin + 1, extent),
                   random_.Percent(60) ? 1 : random_.Between(1, 4)}};
          break;
        }
        case 2:
          step = {ViewStep::Kind::select, {axis, random_.Between(0, extent - 1)}};
          break;
        case 3:
          step = {ViewStep::Kind::transpose,
                  {axis, rank == 0 ? 0 : random_.Between(0, place.rank - 1)}};
          break;
        case 4:
          step.kind = ViewStep::Kind::reshape;
          step.numbers = {place.size()};
          if (place.size() % 2 == 0 && random_.Percent(50)) step.numbers = {place.size() / 2, 2};
          break;
      }
      std::optional<Place> next = Apply(place, {step});
      if (!next) continue;
      place = *next;
      steps->push_back(std::move(step));
    }
  }

  /// Steps from a place to one with this shape; none if that is not easy.
  std::optional<std::vector<ViewStep>> StepsTo(Place place, const Shape& shape) {
    std::vector<ViewStep> steps;
    while (place.rank > shape.rank()) {
      int64_t axis = random_.Between(0, place.rank - 1);
      ViewStep step{ViewStep::Kind::select,
                    {axis, random_.Between(0, place.shape[static_cast<size_t>(axis)] - 1)}};
      place = *Apply(place, {step});
      steps.push_back(std::move(step));
    }
    if (place.rank < shape.rank()) return std::nullopt;
    for (int axis = 0; axis < place.rank; ++axis) {
      int64_t extent = place.shape[static_cast<size_t>(axis)], wanted = shape[axis];
      if (wanted > extent) return std::nullopt;
      if (wanted == extent) continue;
      int64_t step =
          wanted > 1 && random_.Percent(30) ? random_.Between(1, (extent - 1) / (wanted - 1)) : 1;
      int64_t span = (wanted - 1) * step + 1;
      int64_t begin = random_.Between(0, extent - span);
      steps.push_back({ViewStep::Kind::slice, {axis, begin, begin + span, step}});
    }
    return steps;
  }

  /// An argument, or a created tensor that is there.
  TensorRef DrawBase(const Model::Frame& frame) {
    size_t arguments = frame.arguments.size(), created = frame.created.size();
    if (arguments + created == 0) return {TensorRef::Base::created, 0, {}};
    size_t i = random_.Below(arguments + created);
    if (created > 4 && random_.Percent(50)) i = arguments + created - 1 - random_.Below(4);
    if (i < arguments) return {TensorRef::Base::argument, static_cast<uint32_t>(i), {}};
    auto at = frame.created.begin();
    std::advance(at, i - arguments);
    return {TensorRef::Base::created, at->first, {}};
  }

  TensorRef DrawTensor(const Model::Frame& frame) {
    if (!recent_.empty() && random_.Percent(40)) {
      const TensorRef& ref =
          recent_[recent_.size() - 1 - random_.Below(std::min<size_t>(recent_.size(), 12))];
      if (model_.Find(frame, ref)) return ref;
    }
    TensorRef ref = DrawBase(frame);
    if (std::optional<Place> place = model_.Find(frame, ref)) DrawSteps(*place, &ref.steps);
    return ref;
  }

  // Items.

  Use DrawUse(const Model::Frame& frame) {
    Use use{.tensor = DrawTensor(frame)};
    std::optional<Place> place = model_.Find(frame, use.tensor);
    if (!place) return use;
    bool defined = model_.IsDefined(*place);
    if (place->writable) {
      use.direction =
          !defined ? Direction::out
                   : random_.Pick({Direction::in, Direction::in, Direction::out, Direction::inout});
      if (defined && random_.Percent(no_deps_ / 3)) {
        use.direction = Direction::no_dep;
        use.stores = random_.Percent(40);
      }
    }
    use.own = random_.Percent(15);
    return use;
  }

  void DrawOptions(const Model::Frame& frame, Item* item) {
    if (!frame.tasks.empty() && random_.Percent(afters_)) {
      auto at = frame.tasks.end();
      std::advance(
          at, -static_cast<int64_t>(1 + random_.Below(std::min<size_t>(frame.tasks.size(), 10))));
      item->after.push_back(at->first);
    }
    if (random_.Percent(predicates_)) {
      TensorRef ref = DrawBase(frame);
      std::optional<Place> place = model_.Find(frame, ref);
      if (place && !IsFloat(place->dtype)) {
        for (int axis = place->rank; axis > 0; --axis) {
          ref.steps.push_back(
              {ViewStep::Kind::select, {0, random_.Between(0, place->shape[0] - 1)}});
          place = Apply(*place, {ref.steps.back()});
        }
        auto compare = static_cast<Compare>(random_.Below(6));
        int64_t constant = random_.Percent(60) ? 0 : random_.Between(-3, 130);
        item->when = When{std::move(ref), compare, constant};
      }
    }
    if (!frame.gets.empty() && random_.Percent(40)) {
      item->condition = {*frame.gets.rbegin(), random_.Percent(50)};
    }
  }

  /// Names all tasks that what is `no_dep` conflicts with: then its order does not matter.
  void OrderNoDep(const Model::Frame& frame, Item* item) {
    auto order = [&](const TensorRef& tensor, bool no_dep) {
      std::optional<Place> place = model_.Find(frame, tensor);
      if (!place) return;
      for (const Model::Frame::Access& access : frame.accesses) {
        if ((!no_dep && !access.no_dep) || !Overlap(*place, access.place)) continue;
        if (std::find(item->after.begin(), item->after.end(), access.item) == item->after.end()) {
          item->after.push_back(access.item);
        }
      }
    };
    for (const Use& use : item->uses) order(use.tensor, use.direction == Direction::no_dep);
    if (item->when) order(item->when->element, false);
  }

  Item DrawTask(const Model::Frame& frame) {
    Item item{.kind = Item::Kind::task, .id = plan_.next_id++};
    uint64_t form = random_.Below(20);
    item.form = form < 10   ? Item::Form::vector
                : form < 15 ? Item::Form::cube
                : form < 17 ? Item::Form::mixed2
                : form < 19 ? Item::Form::mixed3
                            : Item::Form::order_only;
    int64_t uses = random_.Percent(3) ? random_.Between(5, 24) : random_.Between(1, 4);
    for (int64_t i = 0; i < uses; ++i) {
      item.uses.push_back(DrawUse(frame));
      if (!random_.Percent(aliases_ / 2)) continue;
      Use again = item.uses.back();  // the same region once more
      again.direction = random_.Pick({Direction::in, Direction::out, Direction::inout});
      again.stores = false;
      again.own = true;
      item.uses.back().own = true;
      item.uses.push_back(std::move(again));
    }
    if (random_.Percent(many_blocks_)) {
      item.blocks = static_cast<uint32_t>(random_.Percent(80) ? random_.Between(2, 9)
                                                              : random_.Between(10, 70));
    }
    if (random_.Percent(pauses_ / 2))
      item.pause_us = static_cast<uint32_t>(random_.Between(1, 200));
    if (size_ > 100 && item.pause_us > 20) item.pause_us = 0;
    item.salt = random_.Bits();
    DrawOptions(frame, &item);
    if (item.form == Item::Form::order_only) {
      item.blocks = 1;
      item.pause_us = 0;
    } else {
      int64_t scalars = random_.Percent(60) ? 0 : random_.Between(1, 3);
      for (int64_t i = 0; i < scalars; ++i) {
        DType dtype = random_.Pick({DType::u64, DType::i32, DType::f32, DType::u8});
        if (!frame.scalars.empty() && random_.Percent(70)) dtype = random_.Pick(frame.scalars);
        item.scalars.push_back(DrawScalarRef(frame, dtype));
      }
    }
    OrderNoDep(frame, &item);
    return item;
  }

  /// A graph whose arguments are views of what there is, or created for it.
  Item DrawGraph(Model::Frame* frame, Body* body, uint32_t callee) {
    Item item{.kind = Item::Kind::graph, .id = plan_.next_id++};
    item.body = callee;
    const Body& called = plan_.bodies[callee];
    for (const Parameter& parameter : called.tensors) {
      std::optional<TensorRef> found;
      for (int i = 0; i < 6 && !found; ++i) {
        TensorRef ref = DrawBase(*frame);
        std::optional<Place> place = model_.Find(*frame, ref);
        if (!place || place->dtype != parameter.dtype) continue;
        if (parameter.direction != Direction::in && !place->writable) continue;
        std::optional<std::vector<ViewStep>> steps = StepsTo(*place, parameter.shape);
        if (!steps) continue;
        ref.steps = std::move(*steps);
        if (parameter.direction == Direction::out || model_.IsDefined(*model_.Find(*frame, ref))) {
          found = std::move(ref);
        }
      }
      if (!found) {
        Item created{.kind = Item::Kind::alloc, .id = plan_.next_id++};
        created.shape = parameter.shape;
        created.dtype = parameter.dtype;
        if (parameter.direction != Direction::out)
          created.fill = static_cast<double>(random_.Below(2));
        found = TensorRef{TensorRef::Base::created, created.id, {}};
        Put(frame, body, std::move(created));
      }
      item.uses.push_back({.direction = parameter.direction, .tensor = std::move(*found)});
    }
    for (DType dtype : called.scalars) item.scalars.push_back(DrawScalarRef(*frame, dtype));
    item.param = random_.Percent(70) ? 0 : random_.Below(3);
    DrawOptions(*frame, &item);
    if (!random_.Percent(30)) item.condition.reset();
    OrderNoDep(*frame, &item);
    return item;
  }

  Item DrawAlloc(const Model::Frame& frame) {
    Item item{.kind = Item::Kind::alloc, .id = plan_.next_id++};
    item.shape = DrawShape();
    item.dtype = DrawDType();
    if (!frame.arguments.empty() && random_.Percent(50)) {  // like one that a graph may take
      const Place& like = frame.arguments[random_.Below(frame.arguments.size())];
      item.dtype = like.dtype;
      item.shape = Shape(std::span(like.shape.data(), static_cast<size_t>(like.rank)));
    }
    if (random_.Percent(50)) item.fill = static_cast<double>(random_.Below(2));
    return item;
  }

  Item DrawHostAccess(const Model::Frame& frame) {
    Item item{.kind = random_.Percent(65) ? Item::Kind::get : Item::Kind::set,
              .id = plan_.next_id++};
    item.salt = random_.Bits();
    TensorRef ref = DrawBase(frame);
    std::optional<Place> place = model_.Find(frame, ref);
    bool element = random_.Percent(60);
    for (int axis = place ? place->rank : 0; axis > 0 && element; --axis) {
      ref.steps.push_back({ViewStep::Kind::select, {0, random_.Between(0, place->shape[0] - 1)}});
      place = Apply(*place, {ref.steps.back()});
    }
    if (place && !element && place->rank > 0) {
      int64_t begin = random_.Between(0, place->shape[0] - 1);
      ref.steps.push_back(
          {ViewStep::Kind::slice, {0, begin, random_.Between(begin + 1, place->shape[0]), 1}});
    }
    item.uses.push_back({.tensor = std::move(ref)});
    return item;
  }

  // Bodies.

  /// Appends the item where the rules allow it.
  bool Put(Model::Frame* frame, Body* body, Item item) {
    if (model_.Add(frame, item) != nullptr) return false;
    for (const Use& use : item.uses) recent_.push_back(use.tensor);
    if (item.kind == Item::Kind::task) {
      ++cost_.tasks;
      cost_.records += RecordsOf(item);
    } else if (item.kind == Item::Kind::graph) {
      cost_.tasks += costs_[item.body].tasks;
      cost_.records += costs_[item.body].records;
    } else if (item.kind == Item::Kind::alloc && item.fill) {
      ++cost_.tasks;
    }
    body->items.push_back(std::move(item));
    return true;
  }

  /// Appends about `size` items to the body, which `frame` follows.
  void DrawItems(Model::Frame* frame, Body* body, uint32_t callees, int64_t size) {
    int64_t misses = 0;
    for (int64_t n = 0; n < size && misses < size + 20;) {
      if (total_.tasks + cost_.tasks >= kMaxTasks ||
          total_.records + cost_.records >= kMaxRecords) {
        return;
      }
      bool put;
      if (callees > 0 && random_.Percent(graphs_)) {
        uint32_t callee = static_cast<uint32_t>(random_.Below(callees));
        if (total_.tasks + cost_.tasks + costs_[callee].tasks > kMaxTasks) return;
        Item graph = DrawGraph(frame, body, callee);
        put = Put(frame, body, graph);
        // Again, as a loop over layers would.
        for (int64_t i = random_.Percent(repeats_) ? random_.Between(1, 5) : 0; put && i > 0; --i) {
          if (total_.tasks + cost_.tasks + costs_[callee].tasks > kMaxTasks) return;
          graph.id = plan_.next_id++;
          graph.after.clear();
          OrderNoDep(*frame, &graph);
          Put(frame, body, graph);
        }
      } else if (random_.Percent(allocs_ / 2)) {
        put = Put(frame, body, DrawAlloc(*frame));
      } else if (random_.Percent(allocs_ / 3)) {
        bool begin = frame->scopes.size() < 2 || random_.Percent(40);
        put = Put(frame, body,
                  {.kind = begin ? Item::Kind::scope_begin : Item::Kind::scope_end,
                   .id = plan_.next_id++});
      } else if (random_.Percent(hosts_ / 2)) {
        put = Put(frame, body, DrawHostAccess(*frame));
      } else {
        put = Put(frame, body, DrawTask(*frame));
      }
      put ? ++n : ++misses;
    }
  }

  /// Makes the body one that the model accepts at its end.
  void Complete(Model::Frame* frame, Body* body) {
    for (uint32_t i = 0; i < frame->arguments.size(); ++i) {
      bool out = frame->parameters[i].direction == Direction::out;
      bool missing = out && frame->is_recorded && frame->written[i] < frame->arguments[i].size();
      if (!missing) continue;
      Item item{.kind = Item::Kind::task, .id = plan_.next_id++};
      item.uses.push_back({Direction::out, {TensorRef::Base::argument, i, {}}});
      item.salt = random_.Bits();
      OrderNoDep(*frame, &item);
      Put(frame, body, std::move(item));
    }
    if (frame->submitted > 0) return;
    Item item{.kind = Item::Kind::task, .id = plan_.next_id++};
    item.salt = random_.Bits();
    Put(frame, body, std::move(item));
  }

  void DrawGraphBodies() {
    int64_t bodies = random_.Between(1, 4);
    for (int64_t i = 0; i < bodies; ++i) {
      Body body;
      int64_t tensors = random_.Between(1, 4);
      for (int64_t n = 0; n < tensors; ++n) {
        // Shapes that views of the buffers have.
        const Buffer& buffer = random_.Pick(plan_.buffers);
        Place place = Whole(0, buffer.dtype, buffer.shape);
        std::vector<ViewStep> steps;
        if (random_.Percent(70)) DrawSteps(place, &steps);
        place = *Apply(place, steps);
        body.tensors.push_back(
            {random_.Pick({Direction::in, Direction::out, Direction::inout, Direction::inout}),
             place.dtype, Shape(std::span(place.shape.data(), static_cast<size_t>(place.rank)))});
      }
      body.scalars = DrawScalarTypes();
      Model::Frame frame = model_.BeginBody(body);
      recent_.clear();
      cost_ = {};
      DrawItems(&frame, &body, static_cast<uint32_t>(plan_.bodies.size()),
                random_.Between(1, std::min<int64_t>(size_, 12)));
      Complete(&frame, &body);
      // Graphs inside are at most as deep as bodies are many, and that may be too deep: then the
      // model refuses the submission.
      plan_.bodies.push_back(std::move(body));
      costs_.push_back(cost_);
      model_ = Model(plan_);
    }
  }

  // Steps.

  TensorRef DrawArgument(uint32_t buffer) {
    TensorRef ref{TensorRef::Base::buffer, buffer, {}};
    const Buffer& b = plan_.buffers[buffer];
    if (random_.Percent(25)) DrawSteps(Whole(buffer, b.dtype, b.shape), &ref.steps);
    return ref;
  }

  Shape ShapeOf(const TensorRef& ref) {
    const Buffer& buffer = plan_.buffers[ref.index];
    Place place = *Apply(Whole(ref.index, buffer.dtype, buffer.shape), ref.steps);
    return Shape(std::span(place.shape.data(), static_cast<size_t>(place.rank)));
  }

  void DrawRun(int64_t size) {
    if (random_.Percent(hosts_)) DrawHostSteps();
    if (total_.tasks >= kMaxTasks || total_.records >= kMaxRecords) return;
    if (!run_bodies_.empty() && random_.Percent(repeats_) && RepeatRun()) return;
    Step step{.kind = Step::Kind::run};
    step.in_flight = random_.Percent(35);
    step.replayable = random_.Percent(graphs_ / 2);
    Body body;
    int64_t tensors = random_.Between(1, static_cast<int64_t>(plan_.buffers.size()) + 1);
    for (int64_t i = 0; i < tensors; ++i) {
      TensorRef ref = DrawArgument(static_cast<uint32_t>(random_.Below(plan_.buffers.size())));
      Direction direction = random_.Pick(
          {Direction::in, Direction::out, Direction::inout, Direction::inout, Direction::inout});
      body.tensors.push_back({direction, plan_.buffers[ref.index].dtype, ShapeOf(ref)});
      step.tensors.push_back(std::move(ref));
    }
    body.scalars = DrawScalarTypes();
    for (DType dtype : body.scalars) step.scalars.push_back(DrawScalar(dtype));
    step.body = static_cast<uint32_t>(plan_.bodies.size());
    uint32_t callees = static_cast<uint32_t>(costs_.size());
    plan_.bodies.push_back(body);  // its boundary; the items follow
    Model before = model_;
    Model::Frame frame;
    if (model_.BeginRun(step, &frame) != nullptr) {
      Undo(&before);
      return;
    }
    recent_.clear();
    cost_ = {};
    DrawItems(&frame, &body, callees, size);
    Complete(&frame, &body);
    if (model_.End(frame) != nullptr) {
      Undo(&before);
      return;
    }
    model_.EndRun(step);
    plan_.bodies.back() = std::move(body);
    run_bodies_.push_back({step.body, cost_});
    Finish(std::move(step), cost_);
  }

  void Undo(Model* before) {
    plan_.bodies.pop_back();
    model_ = std::move(*before);
  }

  /// A step that the model has accepted.
  void Finish(Step step, const Cost& cost) {
    total_.tasks += cost.tasks;
    total_.records += cost.records;
    ++runs_;
    plan_.steps.push_back(std::move(step));
  }

  /// An earlier run again, with other scalars.
  bool RepeatRun() {
    auto [index, cost] = random_.Pick(run_bodies_);
    if (total_.tasks + cost.tasks > kMaxTasks || total_.records + cost.records > kMaxRecords) {
      return false;
    }
    auto earlier = std::find_if(plan_.steps.begin(), plan_.steps.end(), [&](const Step& s) {
      return s.kind == Step::Kind::run && s.body == index;
    });
    Step step = *earlier;
    step.in_flight = random_.Percent(35);
    for (size_t i = 0; i < step.scalars.size(); ++i) {
      if (random_.Percent(50)) step.scalars[i] = DrawScalar(plan_.bodies[index].scalars[i]);
    }
    Model before = model_;
    if (model_.Do(step) != nullptr) {
      model_ = std::move(before);
      return false;
    }
    Finish(std::move(step), cost);
    return true;
  }

  void DrawHostSteps() {
    int64_t count = random_.Between(1, 3);
    for (int64_t i = 0; i < count; ++i) {
      Step step{.kind = static_cast<Step::Kind>(random_.Between(1, 5))};
      step.buffer = static_cast<uint32_t>(random_.Below(plan_.buffers.size()));
      step.salt = random_.Bits();
      if (model_.Do(step) == nullptr) plan_.steps.push_back(std::move(step));
    }
  }

  /// One task on one buffer: when nothing else was to be had.
  void DrawSimplestRun() {
    plan_.steps.push_back({.kind = Step::Kind::wait});
    model_.Do(plan_.steps.back());
    const Buffer& buffer = plan_.buffers[0];
    Body body;
    body.tensors.push_back({Direction::inout, buffer.dtype, buffer.shape});
    Item item{.kind = Item::Kind::task, .id = plan_.next_id++};
    item.uses.push_back({.direction = Direction::inout});
    body.items.push_back(std::move(item));
    Step step{.kind = Step::Kind::run, .body = static_cast<uint32_t>(plan_.bodies.size())};
    step.tensors.push_back({TensorRef::Base::buffer, 0, {}});
    plan_.bodies.push_back(std::move(body));
    plan_.steps.push_back(std::move(step));
  }

  Random random_;
  Plan plan_;
  Model model_;
  int64_t size_ = 1;
  uint64_t graphs_ = 0, repeats_ = 0, predicates_ = 0, afters_ = 0, allocs_ = 0, pauses_ = 0,
           no_deps_ = 0, many_blocks_ = 0, aliases_ = 0, hosts_ = 0;  // percent
  std::vector<Cost> costs_;  // of the bodies of graphs, which come first
  Cost cost_, total_;        // of the body under way, of all runs
  std::vector<std::pair<uint32_t, Cost>> run_bodies_;
  std::vector<TensorRef> recent_;  // in the body under way
  int64_t runs_ = 0;
};

}  // namespace

Plan Generate(uint64_t seed) { return Generator(seed).Draw(); }

}  // namespace precast::fuzz
