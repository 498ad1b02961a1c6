// What happens around a process and its threads: forks, ends while runs are in flight, exceptions
// on their way, orchestrations that never return.

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace precast::faults {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

PRECAST_KERNEL(add_one, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<int64_t>(0);
  for (int64_t i = 0; i < x.size(); ++i) x[i] += 1;
}
PRECAST_KERNEL(wait_for_flag, Core::vector)(const KernelContext& k) {
  auto& flag = *reinterpret_cast<std::atomic<bool>*>(k.scalar<uint64_t>(0));
  flag.wait(false);
  k.tensor<int64_t>(0)[0] += 1;
}
PRECAST_KERNEL(fail, Core::vector)(const KernelContext& k) { k.fail("as it should"); }

void AddOne(Orchestrator& o, const Args& args) { o.submit(add_one, {inout(args.tensor(0))}); }

class ProcessFaultsTest : public testing::TestWithParam<std::string> {
 protected:
  void ExpectWorks() {
    std::vector<int64_t> x(8, 4);
    worker_.run(AddOne, {inout(x)});
    EXPECT_EQ(x, std::vector<int64_t>(8, 5));
  }
  Worker worker_{{.platform = GetParam(), .threads = 2}};
};

INSTANTIATE_TEST_SUITE_P(All, ProcessFaultsTest, testing::Values("cpu", "a2a3sim", "a5sim"),
                         [](const auto& test) { return test.param; });

/// The thread sanitizer ends a child of a process with threads that starts some, too.
#ifdef __SANITIZE_THREAD__
constexpr bool kMayStartThreads = false;
#else
constexpr bool kMayStartThreads = true;
#endif

/// Runs `act` in a forked child; gives what it said, or how it ended.
std::string InChild(const std::function<std::string()>& act) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs dies of it
    std::string said = act();
    [[maybe_unused]] ssize_t written = write(ends[1], said.data(), said.size());
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? said : "signal " + std::to_string(WTERMSIG(status));
}

std::string ErrorOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return std::string(Name(error.code())) + ": " + error.message() + "\n";
  }
  return "no error\n";
}

