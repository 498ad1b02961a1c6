#include "fuzz/generator.h"

#include "fuzz/body_generator.h"
#include "fuzz/draw.h"

#include <algorithm>
#include <utility>

namespace precast::fuzz {

namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : drawing_(seed) {}

  Plan Draw() {
    Random& random = drawing_.random;
    DrawSettings();
    int64_t buffers = random.Between(1, 6);
    for (int64_t i = 0; i < buffers; ++i) {
      Shape shape = DrawShape(random);
      drawing_.plan.buffers.push_back(
          {random.Percent(60), DrawDType(random), shape, random.Bits()});
    }
    drawing_.model = Model(drawing_.plan);
    if (drawing_.taste.graphs > 0) DrawGraphBodies();
    int64_t size = drawing_.taste.size;
    int64_t runs = size > 200 ? 1 : random.Between(1, 6);
    for (int64_t i = 0; i < runs; ++i) DrawRun(std::max<int64_t>(1, size / runs));
    for (int i = 0; i < 20 && runs_ == 0; ++i) DrawRun(1);
    if (runs_ == 0) DrawSimplestRun();
    return std::move(drawing_.plan);
  }

 private:
  void DrawSettings() {
    Settings& s = drawing_.plan.settings;
    if (drawing_.random.Percent(50)) s.heap = Bytes{256} << drawing_.random.Below(8);
    s.host_views = drawing_.random.Pick({HostViewPolicy::cache, HostViewPolicy::cache,
                                         HostViewPolicy::rebuild, HostViewPolicy::copy});
    if (drawing_.random.Percent(30))
      s.host_view_budget = drawing_.random.Pick({Bytes{0}, Bytes{4096}, Bytes{8192}});
    if (drawing_.random.Percent(30))
      s.definition_budget = drawing_.random.Pick({Bytes{0}, Bytes{1000}, Bytes{4000}});
    if (drawing_.random.Percent(30)) s.max_definitions = drawing_.random.Below(4);
    if (drawing_.random.Percent(20)) s.upload = UploadMode::per_submission;
    s.verify_replays = drawing_.random.Percent(20);
    s.kernel_timeout = drawing_.random.Percent(10);
  }

  void DrawGraphBodies() {
    int64_t bodies = drawing_.random.Between(1, 4);
    for (int64_t i = 0; i < bodies; ++i) {
      Body body;
      int64_t tensors = drawing_.random.Between(1, 4);
      for (int64_t n = 0; n < tensors; ++n) {
        // Shapes that views of the buffers have.
        const Buffer& buffer = drawing_.random.Pick(drawing_.plan.buffers);
        Place place = Whole(0, buffer.dtype, buffer.shape);
        std::vector<ViewStep> steps;
        if (drawing_.random.Percent(70)) DrawSteps(drawing_.random, place, &steps);
        place = *Apply(place, steps);
        body.tensors.push_back(
            {drawing_.random.Pick(
                 {Direction::in, Direction::out, Direction::inout, Direction::inout}),
             place.dtype, Shape(std::span(place.shape.data(), static_cast<size_t>(place.rank)))});
      }
      body.scalars = DrawScalarTypes(drawing_.random);
      BodyGenerator generator(drawing_, drawing_.model.BeginBody(body), &body);
      generator.Draw(drawing_.random.Between(1, std::min<int64_t>(drawing_.taste.size, 12)));
      generator.Complete();
      drawing_.plan.bodies.push_back(std::move(body));
      drawing_.costs.push_back(generator.cost());
      drawing_.model = Model(drawing_.plan);  // without the body's memory
    }
  }

  // Steps.

  TensorRef DrawArgument(uint32_t buffer) {
    TensorRef ref{TensorRef::Base::buffer, buffer, {}};
    const Buffer& b = drawing_.plan.buffers[buffer];
    if (drawing_.random.Percent(25))
      DrawSteps(drawing_.random, Whole(buffer, b.dtype, b.shape), &ref.steps);
    return ref;
  }

  Shape ShapeOf(const TensorRef& ref) {
    const Buffer& buffer = drawing_.plan.buffers[ref.index];
    Place place = *Apply(Whole(ref.index, buffer.dtype, buffer.shape), ref.steps);
    return Shape(std::span(place.shape.data(), static_cast<size_t>(place.rank)));
  }

