#include "view/run_model.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace precast::view {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

void Nothing(const KernelContext&) {}

constexpr Kernel declared{"declared", Core::vector, &Nothing, "", [](const CostContext& c) {
                            return KernelCost{c.bytes(), 3 * c.size(0)};
                          }};
constexpr Kernel undeclared{"undeclared", Core::cube, &Nothing};
constexpr Kernel by_scalar{"by_scalar", Core::vector, &Nothing, "", [](const CostContext& c) {
                             return KernelCost{c.scalar<int32_t>(0), c.scalar<int32_t>(1)};
                           }};
PRECAST_KERNEL(with_cost, Core::vector, [](const CostContext&) { return KernelCost{1, 2}; })
(const KernelContext&) {}
PRECAST_KERNEL(with_both, Core::cube, "a2a3sim", [](const CostContext&) {
  return KernelCost{3, 4};
})
(const KernelContext&) {}

/// The model of a run with host arguments x of 64 floats and y of 8 x 8 bf16, not executed.
template <typename Build>
RunModel ModelOf(Build build) {
  Worker worker({.platform = "a2a3sim", .threads = 1});
  std::optional<RunModel> model;
  ModelRuns(worker, [&](RunModel made) { model = std::move(made); });
  std::array<float, 64> x{};
  std::array<bf16, 64> y{};
  worker.run(build, {inout(x), inout(Tensor::host(y.data(), {8, 8}))}, {.skip_device_run = true});
  return std::move(*model);
}

template <typename Build>
std::string FailureOf(Build build) {
  try {
    ModelOf(build);
  } catch (const Error& error) {
    return std::string(Name(error.code())) + ": " + error.message();
  }
  return "no failure";
}

using Cost = std::pair<uint64_t, uint64_t>;
std::vector<Cost> CostsOf(const RunModel& model, uint32_t task) {
  std::vector<Cost> costs;
  for (const ModelGraph::Part& part : model.graph.parts(task)) {
    costs.emplace_back(part.bytes, part.operations);
  }
  return costs;
}
using Edge = std::pair<uint32_t, uint32_t>;
std::vector<Edge> EdgesOf(const RunModel& model) {
  std::vector<Edge> edges;
  for (const ModelGraph::Edge& edge : model.graph.edges()) edges.emplace_back(edge.from, edge.to);
  return edges;
}

TEST(RunModelTest, TakesTheCostsThatKernelsDeclare) {
  RunModel model = ModelOf([](Orchestrator& o, const Args& args) {
    Tensor x = args.tensor(0), y = args.tensor(1);
    o.submit(declared, {in(x), out(y)}, {.blocks = 5});
    o.submit(declared, {in(x), inout(y)});
    o.submit(by_scalar, {in(y), int32_t{100}, int32_t{7}}, {.blocks = 3});
    o.submit(with_cost, {in(x)});
    o.submit(with_both, {in(x)});
  });
  ASSERT_EQ(model.graph.tasks(), 5);
  // 64 floats and 64 bf16: 384 bytes; a block's share is rounded up.
  EXPECT_THAT(CostsOf(model, 0), ElementsAre(Cost(77, 39)));
  EXPECT_EQ(model.graph.blocks(0), 5);
  EXPECT_THAT(CostsOf(model, 1), ElementsAre(Cost(256 + 2 * 128, 192)));
  EXPECT_THAT(CostsOf(model, 2), ElementsAre(Cost(34, 3)));
  EXPECT_THAT(CostsOf(model, 3), ElementsAre(Cost(1, 2)));
  EXPECT_THAT(CostsOf(model, 4), ElementsAre(Cost(3, 4)));
  EXPECT_EQ(model.graph.parts(4)[0].core, Core::cube);
  EXPECT_THAT(model.undeclared, IsEmpty());
  EXPECT_THAT(EdgesOf(model), UnorderedElementsAre(Edge(0, 1), Edge(1, 2)));
}

TEST(RunModelTest, WithoutACostCountsTheBytesOfTensors) {
  RunModel model = ModelOf([](Orchestrator& o, const Args& args) {
    o.submit(undeclared, {in(args.tensor(0)), out(args.tensor(1))}, {.blocks = 2});
    o.submit(undeclared, {in(args.tensor(1).slice(1, 0, 3))});
    o.submit(MixedKernel{undeclared, declared, by_scalar},
             {inout(args.tensor(0)), int32_t{10}, int32_t{20}}, {.blocks = 2});
  });
  EXPECT_THAT(CostsOf(model, 0), ElementsAre(Cost(192, 0)));
  EXPECT_THAT(CostsOf(model, 1), ElementsAre(Cost(48, 0)));
  // A third of what the mixed task moves.
  EXPECT_THAT(CostsOf(model, 2), ElementsAre(Cost(85, 0), Cost(256, 96), Cost(5, 10)));
  EXPECT_THAT(model.undeclared, ElementsAre("undeclared"));
}

