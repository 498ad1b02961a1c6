#include "view/tensor_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace precast::view {
namespace {

using testing::HasSubstr;

template <typename T>
TensorValues Read(const std::vector<T>& data, std::vector<uint32_t> shape,
                  std::vector<uint32_t> strides, uint64_t bytes = 1000) {
  abi::Layout layout{};
  layout.dtype = static_cast<uint8_t>(kDTypeOf<T>);
  layout.rank = static_cast<uint8_t>(shape.size());
  layout.element_bytes = sizeof(T);
  layout.elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    layout.shape[i] = shape[i];
    layout.strides[i] = strides[i];
    layout.elements *= shape[i];
  }
  return ReadValues(reinterpret_cast<const char*>(data.data()), layout, bytes);
}

TEST(TensorValuesTest, ReadsInRowMajorOrderWhateverTheStrides) {
  TensorValues values = Read<float>({1, 2, 3, 4, 5, 6}, {3, 2}, {1, 3});
  EXPECT_EQ(ElementsText(values, 10), "[1, 4, 2, 5, 3, 6]");
  EXPECT_EQ(ElementsText(values, 2), "[1, 4, …]");
  EXPECT_EQ(StatisticsText(values), "min 1, max 6, mean 3.5, no NaN");
}

TEST(TensorValuesTest, CountsNaNsApart) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(StatisticsText(Read<float>({nan, -2, 4, nan}, {4}, {1})),
            "min -2, max 4, mean 1, 2 NaN");
  EXPECT_EQ(StatisticsText(Read<float>({nan, nan}, {2}, {1})), "all 2 elements are NaN");
}

TEST(TensorValuesTest, KnowsEveryType) {
  EXPECT_EQ(ElementsText(Read<int8_t>({-1, 2}, {2}, {1}), 9), "[-1, 2]");
  EXPECT_EQ(ElementsText(Read<uint8_t>({255}, {1}, {1}), 9), "[255]");
  EXPECT_EQ(ElementsText(Read<int64_t>({-(int64_t{1} << 62)}, {1}, {1}), 9),
            "[-4611686018427387904]");
  EXPECT_EQ(ElementsText(Read<uint64_t>({~uint64_t{0}}, {1}, {1}), 9), "[18446744073709551615]");
  EXPECT_EQ(ElementsText(Read<f16>({f16(0.5f)}, {1}, {1}), 9), "[0.5]");
  EXPECT_EQ(ElementsText(Read<bf16>({bf16(-2.0f)}, {1}, {1}), 9), "[-2]");
  EXPECT_EQ(ElementsText(Read<double>({0.1}, {1}, {1}), 9), "[0.1]");
}

TEST(TensorValuesTest, KeepsNoMoreThanItMay) {
  TensorValues values = Read<float>({1, 2, 3, 4}, {4}, {1}, 11);
  EXPECT_EQ(values.kept(), 2u);
  EXPECT_EQ(values.max, 4) << "statistics are of all";
  EXPECT_EQ(ElementsText(values, 9), "[1, 2, …]");
  EXPECT_EQ(ElementsText(Read<float>({1}, {1}, {1}, 0), 9), "[…]");
}

TEST(TensorValuesTest, TellsDifferences) {
  TensorValues a = Read<float>({1, 2, 3, 4}, {2, 2}, {2, 1});
  EXPECT_EQ(DifferenceText(a, a, "the oracle"), "equal to the oracle in all 4 elements");
  TensorValues b = Read<float>({1, 2, 3.5, 5}, {2, 2}, {2, 1});
  EXPECT_EQ(
      DifferenceText(a, b, "the oracle"),
      "differs from the oracle in 2 of all 4 elements: [1, 0]: 3, the oracle has 3.5; [1, 1]: "
      "4, the oracle has 5");
  // Beyond what was kept it knows that there is a difference, and no more.
  TensorValues short_a = Read<float>({1, 2, 3, 4}, {4}, {1}, 8);
  TensorValues short_b = Read<float>({1, 2, 3, 5}, {4}, {1}, 8);
  EXPECT_EQ(DifferenceText(short_a, short_b, "the oracle"),
            "differs from the oracle, but not in the first 2 of 4 elements (--bytes keeps more)");
  EXPECT_THAT(DifferenceText(a, short_a, "the oracle"), HasSubstr("has another tensor there"));
}

}  // namespace
}  // namespace precast::view
