#include "cli/probe_command.h"

#include "base/units.h"
#include "cli/output.h"
#include "worker/probe.h"

#include <precast/error.h>
#include <precast/worker.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;

void PrintViews(Output& output, const Json& views) {
  for (const Json& view : views) {
    std::string row = fmt::format("{:<12}", FormatBytes(view["bytes"].get<uint64_t>()));
    if (view["pair_us"].is_null()) {
      output.Write(row + "   refused\n");
      continue;
    }
    for (const char* key :
         {"register_us", "register_min_us", "unregister_us", "unregister_min_us", "pair_us"}) {
      row += fmt::format("{:>11.3f}", view[key].get<double>());
    }
    const Json& accesses = view["accesses_to_break_even"];
    output.Write(fmt::format("{}{:>11}\n", row, accesses.is_null() ? "-" : accesses.dump()));
  }
}

void PrintClock(Output& output, std::string_view name, const Json& clock) {
  output.Write(fmt::format("\n{}, in us\n\n", output.Bold(name)));
  output.Write(output.Dim(fmt::format("{:<12}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}\n", "host view",
                                      "register", "(least)", "unregister", "(least)", "pair",
                                      "break-even")));
  PrintViews(output, clock["host_view"]);
  for (const auto& [pages, fit] : clock["fit"].items()) {
    if (fit.is_null()) continue;
    output.Write(fmt::format("{}: floor of a pair {:.3g}, {:.3g} a page\n",
                             pages == "huge_pages" ? "huge pages" : "ordinary pages",
                             fit["floor_us"].get<double>(), fit["page_us"].get<double>()));
  }
  output.Write("\n");
  for (size_t i = 0; i < clock["device_copy"].size(); ++i) {
    const Json& copy = clock["device_copy"][i];
    output.Write(fmt::format(
        "{:<12}copy to host {:.3f} (least {:.3f}), allocate and copy to it "
        "{:.3f}\n",
        FormatBytes(copy["bytes"].get<uint64_t>()), copy["us"].get<double>(),
        copy["min_us"].get<double>(), clock["allocate_and_copy"][i]["us"].get<double>()));
  }
  const Json& bind = clock["bind"];
  output.Write("\nbind of two tensors\n");
  PrintViews(output, bind["tensors"]);
  output.Write(fmt::format("rebuilt in every run: {}, budget {:.3g}\n",
                           bind["rebuild_us"].is_null()
                               ? "refused"
                               : fmt::format("{:.3f}", bind["rebuild_us"].get<double>()),
                           bind["budget_us"].get<double>()));
  output.Write(fmt::format("verdict: {}; {}.\n", output.Bold(clock["verdict"].get<std::string>()),
                           clock["reason"].get<std::string>()));
}

}  // namespace

void ProbeCommand::Declare(CLI::App& app, const std::vector<std::string>& /*args*/) {
  for (const PlatformInfo& platform : Platforms()) {  // the first with something to compare with
    if (platform_.empty() && !platform.properties.costs.empty()) platform_ = platform.name;
  }
  app.add_option("--platform", platform_,
                 fmt::format("Chip to measure, see precast list [{}]", platform_))
      ->type_name("NAME");
  app.add_option("--budget-us", budget_us_,
                 "What a bind may spend on mapping two tensors anew in every run [10]")
      ->type_name("US")
      ->check(CLI::Range(0.0, 1e9).description(""));
  app.add_flag("--json", json_, "Print one JSON document instead of text");
  app.footer(
      "Break-even is the number of accesses in one run from which mapping beats copying.\n"
      "\n"
      "Examples:\n"
      "  precast probe\n"
      "  precast probe --platform a2a3sim:host_page=64k --budget-us 30\n"
      "  precast probe --platform a5sim --json");
}

int ProbeCommand::Run(Output& output) {
  if (std::isnan(budget_us_)) {  // which is in every range
    Fail(ErrorCode::usage, "--budget-us: nan is not in range 0 to 1e9");
  }
  Json json;
  try {
    json = ProbePlatform(platform_, {.budget_us = budget_us_});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
  if (json_) {
    output.Write(json.dump(2) + "\n");
  } else {
    output.Write(fmt::format("{}\n", output.Bold(platform_)));
    PrintClock(output, "wall clock, measured here", json["wall"]);
    if (!json["modelled"].is_null()) PrintClock(output, "modelled clock", json["modelled"]);
  }
  output.Flush();
  return kSuccess;
}

}  // namespace precast::cli
