#include "cli/timeline_output.h"

#include "base/units.h"
#include "cli/output.h"

#include <precast/error.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;
using view::Picoseconds;
using view::TimelineReport;
using Why = view::PathStep::Why;

constexpr std::array kKinds = {Core::cube, Core::vector};
constexpr size_t kMaxGroups = 12;   // rows of the table
constexpr size_t kMaxSteps = 1000;  // of the critical path, in a document

std::string_view NameOf(Core core) { return core == Core::cube ? "cube" : "vector"; }

std::string Time(Picoseconds time) { return FormatMicroseconds(view::Microseconds(time)); }

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string CoreNames(const std::vector<Core>& cores) {
  std::string names;
  for (size_t i = 0; i < cores.size(); ++i) {
    if (i > 0 && cores[i] == cores[i - 1]) {
      names = "cube + 2 vector";
    } else {
      names += (i == 0 ? "" : " + ") + std::string(NameOf(cores[i]));
    }
  }
  return names;
}

void PrintBounds(Output& output, const TimelineReport& report) {
  auto row = [&](std::string_view name, Picoseconds time, const std::string& why) {
    output.Write(fmt::format("  {:<22}{:>10}{:>9}  {}\n", name, Time(time),
                             Percent(report.Share(time)), why));
  };
  output.Write(output.Dim(fmt::format("  {:<22}{:>10}{:>9}  {}\n", "no run takes less than", "time",
                                      "of span", "because of")));
  const view::Bounds& bounds = report.bounds;
  row("memory", bounds.bandwidth,
      fmt::format("{} at {}", FormatBytes(report.bytes),
                  FormatRate(report.chip.rates.bandwidth, "B")));
  for (Core core : kKinds) {
    auto kind = static_cast<size_t>(core);
    row(fmt::format("{} cores", NameOf(core)), bounds.cores[kind],
        fmt::format("{} cores, {} busy in this run; their arithmetic alone {}",
                    report.chip.cores(core), Percent(report.Busy(core)),
                    Time(bounds.arithmetic[kind])));
  }
  row("longest chain", bounds.chain, "tasks that wait for one another");
}

void PrintGroups(Output& output, const TimelineReport& report) {
  uint64_t blocks = 0, waits = 0;
  size_t width = 4;
  for (const TimelineReport::Group& group : report.groups) {
    blocks += group.path_blocks;
    waits += group.path_waits;
    width = std::max(width, group.name.size());
  }
  output.Write(fmt::format("\nCritical path: {} blocks, {} of which waited for a core\n\n",
                           FormatCount(blocks), FormatCount(waits)));
  output.Write(output.Dim(fmt::format("  {:<{}}  {:<15}{:>10}{:>11}{:>9}{:>9}{:>11}{:>9}\n", "task",
                                      width, "cores", "on path", "time", "of span", "waited",
                                      "all tasks", "blocks")));
  for (size_t i = 0; i < std::min(kMaxGroups, report.groups.size()); ++i) {
    const TimelineReport::Group& group = report.groups[i];
    output.Write(fmt::format("  {:<{}}  {:<15}{:>10}{:>11}{:>9}{:>9}{:>11}{:>9}\n", group.name,
                             width, CoreNames(group.cores), FormatCount(group.path_blocks),
                             Time(group.path_time), Percent(report.Share(group.path_time)),
                             FormatCount(group.path_waits), FormatCount(group.tasks),
                             FormatCount(group.blocks)));
  }
  if (report.groups.size() > kMaxGroups) {
    output.Write(fmt::format("  and {} more\n", report.groups.size() - kMaxGroups));
  }
}

void PrintWhatIfs(Output& output, const TimelineReport& report) {
  output.Write("\nOn another chip\n\n");
  for (const TimelineReport::WhatIf& what : report.what_ifs) {
    output.Write(fmt::format("  {:<22}{:>10}{:>9}\n", what.change, Time(what.span),
                             fmt::format("{:+.1f} %", 100 * (report.Share(what.span) - 1))));
  }
}

Json StepJson(const ModelledRun& modelled, const view::PathStep& step) {
  constexpr std::array<std::string_view, 3> names = {"start", "edge", "core"};
  return {{"task", modelled.model.origins[step.task].number},
          {"name", modelled.model.name(step.task)},
          {"start_ps", step.start},
          {"end_ps", step.end},
          {"began_by", names[static_cast<size_t>(step.why)]}};
}

}  // namespace

void PrintTimeline(Output& output, const ModelledRun& modelled) {
  const TimelineReport& report = modelled.report;
  std::string_view assumed = report.chip.rates.assumed;
  output.Write(fmt::format(
      "\n{}: {} for {} tasks, {} blocks{}\n\n", output.Bold("Modelled timeline"),
      output.Bold(Time(report.timeline.span)), FormatCount(report.tasks),
      FormatCount(report.blocks),
      modelled.round > 1 ? fmt::format(", of the last of {} rounds", modelled.round) : ""));
  PrintBounds(output, report);
  PrintGroups(output, report);
  PrintWhatIfs(output, report);
  output.Write("\n");
  for (const std::string& sentence : report.advice) output.Write(sentence + "\n");
  if (!assumed.empty()) {
    output.Write(output.Yellow(
                     fmt::format("Rates of the chip that are assumed, not measured: {}", assumed)) +
                 "\n");
  }
  if (!modelled.model.undeclared.empty()) {
    output.Write(output.Yellow(fmt::format(
                     "Kernels that declare no cost count as the bytes of their tensors: {}",
                     fmt::join(modelled.model.undeclared, ", "))) +
                 "\n");
  }
  if (modelled.model.predicated > 0) {
    output.Write(output.Yellow(fmt::format("Tasks with a predicate that are taken to run: {}",
                                           FormatCount(modelled.model.predicated))) +
                 "\n");
  }
}

