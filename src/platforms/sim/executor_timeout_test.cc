// The executor and kernels that do not return.
#include "platforms/sim/executor.h"
#include "support/test_graph.h"
#include "support/test_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
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
using test::wait_and_throw;
using test::wait_at_gate;

constexpr std::chrono::milliseconds kLimit{30};

device::Outcome RunWatched(Executor& executor, const TestImage& image) {
  device::Launch launch = LaunchOf(image);
  launch.kernel_timeout = kLimit;
  return RunLaunch(executor, launch);
}

void ExpectTimeout(const Kernel& kernel, uint32_t blocks, uint32_t block, int threads) {
  Hanging hanging(kernel, blocks, block);
  Counter fine(11);
  {
    Executor executor(threads, {});
    executor.LoadKernels(0, hanging.g.kernels());
    device::Outcome outcome = RunWatched(executor, hanging.image);
    EXPECT_FALSE(outcome.ok);
    EXPECT_EQ(outcome.code, ErrorCode::timeout);
    EXPECT_EQ(
        outcome.message,
        fmt::format("task 1 'stuck' (kernel {}): block {} did not return within 30 ms (1 of 3 "
                    "tasks ran)",
                    kernel.name, block));
    EXPECT_TRUE(outcome.quarantined);
    EXPECT_EQ(executor.abandoned(), 1);
    for (int round = 0; round < 3; ++round) {
      TestImage copy = fine.image;
      EXPECT_TRUE(round == 1 ? RunWatched(executor, copy).ok
                             : RunLaunch(executor, LaunchOf(copy, round == 0)).ok);
      if (round == 1) {
        hanging.gate.Open();
        hanging.gate.AwaitReturned(1);
      }
    }
    EXPECT_EQ(fine.value(), 33);
  }
  EXPECT_EQ(hanging.gate.returned, 1);
}

TEST(ExecutorTimeoutTest, NamesTheTaskAndGoesOn) { ExpectTimeout(wait_at_gate, 1, 0, 1); }
TEST(ExecutorTimeoutTest, WithOtherThreads) { ExpectTimeout(wait_at_gate, 1, 0, 4); }
TEST(ExecutorTimeoutTest, OneBlockOfMany) { ExpectTimeout(wait_at_gate, 8, 5, 3); }
TEST(ExecutorTimeoutTest, TheLastBlockOfMany) { ExpectTimeout(wait_at_gate, 8, 7, 2); }
TEST(ExecutorTimeoutTest, AKernelThatThrowsWhenItIsLate) { ExpectTimeout(wait_and_throw, 1, 0, 2); }

PRECAST_KERNEL(take_a_moment, Core::vector)(const KernelContext& k) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  k.tensor<int64_t>(0)[0] += 1;
}

/// The first kernels of the thread that replaces one have as much time as all others.
TEST(ExecutorTimeoutTest, AReplacedThreadStartsWithItsWholeBudget) {
  TestGraph g;
  Tensor x = g.Data<int64_t>({});
  g.Kernel(add_one), g.Kernel(wait_at_gate);  // with the indices that they have in Hanging
  g.Submit(g.Kernel(add_one), {inout(x)});  // so that it is the second call here that takes time …
  g.Submit(g.Kernel(take_a_moment), {inout(x)});
  for (int round = 0; round < 3; ++round) {
    Hanging hanging(wait_at_gate, 1, 0);  // … as it is the second one here that hangs
    Executor executor(1, {});
    executor.LoadKernels(0, g.kernels());
    EXPECT_EQ(RunWatched(executor, hanging.image).code, ErrorCode::timeout);
    // Long after the first one hung, measured by the budget of the second.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    TestImage image = g.Seal();
    device::Launch launch = LaunchOf(image);
    launch.kernel_timeout = std::chrono::milliseconds(200);
    device::Outcome outcome = RunLaunch(executor, launch);
    EXPECT_TRUE(outcome.ok) << outcome.message;
    hanging.gate.Open();
    hanging.gate.AwaitReturned(1);
  }
}

TEST(ExecutorTimeoutTest, TheKernelMayOutliveTheExecutor) {
  Hanging hanging(wait_at_gate, 1, 0);
  {
    Executor executor(2, {});
    executor.LoadKernels(0, hanging.g.kernels());
    EXPECT_EQ(RunWatched(executor, hanging.image).code, ErrorCode::timeout);
  }
  hanging.gate.Open();
  hanging.gate.AwaitReturned(1);
}

TEST(ExecutorTimeoutTest, QueuedRunsGoOn) {
  Hanging hanging(wait_at_gate, 1, 0);
  Counter fine(5);
  Executor executor(2, {});
  executor.LoadKernels(0, hanging.g.kernels());
  device::Launch launch = LaunchOf(hanging.image, false);
  launch.kernel_timeout = kLimit;
  device::Ticket first = executor.Execute(launch);
  std::vector<TestImage> images(10, fine.image);
  std::vector<device::Ticket> tickets;
  for (TestImage& image : images) tickets.push_back(executor.Execute(LaunchOf(image, false)));
  for (device::Ticket ticket : tickets) {
    EXPECT_TRUE(executor.Wait(ticket, kForever));
    EXPECT_TRUE(executor.Collect(ticket).ok);
  }
  EXPECT_EQ(executor.Collect(first).code, ErrorCode::timeout);
  EXPECT_EQ(fine.value(), 50);
  hanging.gate.Open();
  hanging.gate.AwaitReturned(1);
}

TEST(ExecutorTimeoutTest, AfterSeveralTheDeviceIsLost) {
  std::vector<std::unique_ptr<Hanging>> hanging;
  Counter fine(5);
  Executor executor(2, {});
  for (int i = 0; i <= Executor::kMaxAbandoned; ++i) {
    hanging.push_back(std::make_unique<Hanging>(wait_at_gate, 1, 0));
    if (i == 0) executor.LoadKernels(0, hanging[0]->g.kernels());
    EXPECT_EQ(RunWatched(executor, hanging.back()->image).code, ErrorCode::timeout);
  }
  EXPECT_EQ(executor.abandoned(), Executor::kMaxAbandoned + 1);
  try {
    executor.Execute(LaunchOf(fine.image));
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_lost);
    EXPECT_EQ(error.message(), "device lost: 4 kernels never returned (at most 3 allowed)");
  }
  for (auto& each : hanging) {
    each->gate.Open();
    each->gate.AwaitReturned(1);
  }
}

}  // namespace
}  // namespace precast::sim
