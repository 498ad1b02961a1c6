// Kernels: the functions that cores run, and what they see.
//
//   PRECAST_KERNEL(scale, Core::vector)(const KernelContext& k) {   // runs once per block
//     auto x = k.tensor<const float>(0);
//     auto y = k.tensor<float>(1);
//     float factor = k.scalar<float>(0);
//     for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) y[i] = factor *
//     x[i];
//   }
//
// A kernel is called once for each block of a task, in any order and on any thread, at the same
// time as other blocks. It reads its `in` tensors, writes every element of its `out` tensors (all
// blocks together), and touches nothing else. It may throw: the run then fails and names the task.
#pragma once

#include <precast/dtype.h>
#include <precast/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace precast {

class KernelContext;
class CostContext;

/// The kind of core that a kernel runs on: cube (matrix unit, AIC) or vector (AIV).
enum class Core : uint8_t { cube = 0, vector = 1 };

using KernelFunction = void (*)(const KernelContext&);

/// What a task moves and computes, all of its blocks together; they share it evenly.
struct KernelCost {
  int64_t bytes = 0;  ///< read from and written to device memory
  /// Of a cube core: multiplications and additions. Of a vector core: elements that an instruction
  /// works on, whatever it does with them.
  int64_t operations = 0;
};

/// Tells what a task costs by its arguments, for the modelled timeline (docs/timeline.md). It runs
/// on the host and never affects a run.
///
///   KernelCost ScaleCost(const CostContext& c) { return {c.bytes(), c.size(0)}; }
using CostFunction = KernelCost (*)(const CostContext&);

/// What a chip does in a second, against which costs are held.
struct ChipRates {
  uint64_t bandwidth = 0;          ///< bytes of device memory, all cores together; 0: no model
  uint64_t core_bandwidth = 0;     ///< bytes that one core can move
  uint64_t cube_operations = 0;    ///< of one cube core
  uint64_t vector_operations = 0;  ///< of one vector core
  uint64_t dispatch_ps = 0;        ///< picoseconds before each block in which its core does nothing
  std::string_view assumed = "";   ///< which of these nobody measured, in words; "" none, "all"
};

/// A kernel, as a constant. `platforms` is a comma-separated list of the platforms on which it
/// exists; empty means all of them. Without `cost` a task is taken to move the bytes of its tensors
/// and to compute nothing.
struct Kernel {
  const char* name = nullptr;
  Core core = Core::vector;
  KernelFunction function = nullptr;
  const char* platforms = "";
  CostFunction cost = nullptr;
};

/// One cube kernel and one or two vector kernels that run as one task. Each of them runs once per
/// block; they must not talk to each other. `KernelContext::sub_block()` tells the two vector
/// kernels apart (0 and 1).
struct MixedKernel {
  Kernel cube;
  Kernel vector0;
  Kernel vector1{};
};

/// Submitting it makes a task that only orders others: it runs nothing.
inline constexpr Kernel kNoKernel{"dependency", Core::vector, nullptr, ""};

