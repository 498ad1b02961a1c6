#include "graph/region_map.h"

#include "graph/region_samples_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace precast::graph {
namespace {

using namespace samples;
using abi::TaskId;

// A map with the edges of each access.
class RegionMapTest : public testing::Test {
 protected:
  using Edges = std::vector<TaskId>;
  Edges Read(const Region& region, TaskId task, BufferId buffer = 0) {
    Edges edges;
    map_.Read(buffer, region, task, [&](TaskId producer) { edges.push_back(producer); });
    return edges;
  }
  Edges Write(const Region& region, TaskId task, BufferId buffer = 0) {
    Edges edges;
    map_.Write(buffer, region, task, [&](TaskId producer) { edges.push_back(producer); });
    return edges;
  }
  Edges Live(BufferId buffer = 0) {
    Edges live;
    map_.ForEachLive(buffer, [&](TaskId task) { live.push_back(task); });
    return live;
  }

  RegionMap map_;
  Layouts layouts_;
};

TEST_F(RegionMapTest, WholeTensors) {
  map_.AddBuffer(kBytes);
  Region whole = Whole(layouts_);
  EXPECT_EQ(map_.FindAccess(0, whole), 0u);
  EXPECT_EQ(Read(whole, 4), Edges{});
  EXPECT_EQ(map_.FindWriter(0, whole), 0u);
  EXPECT_EQ(map_.FindAccess(0, whole), 4u);
  EXPECT_EQ(Write(whole, 5), Edges{4});
  EXPECT_EQ(Write(whole, 6), Edges{5});
  EXPECT_EQ(Read(whole, 6), Edges{});  // its own
  EXPECT_EQ(Read(whole, 7), Edges{6});
  EXPECT_EQ(Read(whole, 8), Edges{6});
  EXPECT_EQ(Write(whole, 8), Edges{7});
  EXPECT_EQ(Live(), Edges{8});
}

TEST_F(RegionMapTest, ManyReadersOfOneRegion) {
  map_.AddBuffer(kBytes);
  map_.AddBuffer(kBytes);
  Region whole = Whole(layouts_), part = layouts_.At(64, layouts_.Flat(16));
  constexpr TaskId kReaders = 100'000;
  for (int round = 0; round < 2; ++round) {
    for (BufferId buffer : {0u, 1u}) {
      TaskId task = 1 + static_cast<TaskId>(round) * 200'000;
      if (buffer == 1) Read(part, task, buffer);
      Write(whole, task, buffer);
      for (TaskId i = 1; i <= kReaders; ++i) EXPECT_EQ(Read(whole, task + i, buffer), Edges{task});
      Edges edges = Write(whole, task + kReaders + 1, buffer);
      std::sort(edges.begin(), edges.end());
      Edges expected(kReaders);
      std::iota(expected.begin(), expected.end(), task + 1);
      EXPECT_EQ(edges, expected);
    }
  }
}

TEST_F(RegionMapTest, PartialWritesLeaveTheRest) {
  map_.AddBuffer(kBytes);
  Region whole = Whole(layouts_), left = layouts_.At(0, layouts_.Flat(512)),
         right = layouts_.At(2048, layouts_.Flat(512));
  Write(whole, 1);
  EXPECT_EQ(Write(left, 2), Edges{1});
  EXPECT_EQ(Read(left, 3), Edges{2});  // 1 comes before 2
  EXPECT_EQ(Read(right, 4), Edges{1});
  EXPECT_EQ(Read(whole, 5), (Edges{1, 2}));
  EXPECT_EQ(Write(whole, 6), (Edges{5, 3, 4}));
  EXPECT_EQ(Live(), Edges{6});
}

TEST_F(RegionMapTest, ReshapesAreTheSameRegion) {
  map_.AddBuffer(kBytes);
  Region flat = layouts_.At(0, layouts_.Flat(1024)),
         square = layouts_.At(0, layouts_.Of({32, 32}, {32, 1}, 4)),
         transposed = layouts_.At(0, layouts_.Of({32, 32}, {1, 32}, 4));
  EXPECT_NE(flat.layout_id, square.layout_id);
  Write(flat, 1);
  EXPECT_EQ(Read(square, 2), Edges{1});
  EXPECT_EQ(Read(transposed, 3), Edges{1});
  EXPECT_EQ(Write(transposed, 4), (Edges{2, 3}));
  EXPECT_EQ(Live(), Edges{4});
}

// Each tile waits for its neighbours above and to the left, and has no other edge.
TEST_F(RegionMapTest, WavefrontOverTiles) {
  constexpr uint32_t kTiles = 60, kEdge = 10;  // tiles a side, elements a side of a tile
  constexpr uint32_t kRow = kTiles * kEdge;
  map_.AddBuffer(uint64_t{kRow} * kRow * 4);
  uint32_t layout = layouts_.Of({kEdge, kEdge}, {kRow, 1}, 4);
  auto tile = [&](uint32_t r, uint32_t c) {
    return layouts_.At((uint64_t{r} * kEdge * kRow + c * kEdge) * 4, layout);
  };
  auto task = [&](uint32_t sweep, uint32_t r, uint32_t c) {
    return sweep * 10'000 + 1 + r * kTiles + c;
  };
  for (uint32_t sweep = 0; sweep < 3; ++sweep) {
    for (uint32_t r = 0; r < kTiles; ++r) {
      for (uint32_t c = 0; c < kTiles; ++c) {
        TaskId id = task(sweep, r, c);
        if (r > 0) {
          ASSERT_EQ(Read(tile(r - 1, c), id), Edges{task(sweep, r - 1, c)});
        }
        if (c > 0) {
          ASSERT_EQ(Read(tile(r, c - 1), id), Edges{task(sweep, r, c - 1)});
        }
        Edges expected;
        if (sweep > 0) {  // those that read it in the last sweep
          if (c + 1 < kTiles) expected.push_back(task(sweep - 1, r, c + 1));
          if (r + 1 < kTiles) expected.push_back(task(sweep - 1, r + 1, c));
          if (expected.empty()) expected.push_back(task(sweep - 1, r, c));
        }
        ASSERT_EQ(Write(tile(r, c), id), expected);
      }
    }
  }
}

// Large areas over many small regions, and over few in a large buffer.
TEST_F(RegionMapTest, LargeAreasOverSmallRegions) {
  constexpr uint64_t kHuge = uint64_t{1} << 46;
  map_.AddBuffer(kHuge);
  uint32_t block = layouts_.Flat(16);
  std::vector<uint64_t> begins;
  Random random(1);
  for (uint32_t i = 0; i < 20'000; ++i) {
    begins.push_back(i % 2 == 0 ? i * 64 : (uint64_t{random()} << 14 | 1 << 21) & ~63ull);
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  TaskId task = 0;
  for (uint64_t begin : begins) Write(layouts_.At(begin, block), ++task);
  for (uint32_t elements : {100u, 10'000u, 4'000'000u, 2'000'000'000u, 4'000'000'000u}) {
    for (int i = 0; i < 5; ++i) {
      uint64_t begin = begins[Below(random, static_cast<uint32_t>(begins.size()))] + 4;
      Edges edges = Read(layouts_.At(begin, layouts_.Flat(elements)), ++task), expected;
      for (size_t j = 0; j < begins.size(); ++j) {
        if (begins[j] + 64 > begin && begins[j] < begin + uint64_t{elements} * 4) {
          expected.push_back(static_cast<TaskId>(j + 1));
        }
      }
      std::sort(edges.begin(), edges.end());
      ASSERT_EQ(edges, expected);
    }
  }
  EXPECT_EQ(Live().size(), begins.size() + 25);
}

TEST_F(RegionMapTest, ClaimedBytesOrderEverybody) {
  map_.AddBuffer(kBytes);
  Region left = layouts_.At(0, layouts_.Flat(16)), right = layouts_.At(64, layouts_.Flat(16));
  map_.Claim(0, 7);
  EXPECT_EQ(map_.FindAccess(0, left), 0u);
  EXPECT_EQ(Write(left, 7), Edges{});
  EXPECT_EQ(Write(right, 8), Edges{7});
  EXPECT_EQ(Read(left, 9), Edges{7});
  EXPECT_EQ(Read(right, 9), Edges{8});
}

TEST_F(RegionMapTest, UnorderedAccessesAreFoundButMakeNoEdge) {
  map_.AddBuffer(kBytes);
  Region left = layouts_.At(0, layouts_.Flat(16)), right = layouts_.At(64, layouts_.Flat(16));
  map_.Unordered(0, left, 3);
  EXPECT_EQ(Write(left, 4), Edges{});
  EXPECT_EQ(map_.FindWriter(0, right), 0u);
  map_.Unordered(0, right, 5);
  EXPECT_EQ(map_.FindWriter(0, right), 5u);
  EXPECT_EQ(map_.FindAccess(0, right), 5u);
  EXPECT_EQ(Live(), (Edges{4, 3, 5}));
}

}  // namespace
}  // namespace precast::graph
