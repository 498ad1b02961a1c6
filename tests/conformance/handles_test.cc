// Submitted runs: their handles, their order, and what waits for them.
#include "conformance/conformance.h"

#include <memory>
#include <stdexcept>
#include <utility>

namespace precast::conformance {
namespace {

using namespace std::chrono_literals;
using scenes::bump;
using scenes::copy;
using scenes::put;

/// The worker has threads of its own, so that runs go on while no one waits for them.
class HandleTest : public OnPlatform {
 protected:
  static WorkerOptions TwoThreads(WorkerOptions options) {
    options.threads = 2;
    return options;
  }
  Gate gate_;
  Worker worker_{TwoThreads(Options())};
};
PRECAST_ON_ALL_PLATFORMS(HandleTest);

TEST_P(HandleTest, DoneWaitAndResult) {
  std::vector<int64_t> x = Counted(10);
  RunHandle handle = worker_.submit(BumpAfterGate, {inout(x), int64_t{1}, Address(gate_)});
  EXPECT_FALSE(handle.done());
  EXPECT_FALSE(handle.wait(1ms));
  EXPECT_EQ(x, Counted(10)) << "nothing is copied back before the run ended";
  gate_.Open();
  handle.wait();
  EXPECT_TRUE(handle.done());
  EXPECT_TRUE(handle.wait(0ns));
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(x[static_cast<size_t>(i)], Join(i, 1));
  EXPECT_EQ(handle.result().graph.tasks, 1u);
  EXPECT_EQ(handle.result().graph.tasks, 1u) << "result may be asked for again";
}

TEST_P(HandleTest, DoneTurnsTrueWithoutWaiting) {
  std::vector<int64_t> x = Counted(10);
  RunHandle handle = worker_.submit(BumpOnce, {inout(x), int64_t{1}});
  for (int i = 0; i < 10000 && !handle.done(); ++i) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(handle.done());
  EXPECT_EQ(x[3], Join(3, 1)) << "results are in place once done says so";
}

TEST_P(HandleTest, ResultThrowsWhatFailedTheRunEachTime) {
  static constexpr Kernel kThrow{"throws", Core::vector, [](const KernelContext&) {
                                   throw std::runtime_error("no luck today");
                                 }};
  std::vector<int64_t> x = Counted(10);
  RunHandle handle = worker_.submit(
      [](Orchestrator& o, const Args& args) {
        o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
        o.submit(kThrow, {inout(args.tensor(0))});
      },
      {inout(x)});
  handle.wait();
  EXPECT_TRUE(handle.done());
  for (int i = 0; i < 2; ++i) {
    try {
      handle.result();
      FAIL() << "the run should have failed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
      EXPECT_NE(error.message().find("no luck today"), std::string::npos) << error.message();
    }
  }
  EXPECT_EQ(x, Counted(10)) << "a failed run copies nothing back";
}

TEST_P(HandleTest, ErrorsOfTheOrchestrationComeFromSubmit) {
  EXPECT_THROW(
      worker_.submit([](Orchestrator&, const Args&) { throw std::runtime_error("no"); }, {}),
      Error);
}

TEST_P(HandleTest, RunsExecuteInTheOrderOfLaunch) {
  Tensor t = worker_.malloc({4}, DType::i64);
  worker_.copy_to(t, Counted(4));
  std::vector<RunHandle> handles;
  handles.push_back(worker_.submit(BumpAfterGate, {inout(t), int64_t{0}, Address(gate_)}));
  for (int64_t i = 1; i < 12; ++i) {
    handles.push_back(worker_.submit(BumpOnce, {inout(t), i}));
  }
  EXPECT_FALSE(handles.back().wait(1ms));
  gate_.Open();
  handles.back().wait();
  for (RunHandle& handle : handles) EXPECT_TRUE(handle.done()) << "an earlier run ends earlier";
  std::vector<int64_t> values(4);
  worker_.copy_from(values, t);
  for (int64_t n = 0; n < 4; ++n) {
    int64_t expected = n;
    for (int64_t i = 0; i < 12; ++i) expected = Join(expected, i);
    EXPECT_EQ(values[static_cast<size_t>(n)], expected);
  }
  worker_.free(t);
}

TEST_P(HandleTest, AFailedRunDoesNotStopTheNext) {
  std::vector<int64_t> x = Counted(4), y = Counted(4);
  static constexpr Kernel kFail{"fails", Core::vector,
                                [](const KernelContext& k) { k.fail("on purpose"); }};
  RunHandle bad = worker_.submit(
      [](Orchestrator& o, const Args& args) { o.submit(kFail, {inout(args.tensor(0))}); },
      {inout(x)});
  RunHandle good = worker_.submit(BumpOnce, {inout(y), int64_t{2}});
  good.wait();
  EXPECT_EQ(y[3], Join(3, 2));
  EXPECT_THROW(bad.result(), Error);
  EXPECT_EQ(good.result().graph.tasks, 1u);
}

TEST_P(HandleTest, InBuffersAreFreeAfterSubmit) {
  auto x = std::make_unique<std::vector<int64_t>>(Counted(100));
  std::vector<int64_t> y(100);
  std::vector<int64_t> first = Counted(1);
  RunHandle blocker = worker_.submit(BumpAfterGate, {inout(first), int64_t{0}, Address(gate_)});
  RunHandle handle = worker_.submit(CopySlowly, {in(*x), out(y)});
  std::ranges::fill(*x, -1);
  x.reset();
  gate_.Open();
  handle.wait();
  EXPECT_EQ(y, Counted(100));
}

TEST_P(HandleTest, HandlesMove) {
  std::vector<int64_t> x = Counted(4), y = Counted(4);
  RunHandle a = worker_.submit(BumpAfterGate, {inout(x), int64_t{1}, Address(gate_)});
  RunHandle b = std::move(a);
  RunHandle c;
  c = std::move(b);
  EXPECT_FALSE(c.done());
  gate_.Open();
  c.wait();
  EXPECT_EQ(x[2], Join(2, 1));
  c = worker_.submit(BumpOnce, {inout(y), int64_t{1}});  // lets go of the first run
  c.result();
  EXPECT_EQ(y[2], Join(2, 1));
}

TEST_P(HandleTest, DestroyingAHandleWaits) {
  std::vector<int64_t> x = Counted(4);
  std::thread opener([this] {
    std::this_thread::sleep_for(20ms);
    gate_.Open();
  });
  { RunHandle handle = worker_.submit(BumpAfterGate, {inout(x), int64_t{1}, Address(gate_)}); }
  EXPECT_EQ(x[2], Join(2, 1));
  opener.join();
}

TEST_P(HandleTest, OrchestrationOverlapsExecution) {
  std::vector<int64_t> x = Counted(4), y = Counted(4);
  RunHandle first = worker_.submit(BumpAfterGate, {inout(x), int64_t{1}, Address(gate_)});
  bool built = false;
  RunHandle second = worker_.submit(
      [&](Orchestrator& o, const Args& args) {
        built = true;
        o.submit(bump, {inout(args.tensor(0)), int64_t{2}});
      },
      {inout(y)});
  EXPECT_TRUE(built);
  EXPECT_FALSE(first.done());
  gate_.Open();
  second.wait();
  EXPECT_EQ(y[1], Join(1, 2));
}

/// Host calls on an allocation wait for the runs that use it, and only for those.
TEST_P(HandleTest, CopiesWaitForRuns) {
  Tensor source = worker_.malloc({1000}, DType::i64), target = worker_.malloc({1000}, DType::i64);
  Tensor other = worker_.malloc({1000}, DType::i64);
  std::vector<int64_t> back(1000);
  for (int64_t round = 0; round < 5; ++round) {
    worker_.copy_to(source, Counted(1000, round));
    RunHandle handle = worker_.submit(CopySlowly, {in(source), out(target)});
    worker_.copy_to(source, Counted(1000, -5000));  // the run has read it by then
    worker_.copy_from(back, target);                // and written this
    EXPECT_EQ(back, Counted(1000, round));
    RunHandle again = worker_.submit(CopySlowly, {in(source), out(target)});
    worker_.memset(source, 0);
    worker_.copy_from(back, target);
    EXPECT_EQ(back, Counted(1000, -5000));
  }
  RunHandle gated = worker_.submit(BumpAfterGate, {inout(target), int64_t{1}, Address(gate_)});
  worker_.memset(other, 0);
  worker_.copy_from(back, other);
  EXPECT_EQ(back, std::vector<int64_t>(1000)) << "not touched by the run, so not waited for";
  EXPECT_FALSE(gated.done());
  gate_.Open();
  gated.wait();
  for (const Tensor& t : {source, target, other}) worker_.free(t);
}

/// A copy that waits for a run holds nobody else up.
TEST_P(HandleTest, LaunchesGoOnWhileACopyWaits) {
  Tensor t = worker_.malloc({4}, DType::i64);
  worker_.copy_to(t, Counted(4));
  RunHandle gated = worker_.submit(BumpAfterGate, {inout(t), int64_t{1}, Address(gate_)});
  std::vector<int64_t> back(4), x = Counted(4);
  std::thread copying([&] { worker_.copy_from(back, t); });
  std::this_thread::sleep_for(20ms);  // so that it waits, or the test shows nothing
  std::atomic<bool> launched{false};
  RunHandle other;
  std::thread launching([&] {
    other = worker_.submit(BumpOnce, {inout(x), int64_t{2}});
    launched = true;
  });
  for (int i = 0; i < 10000 && !launched; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(launched);
  gate_.Open();
  copying.join();
  launching.join();
  EXPECT_EQ(back[3], Join(3, 1));
  other.wait();
  EXPECT_EQ(x[3], Join(3, 2));
  gated.wait();
  worker_.free(t);
}

/// The report says when the run ended, not when somebody asked.
TEST_P(HandleTest, TimesEndWithTheRun) {
  Tensor t = worker_.malloc({4}, DType::i64);
  worker_.memset(t, 0);
  auto before = std::chrono::steady_clock::now();
  RunHandle handle = worker_.submit(BumpOnce, {inout(t), int64_t{1}});
  std::vector<int64_t> back(4);
  worker_.copy_from(back, t);  // waits for the run
  std::chrono::duration<double, std::micro> most = std::chrono::steady_clock::now() - before;
  std::this_thread::sleep_for(200ms);
  const RunReport& report = handle.result();
  EXPECT_LE(report[Phase::execute].wall_us, most.count());
  EXPECT_LE(report.total_us, most.count() + 150'000);
  worker_.free(t);
}

TEST_P(HandleTest, DestroyingAWorkerWaitsForItsRuns) {
  std::vector<int64_t> x = Counted(4);
  RunHandle handle;
  std::thread opener([this] {
    std::this_thread::sleep_for(20ms);
    gate_.Open();
  });
  {
    Worker worker(TwoThreads(Options()));
    handle = worker.submit(BumpAfterGate, {inout(x), int64_t{1}, Address(gate_)});
    handle.wait();  // handles are used while their worker lives
  }
  EXPECT_EQ(x[2], Join(2, 1));
  opener.join();
}

}  // namespace
}  // namespace precast::conformance