/// Defines the constant `name` of type `Kernel`; the function's body follows the parameter list.
/// Further arguments: the platforms on which the kernel exists, its cost, or both in this order.
///
///   PRECAST_KERNEL(scale, Core::vector, ScaleCost)(const KernelContext& k) { … }
#define PRECAST_KERNEL(name, core, ...)                                                    \
  static void name##_body(const ::precast::KernelContext&);                                \
  [[maybe_unused]] static constexpr ::precast::Kernel name =                               \
      ::precast::detail::MakeKernel(#name, core, &name##_body __VA_OPT__(, ) __VA_ARGS__); \
  static void name##_body

namespace detail {

constexpr Kernel MakeKernel(const char* name, Core core, KernelFunction function,
                            const char* platforms = "", CostFunction cost = nullptr) {
  return {name, core, function, platforms, cost};
}
constexpr Kernel MakeKernel(const char* name, Core core, KernelFunction function,
                            CostFunction cost) {
  return {name, core, function, "", cost};
}

/// An argument of the running task, looked up in the image.
struct ResolvedTensor {
  void* data;
  const uint32_t* shape;  // kMaxRank extents, then kMaxRank strides, in elements
  int64_t size;
  uint32_t rank;
  bool contiguous;
};

struct KernelContextAccess;

[[noreturn]] void FailIndex(int64_t index, int64_t size);
[[noreturn]] void FailIndexAt(int axis, int64_t index, int64_t extent);
[[noreturn]] void FailRank(size_t found, uint32_t rank);

#ifdef PRECAST_CHECK_BOUNDS
inline constexpr bool kCheckBounds = true;
#else
inline constexpr bool kCheckBounds = false;
#endif

}  // namespace detail

/// What a kernel sees of a tensor: typed and strided. Index checks exist when
/// PRECAST_CHECK_BOUNDS is defined (preset `dev` and the sanitizers).
template <typename T>
class TensorView {
 public:
  explicit TensorView(const detail::ResolvedTensor& tensor)
      : data_(static_cast<T*>(tensor.data)),
        shape_(tensor.shape),
        size_(tensor.size),
        rank_(tensor.rank),
        contiguous_(tensor.contiguous) {}

  T* data() const { return data_; }
  int rank() const { return static_cast<int>(rank_); }
  int64_t size() const { return size_; }
  int64_t shape(int axis) const { return shape_[axis]; }
  int64_t stride(int axis) const { return shape_[5 + axis]; }
  bool is_contiguous() const { return contiguous_; }

  /// Element number `i` in row-major order of the view's shape, whatever its strides.
  T& operator[](int64_t i) const {
    if constexpr (detail::kCheckBounds) {
      if (i < 0 || i >= size_) detail::FailIndex(i, size_);
    }
    return contiguous_ ? data_[i] : data_[Strided(i)];
  }

  /// The element at one index per axis.
  template <typename... Index>
  T& operator()(Index... index) const {
    if constexpr (detail::kCheckBounds) {
      if (sizeof...(Index) != rank_) detail::FailRank(sizeof...(Index), rank_);
    }
    int64_t offset = 0;
    int axis = 0;
    ((offset += At(axis, static_cast<int64_t>(index)), ++axis), ...);
    return data_[offset];
  }

 private:
  int64_t At(int axis, int64_t index) const {
    if constexpr (detail::kCheckBounds) {
      if (index < 0 || index >= shape(axis)) detail::FailIndexAt(axis, index, shape(axis));
    }
    return index * stride(axis);
  }
  int64_t Strided(int64_t i) const {
    int64_t offset = 0;
    for (int axis = static_cast<int>(rank_) - 1; axis >= 0; --axis) {
      offset += i % shape(axis) * stride(axis);
      i /= shape(axis);
    }
    return offset;
  }

  T* data_;
  const uint32_t* shape_;
  int64_t size_;
  uint32_t rank_;
  bool contiguous_;
};

/// What one block of a task is given. Valid during the call.
class KernelContext {
 public:
  /// Tensor argument `i` (tensors and scalars are numbered apart). `T` must match its dtype, and be
  /// const for an `in`; anything else fails the run with a message that names the task.
  template <typename T>
    requires Element<T>
  TensorView<T> tensor(size_t i) const {
    return TensorView<T>(Resolve(i, kDTypeOf<T>, !std::is_const_v<T>));
  }

  /// Scalar argument `i`. `T` must be the type that was submitted.
  template <Element T>
  T scalar(size_t i) const {
    uint64_t bits = ScalarBits(i, kDTypeOf<T>);
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
  }

  size_t tensors() const;
  size_t scalars() const;
  /// The dtype of tensor argument `i`, for kernels that take several.
  DType dtype(size_t i) const;

  uint32_t block() const { return block_; }
  uint32_t blocks() const { return blocks_; }
  /// Which vector kernel of a mixed task this is: 0 or 1; 0 elsewhere.
  uint32_t sub_block() const { return sub_block_; }

  /// The part [block_begin(n), block_end(n)) of n items that this block owns: contiguous, disjoint,
  /// sizes differing by at most one.
  int64_t block_begin(int64_t n) const { return Split(n, block_); }
  int64_t block_end(int64_t n) const { return Split(n, block_ + 1); }

  /// Translates a device address that was stored in a tensor. What lies there is invisible to the
  /// inference of order. Fails the run when it is not an address of this device.
  void* pointer(uint64_t address) const;

  /// Fails the run with this message.
  [[noreturn]] void fail(std::string_view message) const;

  /// Name of the running task, for messages.
  std::string_view task_name() const;

  /// For the executor only.
  KernelContext(const void* instance, const void* task, uint32_t block, uint32_t blocks,
                uint32_t sub_block)
      : instance_(instance), task_(task), block_(block), blocks_(blocks), sub_block_(sub_block) {}

 private:
  friend struct detail::KernelContextAccess;
  detail::ResolvedTensor Resolve(size_t i, DType dtype, bool writable) const;
  uint64_t ScalarBits(size_t i, DType dtype) const;
  int64_t Split(int64_t n, uint32_t block) const {
    int64_t whole = n / blocks_, rest = n % blocks_;
    return whole * block + std::min<int64_t>(block, rest);
  }

  const void* instance_;
  const void* task_;
  uint32_t block_;
  uint32_t blocks_;
  uint32_t sub_block_;
};

/// What a cost function sees: the arguments of one task, but no element of a tensor. Valid during
/// the call.
class CostContext {
 public:
  size_t tensors() const;
  DType dtype(size_t tensor) const;
  int64_t shape(size_t tensor, int axis) const;
  /// Number of elements.
  int64_t size(size_t tensor) const;
  /// Bytes of all elements; twice for an `inout`, which is read and written.
  int64_t bytes(size_t tensor) const;
  /// The same of all tensors: what a task moves whose blocks share all of them.
  int64_t bytes() const;

  /// Scalar argument `i`. `T` must be the type that was submitted.
  template <Element T>
  T scalar(size_t i) const {
    uint64_t bits = ScalarBits(i, kDTypeOf<T>);
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
  }

  uint32_t blocks() const;

  /// For the library only. `scalars` are those of the instance, or null.
  CostContext(const void* image, const void* task, const uint64_t* scalars)
      : image_(image), task_(task), scalars_(scalars) {}

 private:
  uint64_t ScalarBits(size_t i, DType dtype) const;

  const void* image_;
  const void* task_;
  const uint64_t* scalars_;
};

}  // namespace precast
