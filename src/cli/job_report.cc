#include "cli/job_report.h"

#include "base/units.h"
#include "cli/output.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Plural(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", FormatCount(count), noun, count == 1 ? "" : "s");
}

// The table of phases: its head recedes, its sum stands out, warnings are seen.
std::string StyledTable(const Output& output, const std::string& table) {
  std::string styled;
  for (size_t begin = 0; begin < table.size();) {
    size_t end = std::min(table.find('\n', begin), table.size());
    std::string_view line = std::string_view(table).substr(begin, end - begin);
    if (begin == 0) {
      styled += output.Dim(line);
    } else if (line.starts_with("total ")) {
      styled += output.Bold(line);
    } else if (line.starts_with("warning:")) {
      styled += output.Yellow(line);
    } else {
      styled += line;
    }
    styled += '\n';
    begin = end + 1;
  }
  return styled;
}

std::string WhichRound(const JobResult& result, size_t index) {
  size_t count = result.rounds.size();
  if (index + 1 == count && result.text) return fmt::format("the last of {} rounds", count);
  return fmt::format("round {} of {}, the one of median time", index + 1, count);
}

std::string GoldenLine(const Output& output, const JobResult& result) {
  if (!result.interrupted.empty()) {
    return fmt::format("golden: not checked, {} after {}\n",
                       output.Yellow(result.interrupted + " ended it"),
                       Plural(result.rounds.size(), "round"));
  }
  if (!result.golden) return "golden: skipped\n";
  const GoldenResult& golden = *result.golden;
  if (golden.skipped) return fmt::format("golden: skipped, {}\n", golden.detail);
  std::string line =
      fmt::format("golden: {}, max abs error {:.2g}",
                  golden.pass ? output.Green("pass") : output.Red("fail"), golden.max_abs_err);
  if (!golden.pass && !golden.detail.empty()) line += "; " + golden.detail;
  return line + "\n";
}

Json Named(const JobNames& names) {
  return {{"program", names.program}, {"case", names.case_name}, {"platform", names.platform}};
}

// Microseconds with three decimals: what a clock tells, and no more digits than that. The modelled
// clock is exact.
double Rounded(double us) { return std::round(us * 1000) / 1000; }

void RoundTimes(Json& json) {
  if (json.is_number_float()) json = Rounded(json.get<double>());
  if (json.is_array()) {
    for (Json& part : json) RoundTimes(part);
  } else if (json.is_object()) {
    for (auto& [key, part] : json.items()) {
      if (!key.starts_with("modelled")) RoundTimes(part);
    }
  }
}

Json RoundJson(const RunReport& report) {
  Json json = Json::parse(ToJson(report));
  json["total_us"] = report.total_us;
  json["in_kernels_us"] = report.in_kernels_us >= 0 ? Json(report.in_kernels_us) : Json();
  json["threads"] = report.threads;
  json["warnings"] = report.warnings;
  RoundTimes(json);
  return json;
}

// Text may be cut inside a character or hold any bytes; the document must be valid UTF-8.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

size_t TypicalRound(const JobResult& result) {
  size_t count = result.rounds.size();
  if (result.text) return count - 1;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return result.rounds[a].total_us < result.rounds[b].total_us;
  });
  return order[(count - 1) / 2];
}

void PrintTable(Output& output, const JobNames& names, const JobResult& result) {
  output.EndLine();
  if (result.text) output.Write("\n");  // between the text and what is said about it
  output.Write(fmt::format("{}, case {}, on {}", output.Bold(names.program), names.case_name,
                           names.platform));
  if (!result.rounds.empty()) {
    size_t index = TypicalRound(result);
    const RunReport& report = result.rounds[index];
    if (names.execution == "oracle") {
      output.Write(", by the oracle");
    } else if (names.execution == "skipped") {
      output.Write(", not executed");
    } else if (report.threads > 0) {
      output.Write(", " + Plural(static_cast<uint64_t>(report.threads), "thread"));
    }
    output.Write(", " + Plural(result.rounds.size(), "round") + "\n");
    if (result.rounds.size() > 1) {
      output.Write(output.Dim("below: " + WhichRound(result, index)) + "\n");
    }
    output.Write("\n" + StyledTable(output, ToTable(report)));
  } else {
    output.Write(", no rounds\n");
  }
  output.Write("\n" + GoldenLine(output, result));
  if (!result.summary.empty()) {
    output.Write(result.summary);
    output.EndLine();
  }
}

std::string JsonDocument(const JobNames& names, const JobResult& result, const Json& timeline) {
  Json json = Named(names);
  json["execution"] = names.execution;
  bool checked = result.golden && !result.golden->skipped;
  json["golden"] = !checked ? "skipped" : result.golden->pass ? "pass" : "fail";
  json["max_abs_err"] = checked ? Json(result.golden->max_abs_err) : Json();
  if (result.golden && !result.golden->detail.empty()) {
    json["golden_detail"] = result.golden->detail;
  }
  if (!result.interrupted.empty()) json["interrupted"] = result.interrupted;
  if (result.text) json["text"] = *result.text;
  for (const auto& [key, value] : result.facts) json.emplace(key, value);
  Json rounds = Json::array();
  for (const RunReport& report : result.rounds) rounds.push_back(RoundJson(report));
  json["rounds"] = std::move(rounds);
  if (!timeline.is_null()) json["timeline"] = timeline;
  return Dump(json);
}

std::string JsonDocument(const JobNames& names, const Error& error) {
  Json json = Named(names);
  json["error"] = {{"code", Name(error.code())}, {"message", error.message()}};
  return Dump(json);
}

}  // namespace precast::cli
