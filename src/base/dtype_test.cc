#include <precast/dtype.h>
#include <precast/error.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace precast {
namespace {

struct Row {
  DType dtype;
  const char* name;
  size_t size;
  bool is_float;
};
const std::vector<Row> kRows = {
    {DType::boolean, "bool", 1, false}, {DType::i8, "i8", 1, false},
    {DType::u8, "u8", 1, false},        {DType::i16, "i16", 2, false},
    {DType::u16, "u16", 2, false},      {DType::i32, "i32", 4, false},
    {DType::u32, "u32", 4, false},      {DType::i64, "i64", 8, false},
    {DType::u64, "u64", 8, false},      {DType::f16, "f16", 2, true},
    {DType::bf16, "bf16", 2, true},     {DType::f32, "f32", 4, true},
    {DType::f64, "f64", 8, true},
};

std::string MessageOf(std::string_view name, ErrorCode code) {
  try {
    ParseDType(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << name;
    return error.message();
  }
  ADD_FAILURE() << "no error for " << name;
  return {};
}

TEST(DType, NamesSizesAndKinds) {
  for (const Row& row : kRows) {
    EXPECT_EQ(Name(row.dtype), row.name);
    EXPECT_EQ(ParseDType(row.name), row.dtype);
    EXPECT_EQ(SizeOf(row.dtype), row.size) << row.name;
    EXPECT_EQ(IsFloat(row.dtype), row.is_float) << row.name;
  }
  EXPECT_EQ(kRows.size(), 13u);
  EXPECT_EQ(SizeOf(DType::none), 0u);
  EXPECT_EQ(SizeOf(static_cast<DType>(200)), 0u);
  EXPECT_EQ(Name(DType::none), "none");
  EXPECT_EQ(Name(static_cast<DType>(200)), "unknown");
}

TEST(DType, OfCppTypes) {
  EXPECT_EQ(kDTypeOf<bool>, DType::boolean);
  EXPECT_EQ(kDTypeOf<int8_t>, DType::i8);
  EXPECT_EQ(kDTypeOf<uint8_t>, DType::u8);
  EXPECT_EQ(kDTypeOf<int16_t>, DType::i16);
  EXPECT_EQ(kDTypeOf<uint16_t>, DType::u16);
  EXPECT_EQ(kDTypeOf<int32_t>, DType::i32);
  EXPECT_EQ(kDTypeOf<uint32_t>, DType::u32);
  EXPECT_EQ(kDTypeOf<int64_t>, DType::i64);
  EXPECT_EQ(kDTypeOf<long long>, DType::i64);
  EXPECT_EQ(kDTypeOf<uint64_t>, DType::u64);
  EXPECT_EQ(kDTypeOf<f16>, DType::f16);
  EXPECT_EQ(kDTypeOf<bf16>, DType::bf16);
  EXPECT_EQ(kDTypeOf<const float>, DType::f32);
  EXPECT_EQ(kDTypeOf<double>, DType::f64);
  static_assert(!Element<long double>);
  static_assert(!Element<void*>);
}

TEST(DType, UnknownNamesListTheKnownOnes) {
  std::string message = MessageOf("f33", ErrorCode::not_found);
  EXPECT_NE(message.find("'f33'"), std::string::npos) << message;
  for (const Row& row : kRows) EXPECT_NE(message.find(row.name), std::string::npos) << message;
  for (const char* name : {"", "none", "F32", "f32 ", "float"}) {
    MessageOf(name, ErrorCode::not_found);
  }
}

TEST(DType, NarrowFloatsAreKnownButNotSupported) {
  for (const char* name : {"f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e8m0", "fp8", "float8_e4m3fn",
                           "f6e3m2", "f4e2m1", "fp4", "mxfp4"}) {
    std::string message = MessageOf(name, ErrorCode::unsupported);
    EXPECT_NE(message.find("not supported"), std::string::npos) << message;
  }
}

TEST(F16, KnownValues) {
  struct {
    float value;
    uint16_t bits;
  } const rows[] = {
      {0.0f, 0x0000},         {-0.0f, 0x8000},           {1.0f, 0x3c00},      {-2.0f, 0xc000},
      {65504.0f, 0x7bff},     {0.333251953125f, 0x3555}, {0x1p-14f, 0x0400},  {0x1p-24f, 0x0001},
      {0x1.ff8p-15f, 0x03ff}, {INFINITY, 0x7c00},        {-INFINITY, 0xfc00},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(f16(row.value).bits(), row.bits) << row.value;
    EXPECT_EQ(static_cast<float>(f16::FromBits(row.bits)), row.value) << row.bits;
  }
}

TEST(F16, RoundsToNearestEven) {
  EXPECT_EQ(f16(1.0f + 0x1p-11f).bits(), 0x3c00) << "half way, down to even";
  EXPECT_EQ(f16(1.0f + 3 * 0x1p-11f).bits(), 0x3c02) << "half way, up to even";
  EXPECT_EQ(f16(1.0f + 0x1.002p-11f).bits(), 0x3c01) << "just above half way";
  EXPECT_EQ(f16(0x1.ffep0f).bits(), 0x4000) << "carries into the exponent";
  EXPECT_EQ(f16(65519.0f).bits(), 0x7bff) << "below half way to 65536";
  EXPECT_EQ(f16(65520.0f).bits(), 0x7c00) << "half way overflows to infinity";
  EXPECT_EQ(f16(0x1p-25f).bits(), 0x0000) << "half of the smallest, down to even";
  EXPECT_EQ(f16(0x1.8p-25f).bits(), 0x0001);
  EXPECT_EQ(f16(0x1.8p-24f).bits(), 0x0002) << "subnormal half way, up to even";
  EXPECT_EQ(f16(0x1.ffep-15f).bits(), 0x0400) << "rounds up to the smallest normal number";
  EXPECT_EQ(f16(-0x1p-30f).bits(), 0x8000) << "too small, keeps the sign";
}

TEST(F16, EveryValueSurvivesTheWayToFloatAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    f16 value = f16::FromBits(static_cast<uint16_t>(bits));
    bool nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    if (nan) {
      ASSERT_TRUE(std::isnan(static_cast<float>(value))) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(f16(static_cast<float>(value))))) << bits;
    } else {
      ASSERT_EQ(f16(static_cast<float>(value)).bits(), bits);
    }
  }
}

