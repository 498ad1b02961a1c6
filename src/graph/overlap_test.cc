#include "graph/overlap.h"

#include "graph/divider.h"
#include "graph/region_samples_test.h"

#include <precast/dtype.h>

#include <gtest/gtest.h>

#include <random>

namespace precast::graph {
namespace {

using namespace samples;

// Overlaps and Covers against bytes.
TEST(Overlap, IsExactWhereItSaysAndNeverMisses) {
  Random random(3);
  for (const Source& source : kSources) {
    SCOPED_TRACE(source.name);
    Layouts layouts;
    int overlaps = 0, covers = 0, covers_in_fact = 0;
    for (int i = 0; i < 20'000; ++i) {
      Region a = source.next(random, layouts), b = source.next(random, layouts);
      a = layouts.At(a.begin, a.layout_id);
      Bytes of_a = BytesOf(a), of_b = BytesOf(b);
      bool meet = (of_a & of_b).any(), cover = (of_b & ~of_a).none();
      if (source.exact) {
        EXPECT_EQ(Overlaps(a, b), meet);
      }
      EXPECT_TRUE(Overlaps(a, b) || !meet);
      EXPECT_EQ(Overlaps(a, b), Overlaps(b, a));
      EXPECT_TRUE(!Covers(a, b) || cover);
      overlaps += meet;
      covers += Covers(a, b);
      covers_in_fact += cover;
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(overlaps, 20);
    if (source.exact) {
      EXPECT_EQ(covers, covers_in_fact);
    }
  }
}

// No view of a tensor is like this; an image from outside may say so.
TEST(Overlap, ALayoutWhoseRowsReachIntoEachOtherCoversNothing) {
  abi::Layout woven{};  // bytes 0, 2, 4, 5, 6, 7, 9, 11 …
  woven.dtype = static_cast<uint8_t>(precast::DType::u8);
  woven.rank = 2;
  woven.shape[0] = 4, woven.shape[1] = 3;
  woven.strides[0] = 2, woven.strides[1] = 5;
  woven.element_bytes = 1;
  woven.elements = 12;
  woven.extent = 17;
  abi::Layout one = woven;
  one.rank = 0;
  one.contiguous = 1;
  one.elements = one.extent = 1;
  EXPECT_FALSE(Covers({0, 1, &woven}, {1, 2, &one}));
  EXPECT_TRUE(Overlaps({0, 1, &woven}, {2, 2, &one}));
}

TEST(Divider, AgreesWithDivision) {
  Random random(5);
  for (int i = 0; i < 100'000; ++i) {
    uint64_t value = (uint64_t{random()} << 32 | random()) >> Below(random, 63) >> 1;
    uint64_t n = (uint64_t{random()} << 32 | random()) >> (1 + Below(random, 63));
    if (value == 0) value = 1;
    ASSERT_EQ(Divider::By(value).Quotient(n), n / value) << n << " / " << value;
    uint64_t multiple = n / value * value;
    ASSERT_EQ(Divider::By(value).Quotient(multiple), multiple / value);
    if (multiple > 0) {
      ASSERT_EQ(Divider::By(value).Quotient(multiple - 1), (multiple - 1) / value);
    }
  }
}

}  // namespace
}  // namespace precast::graph
