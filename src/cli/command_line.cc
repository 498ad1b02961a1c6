#include "cli/command_line.h"

#include "base/current_error.h"
#include "base/terminal.h"
#include "cli/ab_command.h"
#include "cli/bench_command.h"
#include "cli/doctor_command.h"
#include "cli/dump_command.h"
#include "cli/explain_command.h"
#include "cli/fuzz_command.h"
#include "cli/graph_command.h"
#include "cli/list_command.h"
#include "cli/names.h"
#include "cli/output.h"
#include "cli/probe_command.h"
#include "cli/run_command.h"

#include <precast/error.h>
#include <precast/worker.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace precast::cli {
namespace {

constexpr std::string_view kExamples =
    "Examples:\n"
    "  precast list                             programs and platforms\n"
    "  precast run vector_add                   the first program\n"
    "  precast run paged_attention --help       what it takes\n"
    "  precast run qwen3 --prompt \"ROMEO:\"      generate text\n"
    "  precast bench submit --n 10000           measure beside other runtimes";

std::string Indented(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) {
    if (at + 1 < text.size()) text.insert(at + 1, "  ");
  }
  return text;
}

// One paragraph: what is wrong, then where to read on.
void PrintError(std::string_view message, std::string_view hint) {
  std::string_view red = UseColor(STDERR_FILENO) ? "\x1b[31m" : "";
  std::string_view plain = red.empty() ? "" : "\x1b[0m";
  WriteError(fmt::format("{}precast:{} {}{}\n", red, plain, Indented(std::string(message)), hint));
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Arguments that the command doesn't know: the first option among them is most likely the mistake.
[[noreturn]] void FailExtras(const CLI::App& app, const std::vector<std::string>& extras) {
  auto is_option = [](const std::string& arg) { return arg.size() > 1 && arg[0] == '-'; };
  auto option = std::find_if(extras.begin(), extras.end(), is_option);
  if (option != extras.end()) {
    FailUnknown("option", option->substr(0, option->find('=')), OptionNames(app));
  }
  Fail(ErrorCode::usage, "unexpected argument '{}'; {} takes no more", extras.front(),
       app.get_name());
}

// CLI11 reads "--name=" as an option whose value is the next argument; here it is an empty value.
std::vector<std::string> SplitEmptyValues(const std::vector<std::string>& args) {
  std::vector<std::string> result;
  for (const std::string& arg : args) {
    if (arg.size() > 3 && arg.starts_with("--") && arg.find('=') == arg.size() - 1) {
      result.push_back(arg.substr(0, arg.size() - 1));
      result.emplace_back();
    } else {
      result.push_back(arg);
    }
  }
  return result;
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {
    column_width(30);
    label("Subcommands", "Commands");
    label("Positionals", "Argument");
  }
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "\nUsage: " + usage_ + "\n";
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    for (size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
    return help;
  }

 private:
  std::string usage_;
};

void SetUp(CLI::App& app, const std::string& usage) {
  app.set_help_flag("-h,--help", "Print this help");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.formatter(std::make_shared<HelpFormatter>(usage));
}

// False when help was asked for, and printed.
bool Parse(Command& command, const std::vector<std::string>& args, Output& output,
           std::string* help_line) {
  *help_line = command.help_line();
  CLI::App app(command.summary(), "precast " + command.name());
  SetUp(app, command.usage());
  command.Declare(app, args);
  *help_line = command.help_line();
  std::vector<std::string> reversed = SplitEmptyValues(args);  // what CLI11 wants
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    output.Write(app.help());
    output.Flush();
    return false;
  } catch (const CLI::ExtrasError&) {
    FailExtras(app, app.remaining(true));
  } catch (const CLI::Error& error) {
    throw Error(ErrorCode::usage, error.what());
  }
  command.Check();
  return true;
}

// Without a command: the exit code of --help, --version, or of no argument at all.
int RunWithoutCommand(const std::vector<std::string>& args,
                      const std::vector<std::unique_ptr<Command>>& commands, Output& output) {
  CLI::App app("Runs task graphs on accelerators", "precast");
  SetUp(app, "precast COMMAND [OPTIONS]");
  bool version = false;
  app.add_flag("--version", version, "Print the version");
  for (const auto& command : commands) app.add_subcommand(command->name(), command->summary());
  app.footer(std::string(kExamples));
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    output.Write(app.help());
    output.Flush();
    return kSuccess;
  } catch (const CLI::ExtrasError&) {
    FailExtras(app, app.remaining());
  } catch (const CLI::Error& error) {
    throw Error(ErrorCode::usage, error.what());
  }
  if (!version) {
    WriteError(app.help());
    return kUsage;
  }
  output.Write(fmt::format("precast {}\n", Version()));
  output.Flush();
  return kSuccess;
}

}  // namespace

std::unique_ptr<Command> Prepare(const std::vector<std::string>& args, const Programs& programs,
                                 Output& output, std::string* help_line, int* exit_code) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<RunCommand>(programs));
  commands.push_back(std::make_unique<ListCommand>(programs));
  commands.push_back(std::make_unique<GraphCommand>(programs));
  commands.push_back(std::make_unique<ExplainCommand>(programs));
  commands.push_back(std::make_unique<DumpCommand>(programs));
  commands.push_back(std::make_unique<AbCommand>());
  commands.push_back(std::make_unique<ProbeCommand>());
  commands.push_back(std::make_unique<DoctorCommand>());
  commands.push_back(std::make_unique<BenchCommand>());
  commands.push_back(std::make_unique<FuzzCommand>());

  *help_line = "precast --help";
  if (args.empty() || args[0].starts_with("-")) {
    *exit_code = RunWithoutCommand(args, commands, output);
    return nullptr;
  }
  std::vector<std::string> names;
  for (auto& command : commands) {
    names.push_back(command->name());
    if (names.back() != args[0]) continue;
    *exit_code = kSuccess;
    if (!Parse(*command, {args.begin() + 1, args.end()}, output, help_line)) return nullptr;
    return std::move(command);
  }
  FailUnknown("command", args[0], names);
}

int Main(const std::vector<std::string>& args, const Programs& programs) {
  std::string help_line;
  try {
    Output output(stdout);
    int exit_code = kSuccess;
    std::unique_ptr<Command> command = Prepare(args, programs, output, &help_line, &exit_code);
    return command == nullptr ? exit_code : command->Run(output);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) {
      PrintError(error.message(), "");
      return kFailure;
    }
    PrintError(error.message(), ". See " + help_line);
    return kUsage;
  } catch (...) {
    PrintError(CurrentError(ErrorCode::internal, "").message(), "");
    return kFailure;
  }
}

}  // namespace precast::cli
