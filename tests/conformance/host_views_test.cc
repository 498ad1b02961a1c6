// Host views of child memory as runs see them: when there is one, who shares it, when it goes, and
// what a run reports about it. Where a platform has none, the same runs give the same values by
// copies, and the report counts those.
#include "conformance/conformance.h"

#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <optional>

namespace precast::conformance {
namespace {

using namespace std::chrono_literals;
using scenes::bump;
using scenes::copy;
using testing::HasSubstr;

class HostViewsTest : public OnPlatform {
 protected:
  static WorkerOptions Bounded(WorkerOptions options, Bytes budget) {
    options.threads = 2;
    options.host_view_budget = budget;
    return options;
  }

  /// Whether this platform maps allocations of so many bytes.
  bool Maps(Bytes bytes) const {
    if (!worker_.properties().host_views) return false;
    return worker_.properties().host_page_bytes < 65536 || bytes >= Bytes{2} << 20;
  }
  Tensor Make(int64_t n, int64_t first = 0) {
    Tensor t = worker_.malloc({n}, DType::i64);
    worker_.copy_to(t, Counted(static_cast<size_t>(n), first));
    return t;
  }
  using Look = std::function<void(Orchestrator&, const Args&)>;
  RunReport Run(const std::vector<Arg>& args, const Look& look, const RunOptions& options = {}) {
    return worker_.run(
        [&](Orchestrator& o, const Args& a) {
          look(o, a);
          o.submit(kNoKernel, {});
        },
        args, options);
  }
  /// A run that reads element 0 of all its arguments, which hold 0, 1, 2, …
  RunReport ReadAll(const std::vector<Arg>& args, const RunOptions& options = {}) {
    return Run(
        args,
        [](Orchestrator& o, const Args& a) {
          for (size_t i = 0; i < a.tensors(); ++i) {
            EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(i), {0}), 0);
          }
        },
        options);
  }
  std::string MessageOf(ErrorCode code, const std::vector<Arg>& args, const Look& look) {
    try {
      Run(args, look);
    } catch (const Error& error) {
      EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
      return error.message();
    }
    ADD_FAILURE() << "nothing thrown";
    return "";
  }

  Worker worker_{Bounded(Options(), Bytes{1} << 30)};
};
PRECAST_ON_ALL_PLATFORMS(HostViewsTest);

TEST_P(HostViewsTest, ClaimsAloneRegisterNothing) {
  std::vector<Arg> args;
  for (int i = 0; i < 20; ++i) args.push_back(inout(Make(8)));
  RunReport report = Run(args, [](Orchestrator&, const Args&) {});
  EXPECT_EQ(report.host_views, RunReport::HostViews{});
  for (const Arg& arg : args) worker_.free(arg.tensor());
}

TEST_P(HostViewsTest, TensorsAndViewsOfAnAllocationShareOneView) {
  Tensor t = Make(24);
  Tensor again = worker_.tensor_at(worker_.address(t) + 80, {2, 4}, DType::i64);
  RunReport report =
      Run({in(t), in(again), in(t.slice(0, 4, 20))}, [](Orchestrator& o, const Args& a) {
        EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {3}), 3);
        EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(1), {1, 2}), 16);
        Tensor view = a.tensor(2).slice(0, 2, 12), view_of_view = view.slice(0, 1, 9, 2);
        EXPECT_EQ(o.get_tensor_data<int64_t>(view_of_view, {2}), 11);
      });
  EXPECT_EQ(report.host_views.established, Maps(192) ? 1u : 0u);
  EXPECT_EQ(report.host_views.mapped_bytes, Maps(192) ? 192u : 0u);
  EXPECT_EQ(report.host_views.devcopy, Maps(192) ? 0u : 3u);
  EXPECT_EQ(report.host_views.devcopy_bytes, Maps(192) ? 0u : 24u);
  worker_.free(t);
}

