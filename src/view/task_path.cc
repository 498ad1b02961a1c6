#include "view/task_path.h"

#include <precast/error.h>

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace precast::view {
namespace {

bool IsNumbers(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == text.npos && text[0] != '.';
}

TaskPath FindByNumbers(const RunGraph& run, std::string_view text) {
  ExpandedTask at;
  for (std::string_view rest = text;;) {
    size_t dot = rest.find('.');
    std::string_view digits = rest.substr(0, dot);
    uint32_t task = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), task);
    const TaskGraph& graph = run.graphs[at.graph];
    if (error != std::errc() || task >= graph.size()) {
      std::string place = at.depth == 0 ? "the run" : fmt::format("graph {}", graph.name);
      Fail(ErrorCode::usage, "there is no task {}: {} has tasks 0 to {}", text, place,
           graph.size() - 1);
    }
    for (at.task = 0; at.task < task; ++at.task) {
      uint32_t inner = graph.tasks[at.task].definition;
      at.number += 1 + (inner != kNone ? run.graphs[inner].expanded : 0);
    }
    if (dot == rest.npos) return PathTo(run, at.number);
    uint32_t definition = graph.tasks[task].definition;
    if (definition == kNone) {
      Fail(ErrorCode::usage, "there is no task {}: {} is no graph, so there is nothing inside",
           text, TaskLabel(run, at.graph, task));
    }
    at = {at.number + 1, at.number, definition, 0, at.depth + 1};
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace

TaskPath FindTask(const RunGraph& run, std::string_view text) {
  if (IsNumbers(text)) return FindByNumbers(run, text);
  constexpr size_t kShown = 5;
  std::vector<uint64_t> found;
  uint64_t count = 0;
  ForEachExpanded(run, [&](const ExpandedTask& at) {
    if (run.names[run.graphs[at.graph].tasks[at.task].name] != text) return;
    if (++count <= kShown) found.push_back(at.number);
  });
  if (count == 1) return PathTo(run, found.front());
  if (count == 0) {
    std::string names;
    for (size_t i = 0; i < run.names.size() && i < 2 * kShown; ++i) {
      names += (i == 0 ? "" : ", ") + run.names[i];
    }
    Fail(ErrorCode::usage,
         "no task is named '{}'; name one by its number, 0 to {}, by a path such as 5.3 inside a "
         "graph, or by a name that one task has. Names are {}{}",
         text, run.run().size() - 1, names, run.names.size() > 2 * kShown ? ", …" : "");
  }
  std::string numbers;
  for (uint64_t number : found) {
    numbers += (numbers.empty() ? "" : ", ") + PathText(PathTo(run, number));
  }
  Fail(ErrorCode::usage, "{} tasks are named '{}': {}{}; name one by its number", count, text,
       numbers, count > kShown ? ", …" : "");
}

std::string PathText(const TaskPath& path) {
  std::string text;
  for (const ExpandedTask& at : path) text += fmt::format("{}{}", text.empty() ? "" : ".", at.task);
  return text;
}

std::string Describe(const RunGraph& run, const TaskPath& path) {
  std::string text;
  for (const ExpandedTask& at : path) {
    text += (text.empty() ? "" : ", ") + TaskLabel(run, at.graph, at.task);
  }
  return text;
}

}  // namespace precast::view
