#include "qwen3/dequantize.h"

#include "qwen3/gguf_test_writer.h"
#include "qwen3/testing.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace precast::qwen3 {
namespace {

using ::precast::qwen3::testing::ExpectError;

GgufTensor Make(GgufType type, std::vector<uint64_t> shape, std::string_view bytes) {
  return {.name = "t", .type = type, .shape = std::move(shape), .data = AsBytes(bytes)};
}

TEST(DequantizeTest, F32IsCopied) {
  const std::string bytes = ByteSink().Put(1.5f).Put(-2.0f).Put(3.25f).Put(0.0f).bytes();
  EXPECT_EQ(Dequantize(Make(GgufType::f32, {2, 2}, bytes)), (std::vector<float>{1.5, -2, 3.25, 0}));
}

TEST(DequantizeTest, F16) {
  // 1, -2, the largest, the smallest normal and the smallest subnormal number, 1/3.
  ByteSink sink;
  for (const uint16_t bits : {0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x3555}) sink.Put(bits);
  EXPECT_EQ(Dequantize(Make(GgufType::f16, {6}, sink.bytes())),
            (std::vector<float>{1, -2, 65504, 0x1p-14f, 0x1p-24f, 0.333251953125f}));
}

TEST(DequantizeTest, Bf16) {
  ByteSink sink;
  for (const uint16_t bits : {0x3F80, 0xC000, 0x4049, 0x0000}) sink.Put(bits);
  EXPECT_EQ(Dequantize(Make(GgufType::bf16, {2, 2}, sink.bytes())),
            (std::vector<float>{1, -2, 3.140625f, 0}));
}

TEST(DequantizeTest, Q8IsScaleTimesInteger) {
  ByteSink sink;
  sink.Put(uint16_t{0x3800});  // 0.5
  for (int i = 0; i < 32; ++i) sink.Put(static_cast<int8_t>(i == 31 ? -128 : i - 4));
  sink.Put(uint16_t{0xBC00});  // -1
  for (int i = 0; i < 32; ++i) sink.Put(static_cast<int8_t>(i == 0 ? 127 : 0));
  std::vector<float> expected(64);
  for (int i = 0; i < 31; ++i) expected[static_cast<size_t>(i)] = 0.5f * static_cast<float>(i - 4);
  expected[31] = -64;
  expected[32] = -127;
  EXPECT_EQ(Dequantize(Make(GgufType::q8_0, {1, 64}, sink.bytes())), expected);
}

TEST(DequantizeTest, TakesSingleRows) {
  ByteSink sink;
  for (int i = 0; i < 12; ++i) sink.Put(static_cast<float>(i));
  const GgufTensor tensor = Make(GgufType::f32, {2, 3, 2}, sink.bytes());
  EXPECT_EQ(tensor.rows(), 6);
  std::vector<float> out(4);
  DequantizeRows(tensor, 4, 2, out);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 10, 11}));
  DequantizeRows(tensor, 6, 0, {});
}

TEST(DequantizeTest, ChecksItsRange) {
  const std::string bytes(24, '\0');
  const GgufTensor tensor = Make(GgufType::f32, {3, 2}, bytes);
  std::vector<float> out(2);
  ExpectError(ErrorCode::out_of_range, {"'t' has 3 rows", "1 from row 3"},
              [&] { DequantizeRows(tensor, 3, 1, out); });
  ExpectError(ErrorCode::out_of_range, {"'t' has 3 rows"},
              [&] { DequantizeRows(tensor, 1, ~uint64_t{0}, out); });
  ExpectError(ErrorCode::out_of_range, {"are 4 elements; the buffer has 2"},
              [&] { DequantizeRows(tensor, 0, 2, out); });
}

TEST(DequantizeTest, TheTestWriterRoundsToNearest) {
  std::vector<float> values(32);
  for (int i = 0; i < 32; ++i) values[static_cast<size_t>(i)] = 0.1f * static_cast<float>(i - 15);
  for (const auto& [type, tolerance] : {std::pair{GgufType::f32, 0.0},
                                        {GgufType::f16, 0x1p-11},
                                        {GgufType::bf16, 0x1p-8},
                                        {GgufType::q8_0, 0.0065}}) {
    const std::string bytes = EncodeElements(type, values);
    const std::vector<float> back = Dequantize(Make(type, {32}, bytes));
    for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(back[i], values[i], 1.6 * tolerance);
  }
}

}  // namespace
}  // namespace precast::qwen3