TEST_P(HostViewsTest, LaterRunsShareTheViewAndARefusalIsRemembered) {
  Tensor small = Make(8), large = worker_.malloc({1 << 19}, DType::i64);
  worker_.memset(large, 0);
  uint64_t maps = (Maps(64) ? 1u : 0u) + (Maps(4 << 20) ? 1u : 0u);
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    RunReport report = ReadAll({in(small), in(large)});
    EXPECT_EQ(report.host_views.established, round == 0 ? maps : 0);
    EXPECT_EQ(report.host_views.reused, round == 0 ? 0 : maps);
    EXPECT_EQ(report.host_views.refused, round == 0 ? 2 - maps : 0);
    EXPECT_EQ(report.host_views.devcopy, 2 - maps);
    EXPECT_EQ(report.host_views.dropped, 0u);
    if (maps == 2 && round > 0) {
      EXPECT_EQ(report[Phase::host_orch].modelled_ps, 0u);
    }
  }
  worker_.free(small);
  worker_.free(large);
  Tensor next = Make(8);
  EXPECT_EQ(ReadAll({in(next)}).host_views.established, Maps(64) ? 1u : 0u)
      << "an old view is no view of new memory, nor is an old refusal";
  worker_.free(next);
}

TEST_P(HostViewsTest, PoliciesDifferInCostOnly) {
  Tensor t = Make(8);
  for (int round = 0; round < 3; ++round) {
    RunReport::HostViews rebuilt =
        ReadAll({in(t)}, {.host_views = HostViewPolicy::rebuild}).host_views;
    EXPECT_EQ(rebuilt.established, Maps(64) ? 1u : 0u);
    EXPECT_EQ(rebuilt.dropped, Maps(64) ? 1u : 0u);
    EXPECT_EQ(rebuilt.mapped_bytes, 0u);
    RunReport::HostViews copied = ReadAll({in(t)}, {.host_views = HostViewPolicy::copy}).host_views;
    EXPECT_EQ(copied, (RunReport::HostViews{.devcopy = 1, .devcopy_bytes = 8}));
  }
  worker_.free(t);
}

TEST_P(HostViewsTest, ARangeIsOneAccess) {
  Tensor t = Make(100);
  RunReport report = Run({inout(t)}, [](Orchestrator& o, const Args& a) {
    std::vector<int64_t> all(100);
    std::array<int64_t, 3> three{-1, -2, -3};
    std::array<int64_t, 2> two{};
    o.get_tensor_data(a.tensor(0), all);
    EXPECT_EQ(all, Counted(100));
    o.set_tensor_data(a.tensor(0).slice(0, 10, 13), three);
    o.get_tensor_data(a.tensor(0).slice(0, 11, 13), std::span<int64_t, 2>(two));
    EXPECT_EQ(two, (std::array<int64_t, 2>{-2, -3}));
    o.set_tensor_data(a.tensor(0).slice(0, 20, 22), std::span<const int64_t, 2>(two));
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {21}), -3);
  });
  EXPECT_EQ(report.host_views.devcopy, Maps(800) ? 0u : 5u);
  EXPECT_EQ(report.host_views.devcopy_bytes, Maps(800) ? 0u : 800u + 24 + 16 + 16 + 8);
  worker_.free(t);
}

// Budget.

TEST_P(HostViewsTest, TheBudgetDropsTheLeastRecentlyUsed) {
  Worker worker(Bounded(Options(), 200));
  std::vector<Tensor> t;
  for (int i = 0; i < 4; ++i) {
    t.push_back(worker.malloc({8}, DType::i64));
    worker.memset(t.back(), 0);
  }
  auto read = [&](size_t i) {
    return worker
        .run(
            [](Orchestrator& o, const Args& a) {
              EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {5}), 0);
              o.submit(kNoKernel, {});
            },
            {in(t[i])})
        .host_views;
  };
  uint64_t one = Maps(64) ? 1 : 0;
  for (size_t i : {0, 1, 2}) EXPECT_EQ(read(i).dropped, 0u);
  EXPECT_EQ(read(0).reused, one);
  EXPECT_EQ(read(3).dropped, one) << "1 was the oldest";
  EXPECT_EQ(read(0).reused, one);
  EXPECT_EQ(read(2).reused, one);
  EXPECT_EQ(read(1).established, one);
  EXPECT_EQ(read(1).mapped_bytes, 192 * one);
  for (const Tensor& tensor : t) worker.free(tensor);
}

