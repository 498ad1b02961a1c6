// Orchestrator: what an orchestration builds its task graph with.
//
// An orchestration is a plain function on the host. It receives its arguments, may look into
// them, and submits tasks. The contract is program order: the run gives the bytes that running its
// tasks one after another, in the order of submission, would give. Order between tasks follows from
// what they read and write; nothing has to be declared.
//
// Threads: an Orchestrator belongs to the thread that its orchestration was called on, and ends
// with that call. Every error leaves the graph as it was before the failing call.
#pragma once

#include <precast/argument.h>
#include <precast/graph.h>
#include <precast/kernel.h>
#include <precast/tensor.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace precast {

namespace detail {
class RunBuilder;

/// Where an element can be read with a load, because the call that found out has been made before:
/// no task of this run writes its buffer, and no run was launched since that might write it.
struct ReadWindows {
  const char* const* data = nullptr;  // by buffer: its bytes on the host; null: not known
  uint32_t count = 0;
  uint32_t serial = 0;                           // of the run
  const std::atomic<uint64_t>* epoch = nullptr;  // changes with launches that write child memory
  uint64_t seen = 0;                             // the epoch in which `data` is right

  /// Null when it takes a call to know.
  const char* Find(const Tensor& tensor, std::initializer_list<int64_t> index, DType dtype,
                   size_t element_bytes) const {
    if (tensor.generation_ != serial || tensor.buffer_ >= count ||
        tensor.kind_ != static_cast<uint8_t>(Tensor::Kind::run) ||
        tensor.dtype_ != static_cast<uint8_t>(dtype) || tensor.rank_ != index.size()) {
      return nullptr;
    }
    const char* base = data[tensor.buffer_];
    if (base == nullptr || epoch->load(std::memory_order_acquire) != seen) return nullptr;
    uint64_t element = 0;
    const int64_t* at = index.begin();
    for (size_t axis = 0; axis < index.size(); ++axis) {
      if (static_cast<uint64_t>(at[axis]) >= tensor.shape_[axis]) return nullptr;
      element += static_cast<uint64_t>(at[axis]) * tensor.strides_[axis];
    }
    return base + tensor.offset_ + element * element_bytes;
  }
};

/// Contiguous elements of a container or span, of any kind but a braced list.
template <typename C>
concept Elements = HostBuffer<std::remove_reference_t<C>>;
template <Elements C>
using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>;
}  // namespace detail

/// Names a submitted task of one run, or of one recorded graph.
class Task {
 public:
  Task() = default;

 private:
  friend class detail::RunBuilder;
  Task(uint32_t id, uint32_t serial) : id_(id), serial_(serial) {}
  uint32_t id_ = 0;
  uint32_t serial_ = 0;
};

/// Tasks that must end before another starts. Refers to its source; valid during the call.
class TaskList {
 public:
  TaskList() = default;
  TaskList(std::initializer_list<Task> tasks)  // NOLINT: implicit by design
      : tasks_(tasks.begin(), tasks.size()) {}
  TaskList(std::span<const Task> tasks) : tasks_(tasks) {}     // NOLINT
  TaskList(const std::vector<Task>& tasks) : tasks_(tasks) {}  // NOLINT
  TaskList(const Task& task) : tasks_(&task, 1) {}             // NOLINT

  const Task* begin() const { return tasks_.data(); }
  const Task* end() const { return tasks_.data() + tasks_.size(); }
  size_t size() const { return tasks_.size(); }

 private:
  std::span<const Task> tasks_;
};

enum class Compare : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

/// A condition on one element of an integer or bool tensor, read when the task is ready. A task
/// whose condition is false is skipped: its outputs keep their bytes and its consumers go on.
struct Predicate {
  Tensor element;  ///< exactly one element; use `select` / `view`
  Compare compare = Compare::not_equal;
  int64_t constant = 0;
};

/// The condition "element `index` of `tensor` compares true with `constant`".
Predicate when(const Tensor& tensor, std::initializer_list<int64_t> index, Compare compare,
               int64_t constant);

/// A predicate or none. Refers to its source; valid during the call.
class PredicateRef {
 public:
  PredicateRef() = default;
  PredicateRef(const Predicate& predicate) : predicate_(&predicate) {}  // NOLINT: implicit
  const Predicate* get() const { return predicate_; }

 private:
  const Predicate* predicate_ = nullptr;
};

