#include "base/tensor_access.h"

#include <precast/tensor.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace precast {
namespace {

constexpr int64_t kMaxExtent = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxStride = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();

std::string Join(std::span<const int64_t> numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

// Failures are out of line: the functions that make views run once or more for every task.

[[noreturn, gnu::cold]] void FailAxis(int axis, int rank, std::string_view what) {
  if (rank == 0) {
    Fail(ErrorCode::out_of_range, "axis {} of a {} of rank 0, which has no axes", axis, what);
  }
  Fail(ErrorCode::out_of_range, "axis {} of a {} of rank {}; allowed: 0 to {}", axis, what, rank,
       rank - 1);
}

[[noreturn, gnu::cold]] void FailShape(std::span<const int64_t> extents) {
  if (extents.size() > static_cast<size_t>(kMaxRank)) {
    Fail(ErrorCode::out_of_range, "a shape of rank {}; allowed: 0 to {}", extents.size(), kMaxRank);
  }
  double product = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 1 || extents[i] > kMaxExtent) {
      Fail(ErrorCode::out_of_range, "extent {} of shape {} is {}; allowed: 1 to {}", i,
           Join(extents), extents[i], kMaxExtent);
    }
    product *= static_cast<double>(extents[i]);
  }
  Fail(ErrorCode::out_of_range, "shape {} has about {:.3g} elements; allowed: at most {}",
       Join(extents), product, std::numeric_limits<int64_t>::max());
}

[[noreturn, gnu::cold]] void FailBytes(const Shape& shape, DType dtype) {
  Fail(ErrorCode::out_of_range, "{}{} takes about {:.3g} bytes; allowed: at most {}", Name(dtype),
       shape.ToString(), static_cast<double>(shape.size()) * static_cast<double>(SizeOf(dtype)),
       kMaxBytes);
}

[[noreturn, gnu::cold]] void FailStride(const std::string& what, int axis, uint64_t stride) {
  Fail(ErrorCode::out_of_range,
       "{}: the stride of axis {} would be {} elements; allowed: at most {}", what, axis, stride,
       kMaxStride);
}

[[noreturn, gnu::cold]] void FailNone(std::string_view what) {
  Fail(ErrorCode::invalid_argument, "{} of a tensor that names nothing (default-constructed)",
       what);
}

[[noreturn, gnu::cold]] void FailView(const Tensor& tensor, std::span<const int64_t> begin,
                                      const Shape& shape) {
  if (begin.size() != static_cast<size_t>(tensor.rank()) || shape.rank() != tensor.rank()) {
    Fail(ErrorCode::out_of_range,
         "view of {}: begin has {} numbers and the shape {} has {}; both need {}",
         tensor.ToString(), begin.size(), shape.ToString(), shape.rank(), tensor.rank());
  }
  for (int i = 0; i < tensor.rank(); ++i) {
    int64_t from = begin[static_cast<size_t>(i)];
    if (from < 0 || from > tensor.shape(i) - shape[i]) {
      Fail(ErrorCode::out_of_range,
           "view of {}: axis {} has {} elements from index {}; allowed: inside 0 to {}",
           tensor.ToString(), i, shape[i], from, tensor.shape(i) - 1);
    }
  }
  Fail(ErrorCode::internal, "view of {} failed without a reason", tensor.ToString());
}

[[noreturn, gnu::cold]] void FailSlice(const Tensor& tensor, int axis, int64_t begin, int64_t end,
                                       int64_t step) {
  if (step < 1) {
    Fail(ErrorCode::out_of_range, "slice of {}: step {} along axis {}; allowed: at least 1",
         tensor.ToString(), step, axis);
  }
  if (begin >= 0 && end <= tensor.shape(axis) && begin >= end) {
    Fail(ErrorCode::out_of_range, "slice of {}: {} to {} along axis {} has no elements",
         tensor.ToString(), begin, end, axis);
  }
  Fail(ErrorCode::out_of_range, "slice of {}: {} to {} along axis {}; allowed: inside 0 to {}",
       tensor.ToString(), begin, end, axis, tensor.shape(axis));
}

