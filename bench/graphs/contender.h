// Contender: one runtime, made to build and execute a workload.
//
// A task's body is `Work`: nothing, or a loop of a given length that no compiler removes.
#pragma once

#include "workload.h"

#include <precast/trace.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace precast::bench {

enum class Suite { submit, execute, run };

struct Sample {
  double ns = 0;     ///< of the whole workload
  double bytes = 0;  ///< that the built graph takes; 0: not known
};

struct Setting {
  Suite suite = Suite::submit;
  int threads = 2;
  uint32_t work = 0;       ///< rounds of the loop in a task's body
  Trace* trace = nullptr;  ///< where Precast records the run; null: nowhere
};

class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string_view name() const = 0;
  /// One repetition; none if this contender cannot tell this suite's time from the others.
  virtual std::optional<Sample> Run(const Workload& workload, const Setting& setting) = 0;
};

/// The body of a task. One round is about a nanosecond.
__attribute__((noinline)) void Work(uint32_t rounds);

std::unique_ptr<Contender> MakePrecast(int threads);
/// Precast with each run traced, to see what that costs.
std::unique_ptr<Contender> MakeTracedPrecast(int threads, bool system_clock);
std::unique_ptr<Contender> MakeFloor();
std::unique_ptr<Contender> MakeOneTbb(int threads);
std::unique_ptr<Contender> MakeOpenMp(int threads);
std::unique_ptr<Contender> MakeStarPu(int threads);

using Clock = std::chrono::steady_clock;
inline double NsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

}  // namespace precast::bench
