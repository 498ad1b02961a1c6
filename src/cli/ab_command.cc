#include "cli/ab_command.h"

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/subprocess.h"

#include <precast/error.h>
#include <precast/report.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;

// What a side's options may not say: it is said for both.
constexpr std::string_view kOwnOptions[] = {"--case", "--rounds", "--report", "--help", "-h"};

// In words: "the last line of what a failed process said", without what frames it.
std::string Reason(const SubprocessResult& result) {
  std::string reason = result.err;
  while (!reason.empty() && reason.back() == '\n') reason.pop_back();
  constexpr std::string_view kPrefix = "precast: ";
  if (reason.starts_with(kPrefix)) reason.erase(0, kPrefix.size());
  if (size_t hint = reason.rfind(". See precast "); hint != std::string::npos) reason.resize(hint);
  return reason.empty() ? fmt::format("exit code {}", result.exit_code) : reason;
}

// Name and microseconds of what is compared, of one round.
std::vector<std::pair<std::string, double>> Quantities(const Json& round, std::string_view clock) {
  std::string key = fmt::format("{}_us", clock);
  std::vector<std::pair<std::string, double>> result;
  double sum = 0, control_plane = 0;
  for (size_t i = 0; i < kPhases; ++i) {
    auto phase = static_cast<Phase>(i);
    double us = round.at("phases").at(std::string(Name(phase))).value(key, 0.0);
    result.emplace_back(Name(phase), us);
    sum += us;
    bool control =
        phase == Phase::host_orch || phase == Phase::graph_upload || phase == Phase::arena_h2d;
    if (control) control_plane += us;
  }
  result.emplace_back("control_plane", control_plane);
  result.emplace_back("total", clock == "wall" ? round.at("total_us").get<double>() : sum);
  return result;
}

// Seven characters or fewer.
std::string Figure(const Json& us) {
  double value = us.get<double>();
  return fmt::format("{:.{}f}", value, value < 100 ? 3 : value < 10'000 ? 1 : 0);
}

}  // namespace

void AbCommand::Declare(CLI::App& app, const std::vector<std::string>& /*args*/) {
  app.add_option("PROGRAM", program_, "As for precast run")->type_name("");
  app.add_option("--case", case_name_, "Inputs to run with [the program's first case]")
      ->type_name("NAME");
  for (size_t i = 0; i < sides_.size(); ++i) {
    std::string letter = i == 0 ? "a" : "b";
    const char* label = sides_[i].label;
    auto set = [this, i](std::string Side::*member) {
      return [this, i, member](const std::string& value) {
        sides_[i].*member = value;
        sides_[i].given = true;
      };
    };
    app.add_option_function<std::string>(
           "--" + letter, set(&Side::options),
           fmt::format("Options of precast run for {}, as one argument", label))
        ->type_name("\"OPTIONS\"");
    app.add_option_function<std::string>("--bin-" + letter, set(&Side::binary),
                                         fmt::format("The precast that is {} [this one]", label))
        ->type_name("PATH");
  }
  app.add_option("--segments", segments_, "Processes on each side, in turns [10]")
      ->type_name("N")
      ->check(CLI::Range(2, 10'000).description(""));
  app.add_option("--rounds", rounds_, "Rounds of each; the first is a warm-up [5]")
      ->type_name("N")
      ->check(CLI::Range(2, 1'000'000).description(""));
  app.add_option("--trim", trim_, "Rounds that the mean leaves out at either end [a quarter]")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000).description(""));
  app.add_flag("--json", json_, "Print one JSON document instead of tables");
  app.footer(
      "A difference counts when all pairs of segments agree on its sign; else it is \"not "
      "resolved\".\n"
      "Results are checked in the first segment of each side.\n"
      "\n"
      "Examples:\n"
      "  precast ab vector_add --a \"--platform a2a3sim\" --b \"--platform a5sim\"\n"
      "  precast ab paged_attention --case small1 --a \"--threads 1\" --b \"--threads 2\"\n"
      "  precast ab bgemm --bin-a ../before/precast --bin-b build/release/bin/precast --json");
}

