#include "view/graph_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

namespace precast::view {
namespace {

using Kind = EdgeReason::Kind;

constexpr size_t kMaxClusters = 40;       // definitions that are drawn
constexpr uint32_t kEdgesPerTask = 4;     // with more on average, tasks are grouped
constexpr size_t kMaxLabelledEdges = 60;  // beyond, labels hide the drawing
constexpr std::string_view kUnknown = "reason not known";
constexpr size_t kKinds = 6;  // of edges: those of EdgeReason and kUnknown

struct EdgeStyle {
  std::string_view name, color, style;
};
EdgeStyle StyleOf(size_t kind) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, kKinds> kStyles = {{
      {"#303030", "solid"},
      {"#c62828", "solid"},
      {"#1565c0", "solid"},
      {"#2e7d32", "dotted"},
      {"#7b1fa2", "dashed"},
      {"#9e9e9e", "dashed"},
  }};
  std::string_view name = kind + 1 < kKinds ? NameOf(static_cast<Kind>(kind)) : kUnknown;
  return {name, kStyles[kind].first, kStyles[kind].second};
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string Html(std::string_view text) {
  std::string html;
  for (char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string Plural(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Writes one drawing.
class Drawing {
 public:
  Drawing(const RunGraph& run, const DrawOptions& options) : run_(run), options_(options) {
    if (options.critical) critical_ = CriticalPaths(run, *options.critical);
  }

  std::string Draw() {
    uint32_t focus_graph = options_.focus ? options_.focus->back().graph : 0;
    std::string body;
    if (options_.focus) {
      const TaskGraph& graph = run_.graphs[focus_graph];
      std::vector<uint32_t> tasks =
          Neighbourhood(graph, options_.focus->back().task, options_.depth);
      DrawGraph(&body, focus_graph, tasks);
    } else {
      size_t clusters = std::min(run_.graphs.size(), kMaxClusters + 1);
      for (uint32_t graph = 0; graph < clusters; ++graph) {
        std::vector<uint32_t> tasks(run_.graphs[graph].size());
        std::iota(tasks.begin(), tasks.end(), 0);
        DrawGraph(&body, graph, tasks);
      }
      if (clusters < run_.graphs.size()) {
        body += fmt::format("  more [label={}, shape=plaintext];\n",
                            Quoted(fmt::format("and {}", Plural(run_.graphs.size() - clusters,
                                                                "more recorded graph"))));
      }
    }
    return "digraph precast {\n"
           "  graph [rankdir=TB, fontname=Helvetica, fontsize=12, ranksep=0.35, nodesep=0.2, "
           "labelloc=t, bgcolor=white];\n"
           "  node [fontname=Helvetica, fontsize=10, style=filled, fillcolor=white, margin=0.08, "
           "height=0.3];\n"
           "  edge [fontname=Helvetica, fontsize=8, arrowsize=0.6];\n"
           "  label=<" +
           Header() + ">;\n" + body + "}\n";
  }

 private:
  std::string Header() const {
    const TaskGraph& run = run_.run();
    std::string text = fmt::format("<B>{}</B><BR/>{}, {}", Html(options_.title),
                                   Plural(run.size(), "task"), Plural(run.edges, "edge"));
    if (run_.graphs.size() > 1) {
      text += fmt::format(", {}; {} tasks with what is inside",
                          Plural(run_.graphs.size() - 1, "recorded graph"), run.expanded);
    }
    if (options_.focus) {
      text += fmt::format("<BR/>around {}, up to {} away", Html(Describe(run_, *options_.focus)),
                          Plural(options_.depth, "edge"));
    }
    if (options_.critical) {
      const CriticalPath& path = critical_[0];
      text += fmt::format("<BR/>longest path, in red: {} of {}, {} {} long",
                          Plural(path.tasks.size(), "task"), run.size(), path.weight,
                          NameOf(*options_.critical));
    }
    if (grouped_) {
      text += "<BR/>tasks are grouped by kernel and recorded graph; --max-tasks shows them alone";
    }
    text += "<BR/>";
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (!used_[kind]) continue;
      EdgeStyle style = StyleOf(kind);
      text += fmt::format("<FONT COLOR=\"{}\">{} {}  </FONT>", style.color,
                          style.style == "solid"    ? "——"
                          : style.style == "dashed" ? "– –"
                                                    : "· · ·",
                          style.name);
    }
    return text;
  }

  void DrawGraph(std::string* out, uint32_t index, const std::vector<uint32_t>& tasks) {
    const TaskGraph& graph = run_.graphs[index];
    bool cluster = index != 0 && !options_.focus;
    if (cluster) {
      uint64_t submitted = 0;
      for (const TaskGraph& other : run_.graphs) {
        submitted += static_cast<uint64_t>(
            std::count_if(other.tasks.begin(), other.tasks.end(),
                          [&](const GraphTask& task) { return task.definition == index; }));
      }
      *out += fmt::format(
          "  subgraph cluster_{} {{\n  label={}; style=rounded; color=\"#90a4ae\"; fontsize=10;\n",
          index,
          Quoted(fmt::format("graph {}: {}, submitted by {}", graph.name,
                             Plural(tasks.size(), "task"), Plural(submitted, "task"))));
    }
    uint64_t edges = graph.edges;
    bool alone = drawn_ + tasks.size() <= options_.max_tasks &&
                 (options_.focus || edges <= uint64_t{kEdgesPerTask} * options_.max_tasks);
    if (alone) {
      drawn_ += tasks.size();
      DrawTasks(out, index, tasks);
    } else {
      grouped_ = true;
      DrawGroups(out, index, tasks);
    }
    if (cluster) *out += "  }\n";
  }

  bool OnPath(uint32_t graph, uint32_t task) const {
    if (critical_.empty()) return false;
    const std::vector<uint32_t>& path = critical_[graph].tasks;
    return std::binary_search(path.begin(), path.end(), task);
  }
  bool PathUses(uint32_t graph, uint32_t producer, uint32_t consumer) const {
    if (!OnPath(graph, producer) || !OnPath(graph, consumer)) return false;
    const std::vector<uint32_t>& path = critical_[graph].tasks;
    return *std::next(std::lower_bound(path.begin(), path.end(), producer)) == consumer;
  }

  /// Shape and colour: by what runs.
  std::string NodeStyle(const GraphTask& task) const {
    if (task.is_graph()) return "shape=box3d, fillcolor=\"#eceff1\"";
    if (task.kernels[0] == kNone) return "shape=ellipse, fillcolor=\"#f5f5f5\", color=\"#9e9e9e\"";
    // Hues far apart, whatever the number of kernels.
    double hue = std::fmod(0.56 + 0.618034 * task.kernels[0], 1.0);
    bool cube = run_.kernels[task.kernels[0]].core == Core::cube;
    return fmt::format("shape=box, style=\"filled{}\", fillcolor=\"{:.3f} {} 0.97\"",
                       cube ? "" : ",rounded", hue, cube ? "0.38" : "0.22");
  }

  std::string Tooltip(uint32_t index, uint32_t task) const {
    const TaskGraph& graph = run_.graphs[index];
    std::string text = TaskLabel(run_, index, task);
    for (const TaskArgument& argument : graph.arguments(task)) {
      const abi::Layout& layout = graph.layouts[argument.layout];
      std::string tensor = argument.tensor == kNone ? fmt::format("slot {}", argument.slot)
                                                    : TensorName(graph, argument.tensor);
      text += fmt::format("\n{} {} {} [{}]", Name(argument.direction), tensor,
                          Name(static_cast<DType>(layout.dtype)),
                          fmt::join(layout.shape, layout.shape + layout.rank, ", "));
    }
    return text;
  }

  void DrawTasks(std::string* out, uint32_t index, const std::vector<uint32_t>& tasks) {
    const TaskGraph& graph = run_.graphs[index];
    for (uint32_t number : tasks) {
      const GraphTask& task = graph.tasks[number];
      std::string name = run_.names[task.name];
      std::string label = fmt::format("{} {}", number, name);
      std::string kernel = KernelName(run_, task);
      if (kernel != name && task.kernels[0] != kNone) label += "\n" + kernel;
      if (task.blocks > 1) label += "\n" + Plural(task.blocks, "block");
      if (task.predicate != kNone) label += "\nif its predicate holds";
      size_t hidden = 0;
      auto shown = [&](uint32_t other) {
        return std::binary_search(tasks.begin(), tasks.end(), other);
      };
      for (uint32_t other : graph.producers(number)) hidden += shown(other) ? 0 : 1;
      for (uint32_t other : graph.consumers(number)) hidden += shown(other) ? 0 : 1;
      if (hidden > 0) label += fmt::format("\n+{}", Plural(hidden, "edge"));
      bool focus = options_.focus && options_.focus->back().task == number;
      *out += fmt::format("  g{}t{} [label={}, {}, tooltip={}{}{}];\n", index, number,
                          Quoted(label), NodeStyle(task), Quoted(Tooltip(index, number)),
                          OnPath(index, number) ? ", color=\"#d50000\", penwidth=2.5" : "",
                          focus ? ", penwidth=3, fontsize=13" : "");
    }
    bool labels = graph.edges <= kMaxLabelledEdges || options_.focus;
    for (uint32_t producer : tasks) {
      for (uint32_t consumer : graph.consumers(producer)) {
        if (!std::binary_search(tasks.begin(), tasks.end(), consumer)) continue;
        std::vector<EdgeReason> reasons = ReasonsOf(graph, producer, consumer);
        std::string tooltip, label;
        for (const EdgeReason& reason : reasons) {
          tooltip += fmt::format("{}{}: {}", tooltip.empty() ? "" : "\n", NameOf(reason.kind),
                                 ShortText(graph, reason));
          if (reason.tensor != kNone && label.empty()) label = TensorName(graph, reason.tensor);
        }
        size_t kind = reasons.empty() ? kKinds - 1 : static_cast<size_t>(reasons[0].kind);
        DrawEdge(out, fmt::format("g{}t{} -> g{}t{}", index, producer, index, consumer), kind,
                 labels ? label : "", tooltip, PathUses(index, producer, consumer));
      }
    }
  }

  void DrawEdge(std::string* out, std::string_view ends, size_t kind, std::string_view label,
                std::string_view tooltip, bool critical) {
    EdgeStyle style = StyleOf(kind);
    used_[kind] = true;
    *out += fmt::format("  {} [color=\"{}\", style={}, fontcolor=\"{}\"{}{}{}];\n", ends,
                        critical ? "#d50000" : style.color, style.style, style.color,
                        label.empty() ? "" : ", label=" + Quoted(label),
                        tooltip.empty() ? "" : ", tooltip=" + Quoted(tooltip),
                        critical ? ", penwidth=2.5" : "");
  }

  // Groups.

  struct Group {
    uint32_t first = 0;  // its first task
    uint64_t tasks = 0, blocks = 0, on_path = 0;
  };
  using GroupKey = std::array<uint32_t, 4>;  // kernels, definition

  void DrawGroups(std::string* out, uint32_t index, const std::vector<uint32_t>& tasks) {
    const TaskGraph& graph = run_.graphs[index];
    std::map<GroupKey, uint32_t> numbers;
    std::vector<Group> groups;
    std::vector<uint32_t> group_of(graph.size(), kNone);
    for (uint32_t number : tasks) {
      const GraphTask& task = graph.tasks[number];
      GroupKey key = {task.kernels[0], task.kernels[1], task.kernels[2], task.definition};
      auto [found, fresh] = numbers.emplace(key, static_cast<uint32_t>(groups.size()));
      if (fresh) groups.push_back({.first = number});
      Group& group = groups[found->second];
      group_of[number] = found->second;
      ++group.tasks;
      group.blocks += task.blocks;
      group.on_path += OnPath(index, number) ? 1 : 0;
    }
    for (uint32_t i = 0; i < groups.size(); ++i) {
      const Group& group = groups[i];
      const GraphTask& task = graph.tasks[group.first];
      std::string label =
          fmt::format("{}\n{}", KernelName(run_, task), Plural(group.tasks, "task"));
      if (group.blocks > group.tasks) label += fmt::format(", {}", Plural(group.blocks, "block"));
      if (group.on_path > 0) label += fmt::format("\n{} on the longest path", group.on_path);
      *out += fmt::format("  g{}k{} [label={}, {}{}];\n", index, i, Quoted(label), NodeStyle(task),
                          group.on_path > 0 ? ", color=\"#d50000\", penwidth=2.5" : "");
    }
    struct Count {
      uint64_t edges = 0;
      bool critical = false;
    };
    std::map<std::tuple<uint32_t, uint32_t, size_t>, Count> counts;
    for (uint32_t producer : tasks) {
      for (uint32_t consumer : graph.consumers(producer)) {
        if (group_of[consumer] == kNone) continue;
        std::vector<EdgeReason> reasons = ReasonsOf(graph, producer, consumer);
        size_t kind = reasons.empty() ? kKinds - 1 : static_cast<size_t>(reasons[0].kind);
        Count& count = counts[{group_of[producer], group_of[consumer], kind}];
        ++count.edges;
        count.critical = count.critical || PathUses(index, producer, consumer);
      }
    }
    for (const auto& [ends, count] : counts) {
      auto [from, to, kind] = ends;
      DrawEdge(out, fmt::format("g{}k{} -> g{}k{}", index, from, index, to), kind,
               fmt::format("{}", count.edges), Plural(count.edges, "edge"), count.critical);
    }
  }

  const RunGraph& run_;
  const DrawOptions& options_;
  std::vector<CriticalPath> critical_;
  uint64_t drawn_ = 0;
  bool grouped_ = false;
  std::array<bool, kKinds> used_{};
};

}  // namespace

std::string ToDot(const RunGraph& run, const DrawOptions& options) {
  return Drawing(run, options).Draw();
}

std::vector<uint32_t> Neighbourhood(const TaskGraph& graph, uint32_t task, uint32_t depth) {
  std::vector<bool> seen(graph.size());
  std::vector<uint32_t> found = {task}, edge = {task};
  seen[task] = true;
  for (; depth > 0 && !edge.empty(); --depth) {
    std::vector<uint32_t> next;
    auto add = [&](uint32_t other) {
      if (seen[other]) return;
      seen[other] = true;
      next.push_back(other);
    };
    for (uint32_t at : edge) {
      for (uint32_t producer : graph.producers(at)) add(producer);
      for (uint32_t consumer : graph.consumers(at)) add(consumer);
    }
    found.insert(found.end(), next.begin(), next.end());
    edge = std::move(next);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string ShortText(const TaskGraph& graph, const EdgeReason& reason) {
  if (reason.kind == Kind::explicit_) return "after";
  std::string text = TensorName(graph, reason.tensor);
  if (reason.kind != Kind::heap_reuse) {
    return fmt::format("{}, {}bytes {} … {}", text, reason.exact ? "" : "some of ", reason.begin,
                       reason.end - 1);
  }
  return reason.earlier == kNone ? text + ", its first user"
                                 : text + " for " + TensorName(graph, reason.earlier);
}

}  // namespace precast::view
