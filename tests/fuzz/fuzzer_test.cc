// The fuzzer itself: it must see what is wrong, and make small what it saw.
#include "fuzz/fuzzer.h"

#include "fuzz/generator.h"
#include "fuzz/model.h"
#include "fuzz/shrinker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace precast::fuzz {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Direction::in;
using Direction::inout;
using Direction::out;

TensorRef Argument(std::vector<ViewStep> steps = {}) {
  return {TensorRef::Base::argument, 0, std::move(steps)};
}
TensorRef Elements(int64_t begin, int64_t end, int64_t step = 1) {
  return Argument({{ViewStep::Kind::slice, {0, begin, end, step}}});
}

/// One run over one buffer of 8 numbers.
Plan OneRun(std::vector<Item> items) {
  Plan plan;
  plan.buffers.push_back({.device = true, .dtype = DType::u64, .shape = Shape{8}});
  for (Item& item : items) item.id = plan.next_id++;
  plan.bodies.push_back({{{inout, DType::u64, Shape{8}}}, {}, std::move(items)});
  plan.steps.push_back({.kind = Step::Kind::run, .tensors = {{TensorRef::Base::buffer, 0, {}}}});
  return plan;
}

Item Task(Direction direction, TensorRef tensor, std::vector<Id> after = {}) {
  Item item;
  item.uses.push_back({.direction = direction, .tensor = std::move(tensor)});
  item.after = std::move(after);
  return item;
}

std::vector<std::pair<uint32_t, uint32_t>> OrderOf(const Plan& plan) {
  std::vector<Leaf> leaves;
  const char* problem = CheckPlan(plan, &leaves);
  EXPECT_EQ(problem, nullptr) << problem;
  return RequiredOrder(leaves, std::vector<bool>(leaves.size(), true));
}

TEST(RequiredOrder, FollowsFromSharedElements) {
  EXPECT_THAT(OrderOf(OneRun({Task(out, Elements(0, 4)), Task(in, Elements(3, 5))})),
              ElementsAre(Pair(0, 1)));
  EXPECT_THAT(OrderOf(OneRun({Task(in, Elements(0, 4)), Task(out, Elements(3, 5))})),
              ElementsAre(Pair(0, 1)));
  EXPECT_THAT(OrderOf(OneRun({Task(out, Elements(0, 4)), Task(out, Elements(3, 5))})),
              ElementsAre(Pair(0, 1)));
  EXPECT_THAT(OrderOf(OneRun({Task(in, Elements(0, 4)), Task(in, Elements(3, 5))})), ElementsAre());
  EXPECT_THAT(OrderOf(OneRun({Task(out, Elements(0, 4)), Task(out, Elements(4, 8))})),
              ElementsAre());
  // Even and odd elements.
  EXPECT_THAT(OrderOf(OneRun({Task(out, Elements(0, 8, 2)), Task(out, Elements(1, 8, 2))})),
              ElementsAre());
  EXPECT_THAT(OrderOf(OneRun({Task(out, Elements(0, 8, 2)), Task(out, Elements(1, 8, 3))})),
              ElementsAre(Pair(0, 1)));
}

TEST(RequiredOrder, IsWhatAfterNames) {
  EXPECT_THAT(OrderOf(OneRun({Task(in, Argument()), Task(in, Argument(), {1})})),
              ElementsAre(Pair(0, 1)));
}

TEST(RequiredOrder, ATaskThatDidNotRunOrdersNothing) {
  std::vector<Leaf> leaves;
  ASSERT_EQ(
      CheckPlan(OneRun({Task(out, Argument()), Task(inout, Argument()), Task(in, Argument())}),
                &leaves),
      nullptr);
  EXPECT_THAT(RequiredOrder(leaves, {true, false, true}), ElementsAre(Pair(0, 2)));
}

TEST(Model, RefusesWhatTheApiRefuses) {
  Item reads_unwritten = Task(in, {TensorRef::Base::created, 1, {}});
  Item created{.kind = Item::Kind::alloc, .shape = Shape{4}, .dtype = DType::u8};
  EXPECT_STREQ(CheckPlan(OneRun({created, reads_unwritten})), "reads what has no value");
  Item overlap = Task(in, Elements(0, 5));
  overlap.uses.push_back({.direction = out, .tensor = Elements(4, 8)});
  EXPECT_STREQ(CheckPlan(OneRun({overlap})), "tensors of a task overlap");
  Item no_dep = Task(Direction::no_dep, Argument());
  EXPECT_STREQ(CheckPlan(OneRun({Task(out, Argument()), no_dep})), "'no_dep' where order matters");
  no_dep.after = {1};
  EXPECT_EQ(CheckPlan(OneRun({Task(out, Argument()), no_dep})), nullptr);
}

