// What recording and replaying graphs costs: a layer of 277 tasks and 26 boundary tensors,
// submitted 40 times among 7 other tasks, as a decoder does.
#pragma once

#include <nlohmann/json.hpp>

namespace precast::bench {

/// {"suite", "machine", "results": [{"name", "value", "unit"}]}
nlohmann::json MeasureReplay(int threads, int repetitions);

/// Runs submitted one behind the other, so that one is bound while the one before executes: time
/// per run against the time that execution alone takes.
nlohmann::json MeasurePipeline(int threads, int repetitions);

}  // namespace precast::bench
