#include "view/graph_drawing.h"

#include "view/graph_of_test.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace precast::view {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

/// A chain of `n` tasks over x; each third one has 5 blocks.
RunGraph Chain(int n) {
  return GraphOf([n](Orchestrator& o, const Args& args) {
    for (int i = 0; i < n; ++i) {
      o.submit(i % 3 == 0 ? matmul : nothing, {inout(args.tensor(0))},
               {.blocks = i % 3 == 0 ? 5u : 1u});
    }
  });
}

void Body(Orchestrator& o, const Args& args) {
  o.submit(nothing, {inout(args.tensor(0))}, {.blocks = 7, .name = "in \"body\""});
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(GraphDrawingTest, TheNeighbourhoodOfATask) {
  TaskGraph graph = Chain(9).run();
  EXPECT_THAT(Neighbourhood(graph, 4, 0), ElementsAre(4u));
  EXPECT_THAT(Neighbourhood(graph, 4, 1), ElementsAre(3u, 4u, 5u));
  EXPECT_THAT(Neighbourhood(graph, 1, 3), ElementsAre(0u, 1u, 2u, 3u, 4u));
  EXPECT_EQ(Neighbourhood(graph, 1, 1000).size(), 9u);
}

TEST(GraphDrawingTest, FocusShowsWhatIsAroundAndHowMuchElseThereIs) {
  RunGraph run = Chain(9);
  DrawOptions options{.focus = FindTask(run, "4"), .depth = 1};
  std::string dot = ToDot(run, options);
  EXPECT_THAT(dot, HasSubstr("g0t4 [label=\"4 nothing\","));
  EXPECT_THAT(dot, HasSubstr("g0t5 [label=\"5 nothing\\n+1 edge\""));
  EXPECT_THAT(dot, HasSubstr("g0t3 -> g0t4"));
  EXPECT_THAT(dot, HasSubstr("around task 4 'nothing' (kernel nothing), up to 1 edge away"));
  EXPECT_THAT(dot, Not(HasSubstr("g0t6")));
  Json json = Json::parse(ToJson(run, options));
  EXPECT_EQ(json["focus"]["task"], "4");
  EXPECT_EQ(json["graphs"].size(), 1u);
  EXPECT_EQ(json["graphs"][0]["tasks"].size(), 3u);
  EXPECT_EQ(json["graphs"][0]["edges"].size(), 2u);
}

TEST(GraphDrawingTest, RecordedGraphsAreClusters) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    o.submit(nothing, {in(args.tensor(0))}, {.name = "read"});
    o.submit_graph("body", Body, {inout(args.tensor(0))});
    o.submit_graph("body", Body, {inout(args.tensor(0))});
  });
  std::string dot = ToDot(run, {.title = "a <title> & more"});
  EXPECT_EQ(Count(dot, "subgraph cluster_"), 1u);
  EXPECT_THAT(dot, HasSubstr("graph body: 1 task, submitted by 2 tasks"));
  EXPECT_THAT(dot, HasSubstr("a &lt;title&gt; &amp; more"));
  EXPECT_THAT(dot, HasSubstr("g1t0 [label=\"0 in \\\"body\\\"\\nnothing\\n7 blocks\""));
  EXPECT_THAT(dot, HasSubstr("write-after-read: argument 0, bytes 0 … 255"));
  EXPECT_THAT(dot, HasSubstr("3 tasks, 2 edges, 1 recorded graph; 5 tasks with what is inside"));
}

