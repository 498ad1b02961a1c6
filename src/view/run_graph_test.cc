#include "view/run_graph.h"

#include "view/graph_of_test.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

namespace precast::view {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = EdgeReason::Kind;

std::vector<Kind> KindsOf(const TaskGraph& graph, uint32_t producer, uint32_t consumer) {
  std::vector<Kind> kinds;
  for (const EdgeReason& reason : ReasonsOf(graph, producer, consumer)) {
    kinds.push_back(reason.kind);
  }
  return kinds;
}

TEST(RunGraphTest, HoldsTasksInProgramOrder) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    Tensor x = args.tensor(0), y = args.tensor(1);
    Task first = o.submit(nothing, {in(x), out(y), 3.0f}, {.blocks = 4, .name = "first"});
    auto scope = o.scope();
    o.submit(MixedKernel{matmul, nothing, {}}, {inout(x)}, {.blocks = 2});
    o.submit(kNoKernel, {}, {.after = {first}});
  });
  const TaskGraph& graph = run.run();
  ASSERT_EQ(graph.size(), 3u);
  EXPECT_TRUE(graph.logged);
  EXPECT_EQ(graph.edges, 2u);
  EXPECT_EQ(graph.expanded, 3u);
  EXPECT_EQ(TaskLabel(run, 0, 0), "task 0 'first' (kernel nothing)");
  EXPECT_EQ(TaskLabel(run, 0, 1), "task 1 'matmul' (kernels matmul + nothing)");
  EXPECT_EQ(TaskLabel(run, 0, 2), "task 2 'dependency'");
  EXPECT_EQ(graph.tasks[0].blocks, 4u);
  EXPECT_EQ(graph.tasks[0].scalars, 1u);
  EXPECT_EQ(run.kernels[graph.tasks[0].kernels[0]].core, Core::vector);
  EXPECT_EQ(run.kernels[graph.tasks[1].kernels[0]].core, Core::cube);
  EXPECT_EQ(graph.tasks[2].blocks, 0u);
  EXPECT_EQ(graph.tasks[0].scope, 0u);
  EXPECT_EQ(graph.tasks[1].scope, 1u);
  EXPECT_THAT(graph.outer_scope, ElementsAre(0u, 0u));
  ASSERT_EQ(graph.arguments(0).size(), 2u);
  EXPECT_EQ(graph.arguments(0)[0].direction, Direction::in);
  EXPECT_EQ(graph.arguments(0)[1].direction, Direction::out);
  EXPECT_EQ(TensorName(graph, graph.arguments(0)[1].tensor), "argument 1");
  EXPECT_THAT(graph.consumers(0), ElementsAre(1u, 2u));
  EXPECT_THAT(graph.producers(2), ElementsAre(0u));
  EXPECT_THAT(graph.producers(0), IsEmpty());
}

TEST(RunGraphTest, TellsWhyAnEdgeIsThere) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    Tensor x = args.tensor(0), y = args.tensor(1);
    o.submit(nothing, {out(x)});                              // 0
    o.submit(nothing, {in(x.slice(0, 16, 32)), out(y)});      // 1 reads what 0 wrote
    o.submit(nothing, {out(y.slice(0, 8, 24))});              // 2 writes over what 1 wrote
    Task last = o.submit(nothing, {out(x.slice(0, 0, 20))});  // 3 writes what 1 read
    o.submit(kNoKernel, {}, {.after = {last}});               // 4
  });
  const TaskGraph& graph = run.run();
  ASSERT_THAT(KindsOf(graph, 0, 1), ElementsAre(Kind::read_after_write));
  EdgeReason read = ReasonsOf(graph, 0, 1).front();
  EXPECT_EQ(TensorName(graph, read.tensor), "argument 0");
  EXPECT_EQ(read.begin, 64u);
  EXPECT_EQ(read.end, 128u);
  EXPECT_TRUE(read.exact);

  ASSERT_THAT(KindsOf(graph, 1, 2), ElementsAre(Kind::write_after_write));
  EXPECT_EQ(TensorName(graph, ReasonsOf(graph, 1, 2).front().tensor), "argument 1");
  ASSERT_THAT(KindsOf(graph, 1, 3), ElementsAre(Kind::write_after_read));
  EdgeReason write = ReasonsOf(graph, 1, 3).front();
  EXPECT_EQ(write.begin, 64u);
  EXPECT_EQ(write.end, 80u);
  EXPECT_THAT(KindsOf(graph, 0, 3), ElementsAre(Kind::write_after_write));
  EXPECT_THAT(KindsOf(graph, 3, 4), ElementsAre(Kind::explicit_));
  EXPECT_THAT(KindsOf(graph, 0, 2), IsEmpty()) << "no edge";
}

