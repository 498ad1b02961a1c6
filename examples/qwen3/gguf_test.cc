#include "qwen3/gguf.h"

#include "qwen3/gguf_test_writer.h"
#include "qwen3/testing.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace precast::qwen3 {
namespace {

using ::precast::qwen3::testing::ExpectError;

/// A small valid file with a value of each type and two tensors.
std::string SmallFile() {
  std::ostringstream out;
  GgufWriter writer(out);
  writer.Key("u8", uint8_t{200});
  writer.Key("i8", int8_t{-100});
  writer.Key("u16", uint16_t{60000});
  writer.Key("i16", int16_t{-30000});
  writer.Key("u32", uint32_t{4000000000});
  writer.Key("i32", int32_t{-2000000000});
  writer.Key("u64", uint64_t{1} << 63);
  writer.Key("i64", int64_t{-1} << 62);
  writer.Key("f32", 1.5f);
  writer.Key("f64", 2.25);
  writer.Key("bool", true);
  writer.Key("string", "text");
  writer.Key("strings", std::vector<std::string>{"a", "", "bc"});
  writer.Key("numbers", std::vector<uint16_t>{1, 2, 65535});
  writer.Key("floats", std::vector<float>{0.5f, -1});
  writer.Tensor("matrix", GgufType::f32, {2, 3});
  writer.Tensor("vector", GgufType::q8_0, {32});
  writer.Append(std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.Append(std::vector<float>(32, 1));
  writer.Finish();
  return std::move(out).str();
}

GgufFile ParseBytes(std::string_view bytes) { return GgufFile::Parse("test", AsBytes(bytes)); }

/// A file of one tensor whose entry is as given.
std::string TensorFile(const ByteSink& info, size_t data_bytes, uint64_t tensors = 1) {
  std::string bytes = ByteSink().Header(tensors, 0).bytes() + info.bytes();
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + std::string(data_bytes, '\0');
}

ByteSink Info(std::string_view name, const std::vector<uint64_t>& innermost_first, uint32_t type,
              uint64_t offset) {
  ByteSink sink;
  sink.String(name).U32(static_cast<uint32_t>(innermost_first.size()));
  for (const uint64_t size : innermost_first) sink.U64(size);
  sink.U32(type).U64(offset);
  return sink;
}

TEST(GgufTest, ReadsValuesOfEachType) {
  const std::string bytes = SmallFile();
  const GgufFile file = ParseBytes(bytes);
  EXPECT_EQ(file.Find<uint8_t>("u8"), 200);
  EXPECT_EQ(file.Find<int8_t>("i8"), -100);
  EXPECT_EQ(file.Find<uint16_t>("u16"), 60000);
  EXPECT_EQ(file.Find<int16_t>("i16"), -30000);
  EXPECT_EQ(file.Find<uint32_t>("u32"), 4000000000);
  EXPECT_EQ(file.Find<int32_t>("i32"), -2000000000);
  EXPECT_EQ(file.Find<uint64_t>("u64"), uint64_t{1} << 63);
  EXPECT_EQ(file.Find<int64_t>("i64"), int64_t{-1} << 62);
  EXPECT_EQ(file.Find<float>("f32"), 1.5f);
  EXPECT_EQ(file.Find<double>("f64"), 2.25);
  EXPECT_EQ(file.Find<bool>("bool"), true);
  EXPECT_EQ(file.Find<std::string_view>("string"), "text");
  EXPECT_EQ(file.Require<std::vector<std::string_view>>("strings"),
            (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(file.Require<std::vector<int32_t>>("numbers"), (std::vector<int32_t>{1, 2, 65535}));
  EXPECT_EQ(file.Require<std::vector<float>>("floats"), (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(file.FindArraySize("strings"), 3);
  EXPECT_EQ(file.FindArraySize("absent"), std::nullopt);
  EXPECT_EQ(file.Find<bool>("absent"), std::nullopt);
}

TEST(GgufTest, ConvertsOnlyWhereTheValueFits) {
  const std::string bytes = SmallFile();
  const GgufFile file = ParseBytes(bytes);
  EXPECT_EQ(file.Find<int64_t>("u8"), 200);
  EXPECT_EQ(file.Find<double>("f32"), 1.5);
  ExpectError(ErrorCode::bad_file, {"'u32' is uint32 4000000000", "to 2147483647", "at byte"},
              [&] { file.Find<int32_t>("u32"); });
  ExpectError(ErrorCode::bad_file, {"'i8' is int8 -100", "from 0"},
              [&] { file.Find<uint64_t>("i8"); });
  ExpectError(ErrorCode::bad_file, {"'string' is 'text'", "an integer"},
              [&] { file.Find<int>("string"); });
  ExpectError(ErrorCode::bad_file, {"'strings' is an array of 3 string", "a string"},
              [&] { file.Find<std::string_view>("strings"); });
  ExpectError(ErrorCode::bad_file, {"'u8' is uint8 200", "a floating-point"},
              [&] { file.Find<float>("u8"); });
  ExpectError(ErrorCode::bad_file, {"'bool' is true", "an integer"},
              [&] { file.Find<int>("bool"); });
  ExpectError(ErrorCode::bad_file, {"'f64' is float64 2.25", "a boolean"},
              [&] { file.Find<bool>("f64"); });
  ExpectError(ErrorCode::bad_file, {"'numbers'", "an array, each element an integer"},
              [&] { file.Find<std::vector<int8_t>>("numbers"); });
  ExpectError(ErrorCode::bad_file, {"'u8'", "an array"}, [&] { file.FindArraySize("u8"); });
  ExpectError(ErrorCode::bad_file, {"test: missing key 'absent'"},
              [&] { file.Require<bool>("absent"); });
}

TEST(GgufTest, FindsTensors) {
  const std::string bytes = SmallFile();
  const GgufFile file = ParseBytes(bytes);
  ASSERT_EQ(file.tensors().size(), 2);
  const GgufTensor* matrix = file.FindTensor("matrix");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(matrix->rows(), 2);
  EXPECT_EQ(matrix->cols(), 3);
  EXPECT_EQ(matrix->data.size(), 24);
  float last = 0;
  std::memcpy(&last, matrix->data.data() + 20, 4);
  EXPECT_EQ(last, 6);
  const GgufTensor* vector = file.FindTensor("vector");
  ASSERT_NE(vector, nullptr);
  EXPECT_EQ(vector->type, GgufType::q8_0);
  EXPECT_EQ(vector->rows(), 1);
  EXPECT_EQ(vector->data.size(), 34);
  EXPECT_EQ(file.FindTensor("absent"), nullptr);
}

TEST(GgufTest, OpensAFileAndSurvivesAMove) {
  testing::TempFile temp(SmallFile());
  GgufFile first = GgufFile::Open(temp.path());
  const GgufTensor* tensor = first.FindTensor("matrix");
  const GgufFile second = std::move(first);
  EXPECT_EQ(second.FindTensor("matrix"), tensor);
  EXPECT_EQ(second.Find<std::string_view>("string"), "text");
  EXPECT_EQ(second.name(), temp.path());
}

TEST(GgufTest, ReportsFilesThatCannotBeOpened) {
  ExpectError(ErrorCode::not_found, {"/no/such/file.gguf", "No such file"},
              [] { GgufFile::Open("/no/such/file.gguf"); });
  ExpectError(ErrorCode::bad_file, {"/", "not a regular file"}, [] { GgufFile::Open("/"); });
  testing::TempFile empty("");
  ExpectError(ErrorCode::bad_file, {"truncated", "file of 0 bytes"},
              [&] { GgufFile::Open(empty.path()); });
}

TEST(GgufTest, EveryTruncationIsAnError) {
  const std::string bytes = SmallFile();
  const size_t end = ParseBytes(bytes).FindTensor("vector")->data.data() -
                     reinterpret_cast<const std::byte*>(bytes.data()) + 34;
  for (size_t size = 0; size < end; ++size) {
    const std::string cut = bytes.substr(0, size);  // a copy, so that reading past it is noticed
    ExpectError(ErrorCode::bad_file, {}, [&] { ParseBytes(cut); });
  }
  EXPECT_NO_THROW(ParseBytes(bytes.substr(0, end)));  // the padding at the end is not needed
}

TEST(GgufTest, EveryCorruptedByteGivesAFileOrAnError) {
  const std::string bytes = SmallFile();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string copy = bytes;
      copy[i] = static_cast<char>(copy[i] ^ change);
      testing::ParseOrError(copy);
    }
  }
}

TEST(GgufTest, RandomCorruptionGivesAFileOrAnError) {
  const std::string bytes = SmallFile();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string copy = bytes;
    for (uint32_t n = 1 + random() % 6; n > 0; --n) {
      const size_t at = random() % copy.size();
      if (random() % 2) {
        copy[at] = static_cast<char>(random());
      } else {  // a large number where a length may be
        const uint64_t huge = (uint64_t{1} << (random() % 64)) - random() % 2;
        std::memcpy(&copy[at], &huge, std::min<size_t>(8, copy.size() - at));
      }
    }
    testing::ParseOrError(copy);
  }
}

TEST(GgufTest, RefusesOtherFormats) {
  ExpectError(ErrorCode::bad_file, {"begins with 'PK\\x03\\x04'", "'GGUF'", "at byte 0"},
              [] { ParseBytes("PK\x03\x04 and so on, with enough bytes"); });
  for (const uint32_t version : {0u, 1u, 2u, 4u}) {
    const auto bytes = ByteSink().Raw("GGUF").U32(version).U64(0).U64(0).bytes();
    ExpectError(ErrorCode::bad_file,
                {"version " + std::to_string(version), "allowed: version 3", "at byte 4"},
                [&] { ParseBytes(bytes); });
  }
  const auto big_endian = ByteSink().Raw("GGUF").U32(0x03000000).U64(0).U64(0).bytes();
  ExpectError(ErrorCode::bad_file, {"big-endian GGUF file of version 3", "little-endian"},
              [&] { ParseBytes(big_endian); });
}

TEST(GgufTest, RefusesHostileCountsAndLengths) {
  constexpr uint64_t kHuge = uint64_t{1} << 60;
  for (const uint64_t huge : {kHuge, ~uint64_t{0}, uint64_t{3}}) {
    ExpectError(ErrorCode::bad_file, {"number of tensors is", "room for 2 at most", "at byte 8"},
                [&] { ParseBytes(ByteSink().Header(huge, 0).bytes() + std::string(56, '\0')); });
  }
  ExpectError(ErrorCode::bad_file, {"pairs is 1152921504606846976", "at byte 16"},
              [&] { ParseBytes(ByteSink().Header(0, kHuge).bytes()); });

  const auto value = [](uint32_t type) { return ByteSink().Header(0, 1).String("key").U32(type); };
  ExpectError(ErrorCode::bad_file, {"length of a key is", "0 to 65535", "at byte 24"},
              [&] { ParseBytes(ByteSink().Header(0, 1).U64(kHuge).Raw("0123456789").bytes()); });
  ExpectError(ErrorCode::bad_file, {"truncated: a key takes 60 bytes", "has 10 left"},
              [&] { ParseBytes(ByteSink().Header(0, 1).U64(60).Raw("0123456789").bytes()); });
  ExpectError(ErrorCode::bad_file, {"length of a string is"},
              [&] { ParseBytes(value(8).U64(~uint64_t{0}).Raw("text").bytes()); });
  ExpectError(ErrorCode::bad_file, {"value of type 13", "0 to 12"},
              [&] { ParseBytes(value(13).U64(0).bytes()); });
  ExpectError(ErrorCode::bad_file, {"boolean of 'key' is 2", "0 and 1"},
              [&] { ParseBytes(value(7).Put(uint8_t{2}).bytes()); });
  for (const uint32_t element : {0u, 4u, 8u, 12u}) {
    ExpectError(ErrorCode::bad_file, {"the array 'key' has 1152921504606846976 elements"},
                [&] { ParseBytes(value(9).U32(element).U64(kHuge).Raw("some bytes").bytes()); });
  }
  ExpectError(ErrorCode::bad_file, {"an array of arrays"},
              [&] { ParseBytes(value(9).U32(9).U64(1).U32(4).U64(0).bytes()); });
}

TEST(GgufTest, RefusesDuplicates) {
  ByteSink pairs;
  pairs.Header(0, 2).String("key").U32(0).Put(uint8_t{1});
  pairs.String("key").U32(8).String("text");
  ExpectError(ErrorCode::bad_file, {"key 'key' occurs twice", "at byte 40"},
              [&] { ParseBytes(pairs.bytes()); });

  ByteSink infos = Info("t", {8}, 0, 0);
  infos.Raw(Info("t", {8}, 0, 32).bytes());
  ExpectError(ErrorCode::bad_file, {"tensor 't' occurs twice"},
              [&] { ParseBytes(TensorFile(infos, 64, 2)); });
}

TEST(GgufTest, RefusesBadAlignment) {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 0xFFFFFFFFu}) {
    const auto bytes =
        ByteSink().Header(0, 1).String("general.alignment").U32(4).U32(alignment).bytes();
    ExpectError(ErrorCode::bad_file,
                {"general.alignment is " + std::to_string(alignment), "a power of two"},
                [&] { ParseBytes(bytes); });
  }
  std::ostringstream out;
  GgufWriter writer(out, 4096);
  writer.Tensor("t", GgufType::bf16, {3});
  writer.Append(std::vector<float>{1, 2, 3});
  writer.Finish();
  const std::string bytes = std::move(out).str();
  EXPECT_EQ(ParseBytes(bytes).tensors()[0].data.data(), AsBytes(bytes).data() + 4096);
}

TEST(GgufTest, RefusesBadTensors) {
  auto expect = [](const ByteSink& info, std::vector<std::string> parts, uint64_t tensors = 1) {
    ExpectError(ErrorCode::bad_file, parts, [&] { ParseBytes(TensorFile(info, 128, tensors)); });
  };
  EXPECT_NO_THROW(ParseBytes(TensorFile(Info("t", {32}, 0, 0), 128)));
  expect(Info(std::string(65, 'n'), {1}, 0, 0), {"a tensor's name is 65", "0 to 64"});
  expect(Info("t", {}, 0, 0), {"'t' has 0 dimensions", "1 to 4"});
  expect(Info("t", {1, 1, 1, 1, 1}, 0, 0), {"'t' has 5 dimensions", "1 to 4"});
  expect(Info("t", {4, 0}, 0, 0), {"dimension 1 of tensor 't' is 0"});
  expect(Info("t", {uint64_t{1} << 60}, 0, 0), {"'t' has more elements"});
  expect(Info("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0), {"'t' has more elements"});
  expect(Info("t", {2, uint64_t{1} << 63, 2}, 0, 0), {"'t' has more elements"});
  expect(Info("t", {33}, 0, 0), {"truncated: tensor 't' takes 132 bytes from offset 0", "has 128"});
  expect(Info("t", {1}, 0, 128), {"takes 4 bytes from offset 128"});
  expect(Info("t", {1}, 0, ~uint64_t{31}), {"takes 4 bytes from offset 18446744073709551584"});
  expect(Info("t", {1}, 0, 4), {"'t' has offset 4", "multiples of 32"});
  expect(Info("t", {31}, 8, 0), {"'t' of type Q8_0 has rows of 31", "multiples of 32"});

  ByteSink overlapping = Info("a", {12}, 0, 32);
  overlapping.Raw(Info("b", {16}, 0, 0).bytes());
  expect(overlapping, {"'a' at offset 32 overlaps tensor 'b', which ends at offset 64"}, 2);
}

TEST(GgufTest, NamesUnsupportedTensorTypes) {
  for (const auto& [type, name] : {std::pair{2u, "Q4_0"},
                                   {14u, "Q6_K"},
                                   {26u, "I32"},
                                   {4u, "unknown (4)"},
                                   {4000000000u, "unknown (4000000000)"}}) {
    ExpectError(ErrorCode::unsupported,
                {"tensor 'weights' has type " + std::string(name), "F32, F16, BF16, Q8_0"},
                [&] { ParseBytes(TensorFile(Info("weights", {32}, type, 0), 128)); });
  }
}

TEST(GgufTest, EscapesHostileNamesInMessages) {
  ExpectError(ErrorCode::bad_file, {"'\\x1b[2J\\xff'"},
              [] { ParseBytes(TensorFile(Info("\x1b[2J\xff", {}, 0, 0), 128)); });
}

}  // namespace
}  // namespace precast::qwen3
