// precast-bench: measures Precast and its peers side by side. `precast bench` runs it.
#include "graphs/contender.h"
#include "graphs/measure.h"
#include "hostview/hostview.h"
#include "memory/read_bandwidth.h"
#include "replay/replay.h"

#include <precast/trace.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace precast::bench {

void Work(uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; ++i) asm volatile("" ::: "memory");
}

namespace {

struct Options {
  std::vector<uint32_t> sizes = {10'000};
  std::vector<std::string> workloads;
  std::vector<std::string> contenders = {"floor", "precast", "onetbb", "openmp", "starpu"};
  int threads = 2;
  int repetitions = 15;
  uint32_t work = 0;
  bool random_order = false;
  bool json = false;
  std::string trace;  ///< file for a trace of one more repetition; empty: none
};

std::unique_ptr<Contender> MakeContender(const std::string& name, int threads) {
  if (name == "floor") return MakeFloor();
  if (name == "onetbb") return MakeOneTbb(threads);
  if (name == "openmp") return MakeOpenMp(threads);
  if (name == "starpu") return MakeStarPu(threads);
  if (name == "traced") return MakeTracedPrecast(threads, false);
  if (name == "traced_sys") return MakeTracedPrecast(threads, true);
  return MakePrecast(threads);
}

nlohmann::json MeasureGraphs(Suite suite, const std::string& suite_name, const Options& options,
                             Trace* trace) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& name : options.contenders) {
    contenders.push_back(MakeContender(name, options.threads));
  }
  Setting setting{suite, options.threads, options.work};
  double fastest_loop = TimeFixedLoop();
  struct Result {
    std::string name;
    std::string_view contender;
    Row row;
  };
  std::vector<Result> results;
  for (uint32_t size : options.sizes) {
    for (const std::string& workload_name : options.workloads) {
      Workload workload = MakeWorkload(workload_name, size, options.random_order);
      std::vector<Row> rows(contenders.size());
      for (int i = -2; i < options.repetitions; ++i) {  // two to warm up
        for (size_t c = 0; c < contenders.size(); ++c) {
          double before = TimeFixedLoop();
          std::optional<Sample> sample = contenders[c]->Run(workload, setting);
          double after = TimeFixedLoop();
          fastest_loop = std::min({fastest_loop, before, after});
          if (!sample || i < 0) continue;
          rows[c].ns.push_back(sample->ns / workload.tasks);
          rows[c].loops.push_back(std::max(before, after));
          rows[c].bytes_per_task = sample->bytes / workload.tasks;
        }
      }
      if (trace != nullptr) {
        Setting traced = setting;
        traced.trace = trace;
        MakePrecast(options.threads)->Run(workload, traced);
      }
      for (size_t c = 0; c < contenders.size(); ++c) {
        if (rows[c].ns.empty()) continue;
        results.push_back(
            {fmt::format("{}/{}", workload.name, size), contenders[c]->name(), std::move(rows[c])});
      }
    }
  }
  nlohmann::json json = {{"suite", suite_name},
                         {"machine", MachineName()},
                         {"threads", options.threads},
                         {"results", nlohmann::json::array()}};
  for (const Result& result : results) {
    Summary summary = Summarize(result.row, fastest_loop);
    json["results"].push_back({{"name", result.name},
                               {"impl", result.contender},
                               {"ns_per_task", summary.median},
                               {"min_ns_per_task", summary.min},
                               {"bytes_per_task", result.row.bytes_per_task},
                               {"reps", result.row.ns.size()},
                               {"speed", summary.fast ? "fast" : "slow"}});
  }
  return json;
}

void PrintTable(const nlohmann::json& json) {
  fmt::print("{} on {}, {} threads: ns per task\n\n{:<24}{:<10}{:>10}{:>10}{:>12}{:>7}\n",
             json["suite"].get<std::string>(), json["machine"].get<std::string>(),
             json["threads"].get<int>(), "workload/tasks", "impl", "median", "min", "bytes/task",
             "speed");
  std::string last;
  for (const nlohmann::json& r : json["results"]) {
    std::string name = r["name"];
    double bytes = r["bytes_per_task"];
    fmt::print("{:<24}{:<10}{:>10.1f}{:>10.1f}{:>12}{:>7}\n", name == last ? "" : name,
               r["impl"].get<std::string>(), r["ns_per_task"].get<double>(),
               r["min_ns_per_task"].get<double>(), bytes > 0 ? fmt::format("{:.0f}", bytes) : "",
               r["speed"].get<std::string>());
    last = name;
  }
}

/// A document whose results are single values.
void PrintValues(const nlohmann::json& json, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", json.dump());
    return;
  }
  for (const nlohmann::json& r : json["results"]) {
    fmt::print("{:<48}{:>14.3f}  {}\n", r["name"].get<std::string>(), r["value"].get<double>(),
               r["unit"].get<std::string>());
  }
}