TEST(GraphDrawingTest, TheLongestPathByBlocksAndByTasks) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    Tensor x = args.tensor(0), y = args.tensor(1);
    o.submit(nothing, {inout(x)});                 // 0
    o.submit(nothing, {inout(x)});                 // 1
    o.submit(nothing, {inout(x)});                 // 2
    o.submit_graph("body", Body, {inout(y)});      // 3
    o.submit(nothing, {inout(y)}, {.blocks = 2});  // 4
  });
  std::vector<CriticalPath> paths = CriticalPaths(run, PathWeight::blocks);
  EXPECT_EQ(paths[0].weight, 9u) << "a graph task counts as what is inside";
  EXPECT_THAT(paths[0].tasks, ElementsAre(3u, 4u));
  EXPECT_EQ(paths[1].weight, 7u);
  paths = CriticalPaths(run, PathWeight::tasks);
  EXPECT_EQ(paths[0].weight, 3u);
  EXPECT_THAT(paths[0].tasks, ElementsAre(0u, 1u, 2u));

  std::string dot = ToDot(run, {.critical = PathWeight::blocks});
  EXPECT_THAT(dot, HasSubstr("longest path, in red: 2 tasks of 5, 9 blocks long"));
  EXPECT_EQ(Count(dot, "color=\"#d50000\""), 4u) << "two tasks, the edge, and that of the graph";
  Json json = Json::parse(ToJson(run, {.critical = PathWeight::blocks}));
  EXPECT_EQ(json["critical"]["graphs"][0]["length"], 9);
  EXPECT_EQ(json["critical"]["graphs"][0]["tasks"], Json({3, 4}));
}

TEST(GraphDrawingTest, ManyTasksAreGroupedByKernel) {
  RunGraph run = Chain(50'000);
  std::string dot = ToDot(run, {.critical = PathWeight::tasks});
  EXPECT_LT(dot.size(), 5'000u);
  EXPECT_EQ(Count(dot, "g0k"), 2u + 2 * 3) << "two groups, three kinds of edges between them";
  EXPECT_THAT(dot, HasSubstr("label=\"matmul\\n16667 tasks, 83335 blocks\\n16667 on the longest"));
  EXPECT_THAT(dot, HasSubstr("label=\"nothing\\n33333 tasks\\n33333 on the longest path\""));
  EXPECT_THAT(dot, HasSubstr("tasks are grouped"));
  EXPECT_THAT(dot, HasSubstr("50000 tasks, 49999 edges"));
  // Counts on edges are of all edges.
  EXPECT_THAT(dot, HasSubstr("label=\"16666\""));
}

TEST(GraphDrawingTest, HowManyTasksStandAloneCanBeSet) {
  RunGraph run = Chain(6);
  EXPECT_EQ(Count(ToDot(run, {.max_tasks = 6}), "g0t"), 6u + 2 * 5);
  EXPECT_EQ(Count(ToDot(run, {.max_tasks = 5}), "g0t"), 0u);
  EXPECT_EQ(Count(ToDot(run, {.max_tasks = 5}), "g0k"), 2u + 2 * 3);
}

TEST(GraphDrawingTest, TheDocumentHoldsEverything) {
  RunGraph run = GraphOf([](Orchestrator& o, const Args& args) {
    Tensor flag = o.alloc({1}, DType::i32);
    o.submit(nothing, {out(flag), 2.0f});
    o.submit(MixedKernel{matmul, nothing, {}}, {inout(args.tensor(0).slice(0, 4, 8))},
             {.name = "both", .when = when(flag, {0}, Compare::not_equal, 3)});
  });
  Json json = Json::parse(ToJson(run, {.title = "t"}));
  EXPECT_EQ(json["kernels"][1], Json::parse(R"({"name": "matmul", "core": "cube"})"));
  const Json& graph = json["graphs"][0];
  EXPECT_EQ(graph["reasons_known"], true);
  EXPECT_EQ(graph["tasks"][0]["scalars"], 1);
  const Json& task = graph["tasks"][1];
  EXPECT_EQ(task["name"], "both");
  EXPECT_EQ(task["kernels"], Json({1, 0}));
  EXPECT_EQ(task["predicate"]["compare"], "!=");
  EXPECT_EQ(task["predicate"]["constant"], 3);
  const Json& argument = task["arguments"][0];
  EXPECT_EQ(argument["direction"], "inout");
  EXPECT_EQ(argument["begin"], 16);
  EXPECT_EQ(argument["shape"], Json({4}));
  EXPECT_EQ(argument["dtype"], "f32");
  EXPECT_EQ(graph["tensors"][argument["tensor"].get<size_t>()]["name"], "argument 0");
  ASSERT_EQ(graph["edges"].size(), 1u);
  const Json& reason = graph["edges"][0]["reasons"][0];
  EXPECT_EQ(reason["kind"], "read-after-write");
  EXPECT_EQ(reason["bytes"], Json({0, 4}));
}

}  // namespace
}  // namespace precast::view
