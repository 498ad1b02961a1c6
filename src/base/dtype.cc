#include <precast/dtype.h>
#include <precast/error.h>

#include <array>

namespace precast {
namespace {

constexpr std::array<std::string_view, 14> kNames = {"none", "bool", "i8",  "u8",  "i16",
                                                     "u16",  "i32",  "u32", "i64", "u64",
                                                     "f16",  "bf16", "f32", "f64"};
constexpr std::string_view kNameList =
    "bool, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64";

// Prefixes under which the 8-bit and narrower floating-point formats go: f8e4m3, float8_e5m2, …
constexpr std::array<std::string_view, 10> kNarrowFloats = {
    "f8", "f6", "f4", "fp8", "fp6", "fp4", "float8", "float6", "float4", "mxfp"};

}  // namespace

std::string_view Name(DType dtype) {
  auto index = static_cast<size_t>(dtype);
  return index < kNames.size() ? kNames[index] : "unknown";
}

DType ParseDType(std::string_view name) {
  for (size_t i = 1; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  for (std::string_view prefix : kNarrowFloats) {
    if (name.starts_with(prefix)) {
      Fail(ErrorCode::unsupported,
           "dtype '{}': floating-point types of 8 and fewer bits are not supported; use one of {}",
           name, kNameList);
    }
  }
  Fail(ErrorCode::not_found, "there is no dtype '{}'; there are {}", name, kNameList);
}

}  // namespace precast