int MeasureMemory(size_t mib, const Options& options) {
  std::vector<ReadBandwidth> rows =
      MeasureReadBandwidth(mib << 20, options.threads, options.repetitions);
  nlohmann::json json = {
      {"suite", "memory"}, {"machine", MachineName()}, {"results", nlohmann::json::array()}};
  if (!options.json) {
    fmt::print("memory on {}: GB/s read\n\n{:<8}{:<8}{:>10}{:>10}\n", MachineName(), "threads",
               "pages", "median", "max");
  }
  for (const ReadBandwidth& row : rows) {
    const char* pages = row.huge_pages ? "huge" : "small";
    json["results"].push_back({{"name", "read"},
                               {"threads", row.threads},
                               {"pages", pages},
                               {"gb_per_s", row.gb_per_s},
                               {"max_gb_per_s", row.max_gb_per_s}});
    if (!options.json) {
      fmt::print("{:<8}{:<8}{:>10.1f}{:>10.1f}\n", row.threads, pages, row.gb_per_s,
                 row.max_gb_per_s);
    }
  }
  if (options.json) fmt::print("{}\n", json.dump());
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Measures building and executing graphs, beside other runtimes in the same process, and how "
      "fast this machine reads memory",
      "precast bench");
  app.require_subcommand(1);
  Options options;
  for (std::string_view name : WorkloadNames()) options.workloads.emplace_back(name);
  std::vector<std::string> workload_names = options.workloads, contender_names = options.contenders;
  contender_names.insert(contender_names.end(), {"traced", "traced_sys"});
  int processors = static_cast<int>(std::thread::hardware_concurrency());
  options.threads = processors;

  auto add_common_options = [&](CLI::App* suite) {
    suite->add_option("--threads", options.threads, "That execute")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    suite->add_option("--reps", options.repetitions, "Repetitions, interleaved")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    suite->add_flag("--json", options.json, "One JSON document on standard output");
  };
  auto add_trace_option = [&](CLI::App* suite) {
    suite
        ->add_option("--trace", options.trace,
                     "Run Precast once more, recording when everything happens")
        ->type_name("FILE");
  };
  auto add_graph_suite = [&](const std::string& name, const std::string& what) {
    CLI::App* suite = app.add_subcommand(name, what);
    suite->add_option("--n", options.sizes, "Tasks; several sizes may be given")
        ->delimiter(',')
        ->check(CLI::Range(1, 20'000'000))
        ->capture_default_str();
    suite->add_option("--workload", options.workloads, "Graphs")
        ->delimiter(',')
        ->check(CLI::IsMember(workload_names));
    suite->add_option("--impl", options.contenders, "Who takes part")
        ->delimiter(',')
        ->check(CLI::IsMember(contender_names));
    add_common_options(suite);
    suite->add_option("--work", options.work, "Rounds of a loop in each task, near 1 ns each")
        ->capture_default_str();
    suite
        ->add_option_function<std::string>(
            "--order", [&](const std::string& order) { options.random_order = order == "random"; },
            "Of the tiles: rows or random")
        ->check(CLI::IsMember({"rows", "random"}));
    add_trace_option(suite);
    return suite;
  };
  std::vector<std::pair<CLI::App*, Suite>> suites = {
      {add_graph_suite("submit", "Building graphs"), Suite::submit},
      {add_graph_suite("execute", "Executing a graph for the first time"), Suite::execute},
      {add_graph_suite("run", "All of a run: build, send, execute, release"), Suite::run}};
  CLI::App* host_views = app.add_subcommand("hostview", "What orchestrations pay for device data");
  host_views->add_flag("--json", options.json, "One JSON document on standard output");
  CLI::App* replay = app.add_subcommand("replay", "Recording graphs and replaying them");
  add_common_options(replay);
  add_trace_option(replay);
  CLI::App* pipeline = app.add_subcommand("pipeline", "Binding a run while another executes");
  add_common_options(pipeline);
  add_trace_option(pipeline);
  size_t mib = 1024;
  CLI::App* memory = app.add_subcommand("memory", "How fast this machine reads memory");
  memory->add_option("--mib", mib, "Size of the array; far more than the caches hold")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  add_common_options(memory);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  Trace collected;
  Trace* trace = options.trace.empty() ? nullptr : &collected;
  std::optional<TraceFile> trace_file;
  if (trace != nullptr) trace_file.emplace(options.trace);

  if (host_views->parsed()) PrintValues(MeasureHostViews(), options.json);
  if (replay->parsed()) {
    PrintValues(MeasureReplay(options.threads, options.repetitions, trace), options.json);
  }
  if (pipeline->parsed()) {
    PrintValues(MeasurePipeline(options.threads, options.repetitions, trace), options.json);
  }
  if (memory->parsed()) return MeasureMemory(mib, options);
  for (auto& [command, suite] : suites) {
    if (!command->parsed()) continue;
    nlohmann::json json = MeasureGraphs(suite, command->get_name(), options, trace);
    if (options.json) {
      fmt::print("{}\n", json.dump());
    } else {
      PrintTable(json);
    }
  }
  if (trace_file) trace_file->Write(collected);
  return 0;
}

}  // namespace
}  // namespace precast::bench

int main(int argc, char** argv) {
  try {
    return precast::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "precast bench: {}\n", error.what());
    return 1;
  }
}
