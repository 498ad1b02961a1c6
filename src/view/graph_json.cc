#include "view/graph_drawing.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace precast::view {
namespace {

using Json = nlohmann::ordered_json;

Json ArgumentJson(const TaskGraph& graph, const TaskArgument& argument) {
  Json json = {{"direction", Name(argument.direction)}};
  if (argument.tensor != kNone) {
    json["tensor"] = argument.tensor;
    json["begin"] = argument.offset - graph.tensors[argument.tensor].base;
  }
  json["slot"] = argument.slot;
  json["offset"] = argument.offset;
  const abi::Layout& layout = graph.layouts[argument.layout];
  json["dtype"] = Name(static_cast<DType>(layout.dtype));
  json["shape"] = std::vector<uint32_t>(layout.shape, layout.shape + layout.rank);
  json["strides"] = std::vector<uint32_t>(layout.strides, layout.strides + layout.rank);
  return json;
}

Json TaskJson(const RunGraph& run, const TaskGraph& graph, uint32_t number) {
  constexpr const char* kCompares[] = {"==", "!=", "<", "<=", ">", ">="};
  const GraphTask& task = graph.tasks[number];
  Json json = {{"number", number}, {"name", run.names[task.name]}};
  if (task.is_graph()) json["graph"] = task.definition;
  Json kernels = Json::array();
  for (uint32_t kernel : task.kernels) {
    if (kernel != kNone) kernels.push_back(kernel);
  }
  json["kernels"] = std::move(kernels);
  json["blocks"] = task.blocks;
  json["scalars"] = task.scalars;
  json["scope"] = task.scope;
  if (task.predicate != kNone) {
    const TaskPredicate& predicate = graph.predicates[task.predicate];
    json["predicate"] = {{"operand", ArgumentJson(graph, predicate.operand)},
                         {"compare", kCompares[static_cast<size_t>(predicate.compare)]},
                         {"constant", predicate.constant}};
  }
  json["arguments"] = Json::array();
  for (const TaskArgument& argument : graph.arguments(number)) {
    json["arguments"].push_back(ArgumentJson(graph, argument));
  }
  return json;
}

Json EdgeJson(const TaskGraph& graph, uint32_t producer, uint32_t consumer) {
  Json json = {{"from", producer}, {"to", consumer}, {"reasons", Json::array()}};
  for (const EdgeReason& reason : ReasonsOf(graph, producer, consumer)) {
    Json one = {{"kind", NameOf(reason.kind)}};
    if (reason.tensor != kNone) {
      one["tensor"] = reason.tensor;
      one["bytes"] = {reason.begin, reason.end};
      one["exact"] = reason.exact;
    }
    if (reason.earlier != kNone) one["earlier"] = reason.earlier;
    json["reasons"].push_back(std::move(one));
  }
  return json;
}

Json GraphJson(const RunGraph& run, uint32_t index, const std::vector<uint32_t>& tasks) {
  const TaskGraph& graph = run.graphs[index];
  Json json = {
      {"graph", index},           {"name", graph.name},     {"reasons_known", graph.logged},
      {"tensors", Json::array()}, {"tasks", Json::array()}, {"edges", Json::array()}};
  for (uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const GraphTensor& tensor = graph.tensors[i];
    json["tensors"].push_back({{"name", TensorName(graph, i)},
                               {"slot", tensor.slot},
                               {"offset", tensor.base},
                               {"bytes", tensor.bytes}});
  }
  for (uint32_t task : tasks) {
    json["tasks"].push_back(TaskJson(run, graph, task));
    for (uint32_t consumer : graph.consumers(task)) {
      if (std::binary_search(tasks.begin(), tasks.end(), consumer)) {
        json["edges"].push_back(EdgeJson(graph, task, consumer));
      }
    }
  }
  return json;
}

}  // namespace

std::string ToJson(const RunGraph& run, const DrawOptions& options) {
  Json json = {{"title", options.title},
               {"expanded_tasks", run.run().expanded},
               {"kernels", Json::array()},
               {"graphs", Json::array()}};
  for (const GraphKernel& kernel : run.kernels) {
    json["kernels"].push_back(
        {{"name", kernel.name}, {"core", kernel.core == Core::cube ? "cube" : "vector"}});
  }
  if (options.focus) {
    const ExpandedTask& focus = options.focus->back();
    json["focus"] = {{"task", PathText(*options.focus)}, {"depth", options.depth}};
    json["graphs"].push_back(GraphJson(
        run, focus.graph, Neighbourhood(run.graphs[focus.graph], focus.task, options.depth)));
  } else {
    for (uint32_t graph = 0; graph < run.graphs.size(); ++graph) {
      std::vector<uint32_t> tasks(run.graphs[graph].size());
      std::iota(tasks.begin(), tasks.end(), 0);
      json["graphs"].push_back(GraphJson(run, graph, tasks));
    }
  }
  if (options.critical) {
    std::vector<CriticalPath> paths = CriticalPaths(run, *options.critical);
    json["critical"] = {{"by", NameOf(*options.critical)}, {"graphs", Json::array()}};
    for (const CriticalPath& path : paths) {
      json["critical"]["graphs"].push_back({{"length", path.weight}, {"tasks", path.tasks}});
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace precast::view
