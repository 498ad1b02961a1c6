// Traced runs when the driver fails: each leaves a trace, nothing leaks, the next run is right.
#include "platforms/sim/profile.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"
#include "worker/worker_impl.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

namespace precast::detail {
namespace {

using device::FaultyDriver;

PRECAST_KERNEL(twice, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<int64_t>(0);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) x[i] *= 2;
}
void Body(Orchestrator& o, const Args& args) {
  o.submit(twice, {inout(args.tensor(0))}, {.blocks = 3});
}
void Build(Orchestrator& o, const Args& args) {
  o.get_tensor_data<int64_t>(args.tensor(1), {0});
  for (int i = 0; i < 3; ++i) o.submit_graph("body", Body, {inout(args.tensor(0))});
}

TEST(TraceFaultTest, TheNthDriverCallFails) {
  for (ErrorCode code : {ErrorCode::out_of_memory, ErrorCode::internal}) {
    bool struck = true;
    for (uint64_t n = 1; struck; ++n) {
      auto sim = std::make_unique<sim::SimDriver>(sim::A2a3Profile(), 2);
      sim::SimDriver* chip = sim.get();
      auto wrapped = std::make_unique<FaultyDriver>(std::move(sim));
      FaultyDriver* faulty = wrapped.get();
      Trace trace;
      sim::SimDriver::Held held;
      wrapped->set_before_reset([&] { held = chip->held(); });
      {
        WorkerImpl worker({.platform = "a2a3sim", .trace = &trace, .log_level = "off"},
                          std::move(wrapped));
        Tensor table = worker.Malloc({64}, DType::i64);
        worker.Memset(table, 0);
        std::vector<int64_t> x(10);
        std::iota(x.begin(), x.end(), 0);
        std::vector<int64_t> expected(10);
        for (size_t i = 0; i < x.size(); ++i) expected[i] = 8 * x[i];
        std::vector<int64_t> first = x;
        faulty->FailNth(n, code);
        bool failed = false;
        try {
          worker.Launch(Build, {inout(first), in(table)}, {}, nullptr, true)->Result();
        } catch (const Error&) {
          failed = true;
        }
        struck = faulty->struck();
        faulty->FailNone();
        ASSERT_EQ(trace.runs().size(), 1u) << "call " << n;
        EXPECT_EQ(trace.runs()[0].error.empty(), !failed) << "call " << n;
        EXPECT_FALSE(trace.runs()[0].host.empty());
        if (!failed) {
          EXPECT_EQ(trace.runs()[0].blocks.size(), 9u) << "call " << n;
        }
        std::vector<int64_t> second = x;
        worker.Launch(Build, {inout(second), in(table)}, {}, nullptr, true)->Result();
        EXPECT_EQ(second, expected) << "call " << n;
        ASSERT_EQ(trace.runs().size(), 2u);
        EXPECT_EQ(trace.runs()[1].blocks.size(), 9u) << "call " << n;
      }
      EXPECT_EQ(held.allocations + held.pinned_blocks + held.host_views, 0u) << "call " << n;
      ASSERT_LT(n, 200u);
    }
  }
}

}  // namespace
}  // namespace precast::detail
