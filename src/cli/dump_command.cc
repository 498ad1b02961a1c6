#include "cli/dump_command.h"

#include "base/log.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "worker/worker_access.h"

#include <precast/error.h>

#include <CLI/CLI.hpp>

#include <optional>
#include <string_view>
#include <utility>

namespace precast::cli {
namespace {

constexpr std::string_view kExamples =
    "T is the number of a task, a path such as 5.3 (task 3 inside the graph task 5), or a name.\n"
    "The program runs twice, by the scheduler and by the oracle.\n"
    "\n"
    "Examples:\n"
    "  precast dump vector_add --task 0\n"
    "  precast dump paged_attention --case small1 --task 1 --task normalise\n"
    "\n"
    "Exit code: 0 when every task was recorded, 1 when one was not.";

std::vector<view::TaskPath> FindTasks(const view::RunGraph& graph,
                                      const std::vector<std::string>& names) {
  std::vector<view::TaskPath> paths;
  for (const std::string& name : names) {
    view::TaskPath path = view::FindTask(graph, name);
    const view::ExpandedTask& at = path.back();
    const view::GraphTask& task = graph.graphs[at.graph].tasks[at.task];
    if (task.is_graph()) {
      Fail(ErrorCode::usage,
           "--task {}: {} is a recorded graph, which has no tensors of its own; name one of the {} "
           "tasks inside, such as {}.0",
           name, view::Describe(graph, path), graph.graphs[task.definition].size(),
           view::PathText(path));
    }
    if (task.kernels[0] == view::kNone) {
      Fail(ErrorCode::usage, "--task {}: {} only orders others; it runs no kernel", name,
           view::Describe(graph, path));
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace

void DumpCommand::Declare(CLI::App& app, const std::vector<std::string>& args) {
  program_.Declare(app);
  round_.Declare(app);
  app.add_option("--task", tasks_, "A task to show; may be repeated")
      ->type_name("T")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--bytes", bytes_,
                 "How much of each tensor to keep, for comparing; statistics are of all of it [4K]")
      ->type_name("BYTES");
  app.add_option("--threads", threads_,
                 "Threads that execute kernels, 1 to 256 [0: one per processor]")
      ->type_name("N")
      ->check(CLI::Range(0, 256).description(""));
  program_.DeclareProgram(app, args, kExamples);
}

DumpCommand::Execution DumpCommand::Execute(bool oracle) const {
  const Case& kase = program_.FindCase();
  Params params = program_.MakeParams();
  std::unique_ptr<Worker> worker =
      program_.MakeWorker({.threads = threads_, .heap = ParseBytesOf("--heap", round_.heap)});
  Execution execution;
  view::TaskDump dump(ParseBytesOf("--bytes", bytes_));
  std::optional<Error> error;  // about the tasks of the last round that was bound
  view::CaptureRuns(*worker, [&](view::RunGraph graph) {
    error.reset();
    dump.Watch({});
    try {
      dump.Watch(FindTasks(graph, tasks_));
    } catch (const Error& why) {
      error = why;
    }
    execution.graph = std::move(graph);
  });
  detail::WorkerAccess::Impl(*worker).set_observer(&dump);
  JobOptions job{.rounds = round_.round + 1, .golden = false, .run = {.oracle = oracle}};
  Progress progress(true);
  JobResult result;
  RunJob(*worker, worker->load(program_.program()), kase, params, job, progress,
         Log(ParseLogLevel("warn")), nullptr, result);
  CheckRounds(round_, kase, result);
  if (error) throw Error(*error);
  execution.records = dump.Take();
  return execution;
}

int DumpCommand::Run(Output& output) {
  program_.program();
  if (tasks_.empty()) Fail(ErrorCode::usage, "dump needs a task: --task T");
  Execution found = Execute(false);
  Execution oracle = Execute(true);
  bool all = true;
  for (size_t i = 0; i < found.records.size(); ++i) {
    output.Write(view::DumpText(found.graph, found.records[i], oracle.records[i]));
    all = all && found.records[i].ran;
  }
  output.Flush();
  if (!all) {
    Fail(ErrorCode::not_found, "nothing was recorded of a task that did not run; see above");
  }
  return kSuccess;
}

}  // namespace precast::cli
