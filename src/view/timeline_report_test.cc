#include "view/timeline_report.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>

namespace precast::view {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Picoseconds kNs = 1000;
// An operation takes a nanosecond; nothing moves a byte.
constexpr Chip kChip{1,
                     2,
                     {.bandwidth = 1'000'000'000,
                      .core_bandwidth = 1'000'000'000,
                      .cube_operations = 1'000'000'000,
                      .vector_operations = 1'000'000'000}};

KernelCost Given(const CostContext& c) { return {0, c.scalar<int64_t>(0)}; }
PRECAST_KERNEL(on_cube, Core::cube, Given)(const KernelContext&) {}
PRECAST_KERNEL(on_vector, Core::vector, Given)(const KernelContext&) {}

template <typename Build>
RunModel ModelOf(Build build, Bytes heap = Bytes{1} << 20) {
  Worker worker({.platform = "a2a3sim", .threads = 1, .heap = heap});
  std::optional<RunModel> model;
  ModelRuns(worker, [&](RunModel made) { model = std::move(made); });
  std::array<float, 64> x{};
  worker.run(build, {inout(x)}, {.skip_device_run = true});
  return std::move(*model);
}

TEST(TimelineReportTest, GroupsTasksByNameAndTellsTheirShareOfThePath) {
  RunModel model = ModelOf([](Orchestrator& o, const Args& args) {
    for (int64_t i = 0; i < 4; ++i) {
      Tensor part = args.tensor(0).slice(0, i, i + 1);
      o.submit(on_cube, {inout(part), int64_t{100}}, {.name = "first"});
      o.submit(on_vector, {inout(part), int64_t{30}});
    }
  });
  TimelineReport report = ReportTimeline(model, kChip);
  EXPECT_EQ(report.timeline.span, 430 * kNs);
  EXPECT_EQ(report.tasks, 8);
  ASSERT_EQ(report.groups.size(), 2);
  EXPECT_EQ(report.groups[0].name, "first");
  EXPECT_EQ(report.groups[0].kernel, "on_cube");
  EXPECT_EQ(report.groups[0].path_blocks, 4);
  EXPECT_EQ(report.groups[0].path_waits, 3);
  EXPECT_EQ(report.groups[0].path_time, 400 * kNs);
  EXPECT_EQ(report.groups[1].path_time, 30 * kNs);
  EXPECT_EQ(report.groups[1].busy, 120 * kNs);
  EXPECT_DOUBLE_EQ(report.Busy(Core::cube), 400.0 / 430);
  EXPECT_DOUBLE_EQ(report.Busy(Core::vector), 120.0 / 860);
  // Two cube cores: 200, then 30.
  EXPECT_EQ(report.what_ifs[0].span, 230 * kNs);
  EXPECT_EQ(report.what_ifs[2].change, "twice the arithmetic");
  EXPECT_EQ(report.what_ifs[2].span, 215 * kNs);
  ASSERT_TRUE(report.longest_wait);
  EXPECT_EQ(report.longest_wait->task, 6);
  EXPECT_EQ(report.longest_wait->holder, 4);
  EXPECT_EQ(report.longest_wait->until, 300 * kNs);
  EXPECT_THAT(report.advice,
              ElementsAre("What bounds the run is the number of cube cores: their blocks take 400 "
                          "ns, 93 % of the span.",
                          "The vector cores idle 86 %: the critical path, 5 blocks of which 3 "
                          "waited for a core, goes through first → on_vector.",
                          "What helps most is twice the arithmetic, with which it takes 50 % less.",
                          "What waited longest for a core, 300 ns, is task 6 'first' (kernel "
                          "on_cube); task 4 'first' (kernel on_cube) had it."));
}

TEST(TimelineReportTest, TellsEdgesThatTheHeapMakes) {
  auto build = [](Orchestrator& o, const Args&) {
    for (int i = 0; i < 3; ++i) {
      auto scope = o.scope();
      Tensor large = o.alloc({4096}, DType::f32);
      o.submit(on_vector, {out(large), int64_t{10}});
      o.submit(on_vector, {in(large), int64_t{10}});
    }
  };
  TimelineReport tight = ReportTimeline(ModelOf(build, 20'000), kChip);
  EXPECT_EQ(tight.timeline.span, 60 * kNs);
  EXPECT_EQ(tight.heap_edges, 2);
  EXPECT_THAT(tight.advice[3], HasSubstr("2 edges of the critical path"));
  TimelineReport wide = ReportTimeline(ModelOf(build), kChip);
  EXPECT_EQ(wide.timeline.span, 30 * kNs);
  EXPECT_EQ(wide.heap_edges, 0);
}

void Body(Orchestrator& o, const Args& args) {
  o.submit(on_vector, {inout(args.tensor(0)), int64_t{10}});
}

TEST(TimelineReportTest, NamesTasksOfInstancesByTheirPath) {
  RunModel model = ModelOf([](Orchestrator& o, const Args& args) {
    o.submit_graph("layer", Body, {inout(args.tensor(0))});
    o.submit_graph("layer", Body, {inout(args.tensor(0))});
  });
  EXPECT_EQ(ModelTaskLabel(model, 4),
            "task 1 (graph layer), task 0 'on_vector' (kernel on_vector)");
  TimelineReport report = ReportTimeline(model, kChip);
  EXPECT_EQ(report.timeline.span, 20 * kNs);
  EXPECT_EQ(report.groups[0].path_blocks, 2);
}

TEST(TimelineReportTest, ARunWithoutKernelsNeedsNoAdvice) {
  auto build = [](Orchestrator& o, const Args&) { o.submit(kNoKernel, {}); };
  TimelineReport report = ReportTimeline(ModelOf(build), kChip);
  EXPECT_EQ(report.timeline.span, 0);
  EXPECT_TRUE(report.advice.empty());
}

}  // namespace
}  // namespace precast::view
