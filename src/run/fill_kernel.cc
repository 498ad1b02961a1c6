#include "run/fill_kernel.h"

#include <precast/error.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace precast::run {

namespace {

template <typename T>
uint64_t BitsOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
uint64_t IntegerBits(DType dtype, double value) {
  // 2^n is exact in double, the largest value of a 64-bit type is not: compare with one past it.
  double low = static_cast<double>(std::numeric_limits<T>::min());
  double past = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!(value >= low && value < past) || value != std::trunc(value)) {
    Fail(ErrorCode::out_of_range, "fill value {} is no {} (whole numbers {} … {} allowed)", value,
         Name(dtype), std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
  return BitsOf(static_cast<T>(value));
}

void CheckFinite(DType dtype, double value, float converted) {
  if (std::isfinite(value) && !std::isfinite(converted)) {
    precast::Fail(ErrorCode::out_of_range, "fill value {} is beyond the finite values of {}", value,
                  Name(dtype));
  }
}

// Elements are filled as integers of their size; TensorView needs the tensor's own type.
template <typename T>
void Fill(const KernelContext& k, uint64_t bits) {
  auto tensor = k.tensor<T>(0);
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  for (int64_t i = k.block_begin(tensor.size()); i < k.block_end(tensor.size()); ++i) {
    tensor[i] = value;
  }
}

}  // namespace

uint64_t FillBits(DType dtype, double value) {
  switch (dtype) {
    case DType::boolean:
      if (value != 0 && value != 1) {
        precast::Fail(ErrorCode::out_of_range, "fill value {} is no bool (0 and 1 allowed)", value);
      }
      return value != 0 ? 1 : 0;
    case DType::i8:
      return IntegerBits<int8_t>(dtype, value);
    case DType::u8:
      return IntegerBits<uint8_t>(dtype, value);
    case DType::i16:
      return IntegerBits<int16_t>(dtype, value);
    case DType::u16:
      return IntegerBits<uint16_t>(dtype, value);
    case DType::i32:
      return IntegerBits<int32_t>(dtype, value);
    case DType::u32:
      return IntegerBits<uint32_t>(dtype, value);
    case DType::i64:
      return IntegerBits<int64_t>(dtype, value);
    case DType::u64:
      return IntegerBits<uint64_t>(dtype, value);
    case DType::f16:
      CheckFinite(dtype, value, static_cast<float>(f16(static_cast<float>(value))));
      return BitsOf(f16(static_cast<float>(value)).bits());
    case DType::bf16:
      CheckFinite(dtype, value, static_cast<float>(bf16(static_cast<float>(value))));
      return BitsOf(bf16(static_cast<float>(value)).bits());
    case DType::f32:
      CheckFinite(dtype, value, static_cast<float>(value));
      return BitsOf(static_cast<float>(value));
    case DType::f64:
      return BitsOf(value);
    case DType::none:
      break;
  }
  precast::Fail(ErrorCode::invalid_argument, "fill of a tensor without a dtype");
}

void FillBody(const KernelContext& k) {
  uint64_t bits = k.scalar<uint64_t>(0);
  switch (k.dtype(0)) {
    case DType::boolean:
      return Fill<bool>(k, bits);
    case DType::i8:
      return Fill<int8_t>(k, bits);
    case DType::u8:
      return Fill<uint8_t>(k, bits);
    case DType::i16:
      return Fill<int16_t>(k, bits);
    case DType::u16:
      return Fill<uint16_t>(k, bits);
    case DType::i32:
      return Fill<int32_t>(k, bits);
    case DType::u32:
      return Fill<uint32_t>(k, bits);
    case DType::i64:
      return Fill<int64_t>(k, bits);
    case DType::u64:
      return Fill<uint64_t>(k, bits);
    case DType::f16:
      return Fill<f16>(k, bits);
    case DType::bf16:
      return Fill<bf16>(k, bits);
    case DType::f32:
      return Fill<float>(k, bits);
    case DType::f64:
      return Fill<double>(k, bits);
    case DType::none:
      break;
  }
}

}  // namespace precast::run
