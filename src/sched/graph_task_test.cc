// Graph tasks, from the builder to the executor: instances of definitions beside plain tasks,
// nested, skipped, with scalars of their own, and in bytes that they share one after another.
#include "graph/validator.h"
#include "platforms/sim/executor.h"
#include "sched/oracle.h"
#include "support/test_graph.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace precast {
namespace {

using test::TestGraph;
using test::TestImage;

/// x[i] = 3 * x[i] + scalar
PRECAST_KERNEL(mix, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<uint64_t>(0);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) {
    x[i] = 3 * x[i] + k.scalar<uint64_t>(0);
  }
}
/// target = source + 1
PRECAST_KERNEL(next, Core::vector)(const KernelContext& k) {
  auto source = k.tensor<const uint64_t>(0);
  auto target = k.tensor<uint64_t>(1);
  for (int64_t i = k.block_begin(source.size()); i < k.block_end(source.size()); ++i) {
    target[i] = source[i] + 1;
  }
}
PRECAST_KERNEL(fail, Core::vector)(const KernelContext& k) { k.fail("as asked"); }

constexpr int64_t kSize = 64;

/// A definition with one `inout` tensor and one scalar.
struct Defined {
  TestGraph graph{1 << 20};
  Tensor x = graph.Data<uint64_t>({kSize});
  TestImage image;

  void Seal() {
    abi::Slot slots[] = {{0, graph.builder().heap().peak_bytes()}, {0, kSize * 8}};
    image = graph.SealDefinition(slots, 1);
    graph::Validate(image.span(), {.kind = graph::ImageKind::definition});
  }
  graph::GraphSpec SpecIn(TestGraph& parent) {
    static constexpr uint32_t kFirst[] = {0};
    uint32_t index = parent.builder().AddDefinition(1);
    parent.builder().SetDefinitionAddress(index, image.address());
    const abi::Header& h = *image.header();
    return {index, abi::ScratchHeapOffset(2, 1, h.tasks) + h.heap_bytes, kFirst};
  }
  static Arg Bound() { return Arg::bound_scalar(1, 0, DType::u64, 0); }
};

/// x = 3 * x + s, in a wide task; t = x + 1; x = t + 1; in between something that nobody waits for.
void BuildInner(Defined& d, std::span<const Kernel> = {}) {
  TestGraph& g = d.graph;
  g.Submit(g.Kernel(mix), {inout(d.x), Defined::Bound()}, {.blocks = 4});
  Tensor t = g.builder().Alloc({kSize}, DType::u64),
         unused = g.builder().Alloc({kSize}, DType::u64);
  g.Submit(g.Kernel(next), {in(d.x), out(t)});
  g.Submit(g.Kernel(next), {in(d.x), out(unused)});
  g.Submit(g.Kernel(next), {in(t), out(d.x)});
  d.Seal();
}
uint64_t Inner(uint64_t x, uint64_t s) { return 3 * x + s + 2; }

class GraphTaskTest : public testing::TestWithParam<int> {
 protected:
  /// Runs the graph through the executor, and through the oracle (0 threads).
  void Run(TestGraph& g) {
    TestImage image = g.Seal();
    graph::Validate(image.span());
    sim::Executor executor(2, {});
    executor.LoadKernels(0, g.kernels());
    device::Launch launch;
    launch.image = image.address();
    launch.image_bytes = image.size();
    launch.threads = std::max(GetParam(), 1);
    launch.oracle = GetParam() == 0;
    launch.caller_waits = true;
    device::Ticket ticket = executor.Execute(launch);
    executor.Wait(ticket, std::chrono::nanoseconds::max());
    outcome_ = executor.Collect(ticket);
  }
  device::Outcome outcome_;
};
INSTANTIATE_TEST_SUITE_P(Threads, GraphTaskTest, testing::Values(0, 1, 2, 8));

TEST_P(GraphTaskTest, InstancesInAChainReuseTheirScratch) {
  Defined d;
  TestGraph g(1 << 20);
  for (const Kernel& kernel : {mix, next}) d.graph.Kernel(kernel), g.Kernel(kernel);
  BuildInner(d);
  graph::GraphSpec spec = d.SpecIn(g);
  Tensor x = g.Data<uint64_t>({kSize});
  uint64_t expected = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    g.builder().SubmitGraph({}, spec, {inout(x), i});
    g.Submit(g.Kernel(mix), {inout(x), i});
    expected = 3 * Inner(expected, i) + i;
  }
  EXPECT_LE(g.builder().heap().peak_bytes(), 2 * (spec.scratch_bytes + 256));
  Run(g);
  ASSERT_TRUE(outcome_.ok) << outcome_.message;
  for (uint64_t value : g.Values<uint64_t>(x)) ASSERT_EQ(value, expected);
}

TEST_P(GraphTaskTest, OnlyInstancesInOrderShareScratch) {
  Defined d;
  TestGraph g(1 << 20);
  for (const Kernel& kernel : {mix, next}) d.graph.Kernel(kernel), g.Kernel(kernel);
  BuildInner(d);
  graph::GraphSpec spec = d.SpecIn(g);
  Tensor x = g.Data<uint64_t>({kSize}), y = g.Data<uint64_t>({kSize});
  auto submit = [&](const Tensor& tensor) {
    return g.builder().SubmitGraph({}, spec, {inout(tensor), uint64_t{1}});
  };
  std::vector<abi::TaskId> ids = {submit(x), submit(y), submit(y), submit(x)};
  TestImage image = g.Seal();
  std::vector<uint32_t> place;
  for (abi::TaskId id : ids) {
    place.push_back(abi::TaskAt(image.data(), id)->consumer[abi::kInlineConsumers - 1]);
  }
  EXPECT_NE(place[0], place[1]);
  EXPECT_EQ(place[1], place[2]);
  EXPECT_NE(place[2], place[3]);
}