TEST(BF16, KnownValuesAndRounding) {
  EXPECT_EQ(bf16(1.0f).bits(), 0x3f80);
  EXPECT_EQ(bf16(-0.0f).bits(), 0x8000);
  EXPECT_EQ(bf16(3.140625f).bits(), 0x4049);
  EXPECT_EQ(static_cast<float>(bf16::FromBits(0x4049)), 3.140625f);
  EXPECT_EQ(bf16(1.0f + 0x1p-8f).bits(), 0x3f80) << "half way, down to even";
  EXPECT_EQ(bf16(1.0f + 3 * 0x1p-8f).bits(), 0x3f82) << "half way, up to even";
  EXPECT_EQ(bf16(1.0f + 0x1.01p-8f).bits(), 0x3f81) << "just above half way";
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits(), 0x7f80) << "overflows to infinity";
  EXPECT_EQ(bf16(-INFINITY).bits(), 0xff80);
  EXPECT_EQ(bf16(0x1p-149f).bits(), 0x0000);
}

TEST(BF16, EveryValueSurvivesTheWayToFloatAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 value = bf16::FromBits(static_cast<uint16_t>(bits));
    float wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(bf16(wide)))) << bits;
    } else {
      ASSERT_EQ(bf16(wide).bits(), bits);
    }
  }
}

TEST(BF16, ANanWithOnlyLowBitsStaysNan) {
  float nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(nan))));
}

}  // namespace
}  // namespace precast
