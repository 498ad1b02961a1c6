#include "cli/run_command.h"

#include "base/log.h"
#include "cli/crash_handler.h"
#include "cli/interruption.h"
#include "cli/job_report.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/timeline_output.h"

#include <precast/error.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string_view>
#include <utility>

namespace precast::cli {
namespace {

constexpr std::string_view kExamples =
    "Examples:\n"
    "  precast run vector_add\n"
    "  precast run paged_attention --platform a2a3sim --case ragged --rounds 5\n"
    "  precast run qwen3 --prompt \"ROMEO:\" --tokens 100\n"
    "  precast run bgemm --set m=100 --threads 1 --report json\n"
    "  precast run ./my_program.so\n"
    "\n"
    "Exit code: 0 when all went well; 1 when the run or its golden check failed, or a file is\n"
    "damaged or not of its kind; 2 when what was asked makes no sense: an unknown name, a bad\n"
    "value, a file that is not there. With --report json standard output is one document; a run\n"
    "that failed has {\"error\":{\"code\",\"message\"}} in it. After exit code 2 standard output "
    "is\n"
    "empty.";

/// What ran before the failure; that one is what the user has to see first.
void WriteTraceOfFailure(const Trace& trace, std::optional<TraceFile>& file, const Log& log) {
  if (!file) return;
  try {
    file->Write(trace);
  } catch (const Error& error) {
    log.Error("{}", error.message());
  }
}

}  // namespace

void RunCommand::Declare(CLI::App& app, const std::vector<std::string>& args) {
  program_.Declare(app);
  app.add_option("--rounds", rounds_, "How many runs [as many as the case wants]")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""));
  app.add_option("--threads", threads_,
                 "Threads that execute kernels, 1 to 256 [0: one per processor]")
      ->type_name("N")
      ->check(CLI::Range(0, 256).description(""));
  app.add_option("--heap", heap_,
                 "Device memory for tensors made by a run, such as 64K or 1G [256M]")
      ->type_name("BYTES");
  AddChoice(app, "--report", report_, {"table", "json", "none"}, "How to report:");
  AddChoice(app, "--golden", golden_, {"check", "skip"}, "Compare with the reference:");
  app.add_flag("--skip-device-run", skip_device_run_,
               "Build and send the graph, execute nothing; implies --golden skip");
  AddChoice(app, "--host-views", host_views_, {"cache", "rebuild", "copy"},
            "How to read device memory:");
  app.add_option("--host-view-budget", host_view_budget_,
                 "Device memory mapped for that at a time [1G]")
      ->type_name("BYTES");
  app.add_option("--definition-budget", definition_budget_,
                 "Recorded graphs that are kept, in bytes [256M]")
      ->type_name("BYTES");
  app.add_option("--variant-limit", variant_limit_,
                 "Recordings of one graph, past which a run warns [64]")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""));
  app.add_flag("--verify-replays", verify_replays_, "Record every replay again and compare");
  AddChoice(app, "--upload", upload_, {"one", "per-submission"}, "How graphs reach the device:");
  app.add_option("--trace", trace_path_,
                 "Record when everything happens, for ui.perfetto.dev [no trace]")
      ->type_name("FILE");
  app.add_option("--trace-buffer", trace_buffer_,
                 "Memory for what the device records in one run [256M]")
      ->type_name("BYTES");
  app.add_flag("--oracle", oracle_, "Run tasks one by one in the order of submission");
  AddChoice(app, "--timeline", timeline_, {"none", "model"},
            "Model the chip's timeline, execute nothing:");
  app.add_option("--timeline-out", timeline_out_, "Write that as a trace for ui.perfetto.dev")
      ->type_name("FILE");
  AddChoice(app, "--log-level", log_level_, {"trace", "debug", "info", "warn", "error", "off"},
            "Messages to show:");
  program_.DeclareProgram(app, args, kExamples);
}

void RunCommand::CheckTimeline() const {
  if (!modelled()) {
    if (timeline_out_.empty()) return;
    Fail(ErrorCode::usage, "--timeline-out {}: needs --timeline model", timeline_out_);
  }
  if (oracle_) Fail(ErrorCode::usage, "--oracle executes tasks, and --timeline model doesn't");
}

/// The chip that a worker simulates.
view::Chip ModelledChip(const Worker& worker) {
  WorkerProperties properties = worker.properties();
  if (properties.rates.bandwidth == 0) {
    std::vector<std::string> names;
    for (const PlatformInfo& platform : Platforms()) {
      if (platform.properties.rates.bandwidth > 0) names.push_back(platform.name);
    }
    Fail(ErrorCode::usage, "--timeline model: platform '{}' is no modelled chip; allowed: {}",
         properties.platform, fmt::join(names, ", "));
  }
  return {static_cast<uint32_t>(properties.cube_cores),
          static_cast<uint32_t>(properties.vector_cores), properties.rates};
}

