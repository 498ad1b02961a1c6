// Fuzzer: plans against the oracle. Each plan is executed by the oracle and then in every way that
// is asked for: each block must read the bytes that it read there, every task must start after
// those that it needs, and all that the host can see must be the same bytes. What fails is made
// small.
//
//   Report report = Fuzz({.seed = 7, .programs = 100}, show);
//
// Threads: one at a time; several may fuzz side by side.
#pragma once

#include "fuzz/execution.h"
#include "fuzz/plan.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace precast::fuzz {

struct Options {
  uint64_t seed = 1;  ///< of the first plan; the others have those that follow
  uint64_t programs = 100;
  std::chrono::nanoseconds time{0};  ///< when to stop; zero: after `programs`
  std::vector<std::string> platforms;
  std::vector<int> threads = {1, 2, 8};
  /// For tests of the fuzzer: changes what an execution gave before it is compared.
  std::function<void(const Plan&, const Way&, Outcome*)> tamper = {};
};

/// Something that an execution gave and the oracle did not.
struct Difference {
  Way way;
  std::string what;
};

struct Failure {
  uint64_t seed = 0;
  Difference difference;  ///< of the small plan
  Plan plan;              ///< the smallest that still fails
};

struct Report {
  uint64_t seed = 0;  ///< of the next plan
  uint64_t programs = 0, tasks = 0;
  std::vector<Failure> failures;
};

/// Executes one plan in all ways that `options` name; the first difference, if there is one. A heap
/// that is too small for the plan is made larger, in the plan.
std::optional<Difference> Check(Plan* plan, const Options& options);

/// `progress` is called before each plan, and after the last.
Report Fuzz(const Options& options, const std::function<void(const Report&)>& progress = {});

/// A failure for a reader: what differs, the small plan, and the command that shows it again.
std::string ToString(const Failure& failure);

}  // namespace precast::fuzz
