#include "sched/oracle.h"

#include "support/test_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace precast::sched {
namespace {

using test::TestGraph;
using test::TestImage;
using testing::HasSubstr;

struct Result {
  std::string message;  // empty: it ran
  ErrorCode code = ErrorCode::internal;
  uint64_t completed = 0;
};

Result RunGraph(TestGraph& g, const OracleOptions& options = {}) {
  TestImage image = g.Seal();
  Result result;
  try {
    RunOracle(g.Instance(image), options, &result.completed);
  } catch (const Error& error) {
    result.message = error.message();
    result.code = error.code();
  }
  return result;
}

/// Appends ten times the scalar plus the block to the vector that scalar 0 points at.
PRECAST_KERNEL(note, Core::vector)(const KernelContext& k) {
  reinterpret_cast<std::vector<int>*>(k.scalar<uint64_t>(0))
      ->push_back(k.scalar<int>(1) * 10 + static_cast<int>(k.block()));
}
PRECAST_KERNEL(add_one, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<int32_t>(0);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) x[i] += 1;
}
/// Writes scalar 0 to all elements of tensor 0, or leaves out the one that scalar 1 names.
PRECAST_KERNEL(set_all, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<uint32_t>(0);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) {
    if (i != k.scalar<int64_t>(1)) x[i] = k.scalar<uint32_t>(0);
  }
}
/// Tensor 1 becomes what tensor 0 was, tensor 0 one more.
PRECAST_KERNEL(fetch_add, Core::vector)(const KernelContext& k) {
  auto counter = k.tensor<int32_t>(0);
  auto before = k.tensor<int32_t>(1);
  if (before.size() > 1) return;  // leaves it unwritten
  before[0] = counter[0]++;
}
PRECAST_KERNEL(throw_number, Core::vector)(const KernelContext&) { throw 1; }
PRECAST_KERNEL(throw_exception, Core::vector)(const KernelContext&) {
  throw std::runtime_error("no such luck");
}
PRECAST_KERNEL(throw_error, Core::vector)(const KernelContext&) {
  Fail(ErrorCode::out_of_range, "index {}", 7);
}

constexpr int64_t kNone = -1;

TEST(OracleTest, RunsTasksInOrderOfSubmission) {
  std::vector<int> calls;
  uint64_t address = reinterpret_cast<uint64_t>(&calls);
  TestGraph g;
  for (int i = 1; i <= 3; ++i) g.Submit(g.Kernel(note), {address, i}, {.blocks = 3});
  g.Submit(abi::kNoKernel, {});
  EXPECT_EQ(RunGraph(g).completed, 4u);
  EXPECT_EQ(calls, (std::vector<int>{10, 11, 12, 20, 21, 22, 30, 31, 32}));
  calls.clear();
  EXPECT_EQ(RunGraph(g, {.reverse_blocks = true}).completed, 4u);
  EXPECT_EQ(calls, (std::vector<int>{12, 11, 10, 22, 21, 20, 32, 31, 30}));
}

TEST(OracleTest, SkipsTasksWhoseConditionIsFalse) {
  TestGraph g;
  Tensor x = g.Data<int32_t>({2});
  Tensor counter = x.select(0, 0), other = x.select(0, 1);
  Predicate small{counter, Compare::less, 3};
  for (int i = 0; i < 5; ++i) {
    g.Submit(g.Kernel(add_one), {inout(counter)}, {.when = &small});
    g.Submit(g.Kernel(add_one), {inout(other)});
  }
  EXPECT_EQ(RunGraph(g).completed, 10u);
  EXPECT_THAT(g.Values<int32_t>(x), testing::ElementsAre(3, 5));
}

TEST(OracleTest, NamesTheTaskThatFails) {
  struct Case {
    const Kernel* kernel;
    ErrorCode code;
    const char* message;
  };
  for (const Case& c : {Case{&throw_number, ErrorCode::kernel_failed,
                             "task 1 'bad' (kernel throw_number): an object that is not a "
                             "std::exception"},
                        Case{&throw_exception, ErrorCode::kernel_failed,
                             "task 1 'bad' (kernel throw_exception): no such luck"},
                        Case{&throw_error, ErrorCode::out_of_range,
                             "task 1 'bad' (kernel throw_error): index 7"}}) {
    TestGraph g;
    Tensor x = g.Data<int32_t>({1});
    g.Submit(g.Kernel(add_one), {inout(x)});
    g.Submit(g.Kernel(*c.kernel), {inout(x)}, {.name = "bad"});
    g.Submit(g.Kernel(add_one), {inout(x)});
    Result result = RunGraph(g);
    EXPECT_EQ(result.message, c.message);
    EXPECT_EQ(result.code, c.code);
    EXPECT_EQ(result.completed, 1u);
    EXPECT_EQ(g.Values<int32_t>(x)[0], 1);
  }
}