void AbCommand::Check() {
  if (program_.empty())
    Fail(ErrorCode::usage, "name a program: one of precast list, or the path of a .so");
  if (!sides_[0].given && !sides_[1].given) {
    Fail(ErrorCode::usage, "say what A and B are: --a and --b, or --bin-a and --bin-b");
  }
  int values = segments_ * (rounds_ - 1);
  if (trim_ < 0) trim_ = values / 4;
  if (2 * trim_ >= values) {
    Fail(
        ErrorCode::usage,
        "--trim {}: leaves nothing of {} segments of {} rounds without the first; allowed: at most "
        "{}",
        trim_, segments_, rounds_, (values - 1) / 2);
  }
  for (Side& side : sides_) {
    side.words = {side.binary.empty() ? OwnPath() : side.binary, "run", program_};
    if (!case_name_.empty()) side.words.insert(side.words.end(), {"--case", case_name_});
    for (std::string& word : CLI::detail::split_up(side.options)) {
      CLI::detail::remove_quotes(word);
      std::string_view option = std::string_view(word).substr(0, word.find('='));
      if (std::find(std::begin(kOwnOptions), std::end(kOwnOptions), option) !=
          std::end(kOwnOptions)) {
        Fail(ErrorCode::usage, "{} has the option {}; precast ab gives that to both sides itself",
             side.label, option);
      }
      side.words.push_back(std::move(word));
    }
  }
}

