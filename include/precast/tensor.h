// Tensor: a strided view of a buffer, as a 64-byte value.
//
// A Tensor names memory, it never owns it. What it names is one of
//   host    memory of the caller (`Tensor::host`), which only `Worker::run` and `submit` take;
//   device  an allocation of one worker (`Worker::malloc`), guarded by a generation number;
//   run     a buffer of the run under construction: an argument of the orchestration, or the result
//           of `Orchestrator::alloc`.
// Using one after its allocation, run or scope has ended, or with another worker, is an error.
//
// Shapes and strides count elements, offsets count bytes. Rank is 0 to 5; each extent is
// 1 … 4,294,967,295; a stride is at most 4,294,967,295. Products are checked in 64 bits. Every
// function that makes a view checks it against the tensor it views and throws
// `Error{out_of_range}` with the numbers found and allowed.
//
// Threads: a Tensor is a value; the run tensors of one orchestration belong to its thread.
#pragma once

#include <precast/dtype.h>
#include <precast/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace precast {

inline constexpr int kMaxRank = 5;

/// The extents of a tensor. Zero-sized and negative extents are refused where they are written.
class Shape {
 public:
  Shape() = default;  ///< rank 0: one element
  Shape(std::initializer_list<int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[Axis(axis)]; }
  /// Number of elements; at most 2^63 - 1.
  int64_t size() const;
  bool operator==(const Shape&) const = default;
  std::string ToString() const;  ///< "[2, 3]"

 private:
  friend class Tensor;
  size_t Axis(int axis) const;
  std::array<uint32_t, kMaxRank> extents_{};
  int rank_ = 0;
};

namespace detail {
struct TensorAccess;
struct ReadWindows;
}  // namespace detail

class Tensor {
 public:
  enum class Kind : uint8_t { none, host, device, run };

  /// Names nothing; passing it on is an error.
  Tensor() = default;

  /// Host memory of `shape.size()` elements, row-major. `data` must stay valid as `Worker::run` and
  /// `submit` demand. A null pointer is refused.
  template <Element T>
  static Tensor host(T* data, const Shape& shape) {
    return HostTensor(data, shape, kDTypeOf<T>);
  }

  Kind kind() const { return static_cast<Kind>(kind_); }
  DType dtype() const { return static_cast<DType>(dtype_); }
  int rank() const { return rank_; }
  Shape shape() const;
  int64_t shape(int axis) const { return shape_[Axis(axis)]; }
  int64_t stride(int axis) const { return strides_[Axis(axis)]; }
  /// Number of elements.
  int64_t size() const;
  /// Bytes from the first to one past the last element that the view touches.
  uint64_t extent_bytes() const;
  bool is_contiguous() const;

  /// The box of `shape` elements that starts at index `begin`; same rank.
  Tensor view(std::span<const int64_t> begin, const Shape& shape) const;
  Tensor view(std::initializer_list<int64_t> begin, const Shape& shape) const {
    return view(std::span(begin.begin(), begin.size()), shape);
  }
  /// Elements begin, begin + step, … below end along one axis. step >= 1.
  Tensor slice(int axis, int64_t begin, int64_t end, int64_t step = 1) const;
  /// The sub-tensor at one index of an axis; the rank falls by one.
  Tensor select(int axis, int64_t index) const;
  Tensor transpose(int axis_a, int axis_b) const;
  /// Axis i of the result is axis order[i] of this.
  Tensor permute(std::span<const int> order) const;
  Tensor permute(std::initializer_list<int> order) const {
    return permute(std::span(order.begin(), order.size()));
  }
  /// The same elements in another shape; the tensor must be contiguous.
  Tensor reshape(const Shape& shape) const;

  /// "f32[2, 3]", with strides where they are not row-major.
  std::string ToString() const;

 private:
  friend struct detail::TensorAccess;
  friend struct detail::ReadWindows;
  static Tensor HostTensor(const void* data, const Shape& shape, DType dtype);
  size_t Axis(int axis) const;

  uint64_t offset_ = 0;          // host: the address of element 0; else bytes into the buffer
  uint32_t buffer_ = 0;          // device: allocation index; run: buffer index
  uint32_t generation_ = 0;      // device: of the allocation; run: serial of the run
  mutable uint32_t layout_ = 0;  // run: interned id of shape and strides, 0 when not interned yet
  uint16_t owner_ = 0;           // the worker's mark
  uint8_t kind_ : 4 = 0;
  uint8_t dtype_ : 4 = 0;
  uint8_t rank_ = 0;
  std::array<uint32_t, kMaxRank> shape_{};
  std::array<uint32_t, kMaxRank> strides_{};
};

static_assert(sizeof(Tensor) == 64);

}  // namespace precast