Json RatesJson(const ChipRates& rates) {
  if (rates.bandwidth == 0) return nullptr;
  return {{"bytes_per_s", rates.bandwidth},
          {"core_bytes_per_s", rates.core_bandwidth},
          {"cube_operations_per_s", rates.cube_operations},
          {"vector_operations_per_s", rates.vector_operations},
          {"dispatch_ps", rates.dispatch_ps},
          {"assumed", rates.assumed}};
}

Json TimelineJson(const ModelledRun& modelled) {
  const TimelineReport& report = modelled.report;
  Json groups = Json::array();
  for (const TimelineReport::Group& group : report.groups) {
    groups.push_back({{"name", group.name},
                      {"kernel", group.kernel},
                      {"cores", CoreNames(group.cores)},
                      {"tasks", group.tasks},
                      {"blocks", group.blocks},
                      {"busy_ps", group.busy},
                      {"path_blocks", group.path_blocks},
                      {"path_waits", group.path_waits},
                      {"path_ps", group.path_time}});
  }
  const std::vector<view::PathStep>& path = report.timeline.path;
  Json steps = Json::array();
  for (size_t i = 0; i < std::min(kMaxSteps, path.size()); ++i) {
    steps.push_back(StepJson(modelled, path[i]));
  }
  Json what_ifs = Json::array();
  for (const TimelineReport::WhatIf& what : report.what_ifs) {
    what_ifs.push_back({{"change", what.change}, {"span_ps", what.span}});
  }
  Json wait;
  if (report.longest_wait) {
    wait = {{"task", modelled.model.origins[report.longest_wait->task].number},
            {"name", modelled.model.name(report.longest_wait->task)},
            {"from_ps", report.longest_wait->from},
            {"until_ps", report.longest_wait->until},
            {"core_held_by", modelled.model.origins[report.longest_wait->holder].number}};
  }
  const view::Bounds& bounds = report.bounds;
  return {
      {"round", modelled.round},
      {"span_ps", report.timeline.span},
      {"tasks", report.tasks},
      {"blocks", report.blocks},
      {"bytes", report.bytes},
      {"operations", {{"cube", report.operations[0]}, {"vector", report.operations[1]}}},
      {"chip",
       {{"cube_cores", report.chip.cube_cores},
        {"vector_cores", report.chip.vector_cores},
        {"rates", RatesJson(report.chip.rates)}}},
      {"bounds_ps",
       {{"memory", bounds.bandwidth},
        {"cube_cores", bounds.cores[0]},
        {"vector_cores", bounds.cores[1]},
        {"cube_arithmetic", bounds.arithmetic[0]},
        {"vector_arithmetic", bounds.arithmetic[1]},
        {"chain", bounds.chain}}},
      {"busy", {{"cube", report.Busy(Core::cube)}, {"vector", report.Busy(Core::vector)}}},
      {"groups", std::move(groups)},
      {"critical_path",
       {{"steps", path.size()}, {"heap_edges", report.heap_edges}, {"first", std::move(steps)}}},
      {"what_if", std::move(what_ifs)},
      {"longest_wait", std::move(wait)},
      {"advice", report.advice},
      {"kernels_without_cost", modelled.model.undeclared},
      {"predicated_tasks", modelled.model.predicated}};
}

namespace {

class File {
 public:
  explicit File(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) FailWrite();
  }
  void Write(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) FailWrite();
  }
  void Close() {
    if (std::fclose(file_.release()) != 0) FailWrite();
  }

 private:
  [[noreturn]] void FailWrite() const {
    Fail(ErrorCode::io, "cannot write the timeline to '{}': {}", path_,
         std::generic_category().message(errno != 0 ? errno : EIO));
  }
  struct Closed {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closed> file_;
};

std::string Quoted(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Picoseconds in the format's unit, which is the microsecond, exactly.
std::string Us(Picoseconds time) {
  return fmt::format("{}.{:06}", time / 1'000'000, time % 1'000'000);
}

}  // namespace

void WriteTimelineTrace(const ModelledRun& modelled, const std::string& path) {
  const view::Chip& chip = modelled.report.chip;
  File file(path);
  file.Write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  file.Write(R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"modelled chip"}})");
  for (uint32_t core = 0; core < chip.cube_cores + chip.vector_cores; ++core) {
    bool cube = core < chip.cube_cores;
    file.Write(fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{} "
        "{}\"}}}},\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_sort_index\",\"args\":"
        "{{\"sort_index\":{}}}}}",
        core + 1, cube ? "cube" : "vector", cube ? core : core - chip.cube_cores, core + 1, core));
  }
  std::vector<std::string> names;
  for (const std::string& name : modelled.model.run.names) names.push_back(Quoted(name));
  for (const view::CoreRun& run : modelled.report.timeline.runs) {
    file.Write(fmt::format(
        ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"args\":{{"
        "\"task\":{},\"block\":{},\"ready_us\":{}}}}}",
        run.core + 1, Us(run.start), Us(run.end - run.start),
        names[modelled.model.task(run.task).name], modelled.model.origins[run.task].number,
        run.block, Us(modelled.report.timeline.ready[run.task])));
  }
  file.Write("\n]}\n");
  file.Close();
}

}  // namespace precast::cli
