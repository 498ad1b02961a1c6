#include "view/explain.h"

#include "view/graph_of_test.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace precast::view {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string Why(const RunGraph& run, std::string_view from, std::string_view to) {
  return Explain(run, FindTask(run, from), FindTask(run, to));
}

/// A chain a → b → c, beside it d, then an explicit e and a task f for which bytes of the heap are
/// used again.
RunGraph Chain() {
  return GraphOf([](Orchestrator& o, const Args& args) {
    Tensor x = args.tensor(0), y = args.tensor(1);
    o.submit(nothing, {out(x)}, {.name = "a"});
    o.submit(nothing, {in(x.slice(0, 8, 24)), out(y.slice(0, 0, 4))}, {.name = "b"});
    Task c = o.submit(nothing, {inout(y.slice(0, 0, 2))}, {.name = "c"});
    o.submit(nothing, {in(x.slice(0, 32, 64))}, {.name = "d"});
    o.submit(kNoKernel, {}, {.name = "e", .after = {c}});
  });
}

TEST(ExplainTest, TellsTheReasonsOfAnEdge) {
  RunGraph run = Chain();
  EXPECT_EQ(Why(run, "a", "b"),
            "Yes: task 1 'b' (kernel nothing) waits for task 0 'a' (kernel nothing).\n"
            "  it reads bytes 32 … 95 of argument 0 (64 bytes), which task 0 'a' (kernel nothing) "
            "writes (read-after-write)\n");
  EXPECT_EQ(Why(run, "c", "e"),
            "Yes: task 4 'e' waits for task 2 'c' (kernel nothing).\n"
            "  it was told to run after task 2 'c' (kernel nothing) (explicit)\n");
}

TEST(ExplainTest, TellsAChainOfEdges) {
  RunGraph run = Chain();
  EXPECT_EQ(
      Why(run, "0", "2"),
      "Yes: task 2 'c' (kernel nothing) waits for task 0 'a' (kernel nothing), through 1 "
      "other task.\n"
      "  task 1 'b' (kernel nothing) waits for task 0 'a' (kernel nothing):\n"
      "    it reads bytes 32 … 95 of argument 0 (64 bytes), which task 0 'a' (kernel nothing) "
      "writes (read-after-write)\n"
      "  task 2 'c' (kernel nothing) waits for task 1 'b' (kernel nothing):\n"
      "    it reads bytes 0 … 7 of argument 1 (8 bytes), which task 1 'b' (kernel nothing) "
      "writes (read-after-write)\n");
}

TEST(ExplainTest, SaysThatThereIsNoReason) {
  RunGraph run = Chain();
  std::string text = Why(run, "b", "d");
  EXPECT_THAT(text, StartsWith("No: task 3 'd' (kernel nothing) does not wait for task 1 'b'"));
  EXPECT_THAT(text, HasSubstr("Both use argument 0, but no bytes of it that one of them writes."));
  EXPECT_THAT(Why(run, "c", "d"), HasSubstr("They have no tensor in common."));
  EXPECT_THAT(Why(run, "d", "a"), HasSubstr("comes before task 3 'd' (kernel nothing) in program"));
  EXPECT_EQ(Why(run, "a", "0"), "Both are task 0 'a' (kernel nothing).\n");
}

TEST(ExplainTest, TellsAboutBytesOfTheHeap) {
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
  EXPECT_THAT(Why(run, "1", "2"),
              HasSubstr("it is the first user of bytes 0 … 16383 of created 1 (16384 bytes), which "
                        "in the graph heap were those of created 0, used by task 1 'nothing'"));
  EXPECT_THAT(Why(run, "2", "3"),
              HasSubstr("it uses created 1, whose bytes in the graph heap were another tensor's "
                        "before; task 2 'nothing' (kernel nothing) is its first user"));
}

void Body(Orchestrator& o, const Args& args) {
  o.submit(nothing, {inout(args.tensor(0))}, {.name = "first"});
  o.submit(nothing, {inout(args.tensor(0))}, {.name = "second"});
}

TEST(ExplainTest, TasksInsideOfGraphsWaitWithThem) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    o.submit_graph("body", Body, {inout(args.tensor(0))});
    o.submit_graph("body", Body, {inout(args.tensor(0))});
  });
  EXPECT_THAT(Why(run, "0.0", "0.1"), HasSubstr("reads bytes 0 … 255 of boundary 0 (256 bytes)"));
  std::string text = Why(run, "0.1", "1.0");
  EXPECT_THAT(text,
              StartsWith("Yes: task 1 (graph body), task 0 'first' (kernel nothing) waits for "
                         "task 0 (graph body), task 1 'second' (kernel nothing).\n"));
  EXPECT_THAT(text, HasSubstr("so this is about task 0 (graph body) and task 1 (graph body)."));
  EXPECT_THAT(text, HasSubstr("reads bytes 0 … 255 of argument 0"));
  EXPECT_THAT(Why(run, "0", "0.1"), HasSubstr("is inside of task 0 (graph body)"));
  EXPECT_THAT(Why(run, "0.1", "0"), HasSubstr("does not wait for them to begin"));
}

void ExpectRefused(const RunGraph& run, std::string_view name, const std::string& part) {
  try {
    FindTask(run, name);
    FAIL() << name;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), HasSubstr(part)) << name;
  }
}

TEST(TaskPathTest, NamesThatNameNoOneTaskAreRefused) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    o.submit(nothing, {inout(args.tensor(0))}, {.name = "only"});
    o.submit_graph("body", Body, {inout(args.tensor(0))});
    o.submit_graph("body", Body, {inout(args.tensor(0))});
  });
  EXPECT_EQ(PathText(FindTask(run, "only")), "0");
  EXPECT_EQ(PathText(FindTask(run, "2.1")), "2.1");
  EXPECT_EQ(FindTask(run, "2.1").back().number, 6u);
  ExpectRefused(run, "3", "there is no task 3: the run has tasks 0 to 2");
  ExpectRefused(run, "1.2", "there is no task 1.2: graph body has tasks 0 to 1");
  ExpectRefused(run, "0.0", "task 0 'only' (kernel nothing) is no graph");
  ExpectRefused(run, "99999999999", "there is no task 99999999999");
  ExpectRefused(run, "1.", "there is no task 1.");
  ExpectRefused(run, "1..0", "there is no task 1..0");
  ExpectRefused(run, "second", "2 tasks are named 'second': 1.1, 2.1; name one by its number");
  ExpectRefused(run, "third", "no task is named 'third'");
  ExpectRefused(run, "", "no task is named ''");
}

}  // namespace
}  // namespace precast::view
