// What recording and replaying graphs costs: a layer of 277 tasks and 26 boundary tensors,
// submitted 40 times among 7 other tasks, as a decoder does.
#pragma once

#include <precast/trace.h>

#include <nlohmann/json.hpp>

namespace precast::bench {

/// {"suite", "machine", "results": [{"name", "value", "unit"}]}. With a trace (else null), that of
/// one more run.
nlohmann::json MeasureReplay(int threads, int repetitions, Trace* trace);

/// Runs submitted one behind the other, so that one is bound while the one before executes: time
/// per run against the time that execution alone takes.
nlohmann::json MeasurePipeline(int threads, int repetitions, Trace* trace);

}  // namespace precast::bench