TEST_P(HostViewsTest, WhatTheBudgetCannotHoldIsCopiedAndWarnedAbout) {
  Worker worker(Bounded(Options(), 100));
  Tensor fits = worker.malloc({8}, DType::i64), large = worker.malloc({1000}, DType::i64);
  worker.memset(fits, 0);
  worker.memset(large, 0);
  for (int round = 0; round < 2; ++round) {
    RunReport report = worker.run(
        [](Orchestrator& o, const Args& a) {
          for (size_t i : {0, 1, 0, 1}) {
            EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(i), {5}), 0);
          }
          o.submit(kNoKernel, {});
        },
        {in(fits), in(large)});
    EXPECT_EQ(report.host_views.devcopy, Maps(64) ? 2u : 4u);
    EXPECT_EQ(report.host_views.dropped, 0u);
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_THAT(report.warnings[0],
                HasSubstr("host_view_budget (100 bytes) for the host views of 1 allocations, the "
                          "largest of 8000 bytes"));
  }
  worker.free(fits);
  worker.free(large);
}

// Lifetime and order.

TEST_P(HostViewsTest, AClaimedAllocationIsNotFreed) {
  Tensor t = Make(8);
  Run({in(t)}, [&](Orchestrator& o, const Args& a) {
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {5}), 5);
    try {
      worker_.free(t);
      ADD_FAILURE() << "freed";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("pinned by 1 runs in flight"));
    }
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {5}), 5);
  });
  worker_.free(t);
}

TEST_P(HostViewsTest, AnAddressUsedAgainShowsTheNewBytes) {
  Tensor first = Make(8);
  uint64_t address = worker_.address(first);
  ReadAll({in(first)});
  worker_.free(first);
  Tensor second = Make(8, 100);
  ASSERT_EQ(worker_.address(second), address) << "not needed, but what this is about";
  RunReport report = Run({in(second)}, [](Orchestrator& o, const Args& a) {
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {1}), 101);
  });
  EXPECT_EQ(report.host_views.reused, 0u);
  worker_.free(second);
}

TEST_P(HostViewsTest, WritesReachKernelsOfThisRunAndTheNext) {
  Tensor t = Make(4);
  for (int64_t round = 0; round < 3; ++round) {
    std::vector<int64_t> seen(4);
    worker_.run(
        [&](Orchestrator& o, const Args& a) {
          int64_t before = o.get_tensor_data<int64_t>(a.tensor(0), {2});
          EXPECT_EQ(before, round == 0 ? 2 : Join(round * 10 - 10, 1)) << "what the kernel left";
          o.set_tensor_data<int64_t>(a.tensor(0), {2}, round * 10);
          o.submit(copy, {in(a.tensor(0)), out(a.tensor(1))});
          o.submit(bump, {inout(a.tensor(0)), int64_t{1}});
        },
        {inout(t), out(seen)});
    EXPECT_EQ(seen[2], round * 10);
  }
  worker_.free(t);
}

/// A get that has been made before is a plain load, but not past the launch of a writer.
TEST_P(HostViewsTest, AReadRepeatedAfterALaunchWaitsForIt) {
  Tensor t = Make(4);
  Gate gate;
  std::thread opener;
  std::optional<RunHandle> writer;
  Run({in(t)}, [&](Orchestrator& o, const Args& a) {
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {3}), 3);
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {3}), 3);
    writer = worker_.submit(BumpAfterGate, {inout(t), int64_t{1}, Address(gate)});
    opener = std::thread([&gate] {
      std::this_thread::sleep_for(10ms);
      gate.Open();
    });
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {3}), Join(3, 1));
  });
  opener.join();
  writer->wait();
  worker_.free(t);
}