// Row-major strides of a shape. The stride of an axis with one element is never used to find
// another one, so it may be cut to what fits.
void RowMajor(const uint32_t* shape, int rank, uint32_t* strides, DType dtype) {
  uint64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (stride > kMaxStride && shape[i] > 1) [[unlikely]] {
      std::vector<int64_t> extents(shape, shape + rank);
      FailStride(fmt::format("{}{}", Name(dtype), Join(extents)), i, stride);
    }
    strides[i] = static_cast<uint32_t>(std::min(stride, kMaxStride));
    stride *= shape[i];
  }
}

}  // namespace

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  if (extents.size() > static_cast<size_t>(kMaxRank)) [[unlikely]]
    FailShape(extents);
  int64_t product = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 1 || extents[i] > kMaxExtent ||
        __builtin_mul_overflow(product, extents[i], &product)) [[unlikely]] {
      FailShape(extents);
    }
    extents_[i] = static_cast<uint32_t>(extents[i]);
  }
}

int64_t Shape::size() const {
  int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= extents_[static_cast<size_t>(i)];
  return product;
}

std::string Shape::ToString() const {
  return fmt::format("[{}]", fmt::join(extents_.begin(), extents_.begin() + rank_, ", "));
}

size_t Shape::Axis(int axis) const {
  if (axis < 0 || axis >= rank_) [[unlikely]]
    FailAxis(axis, rank_, "shape");
  return static_cast<size_t>(axis);
}

size_t Tensor::Axis(int axis) const {
  if (axis < 0 || axis >= rank_) [[unlikely]]
    FailAxis(axis, rank_, "tensor");
  return static_cast<size_t>(axis);
}

Tensor detail::TensorAccess::MakeView(Tensor::Kind kind, const Shape& shape, DType dtype) {
  if (SizeOf(dtype) == 0) [[unlikely]] {
    Fail(ErrorCode::invalid_argument, "a tensor {} of dtype '{}', which has no elements",
         shape.ToString(), Name(dtype));
  }
  if (static_cast<uint64_t>(shape.size()) > kMaxBytes / SizeOf(dtype)) [[unlikely]] {
    FailBytes(shape, dtype);
  }
  Tensor t;
  t.kind_ = static_cast<uint8_t>(kind) & 15;
  t.dtype_ = static_cast<uint8_t>(dtype) & 15;
  t.rank_ = static_cast<uint8_t>(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    t.shape_[static_cast<size_t>(i)] = static_cast<uint32_t>(shape[i]);
  }
  RowMajor(t.shape_.data(), t.rank_, t.strides_.data(), dtype);
  return t;
}

Tensor Tensor::HostTensor(const void* data, const Shape& shape, DType dtype) {
  if (data == nullptr) [[unlikely]] {
    Fail(ErrorCode::invalid_argument, "host tensor {}{} at a null pointer", Name(dtype),
         shape.ToString());
  }
  Tensor t = detail::TensorAccess::Make(Kind::host, shape, dtype, 0, 0, 0);
  t.offset_ = reinterpret_cast<uint64_t>(data);
  return t;
}

Shape Tensor::shape() const {
  Shape shape;
  shape.extents_ = shape_;
  shape.rank_ = rank_;
  return shape;
}

int64_t Tensor::size() const {
  int64_t product = kind() == Kind::none ? 0 : 1;
  for (size_t i = 0; i < rank_; ++i) product *= shape_[i];
  return product;
}

uint64_t Tensor::extent_bytes() const {
  if (kind() == Kind::none) return 0;
  uint64_t last = 0;  // cannot overflow: the view lies inside a buffer of at most kMaxBytes
  for (size_t i = 0; i < rank_; ++i) last += uint64_t{shape_[i] - 1} * strides_[i];
  return (last + 1) * SizeOf(dtype());
}

