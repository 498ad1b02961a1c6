// The executor on images built by hand: whatever the graph, the number of threads and who waits,
// the bytes are those of the oracle.
#include "platforms/sim/executor.h"

#include "sched/oracle.h"
#include "support/test_graph.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <tuple>
#include <vector>

namespace precast::sim {
namespace {

using test::TestGraph;
using test::TestImage;

constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

/// Writes to each written u64 tensor (one element, or one per block) a value that depends on all
/// that is read, on the scalar and on the block: any task out of order changes the result.
PRECAST_KERNEL(mix_values, Core::vector)(const KernelContext& k) {
  uint64_t value = k.scalar<uint64_t>(0) * 0x9e3779b97f4a7c15u + k.block();
  size_t last = k.tensors() - 1;
  for (size_t i = 0; i < k.tensors(); ++i) {
    auto tensor = k.tensor<const uint64_t>(i);
    uint64_t old = tensor[tensor.size() == 1 ? 0 : k.block()];
    value = (value ^ old) * 0x100000001b3u + (value >> 29);
  }
  auto result = k.tensor<uint64_t>(last);
  result[result.size() == 1 ? 0 : k.block()] = value;
}

/// Sums one block's part of tensor 0 into tensor 1, one element for each block.
PRECAST_KERNEL(sum_part, Core::cube)(const KernelContext& k) {
  auto from = k.tensor<const uint64_t>(0);
  uint64_t sum = k.sub_block() * 1'000'000u;
  for (int64_t i = k.block_begin(from.size()); i < k.block_end(from.size()); ++i) sum += from[i];
  k.tensor<uint64_t>(1)[k.block()] += sum;
}
PRECAST_KERNEL(add_index, Core::vector)(const KernelContext& k) {
  k.tensor<uint64_t>(2)[k.block()] += k.block() * 7 + k.sub_block() * 1'000'000u;
}
PRECAST_KERNEL(add_index_again, Core::vector)(const KernelContext& k) {
  k.tensor<uint64_t>(3)[k.block()] += k.block() * 11 + k.sub_block() * 1'000'000u;
}

void Submit(TestGraph& g, std::initializer_list<Arg> tensors, uint64_t scalar,
            uint32_t blocks = 1) {
  std::vector<Arg> args(tensors);
  args.push_back(scalar);
  g.Submit(g.Kernel(mix_values), args, {.blocks = blocks});
}

Tensor At(const Tensor& tensor, int64_t i) { return tensor.select(0, i); }

void Chain(TestGraph& g) {
  Tensor x = g.Data<uint64_t>({});
  for (uint64_t i = 0; i < 500; ++i) Submit(g, {inout(x)}, i);
}

void Independent(TestGraph& g) {
  Tensor x = g.Data<uint64_t>({500});
  for (int64_t i = 0; i < 500; ++i) Submit(g, {inout(At(x, i))}, static_cast<uint64_t>(i));
}

void Tree(TestGraph& g) {
  constexpr int64_t kLeaves = 256;
  Tensor x = g.Data<uint64_t>({2 * kLeaves});
  for (int64_t i = 2 * kLeaves - 1; i > 0; --i) {
    if (i >= kLeaves) {
      Submit(g, {inout(At(x, i))}, static_cast<uint64_t>(i));
    } else {
      Submit(g, {in(At(x, 2 * i)), in(At(x, 2 * i + 1)), inout(At(x, i))}, 1);
    }
  }
}

void Wavefront(TestGraph& g) {
  constexpr int64_t kSide = 24;
  Tensor x = g.Data<uint64_t>({kSide, kSide});
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) {
      Tensor here = At(At(x, i), j);
      Tensor above = At(At(x, std::max<int64_t>(i - 1, 0)), j);
      Tensor left = At(At(x, i), std::max<int64_t>(j - 1, 0));
      if (i > 0 && j > 0) {
        Submit(g, {in(above), in(left), inout(here)}, 3);
      } else if (i + j > 0) {
        Submit(g, {in(i > 0 ? above : left), inout(here)}, 4);
      } else {
        Submit(g, {inout(here)}, 5);
      }
    }
  }
}

/// More readers than fit in a task, then a writer: chunks of consumers, and joins.
void FanOut(TestGraph& g) {
  Tensor x = g.Data<uint64_t>({});
  Tensor y = g.Data<uint64_t>({100});
  for (uint64_t round = 0; round < 5; ++round) {
    Submit(g, {inout(x)}, round);
    for (int64_t i = 0; i < 100; ++i) Submit(g, {in(x), inout(At(y, i))}, round);
  }
}

void WideBlocks(TestGraph& g) {
  Tensor x = g.Data<uint64_t>({1000});
  Tensor y = g.Data<uint64_t>({});
  for (uint64_t round = 0; round < 10; ++round) {
    Submit(g, {inout(x)}, round, 1000);
    Submit(g, {in(x), inout(y)}, round);
  }
}