TEST_P(GraphTaskTest, InstancesRunSideBySide) {
  Defined d;
  TestGraph g(1 << 24);
  for (const Kernel& kernel : {mix, next}) d.graph.Kernel(kernel), g.Kernel(kernel);
  BuildInner(d);
  graph::GraphSpec spec = d.SpecIn(g);
  std::vector<Tensor> x;
  for (uint64_t i = 0; i < 200; ++i) {
    x.push_back(g.Data<uint64_t>({kSize}));
    g.builder().SubmitGraph({}, spec, {inout(x.back()), i});
  }
  Run(g);
  ASSERT_TRUE(outcome_.ok) << outcome_.message;
  for (uint64_t i = 0; i < 200; ++i) {
    for (uint64_t value : g.Values<uint64_t>(x[i])) ASSERT_EQ(value, Inner(0, i));
  }
}

TEST_P(GraphTaskTest, GraphsNestAndPassScalarsOn) {
  Defined inner, outer;
  TestGraph g(1 << 20);
  for (const Kernel& kernel : {mix, next}) {
    inner.graph.Kernel(kernel), outer.graph.Kernel(kernel), g.Kernel(kernel);
  }
  BuildInner(inner);
  graph::GraphSpec in_outer = inner.SpecIn(outer.graph);
  outer.graph.builder().SubmitGraph({}, in_outer, {inout(outer.x), uint64_t{5}});
  outer.graph.builder().SubmitGraph({}, in_outer, {inout(outer.x), Defined::Bound()});
  outer.graph.Submit(outer.graph.Kernel(mix), {inout(outer.x), Defined::Bound()});
  outer.Seal();
  graph::GraphSpec spec = outer.SpecIn(g);
  Tensor x = g.Data<uint64_t>({kSize});
  uint64_t expected = 0;
  for (uint64_t i = 0; i < 10; ++i) {
    g.builder().SubmitGraph({}, spec, {inout(x), i});
    expected = 3 * Inner(Inner(expected, 5), i) + i;
  }
  Run(g);
  ASSERT_TRUE(outcome_.ok) << outcome_.message;
  for (uint64_t value : g.Values<uint64_t>(x)) ASSERT_EQ(value, expected);
}

TEST_P(GraphTaskTest, ASkippedGraphReleasesItsConsumers) {
  Defined d;
  TestGraph g(1 << 20);
  for (const Kernel& kernel : {mix, next}) d.graph.Kernel(kernel), g.Kernel(kernel);
  BuildInner(d);
  graph::GraphSpec spec = d.SpecIn(g);
  Tensor x = g.Data<uint64_t>({kSize}), flag = g.Data<int32_t>({1});
  Predicate no = when(flag, {0}, Compare::equal, 1), yes = when(flag, {0}, Compare::equal, 0);
  graph::TaskSpec skipped, ran;
  skipped.predicate = &no.element, skipped.compare = no.compare, skipped.constant = no.constant;
  ran.predicate = &yes.element, ran.compare = yes.compare, ran.constant = yes.constant;
  g.builder().SubmitGraph(skipped, spec, {inout(x), uint64_t{9}});
  g.builder().SubmitGraph(ran, spec, {inout(x), uint64_t{4}});
  g.Submit(g.Kernel(mix), {inout(x), uint64_t{1}});
  Run(g);
  ASSERT_TRUE(outcome_.ok) << outcome_.message;
  for (uint64_t value : g.Values<uint64_t>(x)) ASSERT_EQ(value, 3 * Inner(0, 4) + 1);
}

TEST_P(GraphTaskTest, AFailureNamesTheGraphAndTheTask) {
  Defined d;
  TestGraph g(1 << 20);
  for (const Kernel& kernel : {mix, next, fail}) d.graph.Kernel(kernel), g.Kernel(kernel);
  d.graph.Submit(d.graph.Kernel(mix), {inout(d.x), uint64_t{1}});
  d.graph.Submit(d.graph.Kernel(fail), {inout(d.x)}, {.name = "bad"});
  d.Seal();
  graph::GraphSpec spec = d.SpecIn(g);
  Tensor x = g.Data<uint64_t>({kSize});
  graph::TaskSpec layer;
  layer.name = "layer";
  g.builder().SubmitGraph(layer, spec, {inout(x), uint64_t{0}});
  Run(g);
  EXPECT_FALSE(outcome_.ok);
  EXPECT_EQ(outcome_.message,
            "task 0 (graph layer), task 1 'bad' (kernel fail): as asked (0 of 1 tasks ran)");
}

TEST_P(GraphTaskTest, AGraphMayHaveManyConsumers) {
  Defined d;
  TestGraph g(1 << 20);
  for (const Kernel& kernel : {mix, next}) d.graph.Kernel(kernel), g.Kernel(kernel);
  BuildInner(d);
  graph::GraphSpec spec = d.SpecIn(g);
  Tensor x = g.Data<uint64_t>({kSize});
  g.builder().SubmitGraph({}, spec, {inout(x), uint64_t{3}});
  std::vector<Tensor> y;
  for (int i = 0; i < 30; ++i) {
    y.push_back(g.Data<uint64_t>({kSize}));
    g.Submit(g.Kernel(next), {in(x), out(y.back())});
  }
  EXPECT_EQ(g.builder().statistics().edges, 30u);
  Run(g);
  ASSERT_TRUE(outcome_.ok) << outcome_.message;
  for (const Tensor& tensor : y) {
    for (uint64_t value : g.Values<uint64_t>(tensor)) ASSERT_EQ(value, Inner(0, 3) + 1);
  }
}

}  // namespace
}  // namespace precast
