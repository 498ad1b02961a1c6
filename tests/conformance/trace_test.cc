// Traces: what they say of a run, against what its kernels counted themselves.
#include "conformance/conformance.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace precast {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = RunTrace::HostEvent::Kind;

constexpr uint32_t kNone = RunTrace::kNone;

/// Counts its calls in the counter behind scalar 0, and writes all of its last tensor.
void CountAndWrite(const KernelContext& k) {
  reinterpret_cast<std::atomic<uint64_t>*>(k.scalar<uint64_t>(0))->fetch_add(1);
  auto x = k.tensor<int64_t>(k.tensors() - 1);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) x[i] = i;
}
PRECAST_KERNEL(counted, Core::vector)(const KernelContext& k) { CountAndWrite(k); }
PRECAST_KERNEL(counted_cube, Core::cube)(const KernelContext& k) { CountAndWrite(k); }
PRECAST_KERNEL(counted_fails, Core::vector)(const KernelContext& k) {
  CountAndWrite(k);
  k.fail("on purpose");
}

/// What holds for the trace of any run.
void Check(const RunTrace& run) {
  ASSERT_FALSE(run.instances.empty() && !run.blocks.empty());
  std::map<uint16_t, int64_t> ends;
  for (const RunTrace::Block& block : run.blocks) {
    EXPECT_LE(block.begin_ns, block.end_ns);
    EXPECT_GE(block.begin_ns, run.begin_ns);
    EXPECT_LE(block.end_ns, run.end_ns);
    auto [end, first] = ends.emplace(block.lane, block.end_ns);
    if (!first) {
      EXPECT_GE(block.begin_ns, end->second) << "lane " << block.lane;
      end->second = block.end_ns;
    }
    ASSERT_LT(block.task, run.tasks.size());
    ASSERT_LT(block.kernel, run.names.size());
    const RunTrace::Task& task = run.tasks[block.task];
    ASSERT_LT(task.first_block, run.blocks.size());
    EXPECT_LE(run.blocks[task.first_block].begin_ns, block.begin_ns);
  }
  for (const RunTrace::Task& task : run.tasks) {
    ASSERT_LT(task.name, run.names.size());
    ASSERT_LT(task.instance, run.instances.size());
    if (task.released_by == kNone || task.first_block == kNone) continue;
    ASSERT_LT(task.released_by, run.blocks.size());
    EXPECT_LE(run.blocks[task.released_by].begin_ns, run.blocks[task.first_block].begin_ns);
  }
  for (size_t i = 0; i < run.instances.size(); ++i) {
    const RunTrace::Instance& instance = run.instances[i];
    EXPECT_EQ(instance.task == kNone, i == 0);
    ASSERT_LE(instance.first_task + instance.tasks, run.tasks.size());
    for (uint32_t t = 0; t < instance.tasks; ++t) {
      EXPECT_EQ(run.tasks[instance.first_task + t].instance, i);
      EXPECT_EQ(run.tasks[instance.first_task + t].number, t);
    }
  }
  // Events of a thread are disjoint, or one within the other.
  std::map<uint32_t, std::vector<RunTrace::HostEvent>> open;
  for (const RunTrace::HostEvent& event : run.host) {
    ASSERT_LT(event.name, run.names.size());
    EXPECT_LE(event.begin_ns, event.end_ns);
    if (event.thread == kNone) continue;
    auto& around = open[event.thread];
    while (!around.empty() && around.back().end_ns <= event.begin_ns) around.pop_back();
    if (!around.empty()) {
      EXPECT_LE(event.end_ns, around.back().end_ns)
          << run.names[event.name] << " in " << run.names[around.back().name];
    }
    around.push_back(event);
  }
  for (const auto* samples : {&run.ready_tasks, &run.heap_bytes, &run.mapped_bytes}) {
    EXPECT_TRUE(std::is_sorted(samples->begin(), samples->end(),
                               [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; }));
  }
}

std::vector<std::string> Names(const RunTrace& run, Kind kind) {
  std::vector<std::string> names;
  for (const RunTrace::HostEvent& event : run.host) {
    if (event.kind == kind) names.push_back(run.names[event.name]);
  }
  return names;
}

