// What does it cost to model the timeline of a graph? The simulation alone, of a million tasks, on
// a chip of 24 cube and 48 vector cores.
//
//   timeline_bench --benchmark_filter=layered

#include "view/timeline_model.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

namespace precast::view {
namespace {

constexpr uint32_t kTasks = 1'000'000;
constexpr Chip kChip{24,
                     48,
                     {.bandwidth = 1'600'000'000'000,
                      .core_bandwidth = 100'000'000'000,
                      .cube_operations = 15'155'200'000'000,
                      .vector_operations = 118'400'000'000,
                      .dispatch_ps = 1'000'000}};

/// Task `i` waits for those that `producers` adds.
void Run(benchmark::State& state, const std::function<void(ModelGraph*, uint32_t)>& producers) {
  ModelGraph graph;
  for (uint32_t i = 0; i < kTasks; ++i) {
    ModelGraph::Part part{i % 3 == 0 ? Core::cube : Core::vector, 4096 + i * 7919u % 65536,
                          100'000};
    graph.AddTask(1, std::span(&part, 1));
    producers(&graph, i);
  }
  for (auto _ : state) benchmark::DoNotOptimize(Simulate(graph, kChip).span);
  state.counters["ns_per_task"] = benchmark::Counter(
      kTasks, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void independent(benchmark::State& state) {
  Run(state, [](ModelGraph*, uint32_t) {});
}
void chain(benchmark::State& state) {
  Run(state, [](ModelGraph* graph, uint32_t i) {
    if (i > 0) graph->AddEdge(i - 1, i);
  });
}
/// Layers of a thousand; a task waits for three of the layer before.
void layered(benchmark::State& state) {
  constexpr uint32_t kWidth = 1000;
  Run(state, [](ModelGraph* graph, uint32_t i) {
    if (i < kWidth) return;
    uint32_t before = (i / kWidth - 1) * kWidth;
    for (uint32_t j = 0; j < 3; ++j) graph->AddEdge(before + (i * 31u + j * 337u) % kWidth, i);
  });
}
BENCHMARK(independent)->Unit(benchmark::kMillisecond);
BENCHMARK(chain)->Unit(benchmark::kMillisecond);
BENCHMARK(layered)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace precast::view

BENCHMARK_MAIN();
