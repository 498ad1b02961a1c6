#include "view/run_graph.h"

#include "graph/build_log.h"
#include "graph/overlap.h"
#include "run/definition_store.h"
#include "run/run_builder.h"
#include "worker/worker_access.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace precast::view {
namespace {

using graph::BuildLog;

std::string Text(const void* image, const abi::Header& header, uint32_t name) {
  const abi::Name& record = abi::At<abi::Name>(image, header.names)[name - 1];
  return {abi::At<char>(image, header.name_bytes) + record.offset, record.bytes};
}

/// Reads the images of one run.
class Capture {
 public:
  explicit Capture(const detail::RunBuilder& builder) : builder_(builder) {}

  uint32_t Add(std::string name, const void* image, const BuildLog* log,
               std::span<run::Definition* const> definitions) {
    uint32_t index = static_cast<uint32_t>(run_.graphs.size());
    run_.graphs.emplace_back();
    TaskGraph graph;
    graph.name = std::move(name);
    graph.logged = log != nullptr;
    const auto& header = *static_cast<const abi::Header*>(image);
    graph.edges = header.edges;
    const auto* layouts = abi::At<abi::Layout>(image, header.layouts);
    graph.layouts.assign(layouts, layouts + header.layouts.count);
    claimed_by_.clear();
    if (log != nullptr) AddTensors(&graph, image, *log);
    for (abi::TaskId id = abi::kFirstTask; id < abi::EndTask(&header);) {
      const abi::Task* task = abi::TaskAt(image, id);
      AddTask(&graph, image, id, log);
      id += task->units;
    }
    AddEnd(&graph);
    AddProducers(&graph);
    uint32_t created = 0;
    for (GraphTensor& tensor : graph.tensors) {
      if (tensor.kind == GraphTensor::Kind::created) tensor.index = created++;
    }
    // Only now, since this uses claimed_by_ again.
    std::vector<uint32_t> known(definitions.size(), kNone);
    for (uint32_t i = 0; i < graph.size(); ++i) {
      GraphTask& task = graph.tasks[i];
      if (!task.is_graph()) continue;
      uint32_t& number = known[task.definition];
      if (number == kNone) number = DefinitionOf(*definitions[task.definition], task.name);
      task.definition = number;
      graph.expanded += run_.graphs[number].expanded;
    }
    graph.expanded += graph.size();
    run_.graphs[index] = std::move(graph);
    return index;
  }

  RunGraph Take() { return std::move(run_); }

 private:
  uint32_t DefinitionOf(const run::Definition& definition, uint32_t name) {
    auto known = definitions_.find(&definition);
    if (known != definitions_.end()) return known->second;
    uint32_t number =
        Add(run_.names[name], definition.image.data(), definition.log.get(), definition.inner);
    definitions_.emplace(&definition, number);
    return number;
  }

  void AddTensors(TaskGraph* graph, const void* image, const BuildLog& log) {
    graph->outer_scope = log.outer_scope;
    bool is_run = run_.graphs.size() == 1;
    uint32_t device = 0, boundary = 0;
    for (uint32_t i = 0; i < log.buffers.size(); ++i) {
      const BuildLog::BufferRecord& buffer = log.buffers[i];
      GraphTensor tensor{.slot = buffer.slot, .base = buffer.base, .bytes = buffer.bytes};
      if (buffer.claim != 0) {
        tensor.claim = abi::TaskAt(image, buffer.claim)->number;
        claimed_by_.emplace(tensor.claim, i);
      }
      int argument = is_run ? builder_.ArgumentOf(i) : -1;
      if (buffer.kind == graph::Buffer::Kind::created) {
        tensor.kind = GraphTensor::Kind::created;
      } else if (buffer.kind == graph::Buffer::Kind::boundary) {
        tensor.kind = GraphTensor::Kind::boundary;
        tensor.index = boundary++;
      } else if (argument >= 0) {
        tensor.kind = GraphTensor::Kind::argument;
        tensor.index = static_cast<uint32_t>(argument);
        AddArgumentName(graph, tensor.index);
      } else {
        tensor.kind = GraphTensor::Kind::device;
        tensor.index = device++;
      }
      graph->tensors.push_back(tensor);
    }
  }

