#include "platforms/sim/page_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace precast::sim {
namespace {

constexpr uint64_t kPage = kPageBytes, kGranule = kGranuleBytes;

TEST(PageAllocator, RoundsToPagesAndFromTwoMebibytesOnToGranules) {
  EXPECT_EQ(PageAllocator::Rounded(1), kPage);
  EXPECT_EQ(PageAllocator::Rounded(kPage), kPage);
  EXPECT_EQ(PageAllocator::Rounded(kPage + 1), 2 * kPage);
  EXPECT_EQ(PageAllocator::Rounded(kGranule - kPage), kGranule - kPage);
  EXPECT_EQ(PageAllocator::Rounded(kGranule - 1), kGranule);
  EXPECT_EQ(PageAllocator::Rounded(kGranule), kGranule);
  EXPECT_EQ(PageAllocator::Rounded(kGranule + 1), 2 * kGranule);
}

TEST(PageAllocator, SizeIsWholeGranules) {
  EXPECT_EQ(PageAllocator(3 * kGranule + 5).size(), 3 * kGranule);
  PageAllocator none(kGranule - 1);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.Allocate(1), std::nullopt);
  EXPECT_EQ(none.largest_free(), 0u);
}

TEST(PageAllocator, SmallRequestsShareAGranuleAndLargeOnesAreAligned) {
  PageAllocator pages(8 * kGranule);
  uint64_t a = *pages.Allocate(1), b = *pages.Allocate(5000), c = *pages.Allocate(3 * kGranule);
  EXPECT_EQ(a / kGranule, b / kGranule);
  EXPECT_EQ(c % kGranule, 0u);
  EXPECT_EQ(pages.in_use(), 3 * kPage + 3 * kGranule);
}

TEST(PageAllocator, TakesTheSmallestRangeThatFits) {
  PageAllocator pages(16 * kGranule);
  uint64_t wide = *pages.Allocate(4 * kGranule);
  uint64_t wall = *pages.Allocate(kGranule);
  uint64_t narrow = *pages.Allocate(2 * kGranule);
  pages.Allocate(kGranule);
  pages.Free(wide, 4 * kGranule);
  pages.Free(narrow, 2 * kGranule);
  EXPECT_EQ(*pages.Allocate(2 * kGranule), narrow);
  EXPECT_EQ(*pages.Allocate(3 * kGranule), wide);
  EXPECT_NE(wall, wide);
}

TEST(PageAllocator, JoinsFreedNeighbours) {
  PageAllocator pages(4 * kGranule);
  std::vector<uint64_t> granules;
  for (int i = 0; i < 4; ++i) granules.push_back(*pages.Allocate(kGranule));
  EXPECT_EQ(pages.Allocate(1), std::nullopt);
  for (int i : {0, 2, 1, 3}) pages.Free(granules[static_cast<size_t>(i)], kGranule);
  EXPECT_EQ(pages.largest_free(), 4 * kGranule);
  EXPECT_EQ(*pages.Allocate(4 * kGranule), 0u);
}

TEST(PageAllocator, AnEmptyGranuleServesLargeRequestsAgain) {
  PageAllocator pages(kGranule);
  std::vector<uint64_t> offsets;
  while (auto offset = pages.Allocate(kPage)) offsets.push_back(*offset);
  EXPECT_EQ(offsets.size(), kGranule / kPage);
  EXPECT_EQ(pages.in_use(), kGranule);
  EXPECT_EQ(pages.largest_free(), 0u);
  for (size_t i = 0; i < offsets.size(); i += 2) pages.Free(offsets[i], kPage);
  EXPECT_EQ(pages.largest_free(), kPage);
  for (size_t i = 1; i < offsets.size(); i += 2) pages.Free(offsets[i], kPage);
  EXPECT_EQ(pages.in_use(), 0u);
  EXPECT_EQ(*pages.Allocate(kGranule), 0u);
}

TEST(PageAllocator, PagesOfTwoGranulesAreNotJoined) {
  PageAllocator pages(2 * kGranule);
  uint64_t half = kGranule / 2;
  std::vector<uint64_t> halves;
  for (int i = 0; i < 4; ++i) halves.push_back(*pages.Allocate(half));
  pages.Free(halves[1], half);  // the two halves that meet at the middle of the memory
  pages.Free(halves[2], half);
  EXPECT_EQ(pages.largest_free(), half);
  EXPECT_EQ(pages.Allocate(half + 1), std::nullopt);
}

TEST(PageAllocator, RefusesMoreThanThereIs) {
  PageAllocator pages(2 * kGranule);
  EXPECT_EQ(pages.Allocate(2 * kGranule + 1), std::nullopt);
  EXPECT_EQ(pages.Allocate(UINT64_MAX), std::nullopt);
  EXPECT_EQ(pages.in_use(), 0u);
  EXPECT_NE(pages.Allocate(2 * kGranule), std::nullopt);
}

TEST(PageAllocator, RandomRequestsNeverOverlapAndAllComesBack) {
  std::mt19937 random(7);
  PageAllocator pages(32 * kGranule);
  std::map<uint64_t, uint64_t> live;  // offset -> bytes
  uint64_t in_use = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 5 < 3) {
      uint64_t bytes =
          1 + (random() % 4 == 0 ? random() % (5 * kGranule) : random() % (20 * kPage));
      auto offset = pages.Allocate(bytes);
      if (!offset.has_value()) continue;
      uint64_t rounded = PageAllocator::Rounded(bytes);
      ASSERT_EQ(*offset % (rounded < kGranule ? kPage : kGranule), 0u);
      ASSERT_LE(*offset + rounded, pages.size());
      if (rounded < kGranule) {
        ASSERT_EQ(*offset / kGranule, (*offset + rounded - 1) / kGranule);
      }
      auto next = live.lower_bound(*offset);
      if (next != live.end()) {
        ASSERT_LE(*offset + rounded, next->first);
      }
      if (next != live.begin()) {
        auto previous = std::prev(next);
        ASSERT_LE(previous->first + PageAllocator::Rounded(previous->second), *offset);
      }
      live.emplace(*offset, bytes);
      in_use += rounded;
    } else if (!live.empty()) {
      auto victim = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
      pages.Free(victim->first, victim->second);
      in_use -= PageAllocator::Rounded(victim->second);
      live.erase(victim);
    }
    ASSERT_EQ(pages.in_use(), in_use);
  }
  for (auto [offset, bytes] : live) pages.Free(offset, bytes);
  EXPECT_EQ(pages.in_use(), 0u);
  EXPECT_EQ(pages.largest_free(), pages.size());
}

}  // namespace
}  // namespace precast::sim