void RunCommand::RunOn(Worker& worker, const Case& kase, const Params& params, Output& output,
                       const Log& log, Interruption& interruption, Trace* trace,
                       JobResult& result) const {
  Progress progress(true);
  JobOptions options;
  options.rounds = rounds_;
  options.golden = golden_ == "check";
  options.run.skip_device_run = skip_device_run_ || modelled();
  options.run.oracle = oracle_;
  options.run.verify_replays = verify_replays_;
  options.run.trace = trace;
  if (!json()) {
    options.stream = [&](std::string_view text) {
      // Where both go to one terminal, the text itself is the progress.
      if (output.is_terminal()) progress.Stop();
      auto lock = interruption.Lock();
      output.WriteNow(text);
    };
  }
  RunJob(worker, worker.load(program_.program()), kase, params, options, progress, log,
         &interruption, result);
}

void RunCommand::Print(Output& output, const JobNames& names, const JobResult& result,
                       const ModelledRun* modelled) const {
  if (json()) {
    output.Write(
        JsonDocument(names, result, modelled ? TimelineJson(*modelled) : nlohmann::ordered_json()));
  }
  if (report_ == "table") {
    PrintTable(output, names, result);
    if (modelled) PrintTimeline(output, *modelled);
  }
  output.EndLine();
  output.Flush();
}

WorkerOptions RunCommand::Options() const {
  return {.threads = threads_,
          .heap = ParseBytesOf("--heap", heap_),
          .host_views = host_views_ == "copy"      ? HostViewPolicy::copy
                        : host_views_ == "rebuild" ? HostViewPolicy::rebuild
                                                   : HostViewPolicy::cache,
          .host_view_budget = ParseBytesOf("--host-view-budget", host_view_budget_),
          .definition_budget = ParseBytesOf("--definition-budget", definition_budget_),
          .variant_limit = variant_limit_,
          .upload = upload_ == "one" ? UploadMode::one : UploadMode::per_submission,
          .log_level = log_level_};
}

void RunCommand::Check() {
  CheckTimeline();
  if (program_.load_error()) return;  // the failure of a run, which has a report
  program_.FindCase();
  program_.MakeParams();
  Options();
  ParseBytesOf("--trace-buffer", trace_buffer_);
}

int RunCommand::Run(Output& output) {
  if (const auto& error = program_.load_error(); error && json()) {
    output.WriteNow(
        JsonDocument({program_.program_name(), program_.case_name(), program_.platform()}, *error));
  }
  const Program& program = program_.program();
  const Case& kase = program_.FindCase();
  Params params = program_.MakeParams();
  WorkerOptions options = Options();
  JobNames names{program.name, kase.name, program_.platform()};
  if (oracle_) names.execution = "oracle";
  if (skip_device_run_ || modelled()) names.execution = "skipped";
  Log log(ParseLogLevel(log_level_));
  JobResult result;
  Interruption interruption([&](std::string_view signal) {
    result.interrupted = signal;
    Print(output, names, result, nullptr);
  });
  CrashHandler crash_handler;
  Trace trace({.buffer = ParseBytesOf("--trace-buffer", trace_buffer_)});
  try {
    std::unique_ptr<Worker> worker = program_.MakeWorker(options);
    std::optional<TraceFile> file;
    if (!trace_path_.empty()) file.emplace(trace_path_);
    ModelledRun last;
    if (modelled()) {
      last.report.chip = ModelledChip(*worker);
      view::ModelRuns(*worker, [&](view::RunModel model) { last.model = std::move(model); });
    }
    try {
      RunOn(*worker, kase, params, output, log, interruption, file ? &trace : nullptr, result);
    } catch (const Error&) {
      WriteTraceOfFailure(trace, file, log);
      throw;
    }
    if (file) file->Write(trace);
    if (modelled()) {
      last.round = result.rounds.size();
      last.report = view::ReportTimeline(last.model, last.report.chip);
      if (!timeline_out_.empty()) WriteTimelineTrace(last, timeline_out_);
    }
    auto lock = interruption.Lock();
    Print(output, names, result, modelled() ? &last : nullptr);
    if (report_ == "table" && file) {
      output.Write(fmt::format("trace: {}; ui.perfetto.dev shows it\n", file->path()));
      output.Flush();
    }
    if (!result.golden || result.golden->pass || result.golden->skipped) return kSuccess;
    bool seen = report_ == "table" && output.is_terminal();
    if (!seen) log.Error("the results differ from the reference: {}", result.golden->detail);
    return kFailure;
  } catch (const Error& error) {
    // Something that reads a document gets one.
    if (json() && error.code() != ErrorCode::usage && !output.failed()) {
      auto lock = interruption.Lock();
      output.WriteNow(JsonDocument(names, error));
    }
    throw;
  }
}

}  // namespace precast::cli