  void AddArgumentName(TaskGraph* graph, uint32_t argument) {
    if (graph->argument_names.size() <= argument) graph->argument_names.resize(argument + 1);
    std::string& name = graph->argument_names[argument];
    name = fmt::format("argument {}", argument);
    if (builder_.program() == nullptr) return;
    uint32_t tensor = 0;
    for (const ArgSpec& spec : builder_.program()->signature) {
      if (spec.direction == Direction::scalar) continue;
      if (tensor++ == argument && !spec.name.empty()) name = spec.name;
    }
  }

  uint32_t NameIndex(const std::string& name) {
    auto [found, fresh] = names_.emplace(name, static_cast<uint32_t>(run_.names.size()));
    if (fresh) run_.names.push_back(name);
    return found->second;
  }

  uint32_t KernelIndex(uint32_t device_index) {
    auto [found, fresh] =
        kernels_.emplace(device_index, static_cast<uint32_t>(run_.kernels.size()));
    if (fresh) {
      Kernel kernel = builder_.kernels()[device_index];
      run_.kernels.push_back({kernel.name, kernel.core});
    }
    return found->second;
  }

  static TaskArgument FromLog(const BuildLog& log, const BuildLog::Access& access) {
    const BuildLog::BufferRecord& buffer = log.buffers[access.buffer];
    return {access.buffer, buffer.slot, buffer.base + access.begin, access.layout,
            access.direction};
  }

  void AddTask(TaskGraph* graph, const void* image, abi::TaskId id, const BuildLog* log) {
    const auto& header = *static_cast<const abi::Header*>(image);
    const abi::Task* task = abi::TaskAt(image, id);
    GraphTask to;
    to.scalars = task->scalars;
    bool is_graph = (task->flags & abi::kTaskGraph) != 0;
    if (is_graph) {
      to.definition = task->kernel;  // its number in this image, for now
    } else if ((task->flags & abi::kTaskMixed) != 0) {
      const abi::Mix& mix = abi::At<abi::Mix>(image, header.mixes)[task->kernel];
      for (uint32_t i = 0; i < mix.kernels; ++i) to.kernels[i] = KernelIndex(mix.kernel[i]);
    } else if (task->kernel != abi::kNoKernel) {
      to.kernels[0] = KernelIndex(task->kernel);
    }
    if (to.kernels[0] != kNone) to.blocks = task->blocks;
    if (task->name != 0) {
      to.name = NameIndex(Text(image, header, task->name));
    } else {
      to.name = NameIndex(to.blocks > 0 ? run_.kernels[to.kernels[0]].name : kNoKernel.name);
    }
    AddEnd(graph, &to);

    if (log != nullptr) {
      AddLogged(graph, image, *log, task->number, &to);
      if (is_graph) FindScratch(graph, *task, &to);
    } else if (!is_graph) {
      for (uint32_t i = 0; i < task->tensors; ++i) {
        const abi::Argument& argument = abi::Arguments(task)[i];
        graph->all_arguments.push_back({kNone, argument.slot, argument.offset, argument.layout,
                                        static_cast<Direction>(argument.direction)});
      }
    }
    if (task->predicate != 0) {
      const abi::Predicate& p =
          abi::At<abi::Predicate>(image, header.predicates)[task->predicate - 1];
      TaskPredicate predicate{
          {kNone, p.slot, p.offset, 0, Direction::in}, static_cast<Compare>(p.compare), p.constant};
      if (log != nullptr) {  // it came last
        predicate.operand = graph->all_arguments.back();
        graph->all_arguments.pop_back();
      }
      to.predicate = static_cast<uint32_t>(graph->predicates.size());
      graph->predicates.push_back(predicate);
    }
    AddConsumers(graph, image, *task);
    graph->tasks.push_back(to);
  }