TEST_P(HostViewsTest, ARunInFlightDelaysAWrite) {
  Tensor t = Make(4);
  std::vector<int64_t> seen(4);
  Gate gate;
  RunHandle reader = worker_.submit(
      [](Orchestrator& o, const Args& a) {
        Tensor held = o.alloc({4}, DType::i64, 0);
        o.submit(gated_bump, {inout(held), int64_t{1}, a.scalar<uint64_t>(0)});
        o.submit(kNoKernel, {in(held), inout(a.tensor(0))});
        o.submit(copy, {in(a.tensor(0)), out(a.tensor(1))});
      },
      {inout(t), out(seen), Address(gate)});
  std::thread opener([&gate] {
    std::this_thread::sleep_for(10ms);
    gate.Open();
  });
  Run({inout(t)},
      [](Orchestrator& o, const Args& a) { o.set_tensor_data<int64_t>(a.tensor(0), {3}, -1); });
  opener.join();
  reader.wait();
  EXPECT_EQ(seen, Counted(4)) << "the write came after the run that was launched first";
  worker_.free(t);
}

// A task elsewhere in the allocation keeps nobody from reading the rest.
TEST_P(HostViewsTest, OnlyWhatATaskWritesIsUnreadable) {
  Tensor t = Make(8);
  Run({inout(t)}, [](Orchestrator& o, const Args& a) {
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {5}), 5);
    o.submit(bump, {inout(a.tensor(0).slice(0, 0, 4)), int64_t{1}});
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {5}), 5);
    EXPECT_THROW(o.get_tensor_data<int64_t>(a.tensor(0), {3}), Error);
    o.set_tensor_data<int64_t>(a.tensor(0), {5}, 50);
    EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {5}), 50);
  });
  worker_.free(t);
}

// Threads.

TEST_P(HostViewsTest, ConcurrentBindsShareAView) {
  Tensor t = Make(64), mine[2] = {Make(64), Make(64)};
  std::atomic<uint64_t> established{0};
  auto look = [&](int64_t which) {
    const Tensor& own = mine[static_cast<size_t>(which)];
    for (int64_t round = 0; round < 200; ++round) {
      RunReport report = Run({in(t), inout(own)}, [&](Orchestrator& o, const Args& a) {
        for (int64_t i = 0; i < 64; ++i) {
          EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {i}), i);
        }
        o.set_tensor_data<int64_t>(a.tensor(1), {round % 64}, -round);
        EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(1), {round % 64}), -round);
      });
      established += report.host_views.established;
    }
  };
  std::thread other(look, 1);
  look(0);
  other.join();
  EXPECT_EQ(established, Maps(512) ? 3u : 0u);
  for (const Tensor& tensor : {t, mine[0], mine[1]}) worker_.free(tensor);
}

TEST_P(HostViewsTest, ConcurrentBindsWithinABudgetOfOneView) {
  Worker worker(Bounded(Options(), 600));
  auto look = [&](int64_t which) {
    Tensor own = worker.malloc({64}, DType::i64);
    worker.copy_to(own, Counted(64, which));
    for (int round = 0; round < 100; ++round) {
      HostViewPolicy policy = round % 3 == 0 ? HostViewPolicy::rebuild : HostViewPolicy::cache;
      worker.run(
          [&](Orchestrator& o, const Args& a) {
            for (int64_t i = 0; i < 64; ++i) {
              EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {i}), i + which);
            }
            o.submit(kNoKernel, {});
          },
          {in(own)}, {.host_views = policy});
    }
    worker.free(own);
  };
  std::thread other(look, 1000);
  look(0);
  other.join();
}

