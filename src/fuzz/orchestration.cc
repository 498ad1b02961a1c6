#include "fuzz/orchestration.h"

#include "fuzz/kernels.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace precast::fuzz {

namespace {

template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

/// A call of a body.
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
    GraphKey key(item.body);
    if (source_.records_always) key = GraphKey(~source_.submissions++);
    tasks_[item.id] =
        o_.submit_graph(key, call, list, options, reinterpret_cast<uint64_t>(&source_), item.body,
                        depth_ + 1, item.param);
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

}  // namespace

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

Arg ConstantArg(DType dtype, uint64_t bits) {
  Arg arg(uint64_t{0});
  WithType(dtype, [&]<typename T>() { arg = Arg(FromBits<T>(bits)); });
  return arg;
}

void CallBody(const Source& source, uint32_t body, bool recorded, Orchestrator& o,
              const Args& args) {
  Orchestrating(source, body, 0, 0, recorded, o, args).Run();
}

}  // namespace precast::fuzz
