#include "view/explain.h"

#include <fmt/format.h>

#include <algorithm>

namespace precast::view {
namespace {

/// The tasks of a shortest chain of edges, both ends included; empty if there is none.
std::vector<uint32_t> Chain(const TaskGraph& graph, uint32_t from, uint32_t to) {
  // From `to` backwards; nothing before `from` can lie between (G1).
  std::vector<uint32_t> next(graph.size(), kNone);
  std::vector<uint32_t> queue = {to};
  for (size_t i = 0; i < queue.size() && next[from] == kNone; ++i) {
    for (uint32_t producer : graph.producers(queue[i])) {
      if (producer < from || next[producer] != kNone) continue;
      next[producer] = queue[i];
      queue.push_back(producer);
    }
  }
  std::vector<uint32_t> chain;
  if (next[from] == kNone) return chain;
  for (uint32_t task = from; task != to; task = next[task]) chain.push_back(task);
  chain.push_back(to);
  return chain;
}

/// "task 2 'b' (kernel k)", after the graph tasks around it.
std::string Name(const RunGraph& run, TaskPath around, uint32_t task) {
  around.back().task = task;
  return Describe(run, around);
}

std::string Reasons(const RunGraph& run, uint32_t graph, uint32_t producer, uint32_t consumer,
                    std::string_view indent) {
  std::vector<EdgeReason> reasons = ReasonsOf(run.graphs[graph], producer, consumer);
  if (reasons.empty()) {
    return fmt::format("{}why is not known: the graph was recorded before anybody looked\n",
                       indent);
  }
  std::string text;
  for (const EdgeReason& reason : reasons) {
    text += fmt::format("{}it {} ({})\n", indent, ReasonText(run, graph, producer, reason),
                        NameOf(reason.kind));
  }
  return text;
}

/// Tensors that both tasks use, as the end of a sentence.
std::string Common(const TaskGraph& graph, uint32_t from, uint32_t to) {
  std::vector<uint32_t> tensors;
  for (const TaskArgument& a : graph.arguments(from)) {
    for (const TaskArgument& b : graph.arguments(to)) {
      if (a.tensor == b.tensor && a.tensor != kNone) tensors.push_back(a.tensor);
    }
  }
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  if (tensors.empty()) return "They have no tensor in common.";
  std::string names;
  for (uint32_t tensor : tensors) {
    names += (names.empty() ? "" : ", ") + TensorName(graph, tensor);
  }
  return fmt::format("Both use {}, but no bytes of it that one of them writes.", names);
}

}  // namespace

std::string ReasonText(const RunGraph& run, uint32_t graph_index, uint32_t producer,
                       const EdgeReason& reason) {
  const TaskGraph& graph = run.graphs[graph_index];
  std::string task = TaskLabel(run, graph_index, producer);
  if (reason.kind == EdgeReason::Kind::explicit_)
    return fmt::format("was told to run after {}", task);
  std::string name = TensorName(graph, reason.tensor);
  if (reason.kind == EdgeReason::Kind::heap_reuse && reason.earlier == kNone) {
    return fmt::format(
        "uses {}, whose bytes in the graph heap were another tensor's before; {} is its first user "
        "and waits for the users of that one",
        name, task);
  }
  uint64_t bytes = reason.end - reason.begin;
  std::string range = fmt::format("{}bytes {} … {} of {}", reason.exact ? "" : "some of ",
                                  reason.begin, reason.end - 1, name);
  if (reason.exact) range += fmt::format(" ({} byte{})", bytes, bytes == 1 ? "" : "s");
  switch (reason.kind) {
    case EdgeReason::Kind::read_after_write:
      return fmt::format("reads {}, which {} writes", range, task);
    case EdgeReason::Kind::write_after_write:
      return fmt::format("writes {}, which {} writes before", range, task);
    case EdgeReason::Kind::write_after_read:
      return fmt::format("writes {}, which {} reads before", range, task);
    default:
      return fmt::format(
          "is the first user of {}, which in the graph heap were those of {}, used by {}", range,
          TensorName(graph, reason.earlier), task);
  }
}

std::string Explain(const RunGraph& run, const TaskPath& from, const TaskPath& to) {
  std::string a = Describe(run, from), b = Describe(run, to);
  size_t level = 0;
  while (level < from.size() && level < to.size() && from[level].task == to[level].task) ++level;
  if (level == from.size() && level == to.size()) return fmt::format("Both are {}.\n", a);
  if (level == from.size()) {
    return fmt::format(
        "{} is inside of {}: it waits for nothing but what that graph task waits for, and for "
        "tasks inside of it.\n",
        b, a);
  }
  if (level == to.size()) {
    return fmt::format(
        "{} is inside of {}, which ends when all tasks inside of it have ended; it does not wait "
        "for them to begin.\n",
        a, b);
  }
  const uint32_t graph_index = from[level].graph;
  const TaskGraph& graph = run.graphs[graph_index];
  uint32_t producer = from[level].task, consumer = to[level].task;
  TaskPath around(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(level) + 1);
  std::string lifted;
  if (level + 1 < from.size() || level + 1 < to.size()) {
    lifted =
        fmt::format("What is inside of a graph task waits with it, so this is about {} and {}.\n",
                    Name(run, around, producer), Name(run, around, consumer));
  }
  if (producer > consumer) {
    return fmt::format("No: {} comes before {} in program order, so it never waits for it.\n{}", b,
                       a, lifted);
  }
  std::vector<uint32_t> chain = Chain(graph, producer, consumer);
  if (chain.empty()) {
    return fmt::format(
        "No: {} does not wait for {}. No chain of edges leads from one to the other: they may run "
        "at the same time, in any order.\n{}{}\n",
        b, a, lifted, Common(graph, producer, consumer));
  }
  if (chain.size() == 2) {
    return fmt::format("Yes: {} waits for {}.\n{}{}", b, a, lifted,
                       Reasons(run, graph_index, producer, consumer, "  "));
  }
  std::string text = fmt::format("Yes: {} waits for {}, through {} other task{}.\n{}", b, a,
                                 chain.size() - 2, chain.size() == 3 ? "" : "s", lifted);
  for (size_t i = 1; i < chain.size(); ++i) {
    text += fmt::format("  {} waits for {}:\n{}", TaskLabel(run, graph_index, chain[i]),
                        TaskLabel(run, graph_index, chain[i - 1]),
                        Reasons(run, graph_index, chain[i - 1], chain[i], "    "));
  }
  return text;
}

}  // namespace precast::view
