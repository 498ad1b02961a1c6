// What the conformance suite shares: the list of platforms, a few kernels and programs.
//
// The suite is what every platform must pass, through the public API only. To run it on a new
// platform, add the name to `TestedPlatforms` in scenes/scenes.h.
#pragma once

#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

#include <precast/precast.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace precast::conformance {

using scenes::Join;

/// A test that runs once for each platform.
class OnPlatform : public testing::TestWithParam<std::string> {
 protected:
  WorkerOptions Options() const { return {.platform = GetParam()}; }
  bool HasTimingModel() const { return GetParam() != "cpu"; }
};

/// The same with a worker of two threads.
class OnWorker : public OnPlatform {
 protected:
  /// The message of a run that fails.
  std::string Refused(ErrorCode code, const Orchestration& orchestration, ArgList args) {
    try {
      worker_.run(orchestration, args);
    } catch (const Error& error) {
      EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
      return error.message();
    }
    ADD_FAILURE() << "nothing thrown";
    return "";
  }

  Worker worker_{{.platform = GetParam(), .threads = 2}};
};

inline std::string PlatformName(const testing::TestParamInfo<std::string>& test) {
  return scenes::TestName(test.param);
}

#define PRECAST_ON_ALL_PLATFORMS(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::ValuesIn(::precast::scenes::TestedPlatforms()), \
                           ::precast::conformance::PlatformName)

/// 0, 1, 2, … or first, first + 1, …
inline std::vector<int64_t> Counted(size_t n, int64_t first = 0) {
  std::vector<int64_t> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// What a kernel of a test waits at until the test opens it. One test uses one gate.
class Gate {
 public:
  void Open() {
    open_.store(true);
    open_.notify_all();
  }
  void Pass() { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

/// target[i] = Join(target[i], scalar 0), once the gate behind scalar 1 is open.
PRECAST_KERNEL(gated_bump, Core::vector)(const KernelContext& k) {
  reinterpret_cast<Gate*>(k.scalar<uint64_t>(1))->Pass();
  scenes::kernels::Bump(k);
}

inline uint64_t Address(Gate& gate) { return reinterpret_cast<uint64_t>(&gate); }

/// An orchestration of one task: argument 0 is bumped by scalar 0.
inline void BumpOnce(Orchestrator& o, const Args& args) {
  o.submit(scenes::bump, {inout(args.tensor(0)), args.scalar<int64_t>(0)});
}
/// The same behind a gate.
inline void BumpAfterGate(Orchestrator& o, const Args& args) {
  o.submit(gated_bump, {inout(args.tensor(0)), args.scalar<int64_t>(0), args.scalar<uint64_t>(1)});
}
/// Argument 1 becomes a copy of argument 0, slowly.
inline void CopySlowly(Orchestrator& o, const Args& args) {
  o.submit(scenes::slow_copy, {in(args.tensor(0)), out(args.tensor(1))});
}

}  // namespace precast::conformance