/// The tasks of an instance by name. Names are unique in these tests.
const RunTrace::Task& TaskOf(const RunTrace& run, const std::string& name, uint32_t instance = 0) {
  for (const RunTrace::Task& task : run.tasks) {
    if (run.names[task.name] == name && task.instance == instance) return task;
  }
  Fail(ErrorCode::not_found, "no task '{}' in instance {}", name, instance);
}
/// The task whose block released it; "" if none did.
std::string ReleasedBy(const RunTrace& run, const RunTrace::Task& task) {
  if (task.released_by == kNone) return "";
  return run.names[run.tasks[run.blocks[task.released_by].task].name];
}

class TraceTest : public conformance::OnPlatform {
 protected:
  Arg Counter() { return Arg(reinterpret_cast<uint64_t>(&calls_)); }

  /// The newest run of the trace, checked.
  const RunTrace& Last() {
    EXPECT_FALSE(trace_.runs().empty());
    const RunTrace& run = trace_.runs().back();
    Check(run);
    return run;
  }

  std::atomic<uint64_t> calls_{0};
  std::vector<int64_t> x_ = std::vector<int64_t>(64);
  Trace trace_;
};
PRECAST_ON_ALL_PLATFORMS(TraceTest);

/// A row of tasks on x, with tasks that hang off it: one counted call a block.
void Comb(Orchestrator& o, const Tensor& x, const Arg& counter, int length) {
  for (int i = 0; i < length; ++i) {
    o.submit(counted, {inout(x), counter}, {.blocks = i % 5 == 0 ? 8u : 1u});
    Tensor t = o.alloc(x.shape(), DType::i64);
    o.submit(counted, {in(x), out(t), counter});
  }
}

TEST_P(TraceTest, EveryBlockIsThereWithAnyNumberOfThreads) {
  for (int threads : {1, 2, 8}) {
    Worker worker({.platform = GetParam(), .threads = threads});
    for (bool oracle : {false, true}) {
      calls_ = 0;
      RunReport report = worker.run(
          [&](Orchestrator& o, const Args& args) { Comb(o, args.tensor(0), Counter(), 200); },
          {inout(x_)}, {.trace = &trace_, .oracle = oracle});
      const RunTrace& run = Last();
      EXPECT_EQ(run.blocks.size(), calls_);
      EXPECT_EQ(run.blocks.size(), report.graph.blocks);
      EXPECT_EQ(run.dropped_blocks + run.dropped_releases + run.dropped_host_events, 0u);
      EXPECT_EQ(run.tasks.size(), report.graph.tasks);
      EXPECT_EQ(run.platform, GetParam());
      EXPECT_EQ(run.error, "");
      // Each block of each task, once.
      std::set<std::pair<uint32_t, uint32_t>> seen;
      for (const RunTrace::Block& block : run.blocks) {
        EXPECT_TRUE(seen.emplace(block.task, block.block).second);
        EXPECT_EQ(run.names[block.kernel], "counted");
        EXPECT_LT(block.lane, oracle ? 1 : threads);
        EXPECT_FALSE(block.failed);
      }
      if (oracle) continue;
      // Only the first task was ready from the start; a task of the row is released by the one
      // before or by its reader, one that hangs off it by the row.
      for (const RunTrace::Task& task : run.tasks) {
        EXPECT_GE(task.ready_ns, run.begin_ns);
        if (task.number == 0) {
          EXPECT_EQ(task.released_by, kNone);
          continue;
        }
        ASSERT_NE(task.released_by, kNone) << task.number;
        uint32_t by = run.tasks[run.blocks[task.released_by].task].number;
        if (task.number % 2 == 1) {
          EXPECT_EQ(by, task.number - 1);
        } else {
          EXPECT_THAT(by, AnyOf(task.number - 1, task.number - 2));
        }
      }
      EXPECT_FALSE(run.ready_tasks.empty());
      EXPECT_EQ(run.ready_tasks.back().value, 0u);
    }
  }
}