struct SubmitOptions {
  uint32_t blocks = 1;         ///< how often the kernel runs, 1 … 2^32 - 1
  std::string_view name = {};  ///< for reports and messages; the kernel's name by default
  TaskList after = {};         ///< order beyond what tensors imply
  PredicateRef when = {};      ///< run only if it holds
};

/// The arguments of a run as its orchestration sees them, or the boundary of a recorded graph as
/// its body does.
class Args {
 public:
  size_t tensors() const { return tensors_.size(); }
  size_t scalars() const { return scalars_.size(); }
  /// Tensor argument `i`. Throws `Error{out_of_range}`.
  const Tensor& tensor(size_t i) const {
    if (i >= tensors_.size()) [[unlikely]]
      FailTensor(i);
    return tensors_[i];
  }
  /// Scalar argument `i` (numbered apart from tensors). `T` must be the type that was passed. In
  /// the body of a graph: the recording then is for this value only.
  template <Element T>
  T scalar(size_t i) const {
    uint64_t bits = ScalarBits(i, kDTypeOf<T>);
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
  }
  /// The same, without looking at its value: what a recorded graph passes on.
  template <Element T>
  BoundScalar<T> bound_scalar(size_t i) const {
    CheckScalar(i, kDTypeOf<T>);
    return BoundScalar<T>(this, static_cast<uint32_t>(i), scalars_[i].bound, scalars_[i].bits,
                          serial_);
  }

 private:
  friend class detail::RunBuilder;
  template <Element T>
  friend class BoundScalar;
  struct Scalar {
    uint64_t bits;
    DType dtype;
    mutable bool looked_at = false;  // by a body, which then is for this value
    uint32_t bound = 0;              // 1 + its number on the boundary of the graph under record
  };
  [[noreturn]] void FailTensor(size_t i) const;
  void CheckScalar(size_t i, DType dtype) const;
  uint64_t ScalarBits(size_t i, DType dtype) const;
  void CheckSerial(uint32_t serial) const;
  std::vector<Tensor> tensors_;
  std::vector<Scalar> scalars_;
  uint32_t serial_ = 0;  // of the run or recording; 0: it is not the one being built
};

template <Element T>
T BoundScalar<T>::value() const {
  args_->CheckSerial(serial_);
  return args_->template scalar<T>(index_);
}
template <Element T>
BoundScalar<T>::operator Arg() const {
  return Arg::bound_scalar(bound_, bits_, kDTypeOf<T>, serial_);
}

/// How a recorded graph is submitted.
struct GraphOptions {
  std::string_view name = {};  ///< for reports and messages; the key by default
  TaskList after = {};         ///< order beyond what tensors imply
  PredicateRef when = {};      ///< instantiate only if it holds
};

/// Ends a scope when it is destroyed. Not copyable; end scopes in the reverse order of opening.
class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  friend class Orchestrator;
  explicit Scope(detail::RunBuilder* builder, uint32_t depth) : builder_(builder), depth_(depth) {}
  detail::RunBuilder* builder_;
  uint32_t depth_;
};

class Orchestrator {
 public:
  /// Appends one task. Errors: `mismatch`, `stale`, `out_of_range`, `invalid_argument`,
  /// `not_ready` (an `in` that nothing wrote), `not_found` (a kernel this platform lacks).
  Task submit(const Kernel& kernel, ArgList args, const SubmitOptions& options = {});
  Task submit(const MixedKernel& kernel, ArgList args, const SubmitOptions& options = {});

  /// Submits a recorded graph as one task: see precast/graph.h. `body` is a function or a lambda
  /// without captures, called as body(Orchestrator&, const Args&, params...). Errors besides those
  /// of `submit`: `mismatch`, `not_ready` and `invalid_argument` for what a body must not do.
  template <typename Body, typename... Params>
    requires std::invocable<Body, Orchestrator&, const Args&, const Params&...>
  Task submit_graph(GraphKey key, Body body, ArgList args, const Params&... params) {
    return submit_graph(key, body, args, GraphOptions{}, params...);
  }
  template <typename Body, typename... Params>
    requires std::invocable<Body, Orchestrator&, const Args&, const Params&...>
  Task submit_graph(GraphKey key, Body body, ArgList args, const GraphOptions& options,
                    const Params&... params) {
    static_assert(
        std::is_pointer_v<Body> || std::is_empty_v<Body>,
        "the body of a graph is a function or a lambda without captures: what it captures "
        "would be that of the first submission in all others");
    detail::GraphParams encoded;
    (encoded.Add(params), ...);
    auto call = [&](Orchestrator& o, const Args& a) { body(o, a, params...); };
    detail::GraphBody erased{{&detail::kAddressOf<std::tuple<Body, Params...>>, nullptr},
                             [](const void* context, Orchestrator& o, const Args& a) {
                               (*static_cast<const decltype(call)*>(context))(o, a);
                             },
                             &call};
    if constexpr (std::is_pointer_v<Body>) {
      erased.identity[1] = reinterpret_cast<const void*>(body);
    }
    return SubmitGraph(key, erased, encoded.bytes(), args, options);
  }