  static void AddLogged(TaskGraph* graph, const void* image, const BuildLog& log, uint32_t number,
                        GraphTask* to) {
    const BuildLog::Task& logged = log.tasks[number];
    bool last = number + 1 == log.tasks.size();
    size_t accesses = last ? log.accesses.size() : log.tasks[number + 1].accesses;
    size_t after = last ? log.after.size() : log.tasks[number + 1].after;
    for (size_t i = logged.accesses; i < accesses; ++i) {
      graph->all_arguments.push_back(FromLog(log, log.accesses[i]));
    }
    for (size_t i = logged.after; i < after; ++i) {
      graph->all_after.push_back(abi::TaskAt(image, log.after[i])->number);
    }
    to->scope = logged.scope;
  }

  /// The scratch of a graph task is a created tensor that it alone names, by its place.
  void FindScratch(TaskGraph* graph, const abi::Task& task, GraphTask* to) {
    uint64_t base = uint64_t{task.consumer[abi::kInlineConsumers - 1] - 1} * abi::kScratchUnit;
    auto [begin, end] = claimed_by_.equal_range(task.number);
    for (auto it = begin; it != end; ++it) {
      GraphTensor& tensor = graph->tensors[it->second];
      if (tensor.base != base) continue;
      tensor.kind = GraphTensor::Kind::scratch;
      tensor.index = task.number;
      to->scratch = it->second;
    }
  }

  void AddConsumers(TaskGraph* graph, const void* image, const abi::Task& task) {
    const auto& header = *static_cast<const abi::Header*>(image);
    const auto* chunks = abi::At<abi::ConsumerChunk>(image, header.chunks);
    uint32_t inlined = std::min(task.consumers, abi::InlineConsumers(task));
    size_t first = graph->all_consumers.size();
    auto add = [&](abi::TaskId id) {
      graph->all_consumers.push_back(abi::TaskAt(image, id)->number);
    };
    std::for_each_n(task.consumer, inlined, add);
    uint32_t in_chunk =
        task.consumers == inlined ? 0 : (task.consumers - inlined - 1) % abi::kChunkConsumers + 1;
    for (uint32_t chunk = task.chunk; chunk != 0; chunk = chunks[chunk - 1].older) {
      std::for_each_n(chunks[chunk - 1].consumer, in_chunk, add);
      in_chunk = abi::kChunkConsumers;
    }
    std::sort(graph->all_consumers.begin() + static_cast<std::ptrdiff_t>(first),
              graph->all_consumers.end());
  }

  /// Where the ranges of the next task begin.
  static void AddEnd(TaskGraph* graph, GraphTask* to) {
    to->arguments = static_cast<uint32_t>(graph->all_arguments.size());
    to->consumers = static_cast<uint32_t>(graph->all_consumers.size());
    to->after = static_cast<uint32_t>(graph->all_after.size());
  }
  static void AddEnd(TaskGraph* graph) {
    GraphTask end;
    AddEnd(graph, &end);
    graph->tasks.push_back(end);
  }

  static void AddProducers(TaskGraph* graph) {
    for (uint32_t consumer : graph->all_consumers) ++graph->tasks[consumer + 1].producers;
    for (size_t i = 1; i < graph->tasks.size(); ++i) {
      graph->tasks[i].producers += graph->tasks[i - 1].producers;
    }
    graph->all_producers.resize(graph->all_consumers.size());
    std::vector<uint32_t> next(graph->size());
    for (uint32_t task = 0; task < graph->size(); ++task) next[task] = graph->tasks[task].producers;
    for (uint32_t task = 0; task < graph->size(); ++task) {
      for (uint32_t consumer : graph->consumers(task))
        graph->all_producers[next[consumer]++] = task;
    }
  }

  const detail::RunBuilder& builder_;
  RunGraph run_;
  std::unordered_map<std::string, uint32_t> names_;
  std::unordered_map<uint32_t, uint32_t> kernels_;  // by index on the device
  std::unordered_map<const run::Definition*, uint32_t> definitions_;
  std::unordered_multimap<uint32_t, uint32_t> claimed_by_;  // of the graph being added
};

bool Reads(Direction direction) {
  return direction == Direction::in || direction == Direction::inout;
}
bool Writes(Direction direction) {
  return direction == Direction::out || direction == Direction::inout;
}

}  // namespace

RunGraph CaptureRun(const detail::RunBuilder& builder, std::span<const std::byte> image) {
  Capture capture(builder);
  capture.Add("run", image.data(), builder.log(), builder.definitions());
  return capture.Take();
}