TEST_P(TraceTest, TheHostsEventsAreThoseOfTheReport) {
  Worker worker(Options());
  Tensor table = worker.malloc({1 << 20}, DType::i32);
  worker.memset(table, 0);
  auto orchestration = [&](Orchestrator& o, const Args& args) {
    o.get_tensor_data<int32_t>(args.tensor(1), {0});
    o.submit(counted, {inout(args.tensor(0)), Counter()});
  };
  for (int round = 0; round < 2; ++round) {
    RunReport report = worker.run(orchestration, {inout(x_), in(table)}, {.trace = &trace_});
    const RunTrace& run = Last();
    std::array<uint64_t, kPhases> bytes{}, modelled{};
    uint64_t copied = 0, driver_ps = 0;
    for (const RunTrace::HostEvent& event : run.host) {
      const std::string& name = run.names[event.name];
      if (event.kind == Kind::driver) {
        driver_ps += event.modelled_ps;
        if (name == "copy to device" || name == "copy to host") copied += event.bytes;
      } else if (event.kind == Kind::phase) {
        for (size_t i = 0; i < kPhases; ++i) {
          if (name != Name(static_cast<Phase>(i))) continue;
          bytes[i] += event.bytes;
          modelled[i] += event.modelled_ps;
        }
      }
    }
    for (size_t i = 0; i < kPhases; ++i) {
      EXPECT_EQ(bytes[i], report.phases[i].bytes) << Name(static_cast<Phase>(i));
      EXPECT_EQ(modelled[i], report.phases[i].modelled_ps) << Name(static_cast<Phase>(i));
    }
    EXPECT_EQ(copied, report.copies.bytes + report.host_views.devcopy_bytes);
    EXPECT_EQ(driver_ps, report.modelled_ps());
    EXPECT_EQ(HasTimingModel(), driver_ps > 0);
    EXPECT_THAT(Names(run, Kind::driver), Contains("launch").Times(1));
    ASSERT_FALSE(run.mapped_bytes.empty());
    EXPECT_EQ(run.mapped_bytes.back().value, report.host_views.mapped_bytes);
  }
}

/// Two tasks on argument 0; a task of its own in between them has no kernel.
void Body(Orchestrator& o, const Args& args) {
  Arg counter = args.bound_scalar<uint64_t>(0);
  Task first = o.submit(counted, {inout(args.tensor(0)), counter}, {.name = "first"});
  Task nothing = o.submit(kNoKernel, {}, {.name = "nothing", .after = {first}});
  Tensor t = o.alloc(args.tensor(0).shape(), DType::i64);
  o.submit(counted, {out(t), counter}, {.name = "second", .after = {nothing}});
}
void Around(Orchestrator& o, const Args& args) {
  o.submit_graph("body", Body, {inout(args.tensor(0)), args.bound_scalar<uint64_t>(0)});
}

