// How the command shows a modelled timeline: for people, as part of a JSON document, and as a
// trace.
#pragma once

#include "view/timeline_report.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>

namespace precast::cli {

class Output;

/// A run's model and what it says.
struct ModelledRun {
  size_t round = 0;  ///< which one, from 1; the last
  view::RunModel model;
  view::TimelineReport report;
};

void PrintTimeline(Output& output, const ModelledRun& modelled);

/// Null where no timeline is modelled.
nlohmann::ordered_json RatesJson(const ChipRates& rates);

/// docs/timeline.md describes it.
nlohmann::ordered_json TimelineJson(const ModelledRun& modelled);

/// Writes the cores of the chip as lanes, in the JSON format of Chrome and Perfetto. Throws
/// `Error{io}`.
void WriteTimelineTrace(const ModelledRun& modelled, const std::string& path);

}  // namespace precast::cli
