// The executor when kernels fail or are measured, and when many threads use it at once.
#include "base/failing_new_test.h"
#include "platforms/sim/executor.h"
#include "support/test_graph.h"
#include "support/test_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

namespace precast::sim {
namespace {

using test::add_one;
using test::Counter;
using test::Hanging;
using test::kForever;
using test::LaunchOf;
using test::RunLaunch;
using test::TestGraph;
using test::TestImage;
using test::wait_at_gate;
using testing::AllOf;
using testing::HasSubstr;

PRECAST_KERNEL(throw_number, Core::vector)(const KernelContext&) { throw 42; }
PRECAST_KERNEL(throw_exception, Core::vector)(const KernelContext&) {
  throw std::runtime_error("no such luck");
}
PRECAST_KERNEL(throw_error, Core::vector)(const KernelContext& k) {
  if (k.block() + 1 == k.blocks()) k.fail("a reason");
}

// Kernels that fail.

class ExecutorFailureTest : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void ExpectFailure(const Kernel& kernel, uint32_t blocks, const char* reason) {
    auto [threads, caller_waits] = GetParam();
    Counter failing(11, &kernel, blocks), fine(11);
    Executor executor(threads, {});
    executor.LoadKernels(0, failing.g.kernels());
    for (int round = 0; round < 3; ++round) {
      TestImage copy = failing.image;
      device::Outcome outcome = RunLaunch(executor, LaunchOf(copy, caller_waits));
      EXPECT_FALSE(outcome.ok);
      EXPECT_EQ(outcome.code, ErrorCode::kernel_failed);
      EXPECT_EQ(outcome.message, fmt::format("task 5 'odd' (kernel {}): {} (5 of 11 tasks ran)",
                                             kernel.name, reason));
      EXPECT_EQ(outcome.completed, 5u);
      EXPECT_FALSE(outcome.quarantined);
      EXPECT_EQ(failing.value(), 5 * (round + 1));

      TestImage good = fine.image;
      EXPECT_TRUE(RunLaunch(executor, LaunchOf(good, caller_waits)).ok);
      EXPECT_EQ(fine.value(), 11 * (round + 1));
    }
  }
};

TEST_P(ExecutorFailureTest, ANumber) {
  ExpectFailure(throw_number, 1, "an object that is not a std::exception");
}
TEST_P(ExecutorFailureTest, AnException) { ExpectFailure(throw_exception, 1, "no such luck"); }
TEST_P(ExecutorFailureTest, AnErrorInABlock) { ExpectFailure(throw_error, 9, "a reason"); }

INSTANTIATE_TEST_SUITE_P(Threads, ExecutorFailureTest,
                         testing::Combine(testing::Values(1, 4), testing::Bool()));

TEST(ExecutorTest, StopsTheOthers) {
  TestGraph g;
  Tensor x = g.Data<int64_t>({2'000});
  for (int64_t i = 0; i < 2'000; ++i) {
    g.Submit(g.Kernel(i == 100 ? throw_number : add_one), {inout(x.select(0, i))});
  }
  TestImage image = g.Seal();
  Executor executor(4, {});
  executor.LoadKernels(0, g.kernels());
  device::Outcome outcome = RunLaunch(executor, LaunchOf(image));
  EXPECT_FALSE(outcome.ok);
  EXPECT_LT(outcome.completed, 2'000u);
  int64_t ran = 0;
  for (int64_t value : g.Values<int64_t>(x)) ran += value;
  EXPECT_EQ(outcome.completed, static_cast<uint64_t>(ran));
}

TEST(ExecutorTest, SaysWhatWaitsInAStall) {
  Counter counter(4);
  abi::TaskAt(counter.image.data(), 8)->producers = 2;  // task 2 has one
  Executor executor(2, {});
  executor.LoadKernels(0, counter.g.kernels());
  device::Outcome outcome = RunLaunch(executor, LaunchOf(counter.image));
  EXPECT_EQ(outcome.code, ErrorCode::internal);
  EXPECT_THAT(outcome.message,
              AllOf(HasSubstr("stalled: 2 of 4 tasks ran"),
                    HasSubstr("task 2 'add_one' (kernel add_one) waits for 1 of its producers")));
}

// Waiting, and who waits.

TEST(ExecutorTest, WaitsForATimeAndThenMore) {
  Hanging slow(wait_at_gate, 1, 0);
  Executor executor(2, {});
  executor.LoadKernels(0, slow.g.kernels());
  device::Ticket ticket = executor.Execute(LaunchOf(slow.image, false));
  slow.gate.AwaitInside(1);
  EXPECT_FALSE(executor.Wait(ticket, std::chrono::nanoseconds(0)));
  EXPECT_FALSE(executor.Wait(ticket, std::chrono::milliseconds(3)));
  EXPECT_THROW(executor.Collect(ticket), Error);
  slow.gate.Open();
  EXPECT_TRUE(executor.Wait(ticket, std::chrono::hours(1'000'000)));
  EXPECT_TRUE(executor.Collect(ticket).ok);
  EXPECT_TRUE(executor.Wait(ticket, kForever));  // collected, so it has ended
  EXPECT_THROW(executor.Collect(ticket), Error);
  EXPECT_THROW(executor.Wait(0, kForever), Error);
  EXPECT_THROW(executor.Wait(ticket + 1, kForever), Error);
}

TEST(ExecutorTest, RefusesTooManyThreads) {
  Counter counter(1);
  Executor executor(1, {});
  device::Launch launch = LaunchOf(counter.image);
  launch.threads = Executor::kMaxThreads + 1;
  EXPECT_THROW(executor.Execute(launch), Error);
}

TEST(ExecutorTest, ManyRunsInAQueueKeepTheirOrder) {
  constexpr int kRuns = 1'000;
  Counter counter(3);
  Executor executor(3, {});
  executor.LoadKernels(0, counter.g.kernels());
  std::vector<TestImage> images(kRuns, counter.image);
  std::vector<device::Ticket> tickets;
  for (TestImage& image : images) tickets.push_back(executor.Execute(LaunchOf(image, false)));
  // Waiting for one waits for those before it.
  EXPECT_TRUE(executor.Wait(tickets[kRuns / 2], kForever));
  for (int i = 0; i <= kRuns / 2; ++i)
    EXPECT_TRUE(executor.Wait(tickets[static_cast<size_t>(i)], {}));
  for (device::Ticket ticket : tickets) {
    EXPECT_TRUE(executor.Wait(ticket, kForever));
    EXPECT_TRUE(executor.Collect(ticket).ok);
  }
  EXPECT_EQ(counter.value(), 3 * kRuns);
}

TEST(ExecutorTest, TenThousandSmallRuns) {
  Counter counter(3);
  Executor executor(2, {});
  executor.LoadKernels(0, counter.g.kernels());
  TestImage copy = counter.image;
  for (int i = 0; i < 10'000; ++i) {
    std::memcpy(copy.data(), counter.image.data(), copy.size());
    ASSERT_TRUE(RunLaunch(executor, LaunchOf(copy, i % 4 != 0)).ok);
  }
  EXPECT_EQ(counter.value(), 30'000);
}

TEST(ExecutorTest, LaunchesFromFourThreads) {
  constexpr int kRuns = 300;
  Executor executor(3, {});
  {
    Counter any(1);
    executor.LoadKernels(0, any.g.kernels());
  }
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&executor, &good, t] {
      TestGraph g;
      Tensor x = g.Data<int64_t>({64});
      for (int64_t i = 0; i < 192; ++i) {
        g.Submit(g.Kernel(add_one), {inout(x.select(0, i % 64))});
      }
      TestImage image = g.Seal(), copy = image;
      for (int run = 0; run < kRuns; ++run) {
        std::memcpy(copy.data(), image.data(), image.size());
        if (RunLaunch(executor, LaunchOf(copy, (run + t) % 3 != 0)).ok) ++good;
      }
      for (int64_t value : g.Values<int64_t>(x)) EXPECT_EQ(value, 3 * kRuns);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4 * kRuns);
}

TEST(ExecutorTest, OthersMayWaitForARunThatIsCollected) {
  Counter counter(20);
  Executor executor(2, {});
  executor.LoadKernels(0, counter.g.kernels());
  std::atomic<device::Ticket> latest{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      device::Ticket ticket = latest;
      if (ticket != 0) executor.Wait(ticket, kForever);
    }
  });
  TestImage copy = counter.image;
  for (int run = 0; run < 1'000; ++run) {
    std::memcpy(copy.data(), counter.image.data(), copy.size());
    device::Ticket ticket = executor.Execute(LaunchOf(copy, false));
    latest = ticket;
    EXPECT_TRUE(executor.Wait(ticket, kForever));
    EXPECT_TRUE(executor.Collect(ticket).ok);
  }
  stop = true;
  other.join();
}

// Limits and measuring.

struct Crowd {
  std::atomic<int> inside{0}, most{0};
};
PRECAST_KERNEL(count_crowd, Core::vector)(const KernelContext& k) {
  Crowd* crowd = reinterpret_cast<Crowd*>(k.scalar<uint64_t>(0));
  int inside = ++crowd->inside;
  int most = crowd->most;
  while (inside > most && !crowd->most.compare_exchange_weak(most, inside)) {
  }
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  --crowd->inside;
}

TEST(ExecutorTest, KeepsToTheNumberOfThreads) {
  Executor executor(8, {});
  for (int threads : {8, 2, 1, 3}) {
    Crowd crowd;
    TestGraph g;
    Tensor x = g.Data<int64_t>({100});
    uint64_t address = reinterpret_cast<uint64_t>(&crowd);
    for (int64_t i = 0; i < 100; ++i) {
      g.Submit(g.Kernel(count_crowd), {inout(x.select(0, i)), address},
               {.blocks = i % 10 == 0 ? 10u : 1u});
    }
    executor.LoadKernels(0, g.kernels());
    // On a busy machine it may take some rounds until a second thread gets a processor.
    for (int round = 0; round < 2 || (threads > 1 && crowd.most < 2 && round < 200); ++round) {
      TestImage image = g.Seal();
      device::Launch launch = LaunchOf(image, round % 2 == 0);
      launch.threads = threads;
      EXPECT_TRUE(RunLaunch(executor, launch).ok);
    }
    EXPECT_LE(crowd.most, threads);
    EXPECT_GE(crowd.most, std::min(threads, 2));
  }
}

PRECAST_KERNEL(sleep_some, Core::vector)(const KernelContext&) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(ExecutorTest, MeasuresTimeInKernels) {
  TestGraph g;
  Tensor x = g.Data<int64_t>({4});
  for (int64_t i = 0; i < 4; ++i) g.Submit(g.Kernel(sleep_some), {inout(x.select(0, i))});
  Executor executor(1, {});
  executor.LoadKernels(0, g.kernels());
  TestImage image = g.Seal();
  device::Launch launch = LaunchOf(image);
  EXPECT_EQ(RunLaunch(executor, launch).in_kernels_us, -1);
  for (int threads : {1, 4}) {
    image = g.Seal();
    launch = LaunchOf(image);
    launch.threads = threads;
    launch.measure_kernels = true;
    double us = RunLaunch(executor, launch).in_kernels_us;
    EXPECT_GE(us, threads == 1 ? 20'000 : 5'000);
  }
  image = g.Seal();
  launch = LaunchOf(image);
  launch.oracle = true;
  launch.measure_kernels = true;
  EXPECT_GE(RunLaunch(executor, launch).in_kernels_us, 20'000);
}

TEST(ExecutorTest, SaysWhenARunEnded) {
  Counter counter(3);
  Executor executor(2, {});
  executor.LoadKernels(0, counter.g.kernels());
  for (bool caller_waits : {true, false}) {
    TestImage copy = counter.image;
    auto before = std::chrono::steady_clock::now();
    device::Ticket ticket = executor.Execute(LaunchOf(copy, caller_waits));
    EXPECT_TRUE(executor.Wait(ticket, kForever));
    auto after = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    device::Outcome outcome = executor.Collect(ticket);
    EXPECT_GE(outcome.ended, before);
    EXPECT_LE(outcome.ended, after) << "not when somebody asks";
  }
}

/// Whatever allocation of a launch fails: an exception and no run, or a run with fewer threads.
TEST(ExecutorTest, GoesOnAfterItRanOutOfMemory) {
  Counter counter(5);
  int launched = 0, refused = 0;
  for (bool caller_waits : {true, false}) {
    bool struck = true;
    for (uint64_t n = 1; struck; ++n) {
      Executor executor(4, {});
      executor.LoadKernels(0, counter.g.kernels());
      TestImage copy = counter.image;
      device::Launch launch = LaunchOf(copy, caller_waits);
      device::Ticket ticket = 0;
      try {
        test::FailNew fail(n);
        struct Note {
          test::FailNew& fail;
          bool& struck;
          ~Note() { struck = fail.struck(); }
        } note{fail, struck};
        ticket = executor.Execute(launch);
      } catch (const std::exception&) {
        ++refused;
      }
      if (ticket != 0) {
        ++launched;
        EXPECT_TRUE(executor.Wait(ticket, kForever));
        EXPECT_TRUE(executor.Collect(ticket).ok);
      }
      for (bool again : {true, false}) {
        TestImage another = counter.image;
        EXPECT_TRUE(RunLaunch(executor, LaunchOf(another, again)).ok);
        ++launched;
      }
    }
  }
  EXPECT_EQ(counter.value(), 5 * launched);
  EXPECT_EQ(refused > 0, test::FailNew::kWorks);
}

// Threads that start ahead of a launch.

int ThreadsOfThisProcess() {
  int threads = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    ++threads;
  }
  return threads;
}

TEST(ExecutorTest, PrepareStartsTheThreadsOfALaunch) {
  Counter counter(3);
  for (bool caller_waits : {true, false}) {
    Executor executor(4, {});
    executor.LoadKernels(0, counter.g.kernels());
    TestImage copy = counter.image;
    device::Launch launch = LaunchOf(copy, caller_waits);
    int before = ThreadsOfThisProcess();
    executor.Prepare(launch);
    int prepared = ThreadsOfThisProcess();
    EXPECT_GT(prepared, before);
    EXPECT_TRUE(RunLaunch(executor, launch).ok);
    EXPECT_LE(ThreadsOfThisProcess(), prepared);
  }
}

TEST(ExecutorTest, AnOracleRunStartsNoThreads) {
  Counter counter(3);
  Executor executor(4, {});
  executor.LoadKernels(0, counter.g.kernels());
  device::Launch launch = LaunchOf(counter.image);
  launch.oracle = true;
  int before = ThreadsOfThisProcess();
  executor.Prepare(launch);
  EXPECT_TRUE(RunLaunch(executor, launch).ok);
  EXPECT_LE(ThreadsOfThisProcess(), before);
}

// What a kernel sees of its own executor.

struct Inside {
  Executor* executor;
  std::atomic<int> seen{0};
};
PRECAST_KERNEL(look_inside, Core::vector)(const KernelContext& k) {
  Inside* inside = reinterpret_cast<Inside*>(k.scalar<uint64_t>(0));
  if (inside->executor->InKernel()) ++inside->seen;
}

TEST(ExecutorTest, KnowsItsOwnKernels) {
  Executor executor(2, {}), other(1, {});
  Inside inside{&executor}, foreign{&other};
  TestGraph g;
  Tensor x = g.Data<int64_t>({});
  for (Inside* where : {&inside, &foreign}) {
    g.Submit(g.Kernel(look_inside), {inout(x), reinterpret_cast<uint64_t>(where)});
  }
  executor.LoadKernels(0, g.kernels());
  for (int round = 0; round < 3; ++round) {
    TestImage image = g.Seal();
    device::Launch launch = LaunchOf(image, round != 1);
    launch.oracle = round == 2;
    EXPECT_TRUE(RunLaunch(executor, launch).ok);
    EXPECT_EQ(inside.seen, round + 1);
    EXPECT_EQ(foreign.seen, 0);
    EXPECT_FALSE(executor.InKernel());
  }
}

}  // namespace
}  // namespace precast::sim
