#include "cli/doctor_command.h"

#include "base/current_error.h"
#include "base/units.h"
#include "cli/machine.h"
#include "cli/output.h"

#include <precast/precast.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <string_view>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;

PRECAST_KERNEL(triple, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<const int32_t>(0);
  auto y = k.tensor<int32_t>(1);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 3 * x[i];
}

/// A worker, device memory, and a run of one task.
void Exercise(const std::string& platform) {
  Worker worker({.platform = platform});
  std::array<int32_t, 1024> x, y{};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i);
  Tensor device = worker.malloc({1024}, DType::i32);
  worker.copy_to(device, x);
  worker.run(
      [](Orchestrator& o, const Args& args) {
        o.submit(triple, {in(args.tensor(0)), out(args.tensor(1))});
      },
      {in(device), out(y)});
  worker.free(device);
  for (size_t i = 0; i < x.size(); ++i) {
    if (y[i] != 3 * x[i]) {
      Fail(ErrorCode::internal, "a task that triples gave {} for {}", y[i], x[i]);
    }
  }
}

Json PlatformsJson() {
  Json platforms = Json::array();
  for (const PlatformInfo& platform : Platforms()) {
    Json json = {{"name", platform.name}, {"works", true}};
    try {
      Exercise(platform.name);
    } catch (...) {
      Error error = CurrentError(ErrorCode::internal, "");
      json["works"] = false;
      json["error"] = {{"code", Name(error.code())}, {"message", error.message()}};
    }
    platforms.push_back(std::move(json));
  }
  return platforms;
}

/// What makes runs slow here, or platforms fail.
Json AdviceJson(const Json& machine, const Json& limits, bool all_work) {
  Json advice = Json::array();
  if (!all_work && limits["address_space_bytes"].is_number()) {
    uint64_t most = 0;
    for (const PlatformInfo& platform : Platforms()) {
      most = std::max(most, platform.properties.memory_bytes);
    }
    advice.push_back(fmt::format(
        "the address space is limited to {} (ulimit -v): a simulated chip reserves up to {} of it "
        "twice, and uses no memory for that",
        FormatBytes(limits["address_space_bytes"].get<uint64_t>()), FormatBytes(most)));
  }
  if (!all_work && limits["file_bytes"].is_number()) {
    advice.push_back(fmt::format(
        "files are limited to {} (ulimit -f): every platform keeps its memory in a sparse file",
        FormatBytes(limits["file_bytes"].get<uint64_t>())));
  }
  if (machine["memory_files"] != "yes") {
    advice.push_back(
        fmt::format("memfd_create is refused ({}): every platform keeps its memory in such a file",
                    machine["memory_files"].get<std::string>()));
  }
  if (!machine["clock_source"].is_null() && machine["clock_source"] != "tsc" &&
      machine["clock_source"] != "arch_sys_counter") {
    advice.push_back(fmt::format("reading the clock '{}' is a system call: measuring slows runs",
                                 machine["clock_source"].get<std::string>()));
  }
  if (machine["usable_cores"].is_number() && machine["usable_cores"] < machine["cores"]) {
    advice.push_back(fmt::format("the process may use {} of {} cores",
                                 machine["usable_cores"].get<int>(), machine["cores"].get<int>()));
  }
  return advice;
}

std::string Bytes(const Json& bytes) {
  return bytes.is_null() ? "unlimited" : FormatBytes(bytes.get<uint64_t>());
}

std::string Count(const Json& count) {
  return count.is_null() ? "unlimited" : FormatCount(count.get<uint64_t>());
}

/// Lines of at most 98 columns, those after the first indented.
std::string Folded(const std::string& text, size_t indent) {
  std::istringstream words(text);
  std::string folded;
  size_t column = indent;
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > 98) {
      folded += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      folded += ' ';
      ++column;
    }
    folded += word;
    column += word.size();
  }
  return folded;
}