TEST(RunModelTest, PredicatesAreTakenToHold) {
  RunModel model = ModelOf([](Orchestrator& o, const Args& args) {
    Tensor flag = o.alloc({1}, DType::i32, 1.0);
    o.submit(declared, {in(args.tensor(0))}, {.when = when(flag, {0}, Compare::equal, 0)});
  });
  EXPECT_EQ(model.predicated, 1);
  EXPECT_THAT(CostsOf(model, 1), ElementsAre(Cost(256, 192)));
}

void Inner(Orchestrator& o, const Args& args) {
  o.submit(by_scalar, {in(args.tensor(0)), args.bound_scalar<int32_t>(0), int32_t{1}});
}

void Outer(Orchestrator& o, const Args& args) {
  o.submit(declared, {inout(args.tensor(0))});
  o.submit_graph("inner", Inner, {in(args.tensor(0)), args.bound_scalar<int32_t>(0)});
  o.submit_graph("inner", Inner, {in(args.tensor(0)), int32_t{77}});
}

TEST(RunModelTest, ExpandsInstancesWithTheirScalars) {
  RunModel model = ModelOf([](Orchestrator& o, const Args& args) {
    o.submit(declared, {inout(args.tensor(0))});                             // 0
    o.submit_graph("outer", Outer, {inout(args.tensor(0)), int32_t{1000}});  // 1 … 9
    o.submit(kNoKernel, {in(args.tensor(0))});                               // 10
  });
  ASSERT_EQ(model.graph.tasks(), 11);
  // outer begins 1: declared 2, inner 3 4 5, inner 6 7 8; outer ends 9.
  EXPECT_THAT(EdgesOf(model), UnorderedElementsAre(Edge(0, 1), Edge(1, 2), Edge(2, 3), Edge(3, 4),
                                                   Edge(4, 5), Edge(2, 6), Edge(6, 7), Edge(7, 8),
                                                   Edge(5, 9), Edge(8, 9), Edge(9, 10)));
  EXPECT_THAT(CostsOf(model, 4), ElementsAre(Cost(1000, 1)));
  EXPECT_THAT(CostsOf(model, 7), ElementsAre(Cost(77, 1)));
  std::vector<uint64_t> numbers;
  for (const RunModel::Origin& origin : model.origins) numbers.push_back(origin.number);
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3, 4, 3, 5, 6, 5, 1, 7));
  EXPECT_EQ(model.name(4), "by_scalar");
  // 10 is an expanded graph's task 7.
  EXPECT_EQ(PathTo(model.run, 7).back().task, 2);
}

TEST(RunModelTest, RefusesCostsThatMakeNoSense) {
  auto fails = [](const Kernel& kernel, auto... scalars) {
    return FailureOf([=](Orchestrator& o, const Args& args) {
      o.submit(kernel, {in(args.tensor(0)), scalars...});
    });
  };
  EXPECT_EQ(fails(by_scalar, int32_t{-5}, int32_t{1}),
            "invalid_argument: cost of task 0 'by_scalar' (kernel by_scalar): -5 bytes and 1 "
            "operations; neither may be negative");
  EXPECT_THAT(fails(by_scalar, int32_t{5}),
              HasSubstr("cost of task 0 'by_scalar' (kernel by_scalar): cost function asks for "
                        "scalar 1, the task has 1"));
  EXPECT_THAT(fails(by_scalar, 5.0f, int32_t{1}), HasSubstr("asks for scalar 0 as i32, it is f32"));
  Kernel kernel{"k", Core::vector, &Nothing};
  kernel.cost = [](const CostContext& c) { return KernelCost{c.bytes(1), 0}; };
  EXPECT_THAT(fails(kernel), HasSubstr("asks for tensor 1, the task has 1"));
  kernel.cost = [](const CostContext& c) { return KernelCost{c.shape(0, 1), 0}; };
  EXPECT_THAT(fails(kernel), HasSubstr("asks for axis 1 of tensor 0, which has rank 1"));
  kernel.cost = [](const CostContext&) -> KernelCost { throw std::runtime_error("no idea"); };
  EXPECT_THAT(fails(kernel), HasSubstr("kernel_failed: cost of task 0 'k' (kernel k): no idea"));
}

}  // namespace
}  // namespace precast::view
