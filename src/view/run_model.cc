#include "view/run_model.h"

#include "base/current_error.h"
#include "run/definition_store.h"
#include "run/run_builder.h"
#include "worker/worker_access.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace precast::view {
namespace {

class Modeller {
 public:
  Modeller(const detail::RunBuilder& builder, std::span<const std::byte> image)
      : builder_(builder) {
    model_.run = CaptureRun(builder, image);
    AddTasks({image.data(), builder.definitions(), nullptr}, 0, 0);
  }
  RunModel Take() { return std::move(model_); }

 private:
  struct Source {
    const void* image;
    std::span<run::Definition* const> definitions;
    const uint64_t* scalars;  // of an instance
  };
  /// What stands for a task: where its producers lead to, and where its consumers come from.
  struct Ends {
    uint32_t entry, exit;
  };

  /// Adds the tasks of a graph, numbered from `number` on; gives what stands for them.
  std::vector<Ends> AddTasks(const Source& source, uint32_t index, uint64_t number) {
    const TaskGraph& graph = model_.run.graphs[index];
    std::vector<Ends> all;
    all.reserve(graph.size());
    const auto* header = static_cast<const abi::Header*>(source.image);
    for (abi::TaskId id = abi::kFirstTask; id < abi::EndTask(header);) {
      const abi::Task* task = abi::TaskAt(source.image, id);
      id += task->units;
      const GraphTask& what = graph.tasks[task->number];
      RunModel::Origin origin{number++, index, task->number};
      if (what.predicate != kNone) ++model_.predicated;
      Ends ends;
      if (what.is_graph()) {
        ends = AddInstance(source, task, origin);
        number += model_.run.graphs[what.definition].expanded;
      } else {
        ends.entry = ends.exit = AddTask(source, task, origin);
      }
      for (uint32_t producer : graph.producers(task->number)) {
        model_.graph.AddEdge(all[producer].exit, ends.entry);
      }
      all.push_back(ends);
    }
    return all;
  }

  uint32_t Add(uint32_t blocks, std::span<const ModelGraph::Part> parts,
               const RunModel::Origin& origin) {
    model_.origins.push_back(origin);
    return model_.graph.AddTask(blocks, parts);
  }

  Ends AddInstance(const Source& source, const abi::Task* task, const RunModel::Origin& origin) {
    uint32_t index = model_.run.graphs[origin.graph].tasks[origin.task].definition;
    uint32_t entry = Add(1, {}, origin);
    const run::Definition& definition = *source.definitions[task->kernel];
    std::vector<uint64_t> scalars = Scalars(source, task);
    std::vector<Ends> inner = AddTasks({definition.image.data(), definition.inner, scalars.data()},
                                       index, origin.number + 1);
    uint32_t exit = Add(1, {}, origin);
    const TaskGraph& graph = model_.run.graphs[index];
    for (uint32_t i = 0; i < graph.size(); ++i) {
      if (graph.producers(i).empty()) model_.graph.AddEdge(entry, inner[i].entry);
      if (graph.consumers(i).empty()) model_.graph.AddEdge(inner[i].exit, exit);
    }
    if (inner.empty()) model_.graph.AddEdge(entry, exit);
    return {entry, exit};
  }

  /// What a graph task passes to its instance (see abi/image.h).
  static std::vector<uint64_t> Scalars(const Source& source, const abi::Task* task) {
    const auto* header = static_cast<const abi::Header*>(source.image);
    const abi::Binding* binding =
        abi::At<abi::Binding>(source.image, header->bindings) + task->blocks + task->tensors;
    bool passes = (task->flags & abi::kTaskPasses) != 0;
    std::vector<uint64_t> scalars;
    for (uint32_t i = 0; i < task->scalars; ++i) {
      uint64_t value = *binding++;
      if (passes) {
        if (*binding != 0) value = source.scalars[*binding - 1];
        ++binding;
      }
      scalars.push_back(value);
    }
    return scalars;
  }

  uint32_t AddTask(const Source& source, const abi::Task* task, const RunModel::Origin& origin) {
    if (task->kernel == abi::kNoKernel) return Add(1, {}, origin);
    uint32_t one[] = {task->kernel};
    std::span<const uint32_t> kernels = one;
    if ((task->flags & abi::kTaskMixed) != 0) {
      const auto* header = static_cast<const abi::Header*>(source.image);
      const abi::Mix& mix = abi::At<abi::Mix>(source.image, header->mixes)[task->kernel];
      kernels = std::span(mix.kernel).first(mix.kernels);
    }
    std::vector<ModelGraph::Part>& parts = parts_;
    parts.clear();
    for (uint32_t index : kernels) {
      const Kernel& kernel = KernelAt(index);
      KernelCost cost = CostOf(kernel, kernels.size(), source, task, origin);
      auto share = [&](int64_t all) {
        return (static_cast<uint64_t>(all) + task->blocks - 1) / task->blocks;
      };
      parts.push_back({kernel.core, share(cost.bytes), share(cost.operations)});
    }
    return Add(task->blocks, parts, origin);
  }

  const Kernel& KernelAt(uint32_t index) {
    auto [found, fresh] = kernels_.try_emplace(index);
    if (fresh) {
      found->second = builder_.kernels()[index];
      if (found->second.cost == nullptr) model_.undeclared.emplace_back(found->second.name);
    }
    return found->second;
  }

  KernelCost CostOf(const Kernel& kernel, size_t kernels, const Source& source,
                    const abi::Task* task, const RunModel::Origin& origin) const {
    CostContext context(source.image, task, source.scalars);
    // The kernels of a mixed task share its tensors.
    if (kernel.cost == nullptr) return {context.bytes() / static_cast<int64_t>(kernels), 0};
    auto label = [&] { return TaskLabel(model_.run, origin.graph, origin.task); };
    KernelCost cost;
    try {
      cost = kernel.cost(context);
    } catch (...) {
      throw CurrentError(ErrorCode::kernel_failed, fmt::format("cost of {}: ", label()));
    }
    if (cost.bytes < 0 || cost.operations < 0) {
      Fail(ErrorCode::invalid_argument,
           "cost of {}: {} bytes and {} operations; neither may be negative", label(), cost.bytes,
           cost.operations);
    }
    return cost;
  }

  const detail::RunBuilder& builder_;
  RunModel model_;
  std::unordered_map<uint32_t, Kernel> kernels_;  // by index on the device
  std::vector<ModelGraph::Part> parts_;           // of the task that is added
};

}  // namespace

RunModel ModelRun(const detail::RunBuilder& builder, std::span<const std::byte> image) {
  return Modeller(builder, image).Take();
}

void ModelRuns(Worker& worker, std::function<void(RunModel model)> use) {
  detail::WorkerAccess::Impl(worker).set_inspector(
      [use = std::move(use)](const detail::RunBuilder& builder, std::span<const std::byte> image) {
        use(ModelRun(builder, image));
      });
}

}  // namespace precast::view
