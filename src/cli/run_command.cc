#include "cli/run_command.h"

#include "base/log.h"
#include "base/units.h"
#include "cli/job_report.h"
#include "cli/names.h"
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

// The first of `args` that is neither an option nor the value of one: the program's name. What
// options a program has is known only after that, but each of them takes one value.
std::string FirstPositional(const CLI::App& app, const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") return i + 1 < args.size() ? args[i + 1] : "";
    if (arg.size() < 2 || arg[0] != '-') return arg;
    if (arg.find('=') != std::string::npos) continue;
    const CLI::Option* option = app.get_option_no_throw(arg);
    bool is_flag = option != nullptr && option->get_items_expected_max() == 0;
    if (!is_flag) ++i;
  }
  return {};
}

// An option whose value is one of a few words.
void AddChoice(CLI::App& app, const std::string& name, std::string& value,
               const std::vector<std::string>& choices, const std::string& help) {
  app.add_option(name, value, fmt::format("{} {} [{}]", help, fmt::join(choices, ", "), value))
      ->type_name("WORD")
      ->check(CLI::IsMember(choices).description(""));
}

bool IsPath(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".so");
}

std::string DescribeCases(const Program& program) {
  std::string text =
      fmt::format("Cases of {} (--case NAME, the first by default):\n", program.name);
  for (const Case& kase : program.cases) {
    text += fmt::format("  {:<27} {}\n", kase.name, kase.summary);
  }
  return text;
}

// Runs `call`, all of whose failures are mistakes of the command line.
template <typename Call>
decltype(auto) AsUsage(Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
}

std::unique_ptr<Worker> MakeWorker(const WorkerOptions& options) {
  try {
    return std::make_unique<Worker>(options);
  } catch (const Error& error) {
    bool named_wrong =
        error.code() == ErrorCode::not_found || error.code() == ErrorCode::invalid_argument;
    if (!named_wrong) throw;
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
}

}  // namespace

void RunCommand::Declare(CLI::App& app, const std::vector<std::string>& args) {
  std::string names;
  for (const Program* program : programs_) names += program->name + ", ";
  app.add_option("PROGRAM", program_name_, names + "or a .so")->type_name("");
  app.add_option("--platform", platform_, "Chip to run on, see precast list [cpu]")
      ->type_name("NAME");
  app.add_option("--case", case_name_, "Inputs to run with [the program's first case]")
      ->type_name("NAME");
  app.add_option("--rounds", rounds_, "How many runs [as many as the case wants]")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""));
  app.add_option("--set", settings_, "Set a parameter of the program; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
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
  app.add_flag("--oracle", oracle_, "Run tasks one by one in the order of submission");
  AddChoice(app, "--log-level", log_level_, {"trace", "debug", "info", "warn", "error", "off"},
            "Messages to show:");

  std::string footer(kExamples);
  std::string name = FirstPositional(app, args);
  if (!name.empty()) {
    program_name_ = name;
    try {
      program_ = &FindProgram(name);
      DeclareParameters(app);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::usage) throw;
      // Reported as the failure of a run, once it is known how; its options cannot be.
      load_error_ = error;
      program_ = nullptr;
      app.allow_extras();
      app.footer(footer);
      return;
    }
    app.description(fmt::format("{}: {}", program_->name, program_->summary));
    footer = DescribeCases(*program_) + "\n" + footer;
  }
  app.footer(footer);
}

