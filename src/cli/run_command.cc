#include "cli/run_command.h"

#include "base/log.h"
#include "cli/job_report.h"
#include "cli/output.h"
#include "cli/progress.h"

#include <precast/error.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <string_view>

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
  app.add_flag("--verify-replays", verify_replays_, "Record every replay again and compare");
  AddChoice(app, "--upload", upload_, {"one", "per-submission"}, "How graphs reach the device:");
  app.add_option("--trace", trace_path_,
                 "Record when everything happens, for ui.perfetto.dev [no trace]")
      ->type_name("FILE");
  app.add_option("--trace-buffer", trace_buffer_,
                 "Memory for what the device records in one run [256M]")
      ->type_name("BYTES");
  app.add_flag("--oracle", oracle_, "Run tasks one by one in the order of submission");
  AddChoice(app, "--log-level", log_level_, {"trace", "debug", "info", "warn", "error", "off"},
            "Messages to show:");
  program_.DeclareProgram(app, args, kExamples);
}

JobResult RunCommand::RunOn(Worker& worker, const Case& kase, const Params& params, Output& output,
                            const Log& log, Trace* trace) const {
  Progress progress(true);
  JobOptions options;
  options.rounds = rounds_;
  options.golden = golden_ == "check";
  options.run.skip_device_run = skip_device_run_;
  options.run.oracle = oracle_;
  options.run.verify_replays = verify_replays_;
  options.run.trace = trace;
  if (!json()) {
    options.stream = [&](std::string_view text) {
      // Where both go to one terminal, the text itself is the progress.
      if (output.is_terminal()) progress.Stop();
      output.WriteNow(text);
    };
  }
  return RunJob(worker, worker.load(program_.program()), kase, params, options, progress, log);
}

int RunCommand::Run(Output& output) {
  if (const auto& error = program_.load_error(); error && json()) {
    output.WriteNow(
        JsonDocument({program_.program_name(), program_.case_name(), program_.platform()}, *error));
  }
  const Program& program = program_.program();
  const Case& kase = program_.FindCase();
  Params params = program_.MakeParams();
  WorkerOptions options{
      .threads = threads_,
      .heap = ParseBytesOf("--heap", heap_),
      .host_views = host_views_ == "copy"      ? HostViewPolicy::copy
                    : host_views_ == "rebuild" ? HostViewPolicy::rebuild
                                               : HostViewPolicy::cache,
      .host_view_budget = ParseBytesOf("--host-view-budget", host_view_budget_),
      .definition_budget = ParseBytesOf("--definition-budget", definition_budget_),
      .upload = upload_ == "one" ? UploadMode::one : UploadMode::per_submission,
      .log_level = log_level_};
  JobNames names{program.name, kase.name, program_.platform()};
  if (oracle_) names.execution = "oracle";
  if (skip_device_run_) names.execution = "skipped";
  Log log(ParseLogLevel(log_level_));
  Trace trace({.buffer = ParseBytesOf("--trace-buffer", trace_buffer_)});
  try {
    std::unique_ptr<Worker> worker = program_.MakeWorker(options);
    std::optional<TraceFile> file;
    if (!trace_path_.empty()) file.emplace(trace_path_);
    JobResult result = [&] {
      try {
        return RunOn(*worker, kase, params, output, log, file ? &trace : nullptr);
      } catch (const Error&) {
        WriteTraceOfFailure(trace, file, log);
        throw;
      }
    }();
    if (file) file->Write(trace);
    if (json()) output.Write(JsonDocument(names, result));
    if (report_ == "table") PrintTable(output, names, result);
    if (report_ == "table" && file) {
      output.Write(fmt::format("trace: {}; ui.perfetto.dev shows it\n", file->path()));
    }
    output.EndLine();
    output.Flush();
    if (!result.golden || result.golden->pass || result.golden->skipped) return kSuccess;
    bool seen = report_ == "table" && output.is_terminal();
    if (!seen) log.Error("the results differ from the reference: {}", result.golden->detail);
    return kFailure;
  } catch (const Error& error) {
    // Something that reads a document gets one.
    if (json() && error.code() != ErrorCode::usage && !output.failed()) {
      output.WriteNow(JsonDocument(names, error));
    }
    throw;
  }
}

}  // namespace precast::cli
