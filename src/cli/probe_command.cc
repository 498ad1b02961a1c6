#include "cli/probe_command.h"

#include "base/units.h"
#include "cli/output.h"
#include "worker/probe.h"

#include <precast/error.h>
#include <precast/worker.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = device::ProbeClock;

Json Microseconds(bool there, double us) { return there ? Json(us) : Json(); }

Json ToJson(const Clock::View& view) {
  return {{"bytes", view.bytes},
          {"register_us", Microseconds(view.maps, view.enter.median)},
          {"unregister_us", Microseconds(view.maps, view.leave.median)},
          {"pair_us", Microseconds(view.maps, view.pair.median)},
          {"accesses_to_break_even", view.maps ? Json(view.accesses_to_break_even) : Json()},
          {"register_min_us", Microseconds(view.maps, view.enter.min)},
          {"unregister_min_us", Microseconds(view.maps, view.leave.min)}};
}

Json ToJson(const std::vector<Clock::View>& views) {
  Json list = Json::array();
  for (const Clock::View& view : views) list.push_back(ToJson(view));
  return list;
}

Json ToJson(const std::vector<Clock::Copy>& copies) {
  Json list = Json::array();
  for (const Clock::Copy& copy : copies) {
    list.push_back({{"bytes", copy.bytes}, {"us", copy.us.median}, {"min_us", copy.us.min}});
  }
  return list;
}

Json ToJson(const std::optional<Clock::Fit>& fit) {
  if (!fit) return {};
  return {{"floor_us", fit->floor_us}, {"page_us", fit->page_us}};
}

Json ToJson(const Clock& clock, double budget_us) {
  return {{"host_view", ToJson(clock.views)},
          {"device_copy", ToJson(clock.copies)},
          {"allocate_and_copy", ToJson(clock.allocations)},
          {"fit", {{"ordinary_pages", ToJson(clock.ordinary)}, {"huge_pages", ToJson(clock.huge)}}},
          {"bind",
           {{"rebuild_us", clock.rebuild_us ? Json(*clock.rebuild_us) : Json()},
            {"budget_us", budget_us},
            {"tensors", ToJson(clock.bind_views)}}},
          {"verdict", clock.verdict},
          {"reason", clock.reason}};
}

void PrintFit(Output& output, std::string_view pages, const std::optional<Clock::Fit>& fit) {
  if (!fit) return;
  output.Write(fmt::format("pair, {:<16} floor {:.3g} us, {:.3g} us a page\n", pages, fit->floor_us,
                           fit->page_us));
}

void PrintClock(Output& output, std::string_view name, const Clock& clock, double budget_us) {
  constexpr std::string_view format = "{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}\n";
  output.Write(fmt::format("\n{}, in us\n\n", output.Bold(name)));
  output.Write(output.Dim(fmt::format(format, "host view", "register", "(least)", "unregister",
                                      "(least)", "pair", "break-even")));
  auto row = [&](const Clock::View& view) {
    if (!view.maps) {
      output.Write(fmt::format("{:<12}{:>10}\n", FormatBytes(view.bytes), "refused"));
      return;
    }
    auto us = [](double value) { return fmt::format("{:.3f}", value); };
    output.Write(fmt::format(format, FormatBytes(view.bytes), us(view.enter.median),
                             us(view.enter.min), us(view.leave.median), us(view.leave.min),
                             us(view.pair.median), view.accesses_to_break_even));
  };
  for (const Clock::View& view : clock.views) row(view);
  PrintFit(output, "ordinary pages", clock.ordinary);
  PrintFit(output, "huge pages", clock.huge);
  output.Write("\n");
  for (size_t i = 0; i < clock.copies.size(); ++i) {
    output.Write(
        fmt::format("{:<12}copy to host {:.3f} (least {:.3f}), allocate and copy to it "
                    "{:.3f}\n",
                    FormatBytes(clock.copies[i].bytes), clock.copies[i].us.median,
                    clock.copies[i].us.min, clock.allocations[i].us.median));
  }
  output.Write("\nbind of two tensors\n");
  for (const Clock::View& view : clock.bind_views) row(view);
  output.Write(fmt::format("rebuilt in every run: {}, budget {:.3g}\n",
                           clock.rebuild_us ? fmt::format("{:.3f}", *clock.rebuild_us) : "refused",
                           budget_us));
  output.Write(fmt::format("verdict: {}; {}.\n", output.Bold(clock.verdict), clock.reason));
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
  device::ProbeResult result;
  try {
    result = ProbePlatform(platform_, {.budget_us = budget_us_});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
  if (json_) {
    Json json = {{"platform", platform_},
                 {"wall", ToJson(result.wall, budget_us_)},
                 {"modelled", result.modelled ? ToJson(*result.modelled, budget_us_) : Json()}};
    output.Write(json.dump(2) + "\n");
  } else {
    output.Write(fmt::format("{}\n", output.Bold(platform_)));
    PrintClock(output, "wall clock, measured here", result.wall, budget_us_);
    if (result.modelled) PrintClock(output, "modelled clock", *result.modelled, budget_us_);
  }
  output.Flush();
  return kSuccess;
}

}  // namespace precast::cli
