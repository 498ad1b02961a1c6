#include "graph/heap_planner.h"

#include <precast/error.h>

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace precast::graph {
namespace {

constexpr uint64_t kUnit = HeapPlanner::kAlignment;

auto never = [](BufferId) { return false; };
auto always = [](BufferId) { return true; };

std::vector<BufferId> After(const HeapPlanner::Placement& place) {
  return {place.after.begin(), place.after.end()};
}

TEST(HeapPlanner, FreshBytesComeFirst) {
  HeapPlanner heap(16 * kUnit);
  EXPECT_EQ(heap.Place(0, 1, never).offset, 0u);
  EXPECT_EQ(heap.Place(1, kUnit + 1, never).offset, kUnit);
  heap.Retire(0);
  HeapPlanner::Placement place = heap.Place(2, kUnit, never);
  EXPECT_EQ(place.offset, 3 * kUnit);
  EXPECT_FALSE(place.reused);
  EXPECT_EQ(heap.live_bytes(), 3 * kUnit);
  EXPECT_EQ(heap.peak_bytes(), 4 * kUnit);
  EXPECT_EQ(heap.reused_bytes(), 0u);
}

TEST(HeapPlanner, BytesWhoseUsersPrecedeAreReusedAtOnce) {
  HeapPlanner heap(1024 * kUnit);
  heap.Place(0, 4 * kUnit, never);
  heap.Place(1, kUnit, never);
  heap.Retire(0);
  std::vector<BufferId> asked;
  HeapPlanner::Placement place = heap.Place(2, kUnit, [&](BufferId dead) {
    asked.push_back(dead);
    return true;
  });
  EXPECT_EQ(asked, std::vector<BufferId>{0});
  EXPECT_EQ(place.offset, 0u);
  EXPECT_TRUE(place.reused);
  EXPECT_TRUE(place.after.empty());
  EXPECT_EQ(heap.Place(3, 3 * kUnit, always).offset, kUnit);  // the rest of it
  EXPECT_EQ(heap.Place(4, kUnit, always).offset, 5 * kUnit);
  EXPECT_EQ(heap.reused_bytes(), 4 * kUnit);
  EXPECT_EQ(heap.peak_bytes(), 6 * kUnit);
}

TEST(HeapPlanner, TheBestOfTheLastOnesIsTaken) {
  HeapPlanner heap(1024 * kUnit);
  for (BufferId i = 0; i < 20; ++i) {
    heap.Place(i, (i % 2 == 0 ? 20 - i : 1) * kUnit, never);  // every other one stays live
  }
  for (BufferId i = 0; i < 20; i += 2) heap.Retire(i);
  int asked = 0;
  heap.Place(20, kUnit, [&](BufferId) { return ++asked > 100; });
  EXPECT_EQ(asked, 4);
  std::vector<BufferId> order;
  heap.Place(21, 5 * kUnit, [&](BufferId dead) {
    order.push_back(dead);
    return dead == 12;
  });
  EXPECT_EQ(order, (std::vector<BufferId>{14, 12}));  // 6 units, then 8
}

TEST(HeapPlanner, PastTheBudgetDeadBytesCostEdges) {
  HeapPlanner heap(4 * kUnit);
  for (BufferId i = 0; i < 4; ++i) heap.Place(i, kUnit, never);
  heap.Retire(1);
  heap.Retire(2);
  HeapPlanner::Placement place = heap.Place(4, 2 * kUnit, never);
  EXPECT_EQ(place.offset, kUnit);
  EXPECT_TRUE(place.reused);
  EXPECT_EQ(After(place), (std::vector<BufferId>{1, 2}));
  heap.Retire(4);
  EXPECT_EQ(After(heap.Place(5, kUnit, never)), std::vector<BufferId>{4});
  EXPECT_EQ(After(heap.Place(6, kUnit, never)), std::vector<BufferId>{4});
  EXPECT_EQ(heap.peak_bytes(), 4 * kUnit);
}

TEST(HeapPlanner, DeadAndFreshBytesTogether) {
  HeapPlanner heap(4 * kUnit);
  heap.Place(0, kUnit, never);
  heap.Place(1, 2 * kUnit, never);
  heap.Retire(1);
  HeapPlanner::Placement place = heap.Place(2, 3 * kUnit, never);
  EXPECT_EQ(place.offset, kUnit);
  EXPECT_EQ(After(place), std::vector<BufferId>{1});
  EXPECT_EQ(heap.reused_bytes(), 2 * kUnit);
  EXPECT_EQ(heap.peak_bytes(), 4 * kUnit);
}

TEST(HeapPlanner, WhatCannotFitIsAnErrorWithTheNumbers) {
  HeapPlanner heap(4 * kUnit);
  heap.Place(0, 3 * kUnit, never);
  for (uint64_t bytes : {2 * kUnit, 5 * kUnit, ~uint64_t{0}}) {
    try {
      heap.Place(1, bytes, never);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      for (uint64_t number : {bytes, 3 * kUnit, 4 * kUnit}) {
        EXPECT_NE(error.message().find(std::to_string(number)), std::string::npos)
            << error.message();
      }
    }
  }
  EXPECT_EQ(heap.Place(1, kUnit, never).offset, 3 * kUnit);
  heap.Clear(kUnit);
  EXPECT_EQ(heap.live_bytes(), 0u);
  EXPECT_EQ(heap.Place(0, 1, never).offset, 0u);
}

// H1 to H3 against a heap of which each unit is looked at.
TEST(HeapPlanner, RandomLivesAgainstAModel) {
  HeapPlanner heap;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    uint64_t units = 20 + random() % 300, largest = 1 + random() % 30;
    uint32_t trust = random() % 3;  // how often a dead buffer's users precede
    heap.Clear(units * kUnit);
    constexpr BufferId kNobody = ~0u;
    struct Unit {
      BufferId owner = kNobody;
      bool live = false;
    };
    std::vector<Unit> model(units);
    std::vector<BufferId> live;
    uint64_t live_units = 0, peak = 0, reused = 0;
    std::vector<uint64_t> size_of;
    for (BufferId buffer = 0; buffer < 1500; ++buffer) {
      while (!live.empty() && random() % 5 < 2) {
        size_t victim = random() % 2 == 0 ? live.size() - 1 : random() % live.size();
        for (Unit& unit : model) unit.live = unit.live && unit.owner != live[victim];
        live_units -= size_of[live[victim]];
        heap.Retire(live[victim]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
      }
      uint64_t size = 1 + random() % largest;
      size_of.push_back(size);
      std::set<BufferId> trusted;
      auto precedes = [&](BufferId dead) {
        if (random() % 3 >= trust) return false;
        trusted.insert(dead);
        return true;
      };
      HeapPlanner::Placement place;
      try {
        place = heap.Place(buffer, size * kUnit - random() % kUnit, precedes);
      } catch (const Error&) {
        uint64_t free = 0;  // nowhere is there room
        for (const Unit& unit : model) {
          free = unit.live ? 0 : free + 1;
          ASSERT_LT(free, size);
        }
        continue;
      }
      ASSERT_EQ(place.offset % kUnit, 0u);
      ASSERT_LE(place.offset / kUnit + size, units);
      std::set<BufferId> met, named(place.after.begin(), place.after.end());
      for (uint64_t u = place.offset / kUnit; u < place.offset / kUnit + size; ++u) {
        ASSERT_FALSE(model[u].live);
        reused += model[u].owner != kNobody;
        if (model[u].owner != kNobody) met.insert(model[u].owner);
        model[u] = {buffer, true};
      }
      ASSERT_EQ(place.reused, !met.empty());
      ASSERT_EQ(met, place.after.empty() ? trusted : named);
      ASSERT_EQ(place.after.size(), named.size());
      live.push_back(buffer);
      live_units += size;
      peak = std::max(peak, place.offset / kUnit + size);
      ASSERT_EQ(heap.live_bytes(), live_units * kUnit);
      ASSERT_EQ(heap.peak_bytes(), peak * kUnit);
      ASSERT_EQ(heap.reused_bytes(), reused * kUnit);
    }
  }
}

}  // namespace
}  // namespace precast::graph
