#include "fuzz/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>

namespace precast::fuzz {

namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xee};

Tensor Apply(Tensor tensor, const std::vector<ViewStep>& steps) {
  for (const ViewStep& step : steps) {
    std::span<const int64_t> n(step.numbers);
    switch (step.kind) {
      case ViewStep::Kind::box:
        tensor = tensor.view(n.first(n.size() / 2), Shape(n.subspan(n.size() / 2)));
        break;
      case ViewStep::Kind::slice:
        tensor = tensor.slice(static_cast<int>(n[0]), n[1], n[2], n[3]);
        break;
      case ViewStep::Kind::select:
        tensor = tensor.select(static_cast<int>(n[0]), n[1]);
        break;
      case ViewStep::Kind::transpose:
        tensor = tensor.transpose(static_cast<int>(n[0]), static_cast<int>(n[1]));
        break;
      case ViewStep::Kind::reshape:
        tensor = tensor.reshape(Shape(n));
        break;
    }
  }
  return tensor;
}

template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

Arg ConstantArg(DType dtype, uint64_t bits) {
  Arg arg(uint64_t{0});
  WithType(dtype, [&]<typename T>() { arg = Arg(FromBits<T>(bits)); });
  return arg;
}

/// What bodies need beyond their arguments; lives as long as the worker.
struct Source {
  const Plan& plan;
  RecordLayout layout;
  std::vector<std::vector<std::byte>>* seen;
};

/// Calls a body. Recorded bodies are called again only when they have to be, so they note nothing.
class Orchestrating {
 public:
  Orchestrating(const Source& source, uint32_t body, uint32_t depth, uint64_t param, bool recorded,
                Orchestrator& o, const Args& args)
      : source_(source),
        body_(body),
        depth_(depth),
        param_(param),
        recorded_(recorded),
        o_(o),
        args_(args) {}

  void Run() {
    const std::vector<Item>& items = source_.plan.bodies[body_].items;
    for (size_t i = 0; i < items.size(); ++i) {
      const Item& item = items[i];
      if (item.condition && odd_.at(item.condition->first) != item.condition->second) continue;
      Do(item, source_.layout.OfItem(body_, i));
    }
    while (!scopes_.empty()) scopes_.pop_back();
  }

 private:
  void Do(const Item& item, uint64_t record) {
    switch (item.kind) {
      case Item::Kind::task:
        return Submit(item, record);
      case Item::Kind::graph:
        return SubmitGraph(item, record);
      case Item::Kind::alloc:
        created_[item.id] = item.fill ? o_.alloc(item.shape, item.dtype, *item.fill)
                                      : o_.alloc(item.shape, item.dtype);
        return;
      case Item::Kind::scope_begin:
        scopes_.emplace_back(new Scope(o_.scope()));
        return;
      case Item::Kind::scope_end:
        scopes_.pop_back();
        return;
      case Item::Kind::get:
        return Get(item);
      case Item::Kind::set:
        return Set(item);
    }
  }

  Tensor Find(const TensorRef& ref) const {
    return Apply(
        ref.base == TensorRef::Base::argument ? args_.tensor(ref.index) : created_.at(ref.index),
        ref.steps);
  }

  /// Scalars that are passed on: the way to the records.
  void Pass(std::vector<Arg>* list) const {
    for (size_t i = 0; i < kPassedScalars; ++i) list->push_back(args_.bound_scalar<uint64_t>(i));
  }

  Arg ScalarArg(const ScalarRef& scalar) const {
    if (scalar.source == ScalarRef::Source::constant) {
      return ConstantArg(scalar.dtype, scalar.bits);
    }
    Arg arg(uint64_t{0});
    WithType(scalar.dtype, [&]<typename T>() {
      BoundScalar<T> bound = args_.bound_scalar<T>(kPassedScalars + scalar.index);
      arg = scalar.source == ScalarRef::Source::bound ? Arg(bound) : Arg(bound.value());
    });
    return arg;
  }

  std::vector<Arg> TensorArgs(const Item& item) const {
    std::vector<Arg> list;
    for (const Use& use : item.uses) list.emplace_back(use.direction, Find(use.tensor));
    return list;
  }