bool Tensor::is_contiguous() const {
  uint64_t expected = 1;
  for (size_t i = rank_; i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

Tensor Tensor::view(std::span<const int64_t> begin, const Shape& shape) const {
  if (kind() == Kind::none) [[unlikely]]
    FailNone("view");
  if (begin.size() != rank_ || shape.rank_ != rank_) [[unlikely]]
    FailView(*this, begin, shape);
  Tensor t = *this;
  uint64_t offset = 0;
  for (size_t i = 0; i < rank_; ++i) {
    int64_t room = int64_t{shape_[i]} - int64_t{shape.extents_[i]};
    if (begin[i] < 0 || begin[i] > room) [[unlikely]]
      FailView(*this, begin, shape);
    offset += static_cast<uint64_t>(begin[i]) * strides_[i];
  }
  if (shape.extents_ != shape_) {
    t.shape_ = shape.extents_;
    t.layout_ = 0;
  }
  t.offset_ += offset * SizeOf(dtype());
  return t;
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t end, int64_t step) const {
  if (kind() == Kind::none) [[unlikely]]
    FailNone("slice");
  size_t i = Axis(axis);
  if (step < 1 || begin < 0 || begin >= end || end > int64_t{shape_[i]}) [[unlikely]] {
    FailSlice(*this, axis, begin, end, step);
  }
  Tensor t = *this;
  t.offset_ += static_cast<uint64_t>(begin) * strides_[i] * SizeOf(dtype());
  t.shape_[i] = static_cast<uint32_t>((end - begin - 1) / step + 1);
  if (t.shape_[i] > 1) {  // so step < end: the product fits in 64 bits
    uint64_t stride = strides_[i] * static_cast<uint64_t>(step);
    if (stride > kMaxStride) [[unlikely]] {
      FailStride(fmt::format("slice of {} with step {}", ToString(), step), axis, stride);
    }
    t.strides_[i] = static_cast<uint32_t>(stride);
  }
  t.layout_ = 0;
  return t;
}

Tensor Tensor::select(int axis, int64_t index) const {
  if (kind() == Kind::none) [[unlikely]]
    FailNone("select");
  size_t removed = Axis(axis);
  if (index < 0 || index >= int64_t{shape_[removed]}) [[unlikely]] {
    Fail(ErrorCode::out_of_range, "select of {}: index {} along axis {}; allowed: 0 to {}",
         ToString(), index, axis, shape_[removed] - 1);
  }
  Tensor t = *this;
  t.offset_ += static_cast<uint64_t>(index) * strides_[removed] * SizeOf(dtype());
  for (size_t i = removed; i + 1 < rank_; ++i) {
    t.shape_[i] = shape_[i + 1];
    t.strides_[i] = strides_[i + 1];
  }
  --t.rank_;
  t.shape_[t.rank_] = t.strides_[t.rank_] = 0;
  t.layout_ = 0;
  return t;
}

Tensor Tensor::transpose(int axis_a, int axis_b) const {
  if (kind() == Kind::none) [[unlikely]]
    FailNone("transpose");
  size_t a = Axis(axis_a), b = Axis(axis_b);
  Tensor t = *this;
  std::swap(t.shape_[a], t.shape_[b]);
  std::swap(t.strides_[a], t.strides_[b]);
  t.layout_ = 0;
  return t;
}

Tensor Tensor::permute(std::span<const int> order) const {
  if (kind() == Kind::none) [[unlikely]]
    FailNone("permute");
  if (order.size() != rank_) [[unlikely]] {
    Fail(ErrorCode::out_of_range, "permute of {}: the order has {} axes; it needs {}", ToString(),
         order.size(), rank_);
  }
  Tensor t = *this;
  unsigned seen = 0;
  for (size_t i = 0; i < rank_; ++i) {
    size_t from = Axis(order[i]);
    if (((seen >> from) & 1u) != 0) [[unlikely]] {
      Fail(ErrorCode::invalid_argument, "permute of {}: axis {} occurs twice in the order [{}]",
           ToString(), order[i], fmt::join(order, ", "));
    }
    seen |= 1u << from;
    t.shape_[i] = shape_[from];
    t.strides_[i] = strides_[from];
  }
  t.layout_ = 0;
  return t;
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (kind() == Kind::none) [[unlikely]]
    FailNone("reshape");
  if (!is_contiguous()) [[unlikely]] {
    Fail(ErrorCode::invalid_argument, "reshape of {} to {}: the tensor is not contiguous",
         ToString(), shape.ToString());
  }
  if (shape.size() != size()) [[unlikely]] {
    Fail(ErrorCode::out_of_range, "reshape of {} to {}: {} elements; it needs {}", ToString(),
         shape.ToString(), shape.size(), size());
  }
  Tensor t = *this;
  t.shape_ = shape.extents_;
  t.strides_ = {};
  t.rank_ = static_cast<uint8_t>(shape.rank_);
  RowMajor(t.shape_.data(), t.rank_, t.strides_.data(), dtype());
  t.layout_ = 0;
  return t;
}

std::string Tensor::ToString() const {
  if (kind() == Kind::none) return "none";
  std::string text = fmt::format("{}{}", Name(dtype()), shape().ToString());
  if (is_contiguous()) return text;
  return fmt::format("{} with strides [{}]", text,
                     fmt::join(strides_.begin(), strides_.begin() + rank_, ", "));
}

}  // namespace precast
