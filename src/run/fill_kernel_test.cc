#include "run/fill_kernel.h"

#include "sched/oracle.h"
#include "support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace precast::run {
namespace {

using test::TestGraph;
using test::TestImage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <Element T>
T FilledWith(double value) {
  TestGraph g;
  Tensor x = g.Data<T>({5, 7});
  g.Submit(g.Kernel(kFill), {out(x.view({1, 1}, {3, 5})), FillBits(kDTypeOf<T>, value)},
           {.blocks = 4});
  TestImage image = g.Seal();
  uint64_t completed = 0;
  sched::RunOracle(g.Instance(image), {.poison_outputs = true}, &completed);
  T zero{}, filled = g.Values<T>(x)[8];
  for (size_t i = 0; i < 35; ++i) {
    bool inside = i / 7 >= 1 && i / 7 <= 3 && i % 7 >= 1 && i % 7 <= 5;
    EXPECT_EQ(std::memcmp(&g.Values<T>(x)[i], inside ? &filled : &zero, sizeof(T)), 0) << i;
  }
  return filled;
}

TEST(FillKernelTest, FillsEveryType) {
  EXPECT_EQ(FilledWith<bool>(1), true);
  EXPECT_EQ(FilledWith<int8_t>(-128), -128);
  EXPECT_EQ(FilledWith<uint8_t>(255), 255);
  EXPECT_EQ(FilledWith<int16_t>(-32'768), -32'768);
  EXPECT_EQ(FilledWith<uint16_t>(65'535), 65'535);
  EXPECT_EQ(FilledWith<int32_t>(-2'147'483'648.0), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(FilledWith<uint32_t>(4'294'967'295.0), 4'294'967'295u);
  EXPECT_EQ(FilledWith<int64_t>(-0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(FilledWith<uint64_t>(0x1p63), uint64_t{1} << 63);
  EXPECT_EQ(static_cast<float>(FilledWith<f16>(1.5)), 1.5f);
  EXPECT_EQ(static_cast<float>(FilledWith<bf16>(-2.5)), -2.5f);
  EXPECT_EQ(FilledWith<float>(0.1), 0.1f);
  EXPECT_EQ(FilledWith<double>(0.1), 0.1);
  EXPECT_EQ(FilledWith<float>(-kInfinity), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(FilledWith<double>(std::nan(""))));
}

std::string MessageOf(DType dtype, double value) {
  try {
    FillBits(dtype, value);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    return error.message();
  }
  return "";
}

TEST(FillKernelTest, RefusesWhatATypeCannotHold) {
  EXPECT_EQ(MessageOf(DType::i8, 128),
            "fill value 128 is no i8 (whole numbers -128 … 127 allowed)");
  EXPECT_EQ(MessageOf(DType::u8, -1), "fill value -1 is no u8 (whole numbers 0 … 255 allowed)");
  EXPECT_EQ(MessageOf(DType::boolean, 2), "fill value 2 is no bool (0 and 1 allowed)");
  EXPECT_NE(MessageOf(DType::i32, 0.5), "");
  EXPECT_NE(MessageOf(DType::i64, 0x1p63), "");
  EXPECT_NE(MessageOf(DType::u64, 0x1p64), "");
  EXPECT_NE(MessageOf(DType::u64, kInfinity), "");
  EXPECT_NE(MessageOf(DType::i16, std::nan("")), "");
  EXPECT_THROW(FillBits(DType::none, 0), Error);
}

TEST(FillKernelTest, RoundsFloatingPointTypes) {
  EXPECT_EQ(FillBits(DType::f16, 65504), f16(65504.0f).bits());
  EXPECT_THROW(FillBits(DType::f16, 1e9), Error);
  EXPECT_EQ(FillBits(DType::bf16, 1.0 / 3), bf16(1.0f / 3).bits());
}

}  // namespace
}  // namespace precast::run