void CaptureRuns(Worker& worker, std::function<void(RunGraph graph)> use) {
  run::Inspector inspector;
  if (use) {
    inspector = [use = std::move(use)](const detail::RunBuilder& builder,
                                       std::span<const std::byte> image) {
      use(CaptureRun(builder, image));
    };
  }
  detail::WorkerAccess::Impl(worker).set_inspector(std::move(inspector));
}

std::vector<ExpandedTask> PathTo(const RunGraph& run, uint64_t number) {
  std::vector<ExpandedTask> path;
  ExpandedTask at;
  for (;;) {
    const TaskGraph& graph = run.graphs[at.graph];
    for (;; ++at.task) {
      uint32_t definition = graph.tasks[at.task].definition;
      uint64_t all = 1 + (definition != kNone ? run.graphs[definition].expanded : 0);
      if (number < at.number + all) break;
      at.number += all;
    }
    path.push_back(at);
    if (number == at.number) return path;
    at = {at.number + 1, at.number, graph.tasks[at.task].definition, 0, at.depth + 1};
  }
}

// Reasons.

namespace {

/// What a task does with a tensor, besides what its arguments say.
std::vector<TaskArgument> Operands(const TaskGraph& graph, uint32_t task) {
  std::span<const TaskArgument> arguments = graph.arguments(task);
  std::vector<TaskArgument> all(arguments.begin(), arguments.end());
  if (uint32_t predicate = graph.tasks[task].predicate; predicate != kNone) {
    all.push_back(graph.predicates[predicate].operand);
  }
  return all;
}

EdgeReason Meeting(const TaskGraph& graph, EdgeReason::Kind kind, const TaskArgument& a,
                   const TaskArgument& b) {
  const abi::Layout& one = graph.layouts[a.layout];
  const abi::Layout& two = graph.layouts[b.layout];
  uint64_t base = graph.tensors[a.tensor].base;
  EdgeReason reason{.kind = kind, .tensor = a.tensor};
  reason.begin = std::max(a.offset, b.offset) - base;
  reason.end = std::min(a.offset + one.extent, b.offset + two.extent) - base;
  auto dense = [](const abi::Layout& layout) {
    return layout.elements * layout.element_bytes == layout.extent;
  };
  reason.exact = dense(one) && dense(two);
  return reason;
}

/// By the bytes that both touch.
void AddOverlaps(const TaskGraph& graph, const std::vector<TaskArgument>& before,
                 const std::vector<TaskArgument>& after, std::vector<EdgeReason>* reasons) {
  for (const TaskArgument& b : after) {
    for (const TaskArgument& a : before) {
      if (a.tensor != b.tensor) continue;
      graph::Region first{a.offset, a.layout, &graph.layouts[a.layout]};
      graph::Region second{b.offset, b.layout, &graph.layouts[b.layout]};
      if (!graph::Overlaps(first, second)) continue;
      using Kind = EdgeReason::Kind;
      if (Writes(a.direction) && Reads(b.direction)) {
        reasons->push_back(Meeting(graph, Kind::read_after_write, a, b));
      } else if (Writes(a.direction) && Writes(b.direction)) {
        reasons->push_back(Meeting(graph, Kind::write_after_write, a, b));
      } else if (Reads(a.direction) && Writes(b.direction)) {
        reasons->push_back(Meeting(graph, Kind::write_after_read, a, b));
      }
    }
  }
}

/// Created tensors and scratches that a task uses.
std::vector<uint32_t> HeapTensors(const TaskGraph& graph, uint32_t task,
                                  const std::vector<TaskArgument>& operands) {
  std::vector<uint32_t> tensors;
  for (const TaskArgument& operand : operands) {
    if (graph.tensors[operand.tensor].kind == GraphTensor::Kind::created) {
      tensors.push_back(operand.tensor);
    }
  }
  if (uint32_t scratch = graph.tasks[task].scratch; scratch != kNone) tensors.push_back(scratch);
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  return tensors;
}

/// By bytes of the graph heap that changed hands.
void AddHeapReuse(const TaskGraph& graph, uint32_t producer, uint32_t consumer,
                  const std::vector<TaskArgument>& before, const std::vector<TaskArgument>& after,
                  std::vector<EdgeReason>* reasons) {
  std::vector<uint32_t> earlier = HeapTensors(graph, producer, before);
  auto add = [&](uint32_t tensor, uint32_t old, uint64_t begin, uint64_t end) {
    reasons->push_back({EdgeReason::Kind::heap_reuse, tensor, old, begin, end, true});
  };
  for (uint32_t index : HeapTensors(graph, consumer, after)) {
    const GraphTensor& tensor = graph.tensors[index];
    if (tensor.claim == consumer) {
      for (uint32_t old : earlier) {
        const GraphTensor& gone = graph.tensors[old];
        uint64_t begin = std::max(gone.base, tensor.base);
        uint64_t end = std::min(gone.base + gone.bytes, tensor.base + tensor.bytes);
        if (old != index && begin < end) add(index, old, begin - tensor.base, end - tensor.base);
      }
    } else if (tensor.claim == producer &&
               std::none_of(reasons->begin(), reasons->end(),
                            [&](const EdgeReason& reason) { return reason.tensor == index; })) {
      add(index, kNone, 0, tensor.bytes);
    }
  }
}

}  // namespace