TEST_P(TraceTest, GraphsAreInstancesAndReleaseWhatFollows) {
  for (int threads : {1, 2, 8}) {
    Worker worker({.platform = GetParam(), .threads = threads});
    for (int round = 0; round < 2; ++round) {
      calls_ = 0;
      RunReport report = worker.run(
          [&](Orchestrator& o, const Args& args) {
            const Tensor& x = args.tensor(0);
            o.submit(counted, {inout(x), Counter()}, {.name = "before"});
            o.submit_graph("around", Around, {inout(x), Counter()});
            o.submit_graph("body", Body, {inout(x), Counter()});
            o.submit(counted, {inout(x), Counter()}, {.name = "after"});
          },
          {inout(x_)}, {.trace = &trace_});
      const RunTrace& run = Last();
      EXPECT_EQ(run.blocks.size(), calls_);
      EXPECT_EQ(calls_, 6u);
      ASSERT_EQ(run.instances.size(), 4u);  // the run, around, body in it, body
      std::vector<std::string> names;
      for (const RunTrace::Instance& instance : run.instances) {
        EXPECT_GE(instance.end_ns, instance.begin_ns);
        if (instance.task != kNone) names.push_back(run.names[instance.name]);
      }
      EXPECT_THAT(names, ElementsAre("around", "body", "body"));
      EXPECT_EQ(run.tasks[run.instances[2].task].instance, 1u);
      EXPECT_EQ(run.tasks[run.instances[3].task].instance, 0u);
      // Through graph tasks and tasks without kernels, as what counts is the block behind them.
      for (uint32_t body : {2u, 3u}) {
        EXPECT_EQ(ReleasedBy(run, TaskOf(run, "second", body)), "first");
        EXPECT_EQ(run.tasks[run.blocks[TaskOf(run, "second", body).released_by].task].instance,
                  body);
      }
      EXPECT_EQ(ReleasedBy(run, TaskOf(run, "first", 2)), "before");
      EXPECT_EQ(ReleasedBy(run, TaskOf(run, "first", 3)), "second");
      EXPECT_EQ(ReleasedBy(run, TaskOf(run, "after")), "second");
      EXPECT_EQ(ReleasedBy(run, TaskOf(run, "before")), "");
      // What the host did about them.
      std::vector<std::string> submitted = Names(run, Kind::submit);
      EXPECT_EQ(std::count(submitted.begin(), submitted.end(), "around"), 1);
#ifndef PRECAST_VALIDATE  // which records every replay again, to compare
      EXPECT_EQ(std::count(submitted.begin(), submitted.end(), "body"), round == 0 ? 2 : 1);
      EXPECT_EQ(Names(run, Kind::record).size(), report.graph.definitions_recorded);
#endif
      EXPECT_EQ(report.graph.definitions_recorded > 0, round == 0);
    }
  }
}

TEST_P(TraceTest, SkippedTasksAndMixedOnes) {
  Worker worker({.platform = GetParam(), .threads = 2});
  std::vector<int32_t> zero(1);
  worker.run(
      [&](Orchestrator& o, const Args& args) {
        const Tensor& x = args.tensor(0);
        o.submit(counted, {inout(x), Counter()}, {.name = "first"});
        o.submit(counted, {inout(x), Counter()},
                 {.name = "skipped", .when = when(args.tensor(1), {0}, Compare::not_equal, 0)});
        o.submit(MixedKernel{counted_cube, counted}, {inout(x), Counter()},
                 {.blocks = 3, .name = "mixed"});
      },
      {inout(x_), in(zero)}, {.trace = &trace_});
  const RunTrace& run = Last();
  EXPECT_EQ(run.blocks.size(), calls_);
  EXPECT_EQ(run.blocks.size(), 1u + 2 * 3);
  EXPECT_EQ(TaskOf(run, "skipped").first_block, kNone);
  EXPECT_EQ(ReleasedBy(run, TaskOf(run, "mixed")), "first");
  std::map<std::string, std::set<uint32_t>> blocks;  // of the mixed task, by kernel
  for (const RunTrace::Block& block : run.blocks) {
    if (run.tasks[block.task].number == 2) blocks[run.names[block.kernel]].insert(block.block);
  }
  std::set<uint32_t> all = {0, 1, 2};
  EXPECT_EQ(blocks["counted"], all);
  EXPECT_EQ(blocks["counted_cube"], all);
}

TEST_P(TraceTest, WhatFindsNoRoomIsCounted) {
  for (uint64_t buffer : {0u, 8192u, 3u * 8192u}) {
    for (int threads : {1, 2, 8}) {
      Trace small({.buffer = buffer, .host_events = 5});
      Worker worker({.platform = GetParam(), .threads = threads});
      calls_ = 0;
      RunReport report = worker.run(
          [&](Orchestrator& o, const Args& args) {
            Comb(o, args.tensor(0), Counter(), 300);
            for (int i = 0; i < 300; ++i) {
              o.submit_graph("around", Around, {inout(args.tensor(0)), Counter()});
            }
          },
          {inout(x_)}, {.trace = &small});
      ASSERT_EQ(small.runs().size(), 1u);
      const RunTrace& run = small.runs()[0];
      Check(run);
      EXPECT_EQ(run.blocks.size() + run.dropped_blocks, calls_);
      EXPECT_GT(run.dropped_blocks, 0u);
      EXPECT_EQ(run.blocks.empty(), buffer == 0);
      EXPECT_EQ(run.host.size(), 5u);
      EXPECT_GT(run.dropped_host_events, 0u);
      EXPECT_THAT(
          report.warnings,
          Contains(HasSubstr(fmt::format("{} of {} blocks", run.blocks.size(), calls_.load()))));
    }
  }
}