  std::vector<Task> After(const Item& item) const {
    std::vector<Task> after;
    for (Id id : item.after) {  // one with a condition may not have been submitted
      if (auto found = tasks_.find(id); found != tasks_.end()) after.push_back(found->second);
    }
    return after;
  }

  void Submit(const Item& item, uint64_t record) {
    std::vector<Arg> list = TensorArgs(item);
    if (item.form != Item::Form::order_only) {
      Pass(&list);
      for (uint64_t number : {record, SetupOf(item), ModesOf(item), item.salt + param_}) {
        list.emplace_back(number);
      }
      for (const ScalarRef& scalar : item.scalars) list.push_back(ScalarArg(scalar));
    }
    std::vector<Task> after = After(item);
    std::string name = fmt::format("{}", item.id);
    Predicate predicate;
    SubmitOptions options{.blocks = item.blocks, .name = name, .after = after};
    if (item.when) {
      predicate = {Find(item.when->element), item.when->compare, item.when->constant};
      options.when = predicate;
    }
    Task& task = tasks_[item.id];
    switch (item.form) {
      case Item::Form::vector:
        task = o_.submit(kVectorKernel, list, options);
        return;
      case Item::Form::cube:
        task = o_.submit(kCubeKernel, list, options);
        return;
      case Item::Form::mixed2:
        task = o_.submit(MixedKernel{kCubeKernel, kVectorKernel}, list, options);
        return;
      case Item::Form::mixed3:
        task = o_.submit(MixedKernel{kCubeKernel, kVectorKernel, kVectorKernel}, list, options);
        return;
      case Item::Form::order_only:
        task = o_.submit(kNoKernel, list, options);
        return;
    }
  }

  void SubmitGraph(const Item& item, uint64_t record) {
    std::vector<Arg> list = TensorArgs(item);
    Pass(&list);
    list[item.uses.size() + 2 + depth_] = Arg(record);
    for (const ScalarRef& scalar : item.scalars) list.push_back(ScalarArg(scalar));
    std::vector<Task> after = After(item);
    Predicate predicate;
    GraphOptions options{.after = after};
    if (item.when) {
      predicate = {Find(item.when->element), item.when->compare, item.when->constant};
      options.when = predicate;
    }
    auto call = [](Orchestrator& o, const Args& args, uint64_t source, uint32_t body,
                   uint32_t depth, uint64_t param) {
      Orchestrating(*reinterpret_cast<const Source*>(source), body, depth, param, true, o, args)
          .Run();
    };
    tasks_[item.id] =
        o_.submit_graph(item.body, call, list, options, reinterpret_cast<uint64_t>(&source_),
                        item.body, depth_ + 1, item.param);
  }

  void Get(const Item& item) {
    Tensor tensor = Find(item.uses[0].tensor);
    WithType(tensor.dtype(), [&]<typename T>() {
      auto count = static_cast<size_t>(tensor.size());
      auto values = std::make_unique<T[]>(count);
      if (count == 1) {
        for (int axis = tensor.rank(); axis > 0; --axis) tensor = tensor.select(0, 0);
        values[0] = o_.get_tensor_data<T>(tensor, {});
      } else {
        o_.get_tensor_data<T>(tensor, std::span<T>(values.get(), count));
      }
      const auto* bytes = reinterpret_cast<const std::byte*>(values.get());
      odd_[item.id] = (bytes[0] & std::byte{1}) != std::byte{0};
      if (!recorded_) source_.seen->emplace_back(bytes, bytes + count * sizeof(T));
    });
  }

  void Set(const Item& item) {
    Tensor tensor = Find(item.uses[0].tensor);
    WithType(tensor.dtype(), [&]<typename T>() {
      auto count = static_cast<size_t>(tensor.size());
      std::vector<std::byte> bytes = RandomBytes(tensor.dtype(), tensor.size(), item.salt);
      auto values = std::make_unique<T[]>(count);
      std::memcpy(static_cast<void*>(values.get()), bytes.data(), bytes.size());
      if (count == 1) {
        for (int axis = tensor.rank(); axis > 0; --axis) tensor = tensor.select(0, 0);
        o_.set_tensor_data<T>(tensor, {}, values[0]);
      } else {
        o_.set_tensor_data<T>(tensor, std::span<const T>(values.get(), count));
      }
    });
  }

