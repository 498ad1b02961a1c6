#include "cli/list_command.h"

#include "base/units.h"
#include "cli/output.h"
#include "cli/timeline_output.h"

#include <precast/worker.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;

Json ProgramsJson(const Programs& programs) {
  Json list = Json::array();
  for (const Program* program : programs) {
    Json cases = Json::array();
    for (const Case& kase : program->cases) {
      cases.push_back({{"name", kase.name}, {"summary", kase.summary}});
    }
    Json params = Json::array();
    for (const ParamSpec& param : program->params) {
      params.push_back(
          {{"name", param.name}, {"default", param.default_value}, {"help", param.help}});
    }
    list.push_back({{"name", program->name},
                    {"summary", program->summary},
                    {"cases", std::move(cases)},
                    {"params", std::move(params)}});
  }
  return list;
}

Json PlatformsJson(const std::vector<PlatformInfo>& platforms) {
  Json list = Json::array();
  for (const PlatformInfo& platform : platforms) {
    const WorkerProperties& properties = platform.properties;
    Json costs = Json::array();
    for (const ModelledCost& cost : properties.costs) {
      costs.push_back({{"call", cost.call},
                       {"floor_us", cost.floor_us},
                       {"page_us", cost.page_us},
                       {"huge_page_us", cost.huge_page_us},
                       {"mib_us", cost.mib_us},
                       {"assumed", cost.assumed}});
    }
    list.push_back({{"name", platform.name},
                    {"summary", platform.summary},
                    {"options", platform.options},
                    {"cube_cores", properties.cube_cores},
                    {"vector_cores", properties.vector_cores},
                    {"threads", properties.threads},
                    {"memory_bytes", properties.memory_bytes},
                    {"host_views", properties.host_views},
                    {"host_page_bytes", properties.host_page_bytes},
                    {"costs", std::move(costs)},
                    {"rates", RatesJson(properties.rates)}});
  }
  return list;
}

void PrintPrograms(Output& output, const Programs& programs) {
  size_t width = 0;
  for (const Program* program : programs) {
    for (const Case& kase : program->cases) width = std::max(width, kase.name.size());
    for (const ParamSpec& param : program->params) width = std::max(width, param.name.size() + 2);
  }
  auto row = [&](std::string_view kind, const std::string& name, std::string_view text) {
    return fmt::format("    {}  {:<{}}  {}\n", output.Dim(fmt::format("{:<6}", kind)), name, width,
                       text);
  };
  output.Write("Programs\n");
  for (const Program* program : programs) {
    output.Write(fmt::format("\n  {}  {}\n", output.Bold(program->name), program->summary));
    for (const Case& kase : program->cases) output.Write(row("case", kase.name, kase.summary));
    for (const ParamSpec& param : program->params) {
      std::string text = param.help;
      if (!param.default_value.empty()) text += fmt::format(" [{}]", param.default_value);
      output.Write(row("option", "--" + param.name, text));
    }
  }
}

void PrintPlatforms(Output& output, const std::vector<PlatformInfo>& platforms) {
  constexpr std::string_view format = "  {:<10}{:>6}{:>8}{:>9}{:>12}{:>11}{:>11}\n";
  output.Write("\nPlatforms\n\n");
  output.Write(output.Dim(fmt::format(format, "name", "cube", "vector", "threads", "memory",
                                      "host view", "host page")));
  for (const PlatformInfo& platform : platforms) {
    const WorkerProperties& properties = platform.properties;
    output.Write(fmt::format(format, platform.name, properties.cube_cores, properties.vector_cores,
                             properties.threads, FormatBytes(properties.memory_bytes),
                             properties.host_views ? "yes" : "no",
                             FormatBytes(properties.host_page_bytes)));
  }
  output.Write("\n");
  for (const PlatformInfo& platform : platforms) {
    output.Write(fmt::format("  {:<10}{}\n", platform.name, platform.summary));
    if (!platform.options.empty()) {
      output.Write(fmt::format("  {:<10}options: {}:{}\n", "", platform.name, platform.options));
    }
  }
}

void PrintCosts(Output& output, const std::vector<PlatformInfo>& platforms) {
  constexpr std::string_view format = "  {:<10}{:<17}{:>8}{:>8}{:>11}{:>8}{}\n";
  output.Write("\nModelled driver calls, in us\n\n");
  output.Write(
      output.Dim(fmt::format(format, "platform", "call", "floor", "page", "huge page", "MiB", "")));
  auto us = [](double value) { return value == 0 ? "-" : fmt::format("{:.4g}", value); };
  for (const PlatformInfo& platform : platforms) {
    for (const ModelledCost& cost : platform.properties.costs) {
      output.Write(fmt::format(format, platform.name, cost.call, us(cost.floor_us),
                               us(cost.page_us), us(cost.huge_page_us), us(cost.mib_us),
                               cost.assumed.empty() ? "" : "  assumed: " + cost.assumed));
    }
  }
}

void PrintRates(Output& output, const std::vector<PlatformInfo>& platforms) {
  constexpr std::string_view format = "  {:<10}{:>11}{:>12}{:>13}{:>14}{:>10}{}\n";
  output.Write("\nModelled timeline: what cores do\n\n");
  output.Write(output.Dim(fmt::format(format, "platform", "memory", "of a core", "a cube core",
                                      "a vector core", "dispatch", "")));
  for (const PlatformInfo& platform : platforms) {
    const ChipRates& rates = platform.properties.rates;
    if (rates.bandwidth == 0) continue;
    output.Write(
        fmt::format(format, platform.name, FormatRate(rates.bandwidth, "B"),
                    FormatRate(rates.core_bandwidth, "B"), FormatRate(rates.cube_operations, "op"),
                    FormatRate(rates.vector_operations, "op"),
                    FormatMicroseconds(static_cast<double>(rates.dispatch_ps) / 1e6),
                    rates.assumed.empty() ? "" : fmt::format("  assumed: {}", rates.assumed)));
  }
}

}  // namespace

void ListCommand::Declare(CLI::App& app, const std::vector<std::string>& /*args*/) {
  app.add_flag("--json", json_, "Print one JSON document instead of text");
  app.footer(
      "Examples:\n"
      "  precast list\n"
      "  precast list --json\n"
      "  precast run qwen3 --help        (all about one program)");
}

int ListCommand::Run(Output& output) {
  std::vector<PlatformInfo> platforms = Platforms();
  if (json_) {
    Json json = {{"version", Version()},
                 {"programs", ProgramsJson(programs_)},
                 {"platforms", PlatformsJson(platforms)}};
    output.Write(json.dump(2) + "\n");
  } else {
    PrintPrograms(output, programs_);
    PrintPlatforms(output, platforms);
    PrintCosts(output, platforms);
    PrintRates(output, platforms);
  }
  output.Flush();
  return kSuccess;
}

}  // namespace precast::cli
