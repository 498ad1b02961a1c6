// Element types of tensors, and the two 16-bit floating-point types that C++20 lacks.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace precast {

/// The type of a tensor's elements. Values are part of the image format.
enum class DType : uint8_t {
  none = 0,
  boolean = 1,
  i8 = 2,
  u8 = 3,
  i16 = 4,
  u16 = 5,
  i32 = 6,
  u32 = 7,
  i64 = 8,
  u64 = 9,
  f16 = 10,
  bf16 = 11,
  f32 = 12,
  f64 = 13,
};

/// Bytes of one element: 1, 2, 4 or 8; 0 for `none`.
constexpr size_t SizeOf(DType dtype) {
  constexpr uint8_t sizes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  return static_cast<size_t>(dtype) < sizeof(sizes) ? sizes[static_cast<size_t>(dtype)] : 0;
}

/// The name users write: "bool", "i8" … "f64".
std::string_view Name(DType dtype);

/// The dtype of that name. Throws `Error{not_found}` that lists the names, and
/// `Error{unsupported}` for the 8-bit and 4-bit floating-point names ("f8e4m3", "f4e2m1", …).
DType ParseDType(std::string_view name);

constexpr bool IsFloat(DType dtype) { return dtype >= DType::f16; }

/// IEEE 754 binary16. Storage only: convert to float to compute. Rounds to nearest even.
class f16 {
 public:
  f16() = default;
  explicit f16(float value) : bits_(FromFloat(value)) {}
  explicit operator float() const { return ToFloat(bits_); }
  uint16_t bits() const { return bits_; }
  static f16 FromBits(uint16_t bits) {
    f16 value;
    value.bits_ = bits;
    return value;
  }

 private:
  static uint16_t FromFloat(float value) {
    uint32_t x = std::bit_cast<uint32_t>(value);
    uint32_t sign = (x >> 16) & 0x8000u;
    x &= 0x7fffffffu;
    if (x > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
    if (x >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // overflow, infinity
    if (x < 0x38800000u) {                                               // subnormal or zero
      // Adding 0.5 leaves the result's mantissa, rounded to nearest even, in the low bits.
      float shifted = std::bit_cast<float>(x) + 0.5f;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
    }
    x += 0xfffu + ((x >> 13) & 1u) - 0x38000000u;
    return static_cast<uint16_t>(sign | (x >> 13));
  }
  static float ToFloat(uint16_t bits) {
    uint32_t sign = (bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float
      float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
      return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  uint16_t bits_;
};

/// bfloat16: the upper half of an IEEE binary32. Storage only. Rounds to nearest even.
class bf16 {
 public:
  bf16() = default;
  explicit bf16(float value) : bits_(FromFloat(value)) {}
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16);
  }
  uint16_t bits() const { return bits_; }
  static bf16 FromBits(uint16_t bits) {
    bf16 value;
    value.bits_ = bits;
    return value;
  }

 private:
  static uint16_t FromFloat(float value) {
    uint32_t x = std::bit_cast<uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);  // NaN
    return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
  uint16_t bits_;
};

namespace detail {
template <typename T>
struct DTypeOfImpl {
  static constexpr DType value = DType::none;
};
template <DType D>
struct DTypeIs {
  static constexpr DType value = D;
};
template <>
struct DTypeOfImpl<bool> : DTypeIs<DType::boolean> {};
template <>
struct DTypeOfImpl<f16> : DTypeIs<DType::f16> {};
template <>
struct DTypeOfImpl<bf16> : DTypeIs<DType::bf16> {};
template <>
struct DTypeOfImpl<float> : DTypeIs<DType::f32> {};
template <>
struct DTypeOfImpl<double> : DTypeIs<DType::f64> {};
template <std::integral T>
struct DTypeOfImpl<T> {
  static constexpr DType value = sizeof(T) == 1   ? (std::is_signed_v<T> ? DType::i8 : DType::u8)
                                 : sizeof(T) == 2 ? (std::is_signed_v<T> ? DType::i16 : DType::u16)
                                 : sizeof(T) == 4 ? (std::is_signed_v<T> ? DType::i32 : DType::u32)
                                                  : (std::is_signed_v<T> ? DType::i64 : DType::u64);
};
}  // namespace detail

/// A C++ type that a tensor element can have.
template <typename T>
concept Element = detail::DTypeOfImpl<std::remove_cv_t<T>>::value != DType::none;

/// The dtype of a C++ element type; `const` is ignored.
template <Element T>
inline constexpr DType kDTypeOf = detail::DTypeOfImpl<std::remove_cv_t<T>>::value;

}  // namespace precast