  const Source& source_;
  uint32_t body_, depth_;
  uint64_t param_;
  bool recorded_;
  Orchestrator& o_;
  const Args& args_;
  std::map<Id, Tensor> created_;
  std::map<Id, Task> tasks_;
  std::map<Id, bool> odd_;
  std::vector<std::unique_ptr<Scope>> scopes_;
};

WorkerOptions WorkerOptionsOf(const Plan& plan, const Way& way) {
  const Settings& s = plan.settings;
  return {.platform = way.platform,
          .threads = way.threads,
          .heap = s.heap,
          .kernel_timeout = std::chrono::milliseconds(s.kernel_timeout ? 600'000 : 0),
          .host_views = s.host_views,
          .host_view_budget = s.host_view_budget,
          .definition_budget = s.definition_budget,
          .max_definitions = s.max_definitions,
          .upload = s.upload};
}

class Execution {
 public:
  Execution(const Plan& plan, const Way& way, Recorder* recorder, Outcome* outcome)
      : plan_(plan),
        way_(way),
        recorder_(recorder),
        outcome_(outcome),
        source_{plan, RecordLayout(plan), &outcome->seen},
        worker_(WorkerOptionsOf(plan, way)) {
    for (const Buffer& buffer : plan.buffers) {
      std::vector<std::byte> bytes = RandomBytes(buffer.dtype, buffer.shape.size(), buffer.salt);
      std::vector<std::byte>& host = host_.emplace_back();
      if (buffer.device) {
        tensors_.push_back(worker_.malloc(buffer.shape, buffer.dtype));
        worker_.copy_to(tensors_.back(), bytes.data(), bytes.size());
        continue;
      }
      host.assign(bytes.size() + 2 * kGuardBytes, kGuard);
      std::copy(bytes.begin(), bytes.end(), host.begin() + kGuardBytes);
      WithType(buffer.dtype, [&]<typename T>() {
        tensors_.push_back(Tensor::host(reinterpret_cast<T*>(&host[kGuardBytes]), buffer.shape));
      });
    }
  }

  void Run() {
    for (const Step& step : plan_.steps) Do(step);
    Wait();
    outcome_->reads = outcome_->seen.size();
    for (uint32_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].device) {
        Read(i);
      } else {
        outcome_->seen.push_back(host_[i]);  // guard bytes and all
      }
    }
  }

 private:
  void Do(const Step& step) {
    const Buffer& buffer = plan_.buffers[step.buffer];
    switch (step.kind) {
      case Step::Kind::run:
        return Launch(step);
      case Step::Kind::wait:
        return Wait();
      case Step::Kind::write: {
        std::vector<std::byte> bytes = RandomBytes(buffer.dtype, buffer.shape.size(), step.salt);
        if (buffer.device) {
          worker_.copy_to(tensors_[step.buffer], bytes.data(), bytes.size());
        } else {
          std::copy(bytes.begin(), bytes.end(), host_[step.buffer].begin() + kGuardBytes);
        }
        return;
      }
      case Step::Kind::fill:
        return worker_.memset(tensors_[step.buffer],
                              buffer.dtype == DType::boolean ? 1 : step.salt & 0xff);
      case Step::Kind::read:
        if (buffer.device) return Read(step.buffer);
        outcome_->seen.push_back(host_[step.buffer]);
        return;
      case Step::Kind::renew: {
        worker_.free(tensors_[step.buffer]);
        tensors_[step.buffer] = worker_.malloc(buffer.shape, buffer.dtype);
        std::vector<std::byte> bytes = RandomBytes(buffer.dtype, buffer.shape.size(), step.salt);
        worker_.copy_to(tensors_[step.buffer], bytes.data(), bytes.size());
        return;
      }
    }
  }

  void Read(uint32_t buffer) {
    const Buffer& b = plan_.buffers[buffer];
    std::vector<std::byte> bytes(static_cast<size_t>(b.shape.size()) * SizeOf(b.dtype));
    worker_.copy_from(bytes.data(), tensors_[buffer], bytes.size());
    outcome_->seen.push_back(std::move(bytes));
  }

  void Wait() {
    for (RunHandle& handle : in_flight_) handle.result();
    in_flight_.clear();
  }

  void Launch(const Step& step) {
    const Body& body = plan_.bodies[step.body];
    std::vector<Arg> list;
    for (size_t i = 0; i < step.tensors.size(); ++i) {
      list.emplace_back(body.tensors[i].direction,
                        Apply(tensors_[step.tensors[i].index], step.tensors[i].steps));
    }
    uint64_t passed[kPassedScalars] = {reinterpret_cast<uint64_t>(recorder_), next_record_};
    for (uint64_t number : passed) list.emplace_back(number);
    for (size_t i = 0; i < body.scalars.size(); ++i) {
      list.push_back(ConstantArg(body.scalars[i], step.scalars[i]));
    }
    next_record_ += source_.layout.OfBody(step.body);
    RunOptions options{.verify_replays = plan_.settings.verify_replays,
                       .oracle = way_.oracle,
                       .reverse_blocks = way_.reverse_blocks,
                       .poison_outputs = way_.reverse_blocks};
    bool in_flight = step.in_flight && !way_.oracle;
    if (step.replayable) {
      const Program& program = ProgramOf(step.body);
      if (in_flight) {
        in_flight_.push_back(worker_.submit(program, list, options));
      } else {
        worker_.run(program, list, options);
      }
      return;
    }
    Orchestration orchestration = [this, &step](Orchestrator& o, const Args& args) {
      Orchestrating(source_, step.body, 0, 0, false, o, args).Run();
    };
    if (in_flight) {
      in_flight_.push_back(worker_.submit(orchestration, list, options));
    } else {
      worker_.run(orchestration, list, options);
    }
  }

  const Program& ProgramOf(uint32_t body) {
    auto [at, added] = programs_.try_emplace(body);
    if (!added) return at->second;
    Program& program = at->second;
    program.name = fmt::format("body {}", body);
    program.orchestration = [this, body](Orchestrator& o, const Args& args) {
      Orchestrating(source_, body, 0, 0, true, o, args).Run();
    };
    for (const Parameter& p : plan_.bodies[body].tensors) {
      program.signature.push_back({p.direction, p.dtype, p.shape.rank(), "tensor"});
    }
    for (size_t i = 0; i < kPassedScalars; ++i) {
      program.signature.push_back({Direction::scalar, DType::u64, 0, "passed"});
    }
    for (DType dtype : plan_.bodies[body].scalars) {
      program.signature.push_back({Direction::scalar, dtype, 0, "scalar"});
    }
    program.kernels = Kernels();
    program.replayable = true;
    return worker_.load(program);
  }

  const Plan& plan_;
  const Way& way_;
  Recorder* recorder_;
  Outcome* outcome_;
  Source source_;
  std::map<uint32_t, Program> programs_;  // outlive the worker
  std::vector<std::vector<std::byte>> host_;
  Worker worker_;
  std::vector<Tensor> tensors_;
  std::deque<RunHandle> in_flight_;
  uint64_t next_record_ = 0;
};

}  // namespace

std::string ToString(const Way& way) {
  if (way.oracle) {
    return fmt::format("{} by the oracle{}", way.platform,
                       way.reverse_blocks ? ", blocks in reverse and outputs poisoned" : "");
  }
  return fmt::format("{} with {} thread{}", way.platform, way.threads, way.threads == 1 ? "" : "s");
}

Outcome Execute(const Plan& plan, const Way& way) {
  RecordLayout layout(plan);
  uint64_t records = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::run) records += layout.OfBody(step.body);
  }
  Recorder recorder(records, !way.oracle && way.threads > 1);
  Outcome outcome;
  try {
    Execution(plan, way, &recorder, &outcome).Run();
  } catch (const Error& error) {
    outcome.failed = error;
  }
  outcome.records = recorder.records();
  return outcome;
}

}  // namespace precast::fuzz
