#include "cli/explain_command.h"

#include "cli/output.h"
#include "view/explain.h"

#include <precast/error.h>

#include <CLI/CLI.hpp>

#include <string_view>

namespace precast::cli {
namespace {

constexpr std::string_view kExamples =
    "A and B are numbers of tasks, paths such as 5.3 (task 3 inside the graph task 5), or names.\n"
    "\n"
    "Examples:\n"
    "  precast explain bgemm --case small --from 0 --to 1\n"
    "  precast explain qwen3 --prompt A --from 0.2 --to 0.9";

}  // namespace

void ExplainCommand::Declare(CLI::App& app, const std::vector<std::string>& args) {
  program_.Declare(app);
  round_.Declare(app);
  app.add_option("--from", from_, "The task that may be waited for")->type_name("A");
  app.add_option("--to", to_, "The task that may wait")->type_name("B");
  program_.DeclareProgram(app, args, kExamples);
}

int ExplainCommand::Run(Output& output) {
  program_.program();
  if (from_.empty() || to_.empty()) {
    Fail(ErrorCode::usage, "explain needs two tasks: --from A --to B");
  }
  view::RunGraph run = CaptureRound(program_, round_);
  view::TaskPath from = view::FindTask(run, from_);
  view::TaskPath to = view::FindTask(run, to_);
  output.Write(view::Explain(run, from, to));
  output.Flush();
  return kSuccess;
}

}  // namespace precast::cli
