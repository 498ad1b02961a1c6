#include "view/task_dump.h"

#include <fmt/format.h>

namespace precast::view {
namespace {

constexpr uint64_t kShownElements = 8;

bool Reads(Direction direction) { return direction != Direction::out; }
bool Writes(Direction direction) { return direction != Direction::in; }

std::string WhyNot(const RunGraph& graph, const TaskPath& path) {
  const ExpandedTask& at = path.back();
  if (graph.graphs[at.graph].tasks[at.task].predicate != kNone) {
    return "it did not run: its predicate did not hold";
  }
  return "it did not run: a graph task around it was skipped, or the device does not show its "
         "tasks";
}

}  // namespace

void TaskDump::Watch(const std::vector<TaskPath>& tasks) {
  watched_.clear();
  for (const TaskPath& path : tasks) {
    watched_.push_back(std::make_unique<Watched>());
    watched_.back()->record.path = path;
  }
}

std::vector<TaskDump::Record> TaskDump::Take() {
  std::vector<Record> records;
  for (std::unique_ptr<Watched>& watched : watched_) records.push_back(std::move(watched->record));
  watched_.clear();
  return records;
}

TaskDump::Watched* TaskDump::Find(const sched::Instance& instance, const abi::Task* task) {
  for (const std::unique_ptr<Watched>& watched : watched_) {
    const TaskPath& path = watched->record.path;
    const sched::Instance* around = &instance;
    const abi::Task* at = task;
    size_t level = path.size();
    while (level > 0 && at != nullptr && path[level - 1].task == at->number) {
      --level;
      at = around->maker;
      around = around->parent;
    }
    if (level == 0 && at == nullptr) return watched.get();
  }
  return nullptr;
}

void TaskDump::Call(const sched::Instance& instance, const abi::Task* task,
                    const std::function<void()>& call) {
  Watched* watched = Find(instance, task);
  if (watched == nullptr) return call();
  auto read = [&](uint32_t i) {
    const abi::Argument& argument = abi::Arguments(task)[i];
    return ReadValues(instance.Pointer(argument.slot, argument.offset),
                      instance.layouts[argument.layout], bytes_);
  };
  Record& record = watched->record;
  {
    std::lock_guard lock(watched->mutex);  // no block begins before all has been read
    if (!watched->begun) {
      watched->begun = true;
      record.arguments.resize(task->tensors);
      for (uint32_t i = 0; i < task->tensors; ++i) {
        Argument& argument = record.arguments[i];
        argument.direction = static_cast<Direction>(abi::Arguments(task)[i].direction);
        if (Reads(argument.direction)) argument.before = read(i);
      }
    }
  }
  call();
  std::lock_guard lock(watched->mutex);
  if (++watched->done < sched::Items(instance, task)) return;
  for (uint32_t i = 0; i < task->tensors; ++i) {
    if (Writes(record.arguments[i].direction)) record.arguments[i].after = read(i);
  }
  record.ran = true;
}

std::string DumpText(const RunGraph& graph, const TaskDump::Record& found,
                     const TaskDump::Record& oracle) {
  const ExpandedTask& at = found.path.back();
  const TaskGraph& around = graph.graphs[at.graph];
  std::string text = Describe(graph, found.path);
  if (!found.ran) return fmt::format("{}\n  {}\n", text, WhyNot(graph, found.path));
  uint32_t blocks = around.tasks[at.task].blocks;
  text += fmt::format(", {} block{}\n", blocks, blocks == 1 ? "" : "s");
  if (found.arguments.empty()) text += "  it has no tensors\n";
  for (uint32_t i = 0; i < found.arguments.size(); ++i) {
    const TaskDump::Argument& argument = found.arguments[i];
    const TensorValues& any = Writes(argument.direction) ? argument.after : argument.before;
    const TaskArgument* known =
        around.logged ? &around.arguments(at.task)[i] : nullptr;  // else it has no name
    text += fmt::format("  tensor {}: {}{} {} [{}]\n", i, Name(argument.direction),
                        known == nullptr ? "" : " " + TensorName(around, known->tensor),
                        Name(any.dtype), fmt::join(any.shape, ", "));
    auto show = [&](std::string_view when, const TensorValues& values,
                    const TensorValues& expected) {
      text += fmt::format("    {:<7} {}  {}\n", when, StatisticsText(values),
                          ElementsText(values, kShownElements));
      if (argument.direction == Direction::no_dep) {
        text += "            not compared: no_dep, so other tasks may be writing it\n";
      } else {
        text += fmt::format("            {}\n", DifferenceText(values, expected, "the oracle"));
      }
    };
    if (!oracle.ran) {
      text += "    not compared: the oracle did not run the task\n";
      continue;
    }
    const TaskDump::Argument& expected = oracle.arguments[i];
    if (Reads(argument.direction)) show("before", argument.before, expected.before);
    if (Writes(argument.direction)) show("after", argument.after, expected.after);
  }
  return text;
}

}  // namespace precast::view
