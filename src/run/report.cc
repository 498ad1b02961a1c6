#include "base/units.h"

#include <precast/report.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace precast {
namespace {

constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "args", "host_orch", "graph_upload", "arena_h2d", "execute", "copy_back", "host_view_close"};

std::string Row(std::string_view name, double wall_us, double whole_us, uint64_t bytes) {
  std::string share = whole_us > 0 ? fmt::format("{:.1f} %", 100 * wall_us / whole_us) : "-";
  return fmt::format("{:<16}{:>12}{:>10}{:>13}\n", name, FormatMicroseconds(wall_us), share,
                     bytes > 0 ? FormatBytes(bytes) : "-");
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

std::string ToTable(const RunReport& report) {
  double sum_us = 0;
  uint64_t bytes = 0;
  for (const auto& figures : report.phases) {
    sum_us += figures.wall_us;
    bytes += figures.bytes;
  }
  double whole_us = std::max(report.total_us, sum_us);

  std::string table = fmt::format("{:<16}{:>12}{:>10}{:>13}\n", "phase", "time", "share", "bytes");
  for (size_t i = 0; i < kPhases; ++i) {
    const auto& figures = report.phases[i];
    table += Row(kPhaseNames[i], figures.wall_us, whole_us, figures.bytes);
  }
  // Between and around the phases. Clock noise is not worth a line.
  if (whole_us - sum_us > 0.001 * whole_us) table += Row("other", whole_us - sum_us, whole_us, 0);
  table += Row("total", whole_us, whole_us, bytes);
  table += Row("  control plane", report.control_plane_us(), whole_us, 0);
  if (report.in_kernels_us >= 0) table += Row("  in kernels", report.in_kernels_us, whole_us, 0);

  table += fmt::format(
      "\ngraph   {}, {}, {}, image {}", Plural(report.graph.tasks, "task", "tasks"),
      Plural(report.graph.edges, "edge", "edges"), Plural(report.graph.blocks, "block", "blocks"),
      FormatBytes(report.graph.image_bytes));
  if (report.threads > 0) {
    table +=
        fmt::format(", {}", Plural(static_cast<uint64_t>(report.threads), "thread", "threads"));
  }
  table += fmt::format("\ncopies  {} control, {} staging, {} back, {}\n",
                       FormatCount(report.copies.control), FormatCount(report.copies.staging),
                       FormatCount(report.copies.back), FormatBytes(report.copies.bytes));
  table += fmt::format("heap    peak {}, reused {}, {} added", FormatBytes(report.heap.peak_bytes),
                       FormatBytes(report.heap.reused_bytes),
                       Plural(report.heap.added_edges, "edge", "edges"));
  for (const std::string& warning : report.warnings) table += "\nwarning: " + warning;
  return table;
}

std::string ToJson(const RunReport& report) {
  using Json = nlohmann::ordered_json;
  Json phases = Json::object();
  for (size_t i = 0; i < kPhases; ++i) {
    phases[std::string(kPhaseNames[i])] = {{"wall_us", report.phases[i].wall_us},
                                           {"bytes", report.phases[i].bytes}};
  }
  Json json = {
      {"phases", std::move(phases)},
      {"control_plane", {{"wall_us", report.control_plane_us()}}},
      {"graph",
       {{"tasks", report.graph.tasks},
        {"edges", report.graph.edges},
        {"blocks", report.graph.blocks},
        {"image_bytes", report.graph.image_bytes}}},
      {"copies",
       {{"control", report.copies.control},
        {"staging", report.copies.staging},
        {"back", report.copies.back},
        {"bytes", report.copies.bytes}}},
      {"heap",
       {{"peak_bytes", report.heap.peak_bytes},
        {"reused_bytes", report.heap.reused_bytes},
        {"added_edges", report.heap.added_edges}}},
  };
  return json.dump();
}

}  // namespace precast