TEST_P(ProcessFaultsTest, TheChildOfAForkMayOnlyLetGo) {
  ExpectWorks();
  Tensor t = worker_.malloc({8}, DType::i64);
  std::vector<int64_t> x(8);
  worker_.copy_to(t, x);
  std::atomic<bool> flag{false};
  RunHandle handle = worker_.submit(
      [&](Orchestrator& o, const Args& args) {
        o.submit(wait_for_flag, {inout(args.tensor(0)), reinterpret_cast<uint64_t>(&flag)});
      },
      {inout(x)});
  auto other = std::make_optional<Worker>(WorkerOptions{.platform = GetParam()});
  std::string said = InChild([&] {
    std::vector<int64_t> y(8);
    std::string all = ErrorOf([&] { worker_.run(AddOne, {inout(y)}); });
    all += ErrorOf([&] { worker_.submit(AddOne, {inout(y)}); });
    all += ErrorOf([&] { worker_.malloc({8}, DType::i64); });
    all += ErrorOf([&] { worker_.copy_from(y, t); });
    all += ErrorOf([&] { worker_.free(t); });
    all += ErrorOf([&] { handle.wait(); });
    all += ErrorOf([&] { handle.result(); });
    { RunHandle gone = std::move(handle); }
    other.reset();
    if (kMayStartThreads) {
      Worker own({.platform = GetParam(), .threads = 2});
      own.run(AddOne, {inout(y)});
    } else {
      y.assign(8, 1);
    }
    return all + (y == std::vector<int64_t>(8, 1) ? "works" : "is wrong");
  });
  size_t lines = 0;
  for (size_t at = 0; (at = said.find("unsupported: a ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 7u) << said;
  EXPECT_THAT(said, HasSubstr("of process " + std::to_string(getpid()) + " used in process "));
  EXPECT_THAT(said, HasSubstr("make a worker after the fork\n"));
  EXPECT_TRUE(said.ends_with("\nworks")) << said;

  // Nothing of that has touched the parent's.
  flag = true;
  flag.notify_all();
  handle.wait();
  EXPECT_EQ(x[0], 1);
  std::vector<int64_t> y(8, -1);
  worker_.copy_from(y, t);
  EXPECT_EQ(y, std::vector<int64_t>(8));
  worker_.free(t);
  ExpectWorks();
}

TEST_P(ProcessFaultsTest, AForkInsideAnOrchestrationIsNotLaunchedTwice) {
  std::vector<int64_t> x(8);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = -1;
  std::string said = ErrorOf([&] {
    worker_.run(
        [&](Orchestrator& o, const Args& args) {
          o.submit(add_one, {inout(args.tensor(0))});
          child = fork();
          if (child == 0) alarm(20);
        },
        {inout(x)});
  });
  if (child == 0) {
    [[maybe_unused]] ssize_t written = write(ends[1], said.data(), said.size());
    _exit(x == std::vector<int64_t>(8) ? 0 : 1);
  }
  close(ends[1]);
  char buffer[4096];
  ssize_t bytes = read(ends[0], buffer, sizeof(buffer));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(std::string(buffer, static_cast<size_t>(std::max<ssize_t>(bytes, 0))),
              StartsWith("unsupported: a run of process "));
  EXPECT_EQ(said, "no error\n");
  EXPECT_EQ(x, std::vector<int64_t>(8, 1));
  ExpectWorks();
}

TEST_P(ProcessFaultsTest, AnOrchestrationThatStopsCallingHoldsUpNobodyElse) {
  std::latch entered(1), leave(1);
  std::vector<int64_t> x(8);
  std::thread stopped([&] {
    worker_.run(
        [&](Orchestrator& o, const Args& args) {
          o.submit(add_one, {inout(args.tensor(0))});
          entered.count_down();
          leave.wait();
        },
        {inout(x)});
  });
  entered.wait();
  for (int i = 0; i < 10; ++i) ExpectWorks();
  std::vector<int64_t> y(8);
  worker_.submit(AddOne, {inout(y)}).wait();
  EXPECT_EQ(y, std::vector<int64_t>(8, 1));
  Tensor t = worker_.malloc({8}, DType::i64);
  worker_.copy_to(t, y);
  worker_.free(t);
  leave.count_down();
  stopped.join();
  EXPECT_EQ(x, std::vector<int64_t>(8, 1));
}

TEST_P(ProcessFaultsTest, HandlesAndWorkersEndWhileAnExceptionIsOnItsWay) {
  std::vector<int64_t> x(8), y(8), z(8);
  auto failing = [](Orchestrator& o, const Args& args) { o.submit(fail, {inout(args.tensor(0))}); };
  try {
    Worker inner({.platform = GetParam(), .threads = 2});
    RunHandle fine = inner.submit(AddOne, {inout(x)});
    RunHandle bad = inner.submit(failing, {inout(y)});
    RunHandle outer = worker_.submit(failing, {inout(z)});
    throw std::runtime_error("on its way");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "on its way") << "the failed runs say nothing over it";
  }
  EXPECT_EQ(x, std::vector<int64_t>(8, 1));
  EXPECT_EQ(y, std::vector<int64_t>(8));
  ExpectWorks();
}

TEST_P(ProcessFaultsTest, ScopesAndBodiesEndWhileAnExceptionIsOnItsWay) {
  std::vector<int64_t> x(8);
  for (bool inside_a_graph : {false, true}) {
    static int bodies;
    bodies = 0;
    auto throwing = [](Orchestrator& o, const Args& args) {
      auto outer = o.scope();
      Tensor t = o.alloc({8}, DType::i64, 1);
      auto inner = o.scope();
      o.submit(add_one, {inout(t)});
      o.submit(add_one, {inout(args.tensor(0))});
      ++bodies;
      throw std::runtime_error("half-way");
    };
    std::string said = ErrorOf([&] {
      worker_.run(
          [&](Orchestrator& o, const Args& args) {
            if (inside_a_graph) {
              o.submit_graph("half", throwing, {inout(args.tensor(0))});
            } else {
              throwing(o, args);
            }
          },
          {inout(x)});
    });
    EXPECT_THAT(said, HasSubstr("half-way"));
    EXPECT_EQ(bodies, 1);
    EXPECT_EQ(x, std::vector<int64_t>(8));
    ExpectWorks();
  }
}

/// Runs that a destructor starts while an exception is on its way.
TEST_P(ProcessFaultsTest, RunsWorkWhileAnExceptionIsOnItsWay) {
  struct RunsInTheEnd {
    Worker& worker;
    std::vector<int64_t>& x;
    ~RunsInTheEnd() {
      worker.run(AddOne, {inout(x)});
      EXPECT_THAT(ErrorOf([&] {
                    worker.run([](Orchestrator& o,
                                  const Args& args) { o.submit(fail, {inout(args.tensor(0))}); },
                               {inout(x)});
                  }),
                  HasSubstr("as it should"));
    }
  };
  std::vector<int64_t> x(8);
  try {
    RunsInTheEnd ends{worker_, x};
    throw std::runtime_error("on its way");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(x, std::vector<int64_t>(8, 1));
}

TEST_P(ProcessFaultsTest, AWorkerMayEndWithRunsInFlightWhoseHandlesLiveOn) {
  std::vector<int64_t> x(8), y(8);
  RunHandle first, second;
  {
    Worker inner({.platform = GetParam(), .threads = 2});
    first = inner.submit(AddOne, {inout(x)});
    second = inner.submit(
        [](Orchestrator& o, const Args& args) { o.submit(fail, {inout(args.tensor(0))}); },
        {inout(y)});
  }
  EXPECT_TRUE(first.done());
  EXPECT_EQ(x, std::vector<int64_t>(8, 1));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ErrorOf([&] { second.result(); }), HasSubstr("as it should"));
  }
}

}  // namespace
}  // namespace precast::faults
