// For the tests of this folder: the graph of a run that is not executed.
#pragma once

#include "view/run_graph.h"

#include <precast/precast.h>

#include <array>
#include <optional>
#include <utility>

namespace precast::view {

PRECAST_KERNEL(nothing, Core::vector)(const KernelContext&) {}
PRECAST_KERNEL(matmul, Core::cube)(const KernelContext&) {}

/// `build` gets two host arguments of 64 floats.
template <typename Build>
RunGraph GraphOf(Build build, Bytes heap = Bytes{1} << 20) {
  Worker worker({.threads = 1, .heap = heap});
  std::optional<RunGraph> graph;
  CaptureRuns(worker, [&](RunGraph captured) { graph = std::move(captured); });
  std::array<float, 64> x{}, y{};
  worker.run(build, {inout(x), inout(y)}, {.skip_device_run = true});
  return *graph;
}

}  // namespace precast::view
