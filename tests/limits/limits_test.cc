// Sizes: what only memory and 32-bit numbers bound. Release builds run these; they take seconds.
#include <precast/precast.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace precast {
namespace {

/// x[0] = 3 * x[0] + the scalar, modulo 2^64: the order of two of them shows.
PRECAST_KERNEL(mix, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<uint64_t>(0);
  x[0] = 3 * x[0] + k.scalar<uint64_t>(0);
}
/// target[0] = the sum of the first elements of all others.
PRECAST_KERNEL(sum, Core::vector)(const KernelContext& k) {
  uint64_t total = 0;
  for (size_t i = 0; i + 1 < k.tensors(); ++i) total += k.tensor<const uint64_t>(i)[0];
  k.tensor<uint64_t>(k.tensors() - 1)[0] = total;
}
PRECAST_KERNEL(store, Core::vector)(const KernelContext& k) {
  k.tensor<uint64_t>(0)[0] = k.scalar<uint64_t>(0);
}

class LimitsTest : public testing::Test {
 protected:
  Worker worker_{{.platform = "cpu", .threads = 2}};
};

TEST_F(LimitsTest, FiveMillionTasks) {
  constexpr uint64_t kTasks = 5'000'000, kChains = 1000;
  std::vector<uint64_t> x(kChains, 1), expected = x;
  for (uint64_t i = 0; i < kTasks; ++i) expected[i % kChains] = 3 * expected[i % kChains] + i;
  RunReport report = worker_.run(
      [](Orchestrator& o, const Args& args) {
        std::vector<Tensor> element;
        for (uint64_t i = 0; i < kChains; ++i) {
          int64_t at = static_cast<int64_t>(i);
          element.push_back(args.tensor(0).slice(0, at, at + 1));
        }
        for (uint64_t i = 0; i < kTasks; ++i) o.submit(mix, {inout(element[i % kChains]), i});
      },
      {inout(x)});
  EXPECT_EQ(report.graph.tasks, kTasks);
  EXPECT_EQ(report.graph.edges, kTasks - kChains);
  EXPECT_EQ(x, expected);
}

TEST_F(LimitsTest, AHundredThousandConsumersAndProducersOfOneTask) {
  constexpr int64_t kMany = 100'000;
  std::vector<uint64_t> start(1, 5), end(1), parts(kMany);
  RunReport report = worker_.run(
      [](Orchestrator& o, const Args& args) {
        const Tensor& all = args.tensor(1);
        o.submit(mix, {inout(args.tensor(0)), uint64_t{1}});
        for (int64_t i = 0; i < kMany; ++i) {
          o.submit(sum, {in(args.tensor(0)), out(all.slice(0, i, i + 1))});
        }
        o.submit(sum, {in(all), out(args.tensor(2))});  // waits for all of them
        o.submit(mix, {inout(args.tensor(0)), uint64_t{2}});
      },
      {inout(start), inout(parts), out(end)});
  EXPECT_EQ(report.graph.edges, 3u * kMany + 0u);
  EXPECT_EQ(start[0], 3u * 16 + 2);
  EXPECT_EQ(parts, std::vector<uint64_t>(kMany, 16));
  EXPECT_EQ(end[0], 16u);
}

TEST_F(LimitsTest, AMillionLiveTilesOfOneBuffer) {
  constexpr int64_t kSide = 1000;
  Tensor buffer = worker_.malloc({2 * kSide, 2 * kSide}, DType::u64);
  std::vector<uint64_t> end(1);
  RunReport report = worker_.run(
      [](Orchestrator& o, const Args& args) {
        const Tensor& b = args.tensor(0);
        for (int64_t i = 0; i < kSide * kSide; ++i) {
          o.submit(store,
                   {out(b.view({i / kSide * 2, i % kSide * 2}, {2, 2})), static_cast<uint64_t>(i)});
        }
        o.submit(sum, {in(b.view({2 * kSide - 2, 2 * kSide - 2}, {2, 2})), out(args.tensor(1))});
      },
      {inout(buffer), out(end)});
  EXPECT_EQ(report.graph.tasks, uint64_t{kSide} * kSide + 1);
  EXPECT_EQ(report.graph.edges, 1u);
  EXPECT_EQ(end[0], uint64_t{kSide} * kSide - 1);
}

TEST_F(LimitsTest, FourThousandArgumentsOfATask) {
  constexpr int64_t kArguments = 4096;
  std::vector<uint64_t> x(kArguments - 1), end(1);
  std::iota(x.begin(), x.end(), 1);
  worker_.run(
      [](Orchestrator& o, const Args& args) {
        std::vector<Arg> list;
        for (int64_t i = 0; i + 1 < kArguments; ++i) {
          list.push_back(in(args.tensor(0).slice(0, i, i + 1)));
        }
        list.push_back(out(args.tensor(1)));
        o.submit(sum, list);
      },
      {in(x), out(end)});
  EXPECT_EQ(end[0], uint64_t{kArguments} * (kArguments - 1) / 2);
}

TEST_F(LimitsTest, TheMemoryOfAMillionTasks) {
  // Every task has a tensor of its own.
  constexpr int kTasks = 1'000'000;
  std::vector<uint64_t> end(1);
  RunReport report = worker_.run(
      [](Orchestrator& o, const Args& args) {
        Tensor last;
        for (int i = 0; i < kTasks; ++i) {
          Tensor t = o.alloc({1}, DType::u64);
          if (i == 0) {
            o.submit(store, {out(t), uint64_t{7}});
          } else {
            o.submit(sum, {in(last), out(t)});
          }
          last = t;
        }
        o.submit(sum, {in(last), out(args.tensor(0))});
      },
      {out(end)}, {.heap = Bytes{1} << 30});
  EXPECT_EQ(end[0], 7u);
  EXPECT_LE(report.graph.image_bytes, uint64_t{kTasks} * 176);
}

}  // namespace
}  // namespace precast
