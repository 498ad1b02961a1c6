#include "base/units.h"

#include <precast/report.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace precast {
namespace {

constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "args", "host_orch", "graph_upload", "arena_h2d", "execute", "copy_back", "host_view_close"};

// Rows of the table of phases. The modelled clock has a column where it runs.
struct Rows {
  double whole_us;
  bool modelled;
  std::string text = fmt::format("{:<16}{:>12}{}{:>10}{:>13}\n", "phase", "time",
                                 modelled ? "    modelled" : "", "share", "bytes");

  void Add(std::string_view name, double wall_us, std::optional<uint64_t> modelled_ps,
           uint64_t bytes, std::string_view more = "") {
    std::string share = whole_us > 0 ? fmt::format("{:.1f} %", 100 * wall_us / whole_us) : "-";
    std::string model;
    if (modelled) {
      model = fmt::format(
          "{:>12}",
          modelled_ps ? FormatMicroseconds(static_cast<double>(*modelled_ps) / 1e6) : "-");
    }
    text += fmt::format("{:<16}{:>12}{}{:>10}{:>13}{}\n", name, FormatMicroseconds(wall_us), model,
                        share, bytes > 0 ? FormatBytes(bytes) : "-", more);
  }
};

// Pairs of name and value, in the order in which both forms of the report show them.
std::vector<std::pair<std::string_view, uint64_t>> Listed(const RunReport::HostViews& v) {
  return {{"established", v.established},
          {"reused", v.reused},
          {"dropped", v.dropped},
          {"refused", v.refused},
          {"mapped_bytes", v.mapped_bytes},
          {"devcopy", v.devcopy},
          {"devcopy_bytes", v.devcopy_bytes}};
}

std::string Plural(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", FormatCount(count), count == 1 ? one : many);
}

}  // namespace

std::string_view Name(Phase phase) {
  auto index = static_cast<size_t>(phase);
  return index < kPhases ? kPhaseNames[index] : "unknown";
}

double RunReport::control_plane_us() const {
  return (*this)[Phase::host_orch].wall_us + (*this)[Phase::graph_upload].wall_us +
         (*this)[Phase::arena_h2d].wall_us;
}

uint64_t RunReport::modelled_ps() const {
  uint64_t sum = 0;
  for (const PhaseFigures& figures : phases) sum += figures.modelled_ps;
  return sum;
}

std::string ToTable(const RunReport& report) {
  double sum_us = 0;
  uint64_t bytes = 0;
  for (const auto& figures : report.phases) {
    sum_us += figures.wall_us;
    bytes += figures.bytes;
  }
  double whole_us = std::max(report.total_us, sum_us);

  std::string views;
  if (report.host_views != RunReport::HostViews{}) {
    for (const auto& [name, count] : Listed(report.host_views)) {
      views += fmt::format("{}{}={}", views.empty() ? "  " : " ", name, count);
    }
  }
  Rows rows{.whole_us = whole_us, .modelled = report.modelled_ps() > 0};
  for (size_t i = 0; i < kPhases; ++i) {
    const auto& figures = report.phases[i];
    bool last = static_cast<Phase>(i) == Phase::host_view_close;
    rows.Add(kPhaseNames[i], figures.wall_us, figures.modelled_ps, figures.bytes,
             last ? std::string_view(views) : "");
  }
  // Between and around the phases. Clock noise is not worth a line.
  if (whole_us - sum_us > 0.001 * whole_us) rows.Add("other", whole_us - sum_us, {}, 0);
  rows.Add("total", whole_us, report.modelled_ps(), bytes);
  rows.Add("  control plane", report.control_plane_us(), {}, 0);
  if (report.in_kernels_us >= 0) rows.Add("  in kernels", report.in_kernels_us, {}, 0);

  std::string table = std::move(rows.text);
  table += fmt::format(
      "\ngraph   {}, {}, {}, image {}", Plural(report.graph.tasks, "task", "tasks"),
      Plural(report.graph.edges, "edge", "edges"), Plural(report.graph.blocks, "block", "blocks"),
      FormatBytes(report.graph.image_bytes));
  if (report.threads > 0) {
    table +=
        fmt::format(", {}", Plural(static_cast<uint64_t>(report.threads), "thread", "threads"));
  }
  if (report.graph.replays > 0) {
    table += fmt::format("\ngraphs  {}, {} recorded, {} reused, {} shared, {} evicted, {}",
                         Plural(report.graph.replays, "replay", "replays"),
                         FormatCount(report.graph.definitions_recorded),
                         FormatCount(report.graph.definitions_reused),
                         FormatCount(report.graph.definitions_shared),
                         FormatCount(report.graph.definitions_evicted),
                         Plural(report.graph.variants, "variant", "variants"));
  }
  table += fmt::format("\ncopies  {} control, {} staging, {} back, {}\n",
                       FormatCount(report.copies.control), FormatCount(report.copies.staging),
                       FormatCount(report.copies.back), FormatBytes(report.copies.bytes));
  table += fmt::format("heap    peak {}, reused {}, {} added", FormatBytes(report.heap.peak_bytes),
                       FormatBytes(report.heap.reused_bytes),
                       Plural(report.heap.added_edges, "edge", "edges"));
  if (rows.modelled && !report.assumed.empty()) {
    table += fmt::format("\nmodelled time of driver calls; assumed: {}", report.assumed);
  }
  for (const std::string& warning : report.warnings) table += "\nwarning: " + warning;
  return table;
}

std::string ToJson(const RunReport& report) {
  using Json = nlohmann::ordered_json;
  Json phases = Json::object();
  for (size_t i = 0; i < kPhases; ++i) {
    phases[std::string(kPhaseNames[i])] = {{"wall_us", report.phases[i].wall_us},
                                           {"modelled_us", report.phases[i].modelled_us()},
                                           {"bytes", report.phases[i].bytes}};
  }
  Json views = Json::object();
  for (const auto& [name, count] : Listed(report.host_views)) views[std::string(name)] = count;
  Json json = {
      {"phases", std::move(phases)},
      {"control_plane", {{"wall_us", report.control_plane_us()}}},
      {"modelled",
       {{"total_us", static_cast<double>(report.modelled_ps()) / 1e6},
        {"assumed", report.assumed}}},
      {"graph",
       {{"tasks", report.graph.tasks},
        {"edges", report.graph.edges},
        {"blocks", report.graph.blocks},
        {"image_bytes", report.graph.image_bytes},
        {"definitions_recorded", report.graph.definitions_recorded},
        {"definitions_reused", report.graph.definitions_reused},
        {"definitions_shared", report.graph.definitions_shared},
        {"definitions_evicted", report.graph.definitions_evicted},
        {"variants", report.graph.variants},
        {"replays", report.graph.replays}}},
      {"copies",
       {{"control", report.copies.control},
        {"staging", report.copies.staging},
        {"back", report.copies.back},
        {"bytes", report.copies.bytes}}},
      {"heap",
       {{"peak_bytes", report.heap.peak_bytes},
        {"reused_bytes", report.heap.reused_bytes},
        {"added_edges", report.heap.added_edges}}},
      {"host_views", std::move(views)},
  };
  return json.dump();
}

}  // namespace precast