const Program& RunCommand::FindProgram(const std::string& name) {
  std::vector<std::string> names;
  for (const Program* program : programs_) {
    if (program->name == name) return *program;
    names.push_back(program->name);
  }
  if (!IsPath(name)) {
    names.push_back("paths of a .so");
    FailUnknown("program", name, names);
  }
  describer_ = std::make_unique<Worker>(WorkerOptions{.platform = "cpu", .threads = 1});
  try {
    return describer_->load(name);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
}

std::string RunCommand::help_line() const {
  if (program_ == nullptr) return "precast run --help";
  return fmt::format("precast run {} --help", program_name_);
}

// Each parameter as an option of its own, if its name can be one; --set takes all.
void RunCommand::DeclareParameters(CLI::App& app) {
  own_options_.reserve(program_->params.size());
  for (const ParamSpec& param : program_->params) {
    std::string option = "--" + param.name;
    if (!CLI::detail::valid_name_string(param.name)) continue;
    if (app.get_option_no_throw(option) != nullptr) {
      Fail(ErrorCode::invalid_argument,
           "program '{}' has a parameter '{}', which is the name of an option of precast run; the "
           "parameter needs another name",
           program_->name, param.name);
    }
    std::string help = param.help;
    if (!param.default_value.empty()) help += fmt::format(" [{}]", param.default_value);
    app.add_option_function<std::string>(
           option,
           [this, name = param.name](const std::string& value) {
             own_options_.emplace_back(name, value);
           },
           help)
        ->type_name("VALUE")
        ->group(fmt::format("Parameters of {}", program_->name));
  }
}

Params RunCommand::MakeParams() const {
  Params params(program_->params);
  std::vector<std::string> names;
  for (const ParamSpec& param : program_->params) names.push_back(param.name);
  for (const std::string& setting : settings_) {
    size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      Fail(ErrorCode::usage, "--set {}: needs the form key=value", setting);
    }
    AsUsage([&] { params.Set(setting.substr(0, equals), setting.substr(equals + 1)); });
  }
  for (const auto& [name, value] : own_options_) params.Set(name, value);
  return params;
}

Bytes RunCommand::ParseBytesOf(const char* option, const std::string& text) {
  std::optional<uint64_t> bytes = ParseBytes(text);
  if (!bytes) {
    Fail(ErrorCode::usage,
         "{} {}: allowed: a whole number of bytes, or one with K, M or G, such as 256M", option,
         text);
  }
  return *bytes;
}

JobResult RunCommand::RunOn(Worker& worker, const Case& kase, const Params& params, Output& output,
                            const Log& log) const {
  Progress progress(true);
  JobOptions options;
  options.rounds = rounds_;
  options.golden = golden_ == "check";
  options.run.skip_device_run = skip_device_run_;
  options.run.oracle = oracle_;
  options.run.verify_replays = verify_replays_;
  if (!json()) {
    options.stream = [&](std::string_view text) {
      // Where both go to one terminal, the text itself is the progress.
      if (output.is_terminal()) progress.Stop();
      output.WriteNow(text);
    };
  }
  return RunJob(worker, worker.load(*program_), kase, params, options, progress, log);
}

int RunCommand::Run(Output& output) {
  if (load_error_) {
    if (json()) output.WriteNow(JsonDocument({program_name_, case_name_, platform_}, *load_error_));
    throw *load_error_;
  }
  if (program_ == nullptr) {
    std::string names;
    for (const Program* program : programs_) names += ", " + program->name;
    Fail(ErrorCode::usage, "name a program to run: one of {}, or the path of a .so",
         names.substr(2));
  }
  const Case& kase = FindCase(*program_, case_name_);
  Params params = MakeParams();
  WorkerOptions options{
      .platform = platform_,
      .threads = threads_,
      .heap = ParseBytesOf("--heap", heap_),
      .host_views = host_views_ == "copy"      ? HostViewPolicy::copy
                    : host_views_ == "rebuild" ? HostViewPolicy::rebuild
                                               : HostViewPolicy::cache,
      .host_view_budget = ParseBytesOf("--host-view-budget", host_view_budget_),
      .definition_budget = ParseBytesOf("--definition-budget", definition_budget_),
      .upload = upload_ == "one" ? UploadMode::one : UploadMode::per_submission,
      .log_level = log_level_};
  JobNames names{program_->name, kase.name, platform_};
  if (oracle_) names.execution = "oracle";
  if (skip_device_run_) names.execution = "skipped";
  Log log(ParseLogLevel(log_level_));
  try {
    std::unique_ptr<Worker> worker = MakeWorker(options);
    JobResult result = RunOn(*worker, kase, params, output, log);
    if (json()) output.Write(JsonDocument(names, result));
    if (report_ == "table") PrintTable(output, names, result);
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