  /// A tensor in the run's own device memory. It dies with the innermost open scope. In the body of
  /// a graph each instance has one of its own.
  Tensor alloc(const Shape& shape, DType dtype);
  /// The same, every element set to `fill`, which must be representable in `dtype`. This adds one
  /// task, which writes the tensor.
  Tensor alloc(const Shape& shape, DType dtype, double fill);

  /// Opens a scope: `auto s = o.scope();`
  [[nodiscard]] Scope scope();

  /// Reads one element of an argument now, or of device memory that outlives runs. Waits for
  /// earlier runs that write it; an error when a submitted task of this run does. In the body of a
  /// graph the recording then is for these bytes only (a guard). Costs about a
  /// load when read before, a driver call for each access where device memory can't be mapped: then
  /// read ranges.
  template <Element T>
  T get_tensor_data(const Tensor& tensor, std::initializer_list<int64_t> index) {
    T value;
    const char* at = windows_.Find(tensor, index, kDTypeOf<T>, sizeof(T));
    if (at != nullptr) [[likely]] {
      __builtin_memcpy(static_cast<void*>(&value), at, sizeof(T));
    } else {
      Get(tensor, std::span(index.begin(), index.size()), kDTypeOf<T>, &value, 1);
    }
    return value;
  }
  /// Reads a whole contiguous tensor or view with one access; `values` (a vector, an array, a span)
  /// has exactly its size.
  template <detail::Elements C>
    requires(!std::is_const_v<detail::ElementOf<C>>)
  void get_tensor_data(const Tensor& tensor, C&& values) {
    Get(tensor, {}, kDTypeOf<detail::ElementOf<C>>, std::data(values),
        static_cast<int64_t>(std::size(values)));
  }
  template <Element T>
  void get_tensor_data(const Tensor& tensor, std::span<T> values) {
    Get(tensor, {}, kDTypeOf<T>, values.data(), static_cast<int64_t>(values.size()));
  }

  /// Writes one element of an argument now; an error in the body of a graph. Waits for earlier runs
  /// that touch it; an error when a submitted task of this run does. A host argument's own memory
  /// changes only when the run succeeds, and only if it is not an `in`; device memory changes at
  /// once and stays changed.
  template <Element T>
  void set_tensor_data(const Tensor& tensor, std::initializer_list<int64_t> index, T value) {
    Set(tensor, std::span(index.begin(), index.size()), kDTypeOf<T>, &value, 1);
  }
  /// Writes a whole contiguous tensor or view with one access; `values` has exactly its size.
  template <detail::Elements C>
  void set_tensor_data(const Tensor& tensor, const C& values) {
    Set(tensor, {}, kDTypeOf<detail::ElementOf<const C>>, std::data(values),
        static_cast<int64_t>(std::size(values)));
  }
  template <Element T>
  void set_tensor_data(const Tensor& tensor, std::span<const T> values) {
    Set(tensor, {}, kDTypeOf<T>, values.data(), static_cast<int64_t>(values.size()));
  }

  /// Ends the orchestration: the run fails with this message. `code` is the caller's own number.
  [[noreturn]] void report_fatal(int code, std::string_view message);

  Orchestrator(const Orchestrator&) = delete;
  Orchestrator& operator=(const Orchestrator&) = delete;

 private:
  friend class detail::RunBuilder;
  explicit Orchestrator(detail::RunBuilder* builder) : builder_(builder) {}
  Task SubmitGraph(GraphKey key, const detail::GraphBody& body, std::string_view params,
                   ArgList args, const GraphOptions& options);
  void Get(const Tensor& tensor, std::span<const int64_t> index, DType dtype, void* values,
           int64_t count);
  void Set(const Tensor& tensor, std::span<const int64_t> index, DType dtype, const void* values,
           int64_t count);
  detail::RunBuilder* builder_;
  detail::ReadWindows windows_;
};

/// The function that builds a run.
using Orchestration = std::function<void(Orchestrator&, const Args&)>;

}  // namespace precast
