#include "graph/layout_table.h"

#include "base/tensor_access.h"

#include <gtest/gtest.h>

#include <vector>

namespace precast::graph {
namespace {

Tensor Make(const Shape& shape, DType dtype = DType::f32) {
  return detail::TensorAccess::Make(Tensor::Kind::run, shape, dtype, 0, 1, 0);
}

TEST(LayoutTableTest, EqualLayoutsHaveOneNumberAndOthersNot) {
  LayoutTable table;
  Tensor square = Make({8, 8});
  uint32_t first = table.Intern(square);
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(table.Intern(Make({8, 8})), first);
  // Each differs from the one before it in one thing.
  std::vector<Tensor> different = {square.slice(1, 0, 4),
                                   square.slice(1, 0, 8, 2),                  // strides
                                   square.slice(1, 0, 8, 2).transpose(0, 1),  // order
                                   Make({4, 8}).transpose(0, 1),              // strides
                                   Make({8, 4}),
                                   Make({8, 4}, DType::i32),  // dtype
                                   Make({32}, DType::i32),
                                   Make({1, 32}, DType::i32)};  // rank
  for (const Tensor& tensor : different) {
    uint32_t records = static_cast<uint32_t>(table.records().size());
    EXPECT_EQ(table.Intern(tensor), records) << tensor.ToString();
  }
  for (size_t i = 0; i < different.size(); ++i) {
    EXPECT_EQ(table.Intern(different[i]), i + 2) << different[i].ToString();
  }
}

TEST(LayoutTableTest, ManyLayoutsKeepTheirNumbers) {
  LayoutTable table;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 1; i <= 2000; ++i) EXPECT_EQ(table.Intern(Make({i})), i);
  }
  table.Clear();
  EXPECT_EQ(table.Intern(Make({7})), 1u);
}

}  // namespace
}  // namespace precast::graph
