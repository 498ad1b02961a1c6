// The library's own view of a Tensor's fields.
#pragma once

#include <precast/tensor.h>

#include <cstdint>

namespace precast::detail {

struct TensorAccess {
  static uint64_t Offset(const Tensor& t) { return t.offset_; }
  static uint32_t Buffer(const Tensor& t) { return t.buffer_; }
  static uint32_t Generation(const Tensor& t) { return t.generation_; }
  static uint16_t Owner(const Tensor& t) { return t.owner_; }
  static uint32_t Layout(const Tensor& t) { return t.layout_; }
  /// Remembers the interned layout. Only for run tensors, on the orchestration's thread.
  static void SetLayout(const Tensor& t, uint32_t layout) { t.layout_ = layout; }
  static const uint32_t* Extents(const Tensor& t) { return t.shape_.data(); }
  static const uint32_t* Strides(const Tensor& t) { return t.strides_.data(); }
  /// The host address of element 0. Requires: a host tensor.
  static char* HostData(const Tensor& t) { return reinterpret_cast<char*>(t.offset_); }

  /// A row-major tensor of a buffer, from its start. Throws like `Tensor::host` for bad sizes.
  static Tensor Make(Tensor::Kind kind, const Shape& shape, DType dtype, uint32_t buffer,
                     uint32_t generation, uint16_t owner) {
    Tensor t = MakeView(kind, shape, dtype);
    t.buffer_ = buffer;
    t.generation_ = generation;
    t.owner_ = owner;
    return t;
  }
  /// The same view (shape, strides, dtype) of another buffer, element 0 at byte `offset`.
  static Tensor Rebase(const Tensor& from, Tensor::Kind kind, uint64_t offset, uint32_t buffer,
                       uint32_t generation, uint16_t owner) {
    Tensor t = from;
    t.kind_ = static_cast<uint8_t>(kind) & 15;
    t.offset_ = offset;
    t.buffer_ = buffer;
    t.generation_ = generation;
    t.owner_ = owner;
    t.layout_ = 0;
    return t;
  }
  /// Makes it begin elsewhere; the interned layout stays right.
  static void Move(Tensor* t, uint32_t buffer, uint64_t offset) {
    t->buffer_ = buffer;
    t->offset_ = offset;
  }

 private:
  static Tensor MakeView(Tensor::Kind kind, const Shape& shape, DType dtype);
};

}  // namespace precast::detail
