// Orchestration of plans: what a body's items are as calls of an Orchestrator.
//
// Threads: as the Orchestrator.
#pragma once

#include "fuzz/plan.h"

#include <precast/orchestrator.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace precast::fuzz {

/// What the orchestrations of a plan need beyond their arguments; lives as long as the worker,
/// whose recorded graphs know it by its address.
struct Source {
  const Plan& plan;
  RecordLayout layout;
  std::vector<std::vector<std::byte>>* seen;  ///< gets what the host reads
  bool records_always;                        ///< each submission of a graph has its own key
  mutable uint64_t submissions = 0;
};

/// Calls the body of a run. A `recorded` one, of a replayable program, is called again only when it
/// has to be: it notes nothing that the host reads.
void CallBody(const Source& source, uint32_t body, bool recorded, Orchestrator& o,
              const Args& args);

/// The view that the steps make.
Tensor Apply(Tensor tensor, const std::vector<ViewStep>& steps);
/// A scalar of that type.
Arg ConstantArg(DType dtype, uint64_t bits);

}  // namespace precast::fuzz