TEST(RunGraphTest, NamesEveryReasonOfAnEdge) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    Tensor x = args.tensor(0), y = args.tensor(1);
    Task a = o.submit(nothing, {inout(x), in(y)});
    o.submit(nothing, {inout(x), out(y)}, {.after = {a}});
  });
  EXPECT_THAT(KindsOf(run.run(), 0, 1),
              ElementsAre(Kind::read_after_write, Kind::write_after_read, Kind::explicit_));
}

TEST(RunGraphTest, SeesThatStridedTensorsShareSomeBytes) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    Tensor x = args.tensor(0).reshape({8, 8});
    o.submit(nothing, {out(x.slice(1, 0, 4))});
    o.submit(nothing, {in(x.slice(1, 2, 6))});
    o.submit(nothing, {inout(x.slice(1, 6, 8))});
  });
  ASSERT_THAT(KindsOf(run.run(), 0, 1), ElementsAre(Kind::read_after_write));
  EXPECT_FALSE(ReasonsOf(run.run(), 0, 1).front().exact);
  EXPECT_THAT(run.run().producers(2), IsEmpty());
}

TEST(RunGraphTest, TheOperandOfAPredicateIsRead) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    Tensor flag = o.alloc({4}, DType::i32);
    o.submit(nothing, {out(flag)});
    o.submit(nothing, {inout(args.tensor(0))}, {.when = when(flag, {2}, Compare::greater, 7)});
  });
  const TaskGraph& graph = run.run();
  EXPECT_THAT(KindsOf(graph, 0, 1), ElementsAre(Kind::read_after_write));
  EXPECT_EQ(graph.arguments(1).size(), 1u) << "the operand is no argument";
  ASSERT_NE(graph.tasks[1].predicate, kNone);
  const TaskPredicate& predicate = graph.predicates[graph.tasks[1].predicate];
  EXPECT_EQ(predicate.compare, Compare::greater);
  EXPECT_EQ(predicate.constant, 7);
  EXPECT_EQ(TensorName(graph, predicate.operand.tensor), "created 0");
  EXPECT_EQ(predicate.operand.offset, 8u);
}

// Two tensors of 16 KiB in a heap of 20 KiB: the second gets the bytes of the first.
TEST(RunGraphTest, TellsThatBytesOfTheHeapAreUsedAgain) {
  RunGraph run = GraphOf(
      [](Orchestrator& o, const Args&) {
        for (int i = 0; i < 2; ++i) {
          auto scope = o.scope();
          Tensor t = o.alloc({4096}, DType::f32);
          o.submit(nothing, {out(t.slice(0, 0, 2048))});
          o.submit(nothing, {out(t.slice(0, 2048, 4096))});
        }
      },
      20 << 10);
  const TaskGraph& graph = run.run();
  ASSERT_THAT(KindsOf(graph, 0, 2), ElementsAre(Kind::heap_reuse));
  EdgeReason reason = ReasonsOf(graph, 0, 2).front();
  EXPECT_EQ(TensorName(graph, reason.tensor), "created 1");
  EXPECT_EQ(TensorName(graph, reason.earlier), "created 0");
  EXPECT_EQ(reason.begin, 0u);
  EXPECT_EQ(reason.end, 16384u);
  EXPECT_THAT(KindsOf(graph, 1, 2), ElementsAre(Kind::heap_reuse));
  // The other half of the new tensor was not in task 2's hands, but comes after it all the same.
  ASSERT_THAT(KindsOf(graph, 2, 3), ElementsAre(Kind::heap_reuse));
  EXPECT_EQ(ReasonsOf(graph, 2, 3).front().earlier, kNone);
}

void Inner(Orchestrator& o, const Args& args) {
  o.submit(nothing, {inout(args.tensor(0))}, {.name = "inner"});
}

void Body(Orchestrator& o, const Args& args) {
  Tensor t = o.alloc({64}, DType::f32);
  o.submit(nothing, {in(args.tensor(0)), out(t)});
  o.submit_graph("inner", Inner, {inout(t)});
  o.submit(matmul, {in(t), inout(args.tensor(0))});
}