TEST_P(TraceTest, AFailedRunHasWhatRanAndWhatFailed) {
  for (int threads : {1, 2, 8}) {
    Worker worker({.platform = GetParam(), .threads = threads});
    calls_ = 0;
    EXPECT_THROW(worker.run(
                     [&](Orchestrator& o, const Args& args) {
                       Comb(o, args.tensor(0), Counter(), 10);
                       o.submit(counted_fails, {inout(args.tensor(0)), Counter()});
                       Comb(o, args.tensor(0), Counter(), 10);
                     },
                     {inout(x_)}, {.trace = &trace_}),
                 Error);
    const RunTrace& run = Last();
    EXPECT_EQ(run.blocks.size(), calls_);
    EXPECT_THAT(run.error, HasSubstr("on purpose"));
    EXPECT_THAT(Names(run, Kind::failed), ElementsAre("failed"));
    int failed = 0;
    for (const RunTrace::Block& block : run.blocks) {
      EXPECT_EQ(block.failed, run.names[block.kernel] == "counted_fails");
      failed += block.failed ? 1 : 0;
    }
    EXPECT_EQ(failed, 1);
    // The orchestration fails.
    EXPECT_THROW(worker.run([](Orchestrator& o, const Args&) { o.report_fatal(3, "no"); },
                            {inout(x_)}, {.trace = &trace_}),
                 Error);
    EXPECT_THAT(Last().error, HasSubstr("no"));
    EXPECT_TRUE(Last().blocks.empty());
    EXPECT_THAT(Names(Last(), Kind::phase), ElementsAre("args"));
  }
}

/// Waits at the gate behind scalar 0, then writes nothing.
PRECAST_KERNEL(stuck, Core::vector)(const KernelContext& k) {
  reinterpret_cast<conformance::Gate*>(k.scalar<uint64_t>(0))->Pass();
}

TEST_P(TraceTest, AKernelThatWasGivenUpIsThere) {
  conformance::Gate gate;
  {
    Worker worker({.platform = GetParam(), .threads = 2, .log_level = "off"});
    Tensor x = worker.malloc({64}, DType::i64);
    EXPECT_THROW(
        worker.run(
            [&](Orchestrator& o, const Args& args) {
              o.submit(counted, {inout(args.tensor(0)), Counter()}, {.name = "ran"});
              o.submit(stuck, {inout(args.tensor(0)), conformance::Address(gate)});
            },
            {inout(x)}, {.kernel_timeout = std::chrono::milliseconds(30), .trace = &trace_}),
        Error);
    const RunTrace& run = Last();
    ASSERT_EQ(run.blocks.size(), 2u);
    const RunTrace::Block& given_up = run.blocks[TaskOf(run, "stuck").first_block];
    EXPECT_TRUE(given_up.failed);
    EXPECT_GE(given_up.end_ns - given_up.begin_ns, 30'000'000);
    EXPECT_THAT(run.error, HasSubstr("did not return"));
    gate.Open();
  }
}

TEST_P(TraceTest, WithoutExecutionOnlyTheHostIsThere) {
  Worker worker(Options());
  worker.run([&](Orchestrator& o, const Args& args) { Comb(o, args.tensor(0), Counter(), 3); },
             {inout(x_)}, {.trace = &trace_, .skip_device_run = true});
  const RunTrace& run = Last();
  EXPECT_TRUE(run.blocks.empty() && run.tasks.empty() && run.instances.empty());
  EXPECT_THAT(Names(run, Kind::phase), Contains("arena_h2d"));
  EXPECT_THAT(Names(run, Kind::phase), testing::Not(Contains("execute")));
}