void Mixed(TestGraph& g) {
  abi::Mix two{{g.Kernel(sum_part), g.Kernel(add_index), 0}, 2};
  abi::Mix three{{g.Kernel(sum_part), g.Kernel(add_index), g.Kernel(add_index_again)}, 3};
  Tensor x = g.Data<uint64_t>({64});
  Tensor a = g.Data<uint64_t>({16}), b = g.Data<uint64_t>({16}), c = g.Data<uint64_t>({16});
  for (uint64_t round = 0; round < 20; ++round) {
    Submit(g, {inout(x)}, round, 64);
    g.Submit(two, {in(x), inout(a), inout(b)}, {.blocks = 16});
    g.Submit(three, {in(x), inout(a), inout(b), inout(c)}, {.blocks = 16});
  }
}

void Predicates(TestGraph& g) {
  Tensor x = g.Data<uint64_t>({});
  Tensor y = g.Data<uint64_t>({});
  for (uint64_t i = 0; i < 200; ++i) {
    Submit(g, {inout(x)}, i);
    Predicate odd{x, i % 2 == 0 ? Compare::greater : Compare::less_equal, int64_t{1} << 62};
    g.Submit(g.Kernel(mix_values), {in(x), inout(y), i}, {.when = &odd});
  }
}

/// Tensors that order nothing; the order is all in `after`.
void OnlyAfter(TestGraph& g) {
  Tensor x = g.Data<uint64_t>({8});
  abi::TaskId barrier = g.Submit(abi::kNoKernel, {});
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<abi::TaskId> wide;
    for (int64_t i = 0; i < 8; ++i) {
      wide.push_back(
          g.Submit(g.Kernel(mix_values), {no_dep(At(x, i)), round}, {.after = {barrier}}));
    }
    abi::TaskId last = g.Submit(abi::kNoKernel, {}, {.after = wide});
    for (int64_t i = 1; i < 8; ++i) {
      last = g.Submit(g.Kernel(mix_values), {no_dep(At(x, i - 1)), no_dep(At(x, i)), round},
                      {.after = {last}});
    }
    barrier = last;
  }
}

struct GraphCase {
  const char* name;
  void (*build)(TestGraph&);
};
constexpr GraphCase kGraphs[] = {
    {"chain", Chain},         {"independent", Independent}, {"tree", Tree},
    {"wavefront", Wavefront}, {"fan_out", FanOut},          {"wide_blocks", WideBlocks},
    {"mixed", Mixed},         {"predicates", Predicates},   {"only_after", OnlyAfter}};

device::Launch LaunchOf(const TestImage& image, int threads) {
  device::Launch launch;
  launch.image = image.address();
  launch.image_bytes = image.size();
  launch.threads = threads;
  return launch;
}

device::Outcome RunLaunch(Executor& executor, const device::Launch& launch) {
  device::Ticket ticket = executor.Execute(launch);
  EXPECT_TRUE(executor.Wait(ticket, kForever));
  return executor.Collect(ticket);
}

enum class Mode { caller, pool, watched, oracle };

class ExecutorGraphTest : public testing::TestWithParam<std::tuple<GraphCase, int, Mode>> {};

TEST_P(ExecutorGraphTest, GivesTheBytesOfTheOracle) {
  const auto& [graph, threads, mode] = GetParam();
  TestGraph g;
  graph.build(g);
  TestImage image = g.Seal();
  uint64_t tasks = image.header()->tasks;
  TestImage first = image;
  uint64_t completed = 0;
  sched::RunOracle(g.Instance(first), {}, &completed);
  EXPECT_EQ(completed, tasks);
  auto expected = g.storage();

  Executor executor(threads, {});
  executor.LoadKernels(0, g.kernels());
  for (int round = 0; round < 3; ++round) {
    g.Fill(0);
    TestImage copy = image;
    device::Launch launch = LaunchOf(copy, 0);
    launch.caller_waits = mode == Mode::caller;
    launch.oracle = mode == Mode::oracle;
    launch.reverse_blocks = mode == Mode::oracle;
    if (mode == Mode::watched) launch.kernel_timeout = std::chrono::seconds(60);
    device::Outcome outcome = RunLaunch(executor, launch);
    EXPECT_TRUE(outcome.ok) << outcome.message;
    EXPECT_EQ(outcome.completed, tasks);
    EXPECT_EQ(g.storage(), expected) << "round " << round;
  }
}

std::string CaseName(const testing::TestParamInfo<ExecutorGraphTest::ParamType>& info) {
  constexpr const char* kModes[] = {"caller", "pool", "watched", "oracle"};
  const auto& [graph, threads, mode] = info.param;
  return std::string(graph.name) + "_" + std::to_string(threads) + "_" +
         kModes[static_cast<int>(mode)];
}

INSTANTIATE_TEST_SUITE_P(Graphs, ExecutorGraphTest,
                         testing::Combine(testing::ValuesIn(kGraphs), testing::Values(1, 2, 8, 16),
                                          testing::Values(Mode::caller, Mode::pool)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OtherModes, ExecutorGraphTest,
                         testing::Combine(testing::ValuesIn(kGraphs), testing::Values(4),
                                          testing::Values(Mode::watched, Mode::oracle)),
                         CaseName);

}  // namespace
}  // namespace precast::sim
