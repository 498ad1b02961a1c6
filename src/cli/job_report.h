// How the command shows what a job did: for people, and as one JSON document.
#pragma once

#include "cli/job.h"

#include <precast/error.h>
#include <precast/report.h>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace precast::cli {

class Output;

/// What was run, as the user named it.
struct JobNames {
  std::string program, case_name, platform;
  std::string execution = "scheduler";  ///< or "oracle", or "skipped"
};

/// The round that stands for all in a table: of jobs that make text the last one, else the one of
/// median total time. Requires: there are rounds.
size_t TypicalRound(const JobResult& result);

/// What was run, the phases of one round, the golden check, the case's own lines.
void PrintTable(Output& output, const JobNames& names, const JobResult& result);

/// {"program","case","platform","execution","golden","max_abs_err","golden_detail"?,"text"?, what
/// the case adds, "rounds", "timeline"?}; docs/report.md has them all. `timeline` may be null.
std::string JsonDocument(const JobNames& names, const JobResult& result,
                         const nlohmann::ordered_json& timeline = {});
/// {"program","case","platform","error":{"code","message"}}
std::string JsonDocument(const JobNames& names, const Error& error);

}  // namespace precast::cli
