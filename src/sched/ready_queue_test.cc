#include "sched/ready_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>
#include <vector>

namespace precast::sched {
namespace {

std::vector<TaskRef> PopAll(ReadyQueue& queue) {
  std::vector<TaskRef> ids;
  while (!queue.empty()) ids.push_back(queue.Pop());
  return ids;
}

TEST(ReadyQueueTest, IsEmptyAtFirst) {
  ReadyQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0u);
}

// Q1, Q2.
TEST(ReadyQueueTest, GivesIdsInTheOrderOfPush) {
  ReadyQueue queue(4);
  queue.Push(7);
  queue.Push(3);
  queue.Push(9);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.Peek(), 7u);
  EXPECT_EQ(PopAll(queue), (std::vector<TaskRef>{7, 3, 9}));
  EXPECT_EQ(queue.size(), 0u);
}

// Q3.
TEST(ReadyQueueTest, TakesTheNewestInOrder) {
  ReadyQueue queue(8);
  for (TaskRef id = 1; id <= 6; ++id) queue.Push(id);
  std::array<TaskRef, 2> taken{};
  queue.TakeNewest(2, taken.data());
  EXPECT_EQ(taken, (std::array<TaskRef, 2>{5, 6}));
  EXPECT_EQ(queue.size(), 4u);
  queue.TakeNewest(0, nullptr);
  EXPECT_EQ(PopAll(queue), (std::vector<TaskRef>{1, 2, 3, 4}));
}

// Q4: also when the ids in the ring wrap around its end.
TEST(ReadyQueueTest, GrowsWhereverItsHeadStands) {
  for (TaskRef head = 0; head < 8; ++head) {
    ReadyQueue queue(8);
    for (TaskRef i = 0; i < head; ++i) queue.Push(i);
    for (TaskRef i = 0; i < head; ++i) queue.Pop();
    std::vector<TaskRef> pushed;
    for (TaskRef id = 100; id < 150; ++id) {
      queue.Push(id);
      pushed.push_back(id);
      EXPECT_EQ(queue.size(), pushed.size());
    }
    EXPECT_EQ(PopAll(queue), pushed) << "head at " << head;
  }
}

TEST(ReadyQueueTest, ClearEmptiesIt) {
  ReadyQueue queue(2);
  for (TaskRef id = 1; id < 10; ++id) queue.Push(id);
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  queue.Push(5);
  EXPECT_EQ(PopAll(queue), std::vector<TaskRef>{5});
}

// Q1-Q4 against a model.
TEST(ReadyQueueTest, BehavesLikeADeque) {
  std::mt19937 random(7);
  ReadyQueue queue(2);
  std::deque<TaskRef> model;
  TaskRef next = 1;
  std::vector<TaskRef> taken;
  for (int step = 0; step < 100'000; ++step) {
    uint32_t what = static_cast<uint32_t>(random() % 16);
    if (what < 8) {
      queue.Push(next);
      model.push_back(next++);
    } else if (what < 15) {
      if (model.empty()) continue;
      ASSERT_EQ(queue.Peek(), model.front());
      ASSERT_EQ(queue.Pop(), model.front());
      model.pop_front();
    } else {
      size_t count = random() % (model.size() + 1);
      taken.assign(count, 0);
      queue.TakeNewest(count, taken.data());
      ASSERT_TRUE(std::equal(taken.begin(), taken.end(), model.end() - static_cast<long>(count)));
      model.resize(model.size() - count);
    }
    ASSERT_EQ(queue.size(), model.size());
    ASSERT_EQ(queue.empty(), model.empty());
  }
}

}  // namespace
}  // namespace precast::sched