// Poison.

TEST(OraclePoisonTest, AcceptsWhatIsWrittenWhole) {
  TestGraph g;
  Tensor x = g.Data<uint32_t>({4, 5});
  g.Submit(g.Kernel(set_all), {out(x), 9u, kNone}, {.blocks = 3});
  g.Submit(g.Kernel(set_all), {out(x.view({1, 1}, {2, 3})), 8u, kNone});
  EXPECT_EQ(RunGraph(g, {.poison_outputs = true}).message, "");
  EXPECT_EQ(g.Values<uint32_t>(x)[5], 9u);
  EXPECT_EQ(g.Values<uint32_t>(x)[6], 8u);
}

TEST(OraclePoisonTest, FindsAnElementThatStays) {
  TestGraph g;
  Tensor x = g.Data<uint32_t>({4, 5});
  g.Submit(g.Kernel(set_all), {out(x.select(1, 2)), 9u, int64_t{3}}, {.name = "partly"});
  EXPECT_EQ(RunGraph(g).message, "");  // without poison nobody notices
  for (bool reverse : {false, true}) {
    Result result = RunGraph(g, {.reverse_blocks = reverse, .poison_outputs = true});
    EXPECT_EQ(result.message,
              "task 0 'partly' (kernel set_all): left 1 elements of its 'out' tensors unwritten; "
              "the first is element 3 of tensor 0");
    EXPECT_EQ(result.code, ErrorCode::kernel_failed);
  }
}

TEST(OraclePoisonTest, AcceptsAResultThatLooksLikeThePattern) {
  for (uint32_t pattern : {0xa5a5a5a5u, 0x5a5a5a5au}) {
    TestGraph g;
    Tensor x = g.Data<uint32_t>({3});
    g.Submit(g.Kernel(set_all), {out(x), pattern, kNone});
    EXPECT_EQ(RunGraph(g, {.poison_outputs = true}).message, "");
    EXPECT_EQ(g.Values<uint32_t>(x)[2], pattern);
  }
}

TEST(OraclePoisonTest, LeavesInoutAloneEvenWhenItRunsATaskTwice) {
  TestGraph g;
  Tensor counter = g.Data<int32_t>({});
  Tensor before = g.Data<int32_t>({});
  // The result is the pattern, so the task is run again: the counter must not count twice.
  g.Values<int32_t>(counter)[0] = static_cast<int32_t>(0xa5a5a5a5);
  g.Submit(g.Kernel(fetch_add), {inout(counter), out(before)});
  EXPECT_EQ(RunGraph(g, {.poison_outputs = true}).message, "");
  EXPECT_EQ(g.Values<int32_t>(counter)[0], static_cast<int32_t>(0xa5a5a5a6));
  EXPECT_EQ(g.Values<int32_t>(before)[0], static_cast<int32_t>(0xa5a5a5a5));
}

TEST(OraclePoisonTest, DoesNotTouchBetweenTheElementsOfAView) {
  TestGraph g;
  Tensor x = g.Data<uint32_t>({3, 4});
  g.Submit(g.Kernel(set_all), {out(x.select(1, 1)), 1u, kNone});
  EXPECT_EQ(RunGraph(g, {.poison_outputs = true}).message, "");
  EXPECT_THAT(g.Values<uint32_t>(x), testing::ElementsAre(0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0));
}

TEST(OraclePoisonTest, NeverPoisonsATaskThatMayBeSkipped) {
  TestGraph g;
  Tensor flag = g.Data<uint8_t>({});
  Tensor x = g.Data<uint32_t>({4});
  Predicate on{flag, Compare::not_equal, 0};
  g.Submit(g.Kernel(set_all), {out(x), 7u, int64_t{1}}, {.when = &on});
  EXPECT_EQ(RunGraph(g, {.poison_outputs = true}).message, "");
  EXPECT_THAT(g.Values<uint32_t>(x), testing::ElementsAre(0, 0, 0, 0));
  g.Values<uint8_t>(flag)[0] = 1;
  EXPECT_EQ(RunGraph(g, {.poison_outputs = true}).message, "");
  EXPECT_THAT(g.Values<uint32_t>(x), testing::ElementsAre(7, 0, 7, 7));
}

TEST(OraclePoisonTest, SaysWhichTensor) {
  TestGraph g;
  Tensor counter = g.Data<int32_t>({});
  Tensor before = g.Data<int32_t>({2});
  g.Submit(g.Kernel(fetch_add), {inout(counter), out(before)});
  EXPECT_THAT(RunGraph(g, {.poison_outputs = true}).message,
              HasSubstr("left 2 elements of its 'out' tensors unwritten; the first is element 0 of "
                        "tensor 1"));
}

}  // namespace
}  // namespace precast::sched
