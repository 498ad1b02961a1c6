#include "view/timeline_report.h"

#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace precast::view {
namespace {

using Report = TimelineReport;

std::string_view NameOf(Core core) { return core == Core::cube ? "cube" : "vector"; }

std::string Time(Picoseconds time) { return FormatMicroseconds(Microseconds(time)); }
std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// Which group each task of the model belongs to, or kNothing.
std::vector<uint32_t> AddGroups(const RunModel& model, Report* report) {
  std::map<std::array<uint32_t, 4>, uint32_t> known;  // by name and kernels
  std::vector<uint32_t> group_of(model.graph.tasks(), kNothing);
  for (uint32_t task = 0; task < model.graph.tasks(); ++task) {
    std::span<const ModelGraph::Part> parts = model.graph.parts(task);
    if (parts.empty()) continue;
    const GraphTask& what = model.task(task);
    auto [found, fresh] =
        known.try_emplace({what.name, what.kernels[0], what.kernels[1], what.kernels[2]},
                          static_cast<uint32_t>(report->groups.size()));
    if (fresh) {
      report->groups.push_back({.name = model.name(task), .kernel = KernelName(model.run, what)});
      for (const ModelGraph::Part& part : parts) report->groups.back().cores.push_back(part.core);
    }
    group_of[task] = found->second;
    Report::Group& group = report->groups[found->second];
    uint64_t blocks = model.graph.blocks(task);
    ++group.tasks;
    group.blocks += blocks;
    ++report->tasks;
    report->blocks += blocks;
    for (const ModelGraph::Part& part : parts) {
      report->bytes += part.bytes * blocks;
      report->operations[static_cast<size_t>(part.core)] += part.operations * blocks;
    }
  }
  return group_of;
}

void AddTimes(const std::vector<uint32_t>& group_of, Report* report) {
  for (const CoreRun& run : report->timeline.runs) {
    report->groups[group_of[run.task]].busy += run.end - run.start;
    Picoseconds ready = report->timeline.ready[run.task];
    if (run.block != 0 || run.waited_for == kNothing) continue;
    const std::optional<Report::Wait>& longest = report->longest_wait;
    if (!longest || run.start - ready > longest->until - longest->from) {
      uint32_t holder = report->timeline.runs[run.waited_for].task;
      report->longest_wait = {run.task, holder, ready, run.start};
    }
  }
  for (const PathStep& step : report->timeline.path) {
    if (group_of[step.task] == kNothing) continue;
    Report::Group& group = report->groups[group_of[step.task]];
    ++group.path_blocks;
    if (step.why == PathStep::Why::core) ++group.path_waits;
    group.path_time += step.end - step.start;
  }
}

void AddWhatIfs(const ModelGraph& graph, Report* report) {
  auto add = [&](std::string_view change, auto apply) {
    Chip chip = report->chip;
    apply(&chip);
    report->what_ifs.push_back({change, Simulate(graph, chip).span});
  };
  add("twice the cores", [](Chip* chip) {
    chip->cube_cores *= 2;
    chip->vector_cores *= 2;
  });
  add("twice the bandwidth", [](Chip* chip) {
    chip->rates.bandwidth *= 2;
    chip->rates.core_bandwidth *= 2;
  });
  add("twice the arithmetic", [](Chip* chip) {
    chip->rates.cube_operations *= 2;
    chip->rates.vector_operations *= 2;
  });
  add("no time for dispatch", [](Chip* chip) { chip->rates.dispatch_ps = 0; });
}

/// The names that the critical path spends most of its time in, in the order in which it gets to
/// them: "scores → softmax → join".
std::string PathNames(const std::vector<uint32_t>& group_of, const Report& report) {
  constexpr size_t kNames = 4;
  std::vector<Picoseconds> times;
  for (const Report::Group& group : report.groups) times.push_back(group.path_time);
  std::sort(times.rbegin(), times.rend());
  Picoseconds least = std::max<Picoseconds>(times[std::min(kNames, times.size()) - 1], 1);
  std::vector<uint32_t> named;
  for (const PathStep& step : report.timeline.path) {
    uint32_t group = group_of[step.task];
    if (group == kNothing || report.groups[group].path_time < least || named.size() == kNames ||
        std::find(named.begin(), named.end(), group) != named.end()) {
      continue;
    }
    named.push_back(group);
  }
  std::string text;
  for (uint32_t group : named) text += (text.empty() ? "" : " → ") + report.groups[group].name;
  return text;
}

std::string WhatBounds(const Report& report) {
  const Bounds& bounds = report.bounds;
  struct Bound {
    Picoseconds time;
    std::string_view who;
    std::string what;
  };
  std::vector<Bound> all = {{bounds.bandwidth, "the memory",
                             fmt::format("{} at {}", FormatBytes(report.bytes),
                                         FormatRate(report.chip.rates.bandwidth, "B"))},
                            {bounds.chain, "the longest chain of tasks", "one after another they"},
                            {bounds.cores[0], "the number of cube cores", "their blocks"},
                            {bounds.cores[1], "the number of vector cores", "their blocks"}};
  const Bound& most = *std::max_element(
      all.begin(), all.end(), [](const Bound& a, const Bound& b) { return a.time < b.time; });
  return fmt::format("What bounds the run is {}{}: {} take {}, {} of the span.",
                     report.Share(most.time) < 0.9 ? "nothing alone, most of all " : "", most.who,
                     most.what, Time(most.time), Percent(report.Share(most.time)));
}

std::string WhatIdles(const std::vector<uint32_t>& group_of, const Report& report) {
  Core idle = report.Busy(Core::cube) < report.Busy(Core::vector) ? Core::cube : Core::vector;
  if (report.Busy(idle) == 0) idle = idle == Core::cube ? Core::vector : Core::cube;
  uint64_t blocks = 0, waits = 0;
  for (const Report::Group& group : report.groups) {
    blocks += group.path_blocks;
    waits += group.path_waits;
  }
  return fmt::format(
      "The {} cores idle {}: the critical path, {} blocks of which {} waited for a core, goes "
      "through {}.",
      NameOf(idle), Percent(1 - report.Busy(idle)), FormatCount(blocks), FormatCount(waits),
      PathNames(group_of, report));
}

std::string WhatHelps(const Report& report) {
  auto best = std::min_element(report.what_ifs.begin(), report.what_ifs.end(),
                               [](const auto& a, const auto& b) { return a.span < b.span; });
  double gain = 1 - report.Share(best->span);
  if (gain < 0.01) {
    return "No other chip that was tried takes less than 99 % of the time: it is the graph that "
           "has to change.";
  }
  return fmt::format("What helps most is {}, with which it takes {} less.", best->change,
                     Percent(gain));
}

/// Edges of the critical path that are there because bytes of the graph heap were used again.
uint64_t HeapEdges(const RunModel& model, const std::vector<PathStep>& path) {
  uint64_t edges = 0;
  for (size_t i = 1; i < path.size(); ++i) {
    if (path[i].why != PathStep::Why::edge) continue;
    const RunModel::Origin &from = model.origins[path[i - 1].task],
                           &to = model.origins[path[i].task];
    if (from.graph != to.graph) continue;  // into or out of an instance
    std::vector<EdgeReason> reasons = ReasonsOf(model.run.graphs[to.graph], from.task, to.task);
    edges +=
        !reasons.empty() && std::all_of(reasons.begin(), reasons.end(), [](const auto& reason) {
          return reason.kind == EdgeReason::Kind::heap_reuse;
        });
  }
  return edges;
}

void AddAdvice(const RunModel& model, const std::vector<uint32_t>& group_of, Report* report) {
  if (report->timeline.span == 0) return;
  report->advice = {WhatBounds(*report), WhatIdles(group_of, *report), WhatHelps(*report)};
  if (report->heap_edges > 0) {
    report->advice.push_back(
        fmt::format("{} edges of the critical path are there only because created tensors share "
                    "the heap: a larger one (--heap) removes them.",
                    FormatCount(report->heap_edges)));
  }
  if (report->longest_wait) {
    const Report::Wait& wait = *report->longest_wait;
    report->advice.push_back(fmt::format(
        "What waited longest for a core, {}, is {}; {} had it.", Time(wait.until - wait.from),
        ModelTaskLabel(model, wait.task), ModelTaskLabel(model, wait.holder)));
  }
}

}  // namespace

double TimelineReport::Busy(Core core) const {
  uint32_t cores = chip.cores(core);
  return cores == 0 ? 0 : Share(timeline.busy[static_cast<size_t>(core)]) / cores;
}

std::string ModelTaskLabel(const RunModel& model, uint32_t task) {
  std::string label;
  for (const ExpandedTask& at : PathTo(model.run, model.origins[task].number)) {
    label += (label.empty() ? "" : ", ") + TaskLabel(model.run, at.graph, at.task);
  }
  return label;
}

TimelineReport ReportTimeline(const RunModel& model, const Chip& chip) {
  Report report;
  report.chip = chip;
  report.timeline = Simulate(model.graph, chip);
  report.bounds = BoundsOf(model.graph, chip);
  std::vector<uint32_t> group_of = AddGroups(model, &report);
  AddTimes(group_of, &report);
  AddWhatIfs(model.graph, &report);
  report.heap_edges = HeapEdges(model, report.timeline.path);
  AddAdvice(model, group_of, &report);
  std::stable_sort(report.groups.begin(), report.groups.end(), [](const auto& a, const auto& b) {
    return std::pair(a.path_time, a.busy) > std::pair(b.path_time, b.busy);
  });
  return report;
}

}  // namespace precast::view
