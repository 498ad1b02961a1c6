#include "cli/comparison.h"

#include <gtest/gtest.h>

namespace precast::cli {
namespace {

TEST(SummarizeTest, TrimsBothEndsOfAllSegmentsTogether) {
  Summary summary = Summarize({{100, 3, 5}, {4, -80, 6}}, 1);
  EXPECT_DOUBLE_EQ(summary.trimmed_mean, 4.5);
  EXPECT_DOUBLE_EQ(summary.median, 4.5);
  EXPECT_DOUBLE_EQ(summary.min, -80);
}

TEST(SummarizeTest, AnOddNumberHasAMedianOfItsOwn) {
  Summary summary = Summarize({{9, 1}, {2}}, 0);
  EXPECT_DOUBLE_EQ(summary.trimmed_mean, 4);
  EXPECT_DOUBLE_EQ(summary.median, 2);
  EXPECT_DOUBLE_EQ(Summarize({{9, 1}, {2}}, 1).trimmed_mean, 2);
}

TEST(CompareTest, ASideThatIsAheadInEachPairIsFaster) {
  Comparison result = Compare({{10, 11}, {30, 31}}, {{8, 9}, {28, 29}}, 0);
  EXPECT_EQ(result.a_ahead, 0u);
  EXPECT_EQ(result.b_ahead, 2u);
  EXPECT_EQ(result.verdict, Verdict::b_faster);
  EXPECT_DOUBLE_EQ(result.percent, 100 * (20.5 - 18.5) / 20.5);
  EXPECT_EQ(ToString(result), "B faster by 9.8 %");
  EXPECT_EQ(ToString(Compare({{8, 9}, {28, 29}}, {{10, 11}, {30, 31}}, 0)), "A faster by 9.8 %");
}

TEST(CompareTest, OnePairAgainstTheOthersResolvesNothing) {
  Comparison result = Compare({{10}, {10}, {10}}, {{1}, {1}, {11}}, 0);
  EXPECT_EQ(result.a_ahead, 1u);
  EXPECT_EQ(result.b_ahead, 2u);
  EXPECT_EQ(ToString(result), "not resolved");
  EXPECT_EQ(ToString(Compare({{10}, {10}}, {{1}, {10}}, 0)), "not resolved") << "a draw agrees not";
}

TEST(CompareTest, MediansDecideAPairSoOneBadRoundDoesNot) {
  Comparison result = Compare({{2, 2, 900}, {2, 2, 2}}, {{3, 3, 3}, {3, 3, 3}}, 1);
  EXPECT_EQ(result.verdict, Verdict::a_faster);
}

TEST(CompareTest, AMeanThatContradictsThePairsResolvesNothing) {
  Comparison result = Compare({{2, 2, 900}, {2, 2, 900}}, {{3, 3, 3}, {3, 3, 3}}, 0);
  EXPECT_EQ(result.a_ahead, 2u);
  EXPECT_EQ(ToString(result), "not resolved");
}

TEST(CompareTest, WhatNeverDiffersIsEqual) {
  EXPECT_EQ(ToString(Compare({{9, 9}, {9, 9}}, {{9, 9}, {9, 9}}, 1)), "equal");
  EXPECT_EQ(ToString(Compare({{0}, {0}}, {{0}, {0}}, 0)), "equal");
}

TEST(CompareTest, NothingAtAllIsFasterThanSomething) {
  EXPECT_EQ(ToString(Compare({{0, 0}}, {{5, 5}}, 0)), "A faster by 100.0 %");
}

}  // namespace
}  // namespace precast::cli