TEST(Execution, ARecordFollowsFromEachByteThatABlockReads) {
  Item task = Task(in, Elements(0, 7));
  task.uses.push_back({.direction = out, .tensor = Elements(7, 8)});
  Plan plan = OneRun({task});
  uint64_t expected = Execute(plan, {.oracle = true}).records.at(0).hash;
  EXPECT_EQ(Execute(plan, {.threads = 2}).records.at(0).hash, expected);
  plan.buffers[0].salt = 1;
  EXPECT_NE(Execute(plan, {.oracle = true}).records.at(0).hash, expected);
}

/// What the fuzzer says when the execution with two threads is changed by `tamper`.
std::string Tampered(Plan plan, const std::function<void(Outcome*)>& tamper) {
  Options options{.platforms = {"cpu"}, .threads = {1, 2}};
  options.tamper = [&](const Plan&, const Way& way, Outcome* outcome) {
    if (!way.oracle && way.threads == 2) tamper(outcome);
  };
  std::optional<Difference> difference = Check(&plan, options);
  if (!difference) return "";
  EXPECT_EQ(difference->way.threads, 2);
  return difference->what;
}

TEST(Fuzzer, SeesWhatIsWrong) {
  Plan plan = OneRun({Task(inout, Argument()), Task(inout, Argument())});
  EXPECT_EQ(Tampered(plan, [](Outcome*) {}), "");
  EXPECT_EQ(Tampered(plan, [](Outcome* outcome) { outcome->seen.back()[3] ^= std::byte{1}; }),
            "buffer b0 at the end differs from byte 3 on");
  EXPECT_EQ(Tampered(plan, [](Outcome* outcome) { outcome->records[1].hash ^= 1; }),
            "block 0 of task 2 read other bytes or scalars than by the oracle");
  EXPECT_EQ(Tampered(plan, [](Outcome* outcome) { outcome->records[1].end = 0; }),
            "block 0 of task 2 did not run, but by the oracle it did");
  EXPECT_EQ(Tampered(plan,
                     [](Outcome* outcome) {
                       std::swap(outcome->records[0].end, outcome->records[1].start);
                     }),
            "task 2 started before task 1 had ended");
  EXPECT_EQ(
      Tampered(plan,
               [](Outcome* outcome) { outcome->failed = Error(ErrorCode::timeout, "too slow"); }),
      "error timeout: too slow");
}

TEST(Shrinker, LeavesWhatIsNeededToFail) {
  auto fails = [](Plan* plan) {  // a block count of 2 or more, and a written argument
    for (const Step& step : plan->steps) {
      if (step.kind != Step::Kind::run) continue;
      for (const Item& item : plan->bodies[step.body].items) {
        if (item.blocks < 2) continue;
        for (const Use& use : item.uses) {
          if (use.direction == inout) return true;
        }
      }
    }
    return false;
  };
  int shrunk = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Plan plan = Generate(seed);
    if (!fails(&plan)) continue;
    plan = Shrink(std::move(plan), fails);
    ++shrunk;
    ASSERT_EQ(plan.steps.size(), 1u) << ToString(plan);
    const std::vector<Item>& items = plan.bodies[plan.steps[0].body].items;
    // The tensor may be a created one, which then is filled.
    ASSERT_LE(items.size(), 2u) << ToString(plan);
    EXPECT_EQ(items.back().blocks, 2u);
    EXPECT_EQ(items.back().uses.size(), 1u);
    EXPECT_FALSE(items.back().when || items.back().condition);
    EXPECT_EQ(plan.settings.heap, Settings().heap);
    EXPECT_EQ(CheckPlan(plan), nullptr);
  }
  EXPECT_GT(shrunk, 5);
}

TEST(Fuzzer, ShowsAFailureSmallWithTheCommandThatShowsItAgain) {
  Options options{.seed = 3, .programs = 4, .platforms = {"cpu"}, .threads = {2}};
  options.tamper = [](const Plan&, const Way& way, Outcome* outcome) {
    if (!way.oracle) outcome->seen.back()[0] ^= std::byte{1};
  };
  int calls = 0;
  Report report = Fuzz(options, [&](const Report&) { ++calls; });
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(report.programs, 4u);
  EXPECT_EQ(report.seed, 7u);
  EXPECT_GE(report.tasks, 4u);
  ASSERT_EQ(report.failures.size(), 4u);
  for (const Failure& failure : report.failures) EXPECT_EQ(CountTasks(failure.plan), 0u);
  EXPECT_THAT(ToString(report.failures[0]),
              AllOf(HasSubstr("seed 3: cpu with 2 threads: buffer b"),
                    HasSubstr("precast fuzz --seed 3 --platform cpu --threads 2\n")));
}

}  // namespace
}  // namespace precast::fuzz