std::string Text(const Json& text) { return text.is_null() ? "unknown" : text.get<std::string>(); }

void Print(Output& output, const Json& json) {
  auto row = [&](std::string_view name, const std::string& text) {
    output.Write(
        fmt::format("  {}{}\n", output.Dim(fmt::format("{:<15}", name)), Folded(text, 17)));
  };
  const Json &machine = json["machine"], &limits = json["limits"];
  output.Write(fmt::format("precast {}\n\n{}\n", json["version"].get<std::string>(),
                           output.Bold("Machine")));
  row("system", Text(machine["system"]));
  row("processor", Text(machine["processor"]));
  std::string features;
  for (const Json& feature : machine["features"]) features += " " + feature.get<std::string>();
  row("features", features.empty() ? "none of those looked for" : features.substr(1));
  std::string quota = machine["cpu_quota"].is_null()
                          ? ""
                          : fmt::format(", time of {:.3g}", machine["cpu_quota"].get<double>());
  row("cores", fmt::format("{} of {} usable{}", Count(machine["usable_cores"]),
                           Count(machine["cores"]), quota));
  row("clock", Text(machine["clock_source"]) +
                   (machine["invariant_clock"].get<bool>() ? ", invariant" : ", not invariant"));
  row("memory", fmt::format("{}, {} available", Bytes(machine["memory_bytes"]),
                            Bytes(machine["available_bytes"])));
  row("huge pages", fmt::format("{}; for shared memory {}", Text(machine["huge_pages"]),
                                Text(machine["huge_pages_shared"])));
  row("memory files", machine["memory_files"].get<std::string>());
  output.Write("\n" + output.Bold("Limits of this process") + "\n");
  row("address space", Bytes(limits["address_space_bytes"]));
  row("locked memory", Bytes(limits["locked_bytes"]));
  row("open files", Count(limits["open_files"]));
  row("threads", Count(limits["threads"]));
  row("size of a file", Bytes(limits["file_bytes"]));
  std::string libraries;
  for (const auto& [name, version] : json["libraries"].items()) {
    libraries += fmt::format(", {} {}", name, version.get<std::string>());
  }
  output.Write(fmt::format("\n{}\n  {}\n\n{}\n", output.Bold("Libraries"), libraries.substr(2),
                           output.Bold("Platforms")));
  for (const Json& platform : json["platforms"]) {
    row(platform["name"].get<std::string>(),
        platform["works"].get<bool>()
            ? output.Green("works")
            : output.Red("does not work") + ": " + platform["error"]["message"].get<std::string>());
  }
  for (const Json& advice : json["advice"]) {
    output.Write("\n" + output.Yellow("note: ") + Folded(advice.get<std::string>(), 6) + "\n");
  }
}

}  // namespace

void DoctorCommand::Declare(CLI::App& app, const std::vector<std::string>& /*args*/) {
  app.add_flag("--json", json_, "Print one JSON document instead of text");
  app.footer(
      "Makes a worker on each platform and runs one task there. Exit code: 0 when all of them\n"
      "work, 1 when one does not.\n"
      "\n"
      "Examples:\n"
      "  precast doctor\n"
      "  precast doctor --json");
}

int DoctorCommand::Run(Output& output) {
  Json platforms = PlatformsJson();
  bool all_work = true;
  for (const Json& platform : platforms) all_work = all_work && platform["works"].get<bool>();
  Json machine = MachineJson(), limits = LimitsJson();
  Json advice = AdviceJson(machine, limits, all_work);
  Json json = {{"version", Version()},
               {"machine", std::move(machine)},
               {"limits", std::move(limits)},
               {"libraries", LibrariesJson()},
               {"platforms", std::move(platforms)},
               {"advice", std::move(advice)}};
  if (json_) {
    output.Write(json.dump(2) + "\n");
  } else {
    Print(output, json);
  }
  output.Flush();
  return all_work ? kSuccess : kFailure;
}

}  // namespace precast::cli