  void DrawRun(int64_t size) {
    if (drawing_.random.Percent(drawing_.taste.hosts)) DrawHostSteps();
    if (drawing_.total.tasks >= kMaxTasks || drawing_.total.records >= kMaxRecords) return;
    if (!run_bodies_.empty() && drawing_.random.Percent(drawing_.taste.repeats) && RepeatRun())
      return;
    Step step{.kind = Step::Kind::run};
    step.in_flight = drawing_.random.Percent(35);
    step.replayable = drawing_.random.Percent(drawing_.taste.graphs / 2);
    Body body;
    int64_t tensors =
        drawing_.random.Between(1, static_cast<int64_t>(drawing_.plan.buffers.size()) + 1);
    for (int64_t i = 0; i < tensors; ++i) {
      TensorRef ref =
          DrawArgument(static_cast<uint32_t>(drawing_.random.Below(drawing_.plan.buffers.size())));
      Direction direction = drawing_.random.Pick(
          {Direction::in, Direction::out, Direction::inout, Direction::inout, Direction::inout});
      body.tensors.push_back({direction, drawing_.plan.buffers[ref.index].dtype, ShapeOf(ref)});
      step.tensors.push_back(std::move(ref));
    }
    body.scalars = DrawScalarTypes(drawing_.random);
    for (DType dtype : body.scalars) step.scalars.push_back(DrawScalar(drawing_.random, dtype));
    step.body = static_cast<uint32_t>(drawing_.plan.bodies.size());
    drawing_.plan.bodies.push_back(body);  // its boundary; the items follow
    Model before = drawing_.model;
    Model::Frame frame;
    if (drawing_.model.BeginRun(step, &frame) != nullptr) {
      Undo(&before);
      return;
    }
    BodyGenerator generator(drawing_, std::move(frame), &body);
    generator.Draw(size);
    generator.Complete();
    if (drawing_.model.End(generator.frame()) != nullptr) {
      Undo(&before);
      return;
    }
    drawing_.model.EndRun(step);
    drawing_.plan.bodies.back() = std::move(body);
    run_bodies_.push_back({step.body, generator.cost()});
    Finish(std::move(step), generator.cost());
  }

  void Undo(Model* before) {
    drawing_.plan.bodies.pop_back();
    drawing_.model = std::move(*before);
  }

  /// A step that the model has accepted.
  void Finish(Step step, const Cost& cost) {
    drawing_.total.tasks += cost.tasks;
    drawing_.total.records += cost.records;
    ++runs_;
    drawing_.plan.steps.push_back(std::move(step));
  }

  /// An earlier run again, with other scalars.
  bool RepeatRun() {
    auto [index, cost] = drawing_.random.Pick(run_bodies_);
    if (drawing_.total.tasks + cost.tasks > kMaxTasks ||
        drawing_.total.records + cost.records > kMaxRecords) {
      return false;
    }
    auto earlier =
        std::find_if(drawing_.plan.steps.begin(), drawing_.plan.steps.end(),
                     [&](const Step& s) { return s.kind == Step::Kind::run && s.body == index; });
    Step step = *earlier;
    step.in_flight = drawing_.random.Percent(35);
    for (size_t i = 0; i < step.scalars.size(); ++i) {
      if (drawing_.random.Percent(50))
        step.scalars[i] = DrawScalar(drawing_.random, drawing_.plan.bodies[index].scalars[i]);
    }
    Model before = drawing_.model;
    if (drawing_.model.Do(step) != nullptr) {
      drawing_.model = std::move(before);
      return false;
    }
    Finish(std::move(step), cost);
    return true;
  }

  void DrawHostSteps() {
    int64_t count = drawing_.random.Between(1, 3);
    for (int64_t i = 0; i < count; ++i) {
      Step step{.kind = static_cast<Step::Kind>(drawing_.random.Between(1, 5))};
      step.buffer = static_cast<uint32_t>(drawing_.random.Below(drawing_.plan.buffers.size()));
      step.salt = drawing_.random.Bits();
      if (drawing_.model.Do(step) == nullptr) drawing_.plan.steps.push_back(std::move(step));
    }
  }

  /// One task on one buffer: when nothing else was to be had.
  void DrawSimplestRun() {
    drawing_.plan.steps.push_back({.kind = Step::Kind::wait});
    drawing_.model.Do(drawing_.plan.steps.back());
    const Buffer& buffer = drawing_.plan.buffers[0];
    Body body;
    body.tensors.push_back({Direction::inout, buffer.dtype, buffer.shape});
    Item item{.kind = Item::Kind::task, .id = drawing_.plan.next_id++};
    item.uses.push_back({.direction = Direction::inout});
    body.items.push_back(std::move(item));
    Step step{.kind = Step::Kind::run, .body = static_cast<uint32_t>(drawing_.plan.bodies.size())};
    step.tensors.push_back({TensorRef::Base::buffer, 0, {}});
    drawing_.plan.bodies.push_back(std::move(body));
    drawing_.plan.steps.push_back(std::move(step));
  }

  Drawing drawing_;
  std::vector<std::pair<uint32_t, Cost>> run_bodies_;
  int64_t runs_ = 0;
};

}  // namespace

Plan Generate(uint64_t seed) { return Generator(seed).Draw(); }

}  // namespace precast::fuzz
