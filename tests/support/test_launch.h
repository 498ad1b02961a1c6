// What the executor's tests share: a gate for kernels, launches, a graph that counts.
#pragma once

#include "platforms/sim/executor.h"
#include "support/test_graph.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace precast::test {

inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

PRECAST_KERNEL(add_one, Core::vector)(const KernelContext& k) { k.tensor<int64_t>(0)[0] += 1; }

/// Where kernels wait until the test lets them go.
struct Gate {
  void Pass() {
    ++inside;
    std::unique_lock lock(mutex);
    changed.notify_all();
    changed.wait(lock, [this] { return open; });
  }
  void Open() {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  void AwaitInside(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside >= count; });
  }
  void AwaitReturned(int count) const {
    while (returned < count) std::this_thread::yield();
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(this); }

  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::atomic<int> inside{0}, returned{0};
};

/// Waits at the gate whose address is scalar 0, in the block that is scalar 1.
PRECAST_KERNEL(wait_at_gate, Core::vector)(const KernelContext& k) {
  Gate* gate = reinterpret_cast<Gate*>(k.scalar<uint64_t>(0));
  if (k.block() == k.scalar<uint32_t>(1)) gate->Pass();
  k.tensor<int64_t>(0)[k.block()] += 1;
  if (k.block() == k.scalar<uint32_t>(1)) ++gate->returned;
}
PRECAST_KERNEL(wait_and_throw, Core::vector)(const KernelContext& k) {
  Gate* gate = reinterpret_cast<Gate*>(k.scalar<uint64_t>(0));
  gate->Pass();
  ++gate->returned;
  throw std::runtime_error("too late");
}

inline device::Launch LaunchOf(const TestImage& image, bool caller_waits = true) {
  device::Launch launch;
  launch.image = image.address();
  launch.image_bytes = image.size();
  launch.caller_waits = caller_waits;
  return launch;
}

inline device::Outcome RunLaunch(sim::Executor& executor, const device::Launch& launch) {
  device::Ticket ticket = executor.Execute(launch);
  EXPECT_TRUE(executor.Wait(ticket, kForever));
  return executor.Collect(ticket);
}

/// A chain of `tasks` that counts in an int64, with one task of another kernel in the middle.
struct Counter {
  explicit Counter(int tasks, const Kernel* odd_one = nullptr, uint32_t blocks = 1) {
    uint32_t kernel = g.Kernel(add_one);
    for (int i = 0; i < tasks; ++i) {
      if (odd_one != nullptr && i == tasks / 2) {
        g.Submit(g.Kernel(*odd_one), {inout(x)}, {.blocks = blocks, .name = "odd"});
      } else {
        g.Submit(kernel, {inout(x)});
      }
    }
    image = g.Seal();
  }
  int64_t value() { return g.Values<int64_t>(x)[0]; }

  TestGraph g;
  Tensor x = g.Data<int64_t>({});
  TestImage image;
};

/// A graph of three tasks, the second of which waits at a gate in one of its blocks.
struct Hanging {
  Hanging(const Kernel& kernel, uint32_t blocks, uint32_t hung_block) {
    g.Submit(g.Kernel(add_one), {inout(x)});
    g.Submit(g.Kernel(kernel), {inout(x), gate.address(), hung_block},
             {.blocks = blocks, .name = "stuck"});
    g.Submit(g.Kernel(add_one), {inout(x)});
    image = g.Seal();
  }
  Gate gate;
  TestGraph g;
  Tensor x = g.Data<int64_t>({8});
  TestImage image;
};

}  // namespace precast::test