/// The document of one process.
Json AbCommand::Measure(const Side& side, bool golden) const {
  std::vector<std::string> words = side.words;
  words.insert(words.end(), {"--report", "json", "--rounds", std::to_string(rounds_)});
  if (!golden) words.insert(words.end(), {"--golden", "skip"});
  SubprocessResult result;
  try {
    result = RunSubprocess(std::move(words));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
  if (result.exit_code == kUsage) Fail(ErrorCode::usage, "{}: {}", side.label, Reason(result));
  if (result.exit_code != kSuccess) {
    Fail(ErrorCode::internal, "{} failed: {}", side.label, Reason(result));
  }
  Json document = Json::parse(result.out, nullptr, false);
  if (document.is_discarded() || !document.contains("rounds")) {
    Fail(ErrorCode::bad_file, "{}: {} run printed no report in JSON", side.label, side.words[0]);
  }
  if (document["rounds"].size() != static_cast<size_t>(rounds_)) {
    Fail(ErrorCode::usage, "{} ran {} rounds of {}: its case has no more", side.label,
         document["rounds"].size(), rounds_);
  }
  return document;
}

void AbCommand::Collect(const Json& document, size_t side) {
  found_program_ = document.at("program").get<std::string>();
  found_case_ = document.at("case").get<std::string>();
  found_platform_[side] = document.at("platform").get<std::string>();
  const Json& rounds = document["rounds"];
  control_copies_[side] = rounds.back().at("copies").at("control").get<uint64_t>();
  const Json& phases = rounds.back().at("phases");
  control_bytes_[side] = 0;
  for (const char* phase : {"graph_upload", "arena_h2d"}) {
    control_bytes_[side] += phases.at(phase).at("bytes").get<uint64_t>();
  }
  bool first_round = true;
  for (const Json& round : rounds) {
    if (std::exchange(first_round, false)) continue;  // the warm-up
    size_t line = 0;
    for (const char* clock : {"wall", "modelled"}) {
      for (auto& [name, us] : Quantities(round, clock)) {
        if (line == lines_.size()) lines_.push_back({std::move(name), clock, {}});
        Segments& segments = lines_[line++].values[side];
        if (&round == &rounds[1]) segments.emplace_back();
        segments.back().push_back(us);
      }
    }
  }
}

Json AbCommand::Document() const {
  Json document = {{"program", found_program_}, {"case", found_case_}, {"segments", segments_},
                   {"rounds", rounds_},         {"trim", trim_},       {"sides", Json::array()},
                   {"lines", Json::array()}};
  for (size_t i = 0; i < sides_.size(); ++i) {
    const Side& side = sides_[i];
    document["sides"].push_back({{"name", side.label},
                                 {"binary", side.binary},
                                 {"options", side.options},
                                 {"platform", found_platform_[i]},
                                 {"control_copies", control_copies_[i]},
                                 {"control_bytes", control_bytes_[i]}});
  }
  auto figures = [](const Summary& summary) {
    return Json{{"trimmed_mean_us", summary.trimmed_mean},
                {"median_us", summary.median},
                {"min_us", summary.min}};
  };
  for (const Line& line : lines_) {
    Comparison comparison = Compare(line.values[0], line.values[1], static_cast<size_t>(trim_));
    document["lines"].push_back({{"name", line.name},
                                 {"clock", line.clock},
                                 {"a", figures(comparison.a)},
                                 {"b", figures(comparison.b)},
                                 {"segments_a_ahead", comparison.a_ahead},
                                 {"segments_b_ahead", comparison.b_ahead},
                                 {"verdict", ToString(comparison)}});
  }
  return document;
}

void AbCommand::PrintTable(Output& output, const Json& document) const {
  output.Write(
      fmt::format("{}, case {}: {} segments a side, {} rounds each after a warm-up, {} "
                  "trimmed at either end\n",
                  output.Bold(found_program_), found_case_, segments_, rounds_ - 1, trim_));
  for (const Json& side : document["sides"]) {
    std::string what = side["binary"].get<std::string>();
    if (const auto& options = side["options"].get<std::string>(); !options.empty()) {
      what += (what.empty() ? "" : " ") + options;
    }
    output.Write(fmt::format("{}: {}; {}, {} control copies of {} bytes\n",
                             side["name"].get<std::string>(), what.empty() ? "as it is" : what,
                             side["platform"].get<std::string>(), side["control_copies"].dump(),
                             side["control_bytes"].dump()));
  }
  std::string clock;
  for (const Json& line : document["lines"]) {
    if (line["clock"] != clock) {
      clock = line["clock"].get<std::string>();
      auto zero = [&](const Json& other) {
        return other["clock"] != clock ||
               (other["a"]["trimmed_mean_us"] == 0.0 && other["b"]["trimmed_mean_us"] == 0.0);
      };
      if (std::all_of(document["lines"].begin(), document["lines"].end(), zero)) break;
      output.Write("\n" + output.Dim(fmt::format("{:<15}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}\n",
                                                 clock + ", us", "A mean", "median", "least",
                                                 "B mean", "median", "least", "ahead")));
    }
    std::string row = fmt::format("{:<15}", line["name"].get<std::string>());
    for (const char* side : {"a", "b"}) {
      for (const char* figure : {"trimmed_mean_us", "median_us", "min_us"}) {
        row += fmt::format("{:>9}", Figure(line[side][figure]));
      }
    }
    std::string ahead =
        fmt::format("{}:{}", line["segments_a_ahead"].dump(), line["segments_b_ahead"].dump());
    std::string verdict = line["verdict"].get<std::string>();
    if (verdict.find("faster") != std::string::npos) verdict = output.Bold(verdict);
    output.Write(fmt::format("{}{:>8}  {}\n", row, ahead, verdict));
  }
}

int AbCommand::Run(Output& output) {
  {
    Progress progress(true);
    for (int segment = 0; segment < segments_; ++segment) {
      for (size_t turn = 0; turn < sides_.size(); ++turn) {
        // Who goes first alternates too, so that going first is no advantage.
        size_t side = segment % 2 == 0 ? turn : 1 - turn;
        progress.Show(
            fmt::format("segment {} of {}, {}", segment + 1, segments_, sides_[side].label));
        Collect(Measure(sides_[side], segment == 0), side);
      }
    }
  }
  Json document = Document();
  if (json_) {
    // Paths and options need not be UTF-8.
    output.Write(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    PrintTable(output, document);
  }
  output.Flush();
  return kSuccess;
}

}  // namespace precast::cli
