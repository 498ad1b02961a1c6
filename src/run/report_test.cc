#include <precast/report.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace precast {
namespace {

RunReport Sample() {
  RunReport report;
  double us = 1;
  for (auto& phase : report.phases) phase.wall_us = us *= 4;  // 4, 16, 64, 256, 1024, 4096, 16384
  report[Phase::args].bytes = 8 << 20;
  report[Phase::arena_h2d].bytes = 1536;
  report.graph = {.tasks = 1, .edges = 1234, .blocks = 96, .image_bytes = 1536};
  report.copies = {.control = 1, .staging = 2, .back = 1, .bytes = 12 << 20};
  report.heap = {.peak_bytes = 4 << 20, .reused_bytes = 640, .added_edges = 3};
  report.threads = 2;
  report.total_us = 22000;
  return report;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Report, PhaseNames) {
  EXPECT_EQ(Name(Phase::args), "args");
  EXPECT_EQ(Name(Phase::host_view_close), "host_view_close");
  EXPECT_EQ(Name(static_cast<Phase>(99)), "unknown");
}

TEST(Report, ControlPlaneIsWhatTheHostDoesBeforeTheDeviceStarts) {
  EXPECT_EQ(Sample().control_plane_us(), 16 + 64 + 256);
}

TEST(Report, TableIsAligned) {
  RunReport report = Sample();
  report.in_kernels_us = 900;
  report.warnings = {"host memory is not pinned"};
  auto lines = Lines(ToTable(report));
  ASSERT_EQ(lines.size(), 1 + kPhases + 4 + 5);
  EXPECT_EQ(lines[0], "phase                   time     share        bytes");
  EXPECT_EQ(lines[1], "args                 4.00 us     0.0 %     8.00 MiB");
  EXPECT_EQ(lines[5], "execute              1.02 ms     4.7 %            -");
  EXPECT_EQ(lines[8], "other                 156 us     0.7 %            -");
  EXPECT_EQ(lines[9], "total                22.0 ms   100.0 %     8.00 MiB");
  EXPECT_EQ(lines[10], "  control plane       336 us     1.5 %            -");
  EXPECT_EQ(lines[11], "  in kernels          900 us     4.1 %            -");
  EXPECT_EQ(lines[12], "");
  EXPECT_EQ(lines[13], "graph   1 task, 1,234 edges, 96 blocks, image 1.50 KiB, 2 threads");
  EXPECT_EQ(lines[14], "copies  1 control, 2 staging, 1 back, 12.0 MiB");
  EXPECT_EQ(lines[15], "heap    peak 4.00 MiB, reused 640 B, 3 edges added");
  EXPECT_EQ(lines[16], "warning: host memory is not pinned");
  EXPECT_FALSE(ToTable(report).ends_with('\n'));
  EXPECT_EQ(fmt::format("{}", report), ToTable(report));
}

TEST(Report, TheModelledClockHasAColumnAndHostViewsTheirLine) {
  RunReport report = Sample();
  report[Phase::execute].modelled_ps = 5'000'000;
  report[Phase::arena_h2d].modelled_ps = 9'073'600;
  report.assumed = "launch";
  report.host_views = {.established = 2, .dropped = 1, .mapped_bytes = 4160, .devcopy = 3};
  auto lines = Lines(ToTable(report));
  EXPECT_EQ(lines[0], "phase                   time    modelled     share        bytes");
  EXPECT_EQ(lines[4], "arena_h2d             256 us     9.07 us     1.2 %     1.50 KiB");
  EXPECT_EQ(
      lines[7],
      "host_view_close      16.4 ms        0 us    74.5 %            -  established=2 reused=0 "
      "dropped=1 refused=0 mapped_bytes=4160 devcopy=3 devcopy_bytes=0");
  EXPECT_EQ(lines[9], "total                22.0 ms     14.1 us   100.0 %     8.00 MiB");
  EXPECT_EQ(lines[10], "  control plane       336 us           -     1.5 %            -");
  EXPECT_EQ(lines.back(), "modelled time of driver calls; assumed: launch");

  nlohmann::json json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["phases"]["arena_h2d"]["modelled_us"], 9.0736);
  EXPECT_EQ(json["modelled"]["total_us"], 14.0736);
  EXPECT_EQ(json["modelled"]["assumed"], "launch");
}

TEST(Report, AnEmptyReportIsATableToo) {
  auto lines = Lines(ToTable({}));
  EXPECT_EQ(lines[1], "args                    0 us         -            -");
  EXPECT_EQ(lines.back(), "heap    peak 0 B, reused 0 B, 0 edges added");
}

TEST(Report, JsonHasTheDocumentedKeysInOrder) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(ToJson(Sample()));
  auto keys = [](const Json& object) {
    std::vector<std::string> names;
    for (const auto& item : object.items()) names.push_back(item.key());
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(keys(json), (Names{"phases", "control_plane", "modelled", "graph", "copies", "heap",
                               "host_views"}));
  EXPECT_EQ(keys(json["phases"]), (Names{"args", "host_orch", "graph_upload", "arena_h2d",
                                         "execute", "copy_back", "host_view_close"}));
  for (const auto& phase : json["phases"])
    EXPECT_EQ(keys(phase), (Names{"wall_us", "modelled_us", "bytes"}));
  EXPECT_EQ(keys(json["control_plane"]), (Names{"wall_us"}));
  EXPECT_EQ(keys(json["graph"]),
            (Names{"tasks", "edges", "blocks", "image_bytes", "definitions_recorded",
                   "definitions_reused", "definitions_shared", "definitions_evicted", "variants",
                   "replays"}));
  EXPECT_EQ(keys(json["copies"]), (Names{"control", "staging", "back", "bytes"}));
  EXPECT_EQ(keys(json["heap"]), (Names{"peak_bytes", "reused_bytes", "added_edges"}));
  EXPECT_EQ(keys(json["modelled"]), (Names{"total_us", "assumed"}));
  EXPECT_EQ(keys(json["host_views"]), (Names{"established", "reused", "dropped", "refused",
                                             "mapped_bytes", "devcopy", "devcopy_bytes"}));
  EXPECT_EQ(json["phases"]["args"]["bytes"], 8 << 20);
  EXPECT_EQ(json["phases"]["execute"]["wall_us"], 1024.0);
  EXPECT_EQ(json["control_plane"]["wall_us"], 336.0);
  EXPECT_EQ(json["graph"]["edges"], 1234);
  EXPECT_EQ(json["copies"]["staging"], 2);
  EXPECT_EQ(json["heap"]["added_edges"], 3);
}

}  // namespace
}  // namespace precast