TEST_P(HostViewsTest, WorkersShareNothing) {
  Worker other(Options());
  Tensor t = Make(8), foreign = other.malloc({8}, DType::i64);
  other.memset(foreign, 0);
  RunReport report = ReadAll({in(t)});
  EXPECT_EQ(report.host_views.mapped_bytes, Maps(64) ? 64u : 0u);
  report = other.run(
      [](Orchestrator& o, const Args& a) {
        EXPECT_EQ(o.get_tensor_data<int64_t>(a.tensor(0), {7}), 0);
        o.submit(kNoKernel, {});
      },
      {in(foreign)});
  EXPECT_EQ(report.host_views.established, Maps(64) ? 1u : 0u);
  EXPECT_EQ(report.host_views.mapped_bytes, Maps(64) ? 64u : 0u);
  std::string message = MessageOf(ErrorCode::mismatch, {}, [&](Orchestrator& o, const Args&) {
    o.get_tensor_data<int64_t>(foreign, {2});
  });
  for (const char* part : {"get_tensor_data: element [2] of i64[8]", "another worker",
                           "pass a live tensor of this worker"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  worker_.free(t);
  other.free(foreign);
}

// What stays unreadable.

TEST_P(HostViewsTest, WhatHasNoValueIsAnErrorThatSaysWhatToDo) {
  Tensor t = Make(8), freed = Make(8);
  worker_.free(freed);
  std::string address = fmt::format("device address {:#x}", worker_.address(t) + 24);
  std::string written =
      MessageOf(ErrorCode::not_ready, {inout(t)}, [](Orchestrator& o, const Args& a) {
        o.submit(bump, {inout(a.tensor(0)), int64_t{1}});
        o.get_tensor_data<int64_t>(a.tensor(0), {3});
      });
  for (const std::string& part :
       {std::string("get_tensor_data: element [3] of i64[8]"), address,
        std::string("task 0 'bump'"),
        std::string("of this run writes it and has not run; read it before that submit")}) {
    EXPECT_THAT(written, HasSubstr(part));
  }
  std::string used =
      MessageOf(ErrorCode::not_ready, {inout(t)}, [](Orchestrator& o, const Args& a) {
        o.submit(kNoKernel, {in(a.tensor(0))});
        o.set_tensor_data<int64_t>(a.tensor(0), {3}, 1);
      });
  for (const std::string& part :
       {std::string("set_tensor_data: element [3] of i64[8]"), address,
        std::string("of this run uses it and has not run; write it before that submit")}) {
    EXPECT_THAT(used, HasSubstr(part));
  }
  std::string created = MessageOf(ErrorCode::not_ready, {}, [](Orchestrator& o, const Args&) {
    o.get_tensor_data<float>(o.alloc({2, 4}, DType::f32, 0), {1, 2});
  });
  for (const char* part : {"element [1, 2] of f32[2, 4]",
                           "lives in the graph heap of this run; no value exists before the run "
                           "executes",
                           "read that in a later run"}) {
    EXPECT_THAT(created, HasSubstr(part));
  }
  std::string stale = MessageOf(ErrorCode::stale, {}, [&](Orchestrator& o, const Args&) {
    o.get_tensor_data<int64_t>(freed, {1});
  });
  for (const char* part : {"element [1] of i64[8]", "has been freed", "pass a live tensor"}) {
    EXPECT_THAT(stale, HasSubstr(part));
  }
  try {
    worker_.tensor_at(worker_.address(t) + (uint64_t{1} << 40), {2}, DType::f32);
    ADD_FAILURE() << "nothing is there";
  } catch (const Error& error) {
    for (const char* part : {"f32[2] at device address 0x", "no live allocation of this worker"}) {
      EXPECT_THAT(error.message(), HasSubstr(part));
    }
  }
  worker_.free(t);
}

// The modelled clock.

TEST_P(HostViewsTest, ModelledTimeIsTheSameInEveryRunOfTheSameCalls) {
  std::array<uint64_t, kPhases> expected{};
  for (int threads : {1, 2, 1}) {
    WorkerOptions options = Options();
    options.threads = threads;
    Worker worker(options);
    Tensor t = worker.malloc({1000}, DType::i64);
    worker.memset(t, 0);
    std::vector<int64_t> y(1000);
    RunReport report;
    for (int round = 0; round < 3; ++round) {
      report = worker.run(
          [](Orchestrator& o, const Args& a) {
            o.get_tensor_data<int64_t>(a.tensor(0), {3});
            o.submit(copy, {in(a.tensor(0)), out(a.tensor(1))});
          },
          {in(t), out(y)}, {.host_views = HostViewPolicy::rebuild});
    }
    std::array<uint64_t, kPhases> found{};
    for (size_t i = 0; i < kPhases; ++i) found[i] = report.phases[i].modelled_ps;
    if (threads == 1) expected = found;
    EXPECT_EQ(found, expected);
    EXPECT_EQ(report.modelled_ps() > 0, HasTimingModel());
    EXPECT_EQ(report.assumed.empty(), !HasTimingModel());
    worker.free(t);
  }
}

}  // namespace
}  // namespace precast::conformance
