// Several workers in one process, and one worker used from several threads.
#include "conformance/conformance.h"

#include <memory>

namespace precast::conformance {
namespace {

using scenes::bump;
using scenes::copy;
using scenes::fold;

class WorkersTest : public OnPlatform {};
PRECAST_ON_ALL_PLATFORMS(WorkersTest);

constexpr int kThreads = 4;

/// Runs `body(thread number)` on several threads at once.
template <typename Body>
void InParallel(Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

/// y = x through a chain of `steps` bumps, by way of a created tensor.
Orchestration ChainOf(int64_t steps) {
  return [steps](Orchestrator& o, const Args& args) {
    Tensor t = o.alloc(args.tensor(0).shape(), DType::i64);
    o.submit(copy, {in(args.tensor(0)), out(t)}, {.blocks = 3});
    for (int64_t i = 0; i < steps; ++i) o.submit(bump, {inout(t), i}, {.blocks = 2});
    o.submit(copy, {in(t), out(args.tensor(1))});
  };
}
std::vector<int64_t> AfterChain(std::vector<int64_t> values, int64_t steps) {
  for (int64_t& value : values) {
    for (int64_t i = 0; i < steps; ++i) value = Join(value, i);
  }
  return values;
}

TEST_P(WorkersTest, WorkersInParallelThreadsAreIndependent) {
  InParallel([this](int thread) {
    Worker worker(Options());
    Bytes before = worker.properties().memory_in_use;
    Tensor own = worker.malloc({64}, DType::i64);
    worker.copy_to(own, Counted(64, thread * 1000));
    for (int64_t round = 0; round < 20; ++round) {
      std::vector<int64_t> x = Counted(200, thread * 10 + round), y(200);
      worker.run(ChainOf(10 + thread), {in(x), out(y)}, {.threads = 1 + thread % 3});
      EXPECT_EQ(y, AfterChain(x, 10 + thread));
      worker.run(BumpOnce, {inout(own), round});
    }
    std::vector<int64_t> back(64);
    worker.copy_from(back, own);
    EXPECT_EQ(back, AfterChain(Counted(64, thread * 1000), 20));
    worker.free(own);
    EXPECT_GE(worker.properties().memory_in_use, before);
  });
}

TEST_P(WorkersTest, OneWorkerServesManyThreads) {
  Worker worker(Options());
  InParallel([&worker](int thread) {
    Tensor own = worker.malloc({100}, DType::i64);
    worker.copy_to(own, Counted(100));
    for (int64_t round = 0; round < 15; ++round) {
      std::vector<int64_t> x = Counted(100, thread * 100 + round), y(100), z(100);
      RunHandle first = worker.submit(ChainOf(5), {in(x), out(y)});
      RunHandle second = worker.submit(ChainOf(7), {in(x), out(z)});
      RunHandle third = worker.submit(BumpOnce, {inout(own), round});
      if (thread % 2 == 0) {
        second.result();
        first.result();
      } else {
        first.result();
        second.result();
      }
      EXPECT_EQ(y, AfterChain(x, 5));
      EXPECT_EQ(z, AfterChain(x, 7));
    }
    std::vector<int64_t> back(100);
    worker.copy_from(back, own);
    EXPECT_EQ(back, AfterChain(Counted(100), 15));
    worker.free(own);
  });
}

TEST_P(WorkersTest, AllocationsFromManyThreads) {
  Worker worker(Options());
  Bytes before = worker.properties().memory_in_use;
  InParallel([&worker](int thread) {
    for (int i = 0; i < 200; ++i) {
      Tensor t = worker.malloc({1 + i * 10}, DType::i64);
      std::vector<int64_t> values = Counted(static_cast<size_t>(t.size()), thread),
                           back(values.size());
      worker.copy_to(t, values);
      worker.copy_from(back, t);
      EXPECT_EQ(back, values);
      worker.free(t);
    }
  });
  EXPECT_EQ(worker.properties().memory_in_use, before);
}

TEST_P(WorkersTest, WorkersComeAndGo) {
  for (int i = 0; i < 20; ++i) {
    auto worker = std::make_unique<Worker>(Options());
    std::vector<int64_t> x = Counted(10), y(10);
    worker->run(ChainOf(3), {in(x), out(y)});
    EXPECT_EQ(y, AfterChain(x, 3));
    Tensor leaked = worker->malloc({1000}, DType::f32);  // the worker cleans up
    (void)leaked;
  }
}

TEST_P(WorkersTest, DifferentPlatformsSideBySide) {
  Worker here(Options()), there({.platform = "cpu"});
  std::vector<int64_t> x = Counted(50), y(50), z(50);
  RunHandle first = here.submit(ChainOf(20), {in(x), out(y)});
  RunHandle second = there.submit(ChainOf(30), {in(x), out(z)});
  first.result();
  second.result();
  EXPECT_EQ(y, AfterChain(x, 20));
  EXPECT_EQ(z, AfterChain(x, 30));
}

TEST(PlatformsTest, ListNamesEachOnceWithItsProperties) {
  std::vector<PlatformInfo> platforms = Platforms();
  for (std::string name : {"cpu", "a2a3sim", "a5sim"}) {
    int found = 0;
    for (const PlatformInfo& platform : platforms) {
      if (platform.name != name) continue;
      ++found;
      EXPECT_FALSE(platform.summary.empty());
      EXPECT_EQ(platform.properties.platform, name);
      EXPECT_GT(platform.properties.memory_bytes, 0u);
      WorkerProperties real = Worker({.platform = name}).properties();
      EXPECT_EQ(real.cube_cores, platform.properties.cube_cores);
      EXPECT_EQ(real.vector_cores, platform.properties.vector_cores);
      EXPECT_EQ(real.host_views, platform.properties.host_views);
      EXPECT_EQ(real.memory_bytes, platform.properties.memory_bytes);
    }
    EXPECT_EQ(found, 1) << name;
  }
  EXPECT_FALSE(Version().empty());
}

}  // namespace
}  // namespace precast::conformance
