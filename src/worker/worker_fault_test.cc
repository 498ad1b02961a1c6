// A worker whose driver or whose host memory fails at every possible moment: each failure is a
// clear error, nothing leaks, and the next run is right.
#include "base/failing_new_test.h"
#include "platforms/sim/profile.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"
#include "worker/worker_impl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace precast::detail {
namespace {

using device::Call;
using device::FaultyDriver;

constexpr int64_t kSize = 48;
constexpr int kSteps = 1500;  // tasks, so many that the image outgrows its first blocks

PRECAST_KERNEL(plus, Core::vector)(const KernelContext& k) {
  auto a = k.tensor<const int64_t>(0), b = k.tensor<const int64_t>(1);
  auto sum = k.tensor<int64_t>(2);
  for (int64_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
}
PRECAST_KERNEL(step, Core::vector)(const KernelContext& k) { k.tensor<int64_t>(0)[0] += 1; }

/// Arguments: x `in`, y `out`, z `inout`, a strided view, on the host; t `inout` on the device.
void Build(Orchestrator& o, const Args& args) {
  const Tensor& t = args.tensor(3);
  int64_t value = o.get_tensor_data<int64_t>(t, {5});
  o.set_tensor_data<int64_t>(t, {6}, value + 100);
  Tensor threes = o.alloc({kSize}, DType::i64, 3), sum = o.alloc({kSize}, DType::i64);
  o.submit(plus, {in(args.tensor(0)), in(t), out(sum)});
  o.submit(plus, {in(sum), in(threes), out(args.tensor(1))});
  o.submit(plus, {in(sum), in(threes), out(t)});
  for (int i = 0; i < kSteps; ++i) o.submit(step, {inout(args.tensor(2))});
}

/// The worker, its driver, and what the program works on.
struct FaultyWorker {
  explicit FaultyWorker(const WorkerOptions& options = {.platform = "a2a3sim",
                                                        .threads = 2,
                                                        .log_level = "off"},
                        sim::Profile profile = sim::A2a3Profile()) {
    auto real = std::make_unique<sim::SimDriver>(std::move(profile), options.threads);
    sim = real.get();
    auto faulty = std::make_unique<FaultyDriver>(std::move(real));
    driver = faulty.get();
    driver->set_before_reset([this] {
      EXPECT_EQ(sim->held().allocations, kept);
      EXPECT_EQ(sim->held().pinned_blocks, 0u);
      EXPECT_EQ(sim->held().host_views, 0u);
      closed = true;
    });
    worker = std::make_unique<WorkerImpl>(options, std::move(faulty));
  }
  ~FaultyWorker() {
    worker.reset();
    EXPECT_TRUE(closed);
  }

  void ResetHost() {
    for (int64_t i = 0; i < kSize; ++i) x[static_cast<size_t>(i)] = i;
    y.assign(kSize, -1);
    z.assign(kSize, -2);
    copied.assign(kSize, -3);
    Remember();
  }
  void Remember() { y_before = y, z_before = z; }
  std::unique_ptr<RunState> Launch(bool caller_waits) {
    Tensor view = Tensor::host(z.data(), {kSize}).slice(0, 0, kSize, 2);
    return worker->Launch(Build, {in(x), out(y), inout(view), inout(t)}, {}, nullptr, caller_waits);
  }
  /// Everything that a program does with a worker.
  void Everything() {
    t = worker->memory().Malloc({kSize}, DType::i64);
    worker->CopyTo(t, std::vector<int64_t>(kSize, 10).data(), kSize * 8);
    for (bool caller_waits : {true, false}) {
      Launch(caller_waits)->Result();
      Remember();
    }
    worker->CopyFrom(copied.data(), t, kSize * 8);
    worker->Memset(t, 0);
    worker->Free(std::exchange(t, Tensor()));
  }
  void ExpectResults() const {
    int64_t first = 10;  // t before the first run, in elements that set_tensor_data leaves alone
    for (int64_t i = 0; i < kSize; ++i) {
      int64_t once = (i == 6 ? first + 100 : first) + i + 3;
      int64_t twice = (i == 6 ? 10 + 5 + 3 + 100 : once) + i + 3;
      auto at = static_cast<size_t>(i);
      EXPECT_EQ(y[at], twice) << i;
      EXPECT_EQ(copied[at], twice) << i;
      EXPECT_EQ(z[at], i == 0 ? -2 + 2 * kSteps : -2) << i;
    }
  }
  /// After a failure: what the caller may do about it.
  void CleanUp() {
    if (t.kind() != Tensor::Kind::device) return;
    worker->Free(std::exchange(t, Tensor()));
  }

  sim::SimDriver* sim = nullptr;
  FaultyDriver* driver = nullptr;
  bool closed = false;
  uint64_t kept = 0;  // blocks that a lost device may still write when it is reset
  std::unique_ptr<WorkerImpl> worker;
  std::vector<int64_t> x = std::vector<int64_t>(kSize), y, z, copied, y_before, z_before;
  Tensor t;
};

void ExpectWorks(FaultyWorker& setup) {
  setup.ResetHost();
  setup.Everything();
  setup.ExpectResults();
  EXPECT_EQ(setup.worker->memory().usage().allocations, 0u);
  EXPECT_EQ(setup.worker->memory().usage().views, 0u);
  // At most two contexts, each with a block of device memory and of pinned memory.
  EXPECT_LE(setup.sim->held().allocations, 2u);
  EXPECT_LE(setup.sim->held().pinned_blocks, 2u);
  EXPECT_EQ(setup.sim->held().host_views, 0u);
}

/// What failed has changed no host argument, unless it says so.
void ExpectUntouched(const FaultyWorker& setup, const std::string& message) {
  if (message.find("copied back") != std::string::npos) return;
  EXPECT_EQ(setup.y, setup.y_before) << message;
  EXPECT_EQ(setup.z, setup.z_before) << message;
}

void FailEachCall(ErrorCode code, const sim::Profile& profile) {
  int failures = 0;
  bool struck = true;
  for (uint64_t n = 1; struck; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    FaultyWorker setup({.platform = "a2a3sim", .threads = 2, .log_level = "off"}, profile);
    setup.ResetHost();
    setup.driver->FailNth(n, code);
    try {
      setup.Everything();
      setup.ExpectResults();
    } catch (const Error& error) {
      ++failures;
      EXPECT_EQ(Name(error.code()), Name(code));
      EXPECT_THAT(error.message(), testing::HasSubstr("injected failure of the driver call"));
      ExpectUntouched(setup, error.message());
    }
    struck = setup.driver->struck();
    setup.driver->FailNone();
    setup.CleanUp();
    ExpectWorks(setup);
  }
  EXPECT_GT(failures, 15);
}

TEST(WorkerFaultTest, AnyDriverCallMayFail) { FailEachCall(ErrorCode::io, sim::A2a3Profile()); }
TEST(WorkerFaultTest, AnyDriverCallMayRunOutOfMemory) {
  FailEachCall(ErrorCode::out_of_memory, sim::A2a3Profile());
}
TEST(WorkerFaultTest, AnyDriverCallMayFailWithoutHostViews) {
  FailEachCall(ErrorCode::io, sim::A5Profile());
}

void ExpectLost(const std::function<void()>& act) {
  try {
    act();
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(ErrorCode::device_lost)) << error.message();
  }
}

TEST(WorkerFaultTest, TheDeviceMayBeLostAtAnyCall) {
  bool struck = true;
  for (uint64_t n = 1; struck; ++n) {
    SCOPED_TRACE("from call " + std::to_string(n));
    FaultyWorker setup;
    setup.ResetHost();
    setup.driver->LoseFrom(n);
    bool failed = false;
    try {
      setup.Everything();
      setup.ExpectResults();
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(Name(error.code()), Name(ErrorCode::device_lost)) << error.message();
      auto says = [&](const char* words) {
        return error.message().find(words) != std::string::npos;
      };
      bool run_failed = says("set_tensor_data");
      if (run_failed && (says("call wait") || says("call collect"))) setup.kept = 1;
    }
    struck = setup.driver->struck();
    EXPECT_EQ(failed, struck);
    if (!struck) break;
    std::vector<int64_t> host(kSize);
    ExpectLost([&] { setup.worker->memory().Malloc({4}, DType::f32); });
    for (bool caller_waits : {true, false}) {
      ExpectLost([&] {
        setup.worker->Launch(
            [](Orchestrator& o, const Args& args) { o.submit(step, {inout(args.tensor(0))}); },
            {inout(host)}, {}, nullptr, caller_waits);
      });
    }
    if (setup.t.kind() != Tensor::Kind::device) continue;
    ExpectLost([&] { setup.worker->CopyTo(setup.t, host.data(), kSize * 8); });
    ExpectLost([&] { setup.worker->CopyFrom(host.data(), setup.t, kSize * 8); });
    ExpectLost([&] { setup.worker->Memset(setup.t, 0); });
  }
}

/// A run that waiting failed for may go on: what it writes must not be given to the next one.
TEST(WorkerFaultTest, ARunThatCannotBeWaitedForKeepsWhatItWrites) {
  FaultyWorker setup;
  setup.ResetHost();
  setup.t = setup.worker->memory().Malloc({kSize}, DType::i64);
  setup.worker->Memset(setup.t, 1);
  for (bool detached : {false, true}) {
    auto run = setup.Launch(false);
    setup.driver->FailNth(1, ErrorCode::io, {Call::wait});
    if (detached) {
      run.reset();
    } else {
      EXPECT_TRUE(run->Wait(std::chrono::nanoseconds::max()));
      for (int i = 0; i < 2; ++i) EXPECT_THROW(run->Result(), Error);
    }
    EXPECT_TRUE(setup.driver->struck());
    EXPECT_EQ(setup.y, std::vector<int64_t>(kSize, -1)) << "a failed run copies nothing back";
    EXPECT_THROW(setup.worker->memory().Free(setup.t), Error) << "the run may still write it";
  }
  setup.CleanUp();  // the worker looks first whether it has ended
  ExpectWorks(setup);
}

TEST(WorkerFaultTest, EveryFailureListsTheChildMemoryThatTheOrchestrationChanged) {
  for (Call call : {Call::execute, Call::wait, Call::collect, Call::copy_to_host}) {
    SCOPED_TRACE(Name(call));
    FaultyWorker setup;
    setup.ResetHost();
    setup.t = setup.worker->memory().Malloc({kSize}, DType::i64);
    setup.worker->Memset(setup.t, 1);
    setup.driver->FailNth(1, ErrorCode::io, {call});
    try {
      setup.Launch(true)->Result();
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), testing::HasSubstr("set_tensor_data had already changed bytes "
                                                      "48 … 55"));
    }
    setup.CleanUp();
  }
}