TEST_P(TraceTest, SubmittedRunsOverlapAndStayApart) {
  Worker worker({.platform = GetParam(), .threads = 2, .trace = &trace_});
  Tensor x = worker.malloc({64}, DType::i64);
  {
    std::vector<RunHandle> runs;
    for (int i = 0; i < 5; ++i) {
      runs.push_back(worker.submit(
          [&](Orchestrator& o, const Args& args) { Comb(o, args.tensor(0), Counter(), 20); },
          {inout(x)}));
    }
    for (RunHandle& run : runs) run.wait();
  }
  uint64_t blocks = 0;
  for (const RunTrace& run : trace_.runs()) {
    Check(run);
    blocks += run.blocks.size();
    EXPECT_EQ(run.worker, 0u);
  }
  EXPECT_EQ(trace_.runs().size(), 5u);
  EXPECT_EQ(blocks, calls_);
  // Another worker is another device; a run of its own inside an orchestration is another run.
  Worker other(Options());
  other.run(
      [&](Orchestrator& o, const Args& args) {
        other.run([&](Orchestrator& o2, const Args& a2) { Comb(o2, a2.tensor(0), Counter(), 1); },
                  {inout(x_)});
        Comb(o, args.tensor(0), Counter(), 2);
      },
      {inout(x_)}, {.trace = &trace_});
  const RunTrace& run = Last();
  EXPECT_EQ(trace_.runs().size(), 6u);
  EXPECT_EQ(run.worker, 1u);
  EXPECT_THAT(Names(run, Kind::driver), Contains("launch").Times(1));
}

TEST_P(TraceTest, HeapBytesAreThoseThatAreStillNeeded) {
  Worker worker({.platform = GetParam(), .threads = 1});
  constexpr int64_t kTile = 1 << 10;  // elements
  worker.run(
      [&](Orchestrator& o, const Args& args) {
        // a → b → c → x: two at a time hold something that is needed, three never.
        Tensor a = o.alloc({kTile}, DType::i64), b = o.alloc({kTile}, DType::i64);
        Tensor c = o.alloc({kTile}, DType::i64);
        o.submit(counted, {out(a), Counter()});
        o.submit(counted, {in(a), out(b), Counter()});
        o.submit(counted, {in(b), out(c), Counter()});
        o.submit(counted, {in(c), inout(args.tensor(0)), Counter()});
      },
      {inout(x_)}, {.trace = &trace_});
  const RunTrace& run = Last();
  uint64_t most = 0;
  for (const RunTrace::Sample& sample : run.heap_bytes) most = std::max(most, sample.value);
  EXPECT_EQ(most, 2u * kTile * sizeof(int64_t));
  ASSERT_FALSE(run.heap_bytes.empty());
  EXPECT_EQ(run.heap_bytes.back().value, 0u);
}

TEST_P(TraceTest, TheSystemsClockDoesAsWell) {
  Trace trace({.system_clock = true});
  Worker worker({.platform = GetParam(), .threads = 2});
  worker.run([&](Orchestrator& o, const Args& args) { Comb(o, args.tensor(0), Counter(), 50); },
             {inout(x_)}, {.trace = &trace});
  ASSERT_EQ(trace.runs().size(), 1u);
  Check(trace.runs()[0]);
  EXPECT_EQ(trace.runs()[0].blocks.size(), calls_);
}

TEST_P(TraceTest, OtherRunsOfTheWorkerRecordNothing) {
  Worker worker(Options());
  auto orchestration = [&](Orchestrator& o, const Args& args) {
    Comb(o, args.tensor(0), Counter(), 3);
  };
  worker.run(orchestration, {inout(x_)}, {.trace = &trace_});
  worker.run(orchestration, {inout(x_)});
  worker.run(orchestration, {inout(x_)}, {.trace = &trace_});
  ASSERT_EQ(trace_.runs().size(), 2u);
  EXPECT_EQ(trace_.runs()[0].blocks.size() + trace_.runs()[1].blocks.size(), calls_ / 3 * 2);
}

}  // namespace
}  // namespace precast
