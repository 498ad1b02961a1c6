#include "cli/program_options.h"

#include "base/units.h"
#include "cli/job.h"
#include "cli/names.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace precast::cli {
namespace {

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

// What people type without thinking. CLI11 would take more, and a comma as the end of a name.
bool CanBeOption(std::string_view name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !name.empty() && name[0] != '-' &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

}  // namespace

void ProgramOptions::Declare(CLI::App& app) {
  std::string names;
  for (const Program* program : programs_) names += program->name + ", ";
  app.add_option("PROGRAM", program_name_, names + "or a .so")->type_name("");
  app.add_option("--platform", platform_, "Chip to run on, see precast list [cpu]")
      ->type_name("NAME");
  app.add_option("--case", case_name_, "Inputs to run with [the program's first case]")
      ->type_name("NAME");
  app.add_option("--set", settings_, "Set a parameter of the program; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void ProgramOptions::DeclareProgram(CLI::App& app, const std::vector<std::string>& args,
                                    std::string_view footer) {
  app.footer(std::string(footer));
  std::string name = FirstPositional(app, args);
  if (name.empty()) return;
  program_name_ = name;
  try {
    program_ = &Find(name);
    DeclareParameters(app);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::usage) throw;
    // Reported as the failure of a run, once it is known how; its options cannot be.
    load_error_ = error;
    program_ = nullptr;
    app.allow_extras();
    return;
  }
  app.description(fmt::format("{}: {}", program_->name, program_->summary));
  app.footer(DescribeCases(*program_) + "\n" + std::string(footer));
}

std::string ProgramOptions::help_line() const {
  if (program_ == nullptr) return fmt::format("precast {} --help", command_);
  return fmt::format("precast {} {} --help", command_, program_name_);
}

const Program& ProgramOptions::Find(const std::string& name) {
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

// Each parameter as an option of its own, if its name can be one; --set takes all.
void ProgramOptions::DeclareParameters(CLI::App& app) {
  own_options_.reserve(program_->params.size());
  for (const ParamSpec& param : program_->params) {
    std::string option = "--" + param.name;
    if (!CanBeOption(param.name)) continue;
    if (app.get_option_no_throw(option) != nullptr) {
      if (!refuses_taken_names_) continue;
      Fail(ErrorCode::invalid_argument,
           "program '{}' has a parameter '{}', which is the name of an option of precast {}; the "
           "parameter needs another name",
           program_->name, param.name, command_);
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

const Program& ProgramOptions::program() const {
  if (load_error_) throw Error(*load_error_);
  if (program_ == nullptr) {
    std::string names;
    for (const Program* program : programs_) names += ", " + program->name;
    Fail(ErrorCode::usage, "name a program to run: one of {}, or the path of a .so",
         names.substr(2));
  }
  return *program_;
}

const Case& ProgramOptions::FindCase() const { return cli::FindCase(program(), case_name_); }

Params ProgramOptions::MakeParams() const {
  Params params(program().params);
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

std::unique_ptr<Worker> ProgramOptions::MakeWorker(WorkerOptions options) const {
  options.platform = platform_;
  try {
    return std::make_unique<Worker>(std::move(options));
  } catch (const Error& error) {
    bool named_wrong =
        error.code() == ErrorCode::not_found || error.code() == ErrorCode::invalid_argument;
    if (!named_wrong) throw;
    throw Error(ErrorCode::usage, error.message(), error.location());
  }
}

void AddChoice(CLI::App& app, const std::string& name, std::string& value,
               const std::vector<std::string>& choices, const std::string& help) {
  app.add_option(name, value, fmt::format("{} {} [{}]", help, fmt::join(choices, ", "), value))
      ->type_name("WORD")
      ->check(CLI::IsMember(choices).description(""));
}

Bytes ParseBytesOf(const char* option, const std::string& text) {
  std::optional<uint64_t> bytes = ParseBytes(text);
  if (!bytes) {
    Fail(ErrorCode::usage,
         "{} {}: allowed: a whole number of bytes, or one with K, M or G, such as 256M", option,
         text);
  }
  return *bytes;
}

}  // namespace precast::cli