/// Memory that is replaced by more and can't be given back is no reason to fail, but one to say so.
TEST(WorkerFaultTest, AnArenaThatCannotBeReleasedIsAWarning) {
  FaultyWorker setup;
  setup.ResetHost();
  setup.t = setup.worker->memory().Malloc({kSize}, DType::i64);
  setup.worker->Memset(setup.t, 1);
  setup.driver->FailNth(1, ErrorCode::io, {Call::free_pinned});
  RunReport report = setup.Launch(true)->Result();
  EXPECT_TRUE(setup.driver->struck());
  EXPECT_THAT(report.warnings, testing::ElementsAre(testing::HasSubstr("free_pinned")));
  EXPECT_TRUE(setup.Launch(true)->Result().warnings.empty());
  setup.CleanUp();
}

// Host memory.

void FailEachAllocation(bool warm, bool only_result) {
  bool struck = true;
  int failures = 0;
  for (uint64_t n = 1; struck; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    FaultyWorker setup({.platform = "a2a3sim", .threads = 1, .log_level = "off"});
    if (warm) ExpectWorks(setup);
    setup.ResetHost();
    setup.t = setup.worker->memory().Malloc({kSize}, DType::i64);
    setup.worker->Memset(setup.t, 1);
    std::unique_ptr<RunState> run;
    Tensor view = Tensor::host(setup.z.data(), {kSize}).slice(0, 0, kSize, 2);
    std::vector<Arg> args = {in(setup.x), out(setup.y), inout(view), inout(setup.t)};
    try {
      if (only_result) {
        run = setup.worker->Launch(Build, args, {}, nullptr, true);
        test::FailNew fail(n);
        bool ended = run->Wait(std::chrono::nanoseconds::max());
        struck = fail.struck();
        EXPECT_TRUE(ended);
      } else {
        const Orchestration build = Build;
        test::FailNew fail(n);
        struct Note {
          test::FailNew& fail;
          bool& struck;
          ~Note() { struck = fail.struck(); }
        } note{fail, struck};
        run = setup.worker->Launch(build, args, {}, nullptr, true);
      }
      run->Result();
    } catch (const Error& error) {
      ++failures;
      EXPECT_TRUE(error.code() == ErrorCode::out_of_memory ||
                  (error.code() == ErrorCode::kernel_failed && only_result))
          << Name(error.code()) << ": " << error.message();
    }
    run.reset();
    setup.CleanUp();
    ExpectWorks(setup);
  }
  EXPECT_EQ(failures > 0, test::FailNew::kWorks && !(warm && only_result)) << failures;
}

TEST(WorkerFaultTest, AnyAllocationOfAFirstLaunchMayFail) { FailEachAllocation(false, false); }
TEST(WorkerFaultTest, AnyAllocationOfAWarmLaunchMayFail) { FailEachAllocation(true, false); }
TEST(WorkerFaultTest, AnyAllocationOfAnEndingRunMayFail) {
  FailEachAllocation(false, true);
  FailEachAllocation(true, true);
}

}  // namespace
}  // namespace precast::detail