TEST(RunGraphTest, DefinitionsAreThereOnceAndExpandAsOftenAsTheyAreSubmitted) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    o.submit(nothing, {inout(args.tensor(0))});
    o.submit_graph("body", Body, {inout(args.tensor(0))});
    o.submit_graph("body", Body, {inout(args.tensor(1))});
    o.submit(nothing, {in(args.tensor(0))});
  });
  ASSERT_EQ(run.graphs.size(), 3u);
  const TaskGraph& graph = run.run();
  EXPECT_EQ(graph.tasks[1].definition, 1u);
  EXPECT_EQ(graph.tasks[2].definition, 1u);
  EXPECT_EQ(run.graphs[1].name, "body");
  EXPECT_EQ(run.graphs[1].tasks[1].definition, 2u);
  EXPECT_EQ(run.graphs[2].name, "inner");
  EXPECT_TRUE(run.graphs[2].logged);
  EXPECT_EQ(graph.expanded, 12u);

  EXPECT_THAT(KindsOf(graph, 0, 1), ElementsAre(Kind::read_after_write));
  EXPECT_THAT(graph.producers(2), IsEmpty());
  EXPECT_THAT(KindsOf(run.graphs[1], 0, 1), ElementsAre(Kind::read_after_write));
  EXPECT_EQ(TensorName(run.graphs[1], ReasonsOf(run.graphs[1], 0, 1).front().tensor), "created 0");
  EXPECT_EQ(TensorName(run.graphs[1], run.graphs[1].arguments(2)[1].tensor), "boundary 0");
  EXPECT_EQ(TensorName(graph, graph.tasks[1].scratch), "scratch of task 1");

  std::vector<std::string> seen;
  ForEachExpanded(run, [&](const ExpandedTask& task) {
    EXPECT_EQ(task.number, seen.size());
    std::vector<ExpandedTask> path = PathTo(run, task.number);
    EXPECT_EQ(path.size(), task.depth + 1);
    EXPECT_EQ(path.back().graph, task.graph);
    EXPECT_EQ(path.back().task, task.task);
    EXPECT_EQ(path.back().parent, task.parent);
    seen.push_back(run.names[run.graphs[task.graph].tasks[task.task].name]);
  });
  EXPECT_THAT(seen, ElementsAre("nothing", "body", "nothing", "inner", "inner", "matmul", "body",
                                "nothing", "inner", "inner", "matmul", "nothing"));
}

TEST(RunGraphTest, EdgesAreThoseOfTheImageBeyondTheInlineOnes) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    o.submit(nothing, {out(args.tensor(0))});
    for (int i = 0; i < 50; ++i) o.submit(nothing, {in(args.tensor(0))});
    o.submit(nothing, {inout(args.tensor(0))});
  });
  const TaskGraph& graph = run.run();
  EXPECT_EQ(graph.edges, graph.all_consumers.size());
  EXPECT_EQ(graph.consumers(0).size(), 50u) << "the last one waits for these";
  ASSERT_EQ(graph.producers(51).size(), 50u);
  for (uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(graph.consumers(0)[i], i + 1);
    EXPECT_EQ(graph.producers(51)[i], i + 1);
    EXPECT_THAT(KindsOf(graph, 0, i + 1), ElementsAre(Kind::read_after_write));
    EXPECT_THAT(KindsOf(graph, i + 1, 51), ElementsAre(Kind::write_after_read));
  }
}

// A definition that was recorded before anybody looked has no log: nothing is made up about it.
TEST(RunGraphTest, SaysWhenThereIsNoLog) {
  Worker worker({.threads = 1});
  auto build = [](Orchestrator& o, const Args& args) {
    o.submit_graph("body", Body, {inout(args.tensor(0))});
  };
  std::array<float, 64> x{};
  worker.run(build, {inout(x)});
  std::optional<RunGraph> run;
  CaptureRuns(worker, [&](RunGraph captured) { run = std::move(captured); });
  worker.run(build, {inout(x)});
  ASSERT_TRUE(run.has_value());
  EXPECT_TRUE(run->run().logged);
  const TaskGraph& body = run->graphs[1];
  EXPECT_FALSE(body.logged);
  EXPECT_THAT(body.producers(1), ElementsAre(0u));
  EXPECT_THAT(ReasonsOf(body, 0, 1), IsEmpty());
  EXPECT_EQ(body.arguments(0).size(), 2u);
  EXPECT_EQ(body.arguments(0)[0].tensor, kNone);

  run.reset();
  CaptureRuns(worker, {});
  worker.run(build, {inout(x)});
  EXPECT_FALSE(run.has_value());
}

}  // namespace
}  // namespace precast::view
