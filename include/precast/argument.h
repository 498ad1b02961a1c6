// Arguments: how tensors and scalars are passed to `Worker::run` and to `Orchestrator::submit`.
//
//   o.submit(axpy, {in(x), inout(y), 2.5f});
//
// A direction is a promise: `in` is only read; `out` is written completely, whatever was there is
// gone; `inout` is read and written. `no_dep` may be read and written but orders nothing.
#pragma once

#include <precast/tensor.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace precast {

/// Values are part of the image format. `scalar` marks an argument that is no tensor.
enum class Direction : uint8_t { scalar = 0, in = 1, out = 2, inout = 3, no_dep = 4 };

std::string_view Name(Direction direction);

/// One argument: a tensor with a direction, or a scalar. `in(t)` of a named tensor refers to it and
/// copies nothing, as long as the argument stays in the list it was written in; moved or copied
/// anywhere else, the argument holds its own copy of the tensor.
class Arg {
 public:
  /// A scalar of any arithmetic type, or f16 / bf16.
  template <Element T>
  Arg(T value)  // NOLINT: implicit by design
      : tensor_(nullptr),
        bits_(0),
        direction_(Direction::scalar),
        dtype_(kDTypeOf<T>),
        bound_(0),
        serial_(0) {
    __builtin_memcpy(&bits_, &value, sizeof(T));
  }
  Arg(Direction direction, const Tensor& tensor)
      : tensor_(&tensor),
        bits_(0),
        direction_(direction),
        dtype_(tensor.dtype()),
        bound_(0),
        serial_(0) {}
  Arg(Direction direction, Tensor&& tensor)
      : tensor_(nullptr),
        bits_(0),
        direction_(direction),
        dtype_(tensor.dtype()),
        bound_(0),
        serial_(0),
        own_(tensor) {}
  /// What a BoundScalar is as an argument: bound to boundary scalar `bound` - 1 of the graph under
  /// record, or to none if 0, and now `bits`. `serial` names the recording, or run, that it is of.
  static Arg bound_scalar(uint32_t bound, uint64_t bits, DType dtype, uint32_t serial) {
    Arg arg(bits);
    arg.dtype_ = dtype;
    arg.bound_ = static_cast<uint16_t>(bound);
    arg.serial_ = serial;
    return arg;
  }

  Arg(const Arg& other)
      : tensor_(nullptr),
        bits_(other.bits_),
        direction_(other.direction_),
        dtype_(other.dtype_),
        bound_(other.bound_),
        serial_(other.serial_) {
    if (!other.is_scalar()) own_ = other.tensor();
  }
  Arg& operator=(const Arg& other) {
    if (this == &other) return *this;
    Tensor copy = other.is_scalar() ? Tensor() : other.tensor();
    tensor_ = nullptr;
    bits_ = other.bits_;
    direction_ = other.direction_;
    dtype_ = other.dtype_;
    bound_ = other.bound_;
    serial_ = other.serial_;
    own_ = copy;
    return *this;
  }

  bool is_scalar() const { return direction_ == Direction::scalar; }
  Direction direction() const { return direction_; }
  DType dtype() const { return dtype_; }
  /// Requires: not a scalar.
  const Tensor& tensor() const { return tensor_ != nullptr ? *tensor_ : own_; }
  /// The scalar's bytes, zero-extended.
  uint64_t bits() const { return bits_; }
  /// 1 + the number of the boundary scalar that this is, 0 if none.
  uint32_t bound() const { return bound_; }
  /// Of a scalar that was a BoundScalar, the recording or run it is of; else 0.
  uint32_t serial() const { return serial_; }

 private:
  const Tensor* tensor_;
  uint64_t bits_;
  Direction direction_;
  DType dtype_;
  uint16_t bound_;
  uint32_t serial_;
  union {
    Tensor own_;  // set when tensor_ is null and the argument is a tensor
  };
};

inline Arg in(const Tensor& tensor) { return Arg(Direction::in, tensor); }
inline Arg in(Tensor&& tensor) { return Arg(Direction::in, std::move(tensor)); }
inline Arg out(const Tensor& tensor) { return Arg(Direction::out, tensor); }
inline Arg out(Tensor&& tensor) { return Arg(Direction::out, std::move(tensor)); }
inline Arg inout(const Tensor& tensor) { return Arg(Direction::inout, tensor); }
inline Arg inout(Tensor&& tensor) { return Arg(Direction::inout, std::move(tensor)); }
inline Arg no_dep(const Tensor& tensor) { return Arg(Direction::no_dep, tensor); }
inline Arg no_dep(Tensor&& tensor) { return Arg(Direction::no_dep, std::move(tensor)); }

/// Host memory that a contiguous container owns (vector, array, span), as a tensor of rank 1.
template <typename C>
concept HostBuffer = requires(C& c) {
  { std::data(c) };
  { std::size(c) } -> std::convertible_to<size_t>;
  requires Element<std::remove_pointer_t<decltype(std::data(c))>>;
} && !std::same_as<std::remove_cvref_t<C>, Tensor>;

namespace detail {
template <typename C>
Tensor TensorOf(C& c) {
  return Tensor::host(std::data(c), Shape{static_cast<int64_t>(std::size(c))});
}
template <typename C>
concept WritableBuffer =
    HostBuffer<C> &&
    !std::is_const_v<std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>>;
}  // namespace detail

template <HostBuffer C>
Arg in(C& c) {
  return Arg(Direction::in, detail::TensorOf(c));
}
template <HostBuffer C>
  requires detail::WritableBuffer<C>
Arg out(C& c) {
  return Arg(Direction::out, detail::TensorOf(c));
}
template <HostBuffer C>
  requires detail::WritableBuffer<C>
Arg inout(C& c) {
  return Arg(Direction::inout, detail::TensorOf(c));
}

/// A list of arguments, from braces or from a container. Refers to it; valid during the call.
class ArgList {
 public:
  ArgList(std::initializer_list<Arg> args)  // NOLINT: implicit by design
      : data_(std::data(args)), size_(args.size()) {}
  ArgList(const std::vector<Arg>& args)  // NOLINT: implicit by design
      : data_(args.data()), size_(args.size()) {}
  ArgList(std::span<const Arg> args)  // NOLINT: implicit by design
      : data_(args.data()), size_(args.size()) {}

  size_t size() const { return size_; }
  const Arg* begin() const { return data_; }
  const Arg* end() const { return data_ + size_; }
  const Arg& operator[](size_t i) const { return data_[i]; }

 private:
  const Arg* data_;
  size_t size_;
};

}  // namespace precast