std::vector<EdgeReason> ReasonsOf(const TaskGraph& graph, uint32_t producer, uint32_t consumer) {
  std::vector<EdgeReason> reasons;
  std::span<const uint32_t> producers = graph.producers(consumer);
  if (!graph.logged || !std::binary_search(producers.begin(), producers.end(), producer)) {
    return reasons;
  }
  std::vector<TaskArgument> before = Operands(graph, producer);
  std::vector<TaskArgument> after = Operands(graph, consumer);
  AddOverlaps(graph, before, after, &reasons);
  AddHeapReuse(graph, producer, consumer, before, after, &reasons);
  std::span<const uint32_t> named = graph.after(consumer);
  if (std::find(named.begin(), named.end(), producer) != named.end()) reasons.emplace_back();
  return reasons;
}

std::string_view NameOf(EdgeReason::Kind kind) {
  switch (kind) {
    case EdgeReason::Kind::read_after_write:
      return "read-after-write";
    case EdgeReason::Kind::write_after_write:
      return "write-after-write";
    case EdgeReason::Kind::write_after_read:
      return "write-after-read";
    case EdgeReason::Kind::heap_reuse:
      return "heap-reuse";
    case EdgeReason::Kind::explicit_:
      break;
  }
  return "explicit";
}

// Names.

std::string TensorName(const TaskGraph& graph, uint32_t tensor) {
  const GraphTensor& t = graph.tensors[tensor];
  switch (t.kind) {
    case GraphTensor::Kind::argument:
      return graph.argument_names[t.index];
    case GraphTensor::Kind::device:
      return fmt::format("device {}", t.index);
    case GraphTensor::Kind::created:
      return fmt::format("created {}", t.index);
    case GraphTensor::Kind::boundary:
      return fmt::format("boundary {}", t.index);
    case GraphTensor::Kind::scratch:
      break;
  }
  return fmt::format("scratch of task {}", t.index);
}

std::string KernelName(const RunGraph& run, const GraphTask& task) {
  if (task.is_graph()) return run.names[task.name];
  std::string names;
  for (uint32_t kernel : task.kernels) {
    if (kernel == kNone) break;
    names += (names.empty() ? "" : " + ") + run.kernels[kernel].name;
  }
  return names.empty() ? kNoKernel.name : names;
}

std::string TaskLabel(const RunGraph& run, uint32_t graph, uint32_t task) {
  const GraphTask& t = run.graphs[graph].tasks[task];
  const std::string& name = run.names[t.name];
  if (t.is_graph()) return fmt::format("task {} (graph {})", task, name);
  if (t.kernels[0] == kNone) return fmt::format("task {} '{}'", task, name);
  return fmt::format("task {} '{}' (kernel{} {})", task, name, t.kernels[1] != kNone ? "s" : "",
                     KernelName(run, t));
}

}  // namespace precast::view
