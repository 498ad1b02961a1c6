// Recorded graphs: what they give, when they are recorded again, and what their bodies must not do.
#include "conformance/conformance.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace precast {
namespace {

using testing::HasSubstr;

/// x[i] = 3 * x[i] + scalar
PRECAST_KERNEL(mix, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<uint64_t>(0);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) {
    x[i] = 3 * x[i] + k.scalar<uint64_t>(0);
  }
}
/// target = source + 1
PRECAST_KERNEL(next, Core::vector)(const KernelContext& k) {
  auto source = k.tensor<const uint64_t>(0);
  auto target = k.tensor<uint64_t>(1);
  for (int64_t i = k.block_begin(source.size()); i < k.block_end(source.size()); ++i) {
    target[i] = source[i] + 1;
  }
}

/// x = 3 * x + s; t = x + 1; y = t + 1
void Step(Orchestrator& o, const Args& args) {
  const Tensor& x = args.tensor(0);
  o.submit(mix, {inout(x), args.bound_scalar<uint64_t>(0)}, {.blocks = 4});
  Tensor t = o.alloc(x.shape(), DType::u64);
  o.submit(next, {in(x), out(t)}, {.blocks = 2});
  o.submit(next, {in(t), out(args.tensor(1))});
}

constexpr int64_t kSize = 32;
using Values = std::vector<uint64_t>;

class GraphsTest : public conformance::OnWorker {
 protected:
  Values x_ = Values(kSize, 1), y_ = Values(kSize), z_ = Values(kSize, 3);
};
PRECAST_ON_ALL_PLATFORMS(GraphsTest);

TEST_P(GraphsTest, GiveWhatCallingTheBodyGives) {
  auto run = [&](bool recorded, const RunOptions& options) {
    Values x(kSize, 1), y(kSize);
    worker_.run(
        [&](Orchestrator& o, const Args& args) {
          for (uint64_t i = 0; i < 20; ++i) {
            if (recorded) {
              o.submit_graph("step", Step, {inout(args.tensor(0)), out(args.tensor(1)), i});
            } else {
              o.submit(mix, {inout(args.tensor(0)), i});
              Tensor t = o.alloc({kSize}, DType::u64);
              o.submit(next, {in(args.tensor(0)), out(t)});
              o.submit(next, {in(t), out(args.tensor(1))});
            }
            o.submit(mix, {inout(args.tensor(0)), i});
          }
        },
        {inout(x), inout(y)}, options);
    return std::pair(x, y);
  };
  auto expected = run(false, {.oracle = true});
  for (const RunOptions& options :
       std::vector<RunOptions>{{.threads = 1},
                               {.threads = 2},
                               {.threads = 8},
                               {.oracle = true},
                               {.oracle = true, .reverse_blocks = true}}) {
    EXPECT_EQ(run(true, options), expected);
  }
}

TEST_P(GraphsTest, AreRecordedOnceForTheWorker) {
  auto orchestration = [](Orchestrator& o, const Args& args) {
    for (uint64_t i = 0; i < 5; ++i) {
      o.submit_graph("step", Step, {inout(args.tensor(0)), out(args.tensor(1)), i});
    }
  };
  RunReport first = worker_.run(orchestration, {inout(x_), inout(y_)});
  EXPECT_EQ(first.graph.definitions_recorded, 1u);
  EXPECT_EQ(first.graph.definitions_reused, 0u);
  EXPECT_EQ(first.graph.replays, 5u);
  EXPECT_EQ(first.graph.tasks, 5u);
  EXPECT_EQ(first.graph.blocks, 5u * 7);
  EXPECT_EQ(first.copies.control, 2u);  // the definition, and the image
  EXPECT_GT(first[Phase::graph_upload].bytes, 0u);
  for (int i = 0; i < 3; ++i) {
    RunReport later = worker_.run(orchestration, {inout(x_), inout(y_)});
    EXPECT_EQ(later.graph.definitions_recorded, 0u);
    EXPECT_EQ(later.graph.definitions_reused, 1u);
    EXPECT_EQ(later.graph.variants, 1u);
    EXPECT_EQ(later.copies.control, 1u);
    EXPECT_EQ(later[Phase::graph_upload].bytes, 0u);
  }
}

TEST_P(GraphsTest, EveryDifferenceOfSignatureIsAnotherVariant) {
  Tensor a = worker_.malloc({64}, DType::u64);
  worker_.memset(a, 0);
  auto recorded = [&](const Tensor& x, const Tensor& y) {
    return worker_
        .run(
            [&](Orchestrator& o, const Args& args) {
              o.submit_graph("step", Step,
                             {inout(args.tensor(0)), out(args.tensor(1)), uint64_t{1}});
            },
            {inout(x), out(y)})
        .graph.definitions_recorded;
  };
  EXPECT_EQ(recorded(a.slice(0, 0, 8), a.slice(0, 8, 16)), 1u);
  EXPECT_EQ(recorded(a.slice(0, 16, 24), a.slice(0, 40, 48)), 0u);
  EXPECT_EQ(recorded(a.slice(0, 0, 9), a.slice(0, 9, 18)), 1u);
  EXPECT_EQ(recorded(a.slice(0, 0, 16, 2), a.slice(0, 16, 24)), 1u);
  EXPECT_EQ(recorded(a.slice(0, 0, 16, 2), a.slice(0, 16, 24)), 0u);
}

enum class Kind { a, b };

TEST_P(GraphsTest, KeyBodyAndParametersNameAFamily) {
  auto body = [](Orchestrator& o, const Args& args, auto...) {
    o.submit(mix, {inout(args.tensor(0)), uint64_t{1}});
  };
  uint64_t recorded = 0, shared = 0;
  auto count = [&](auto key, auto... params) {
    RunReport report = worker_.run(
        [&](Orchestrator& o, const Args& args) {
          o.submit_graph(key, body, {inout(args.tensor(0))}, params...);
        },
        {inout(x_)});
    recorded += report.graph.definitions_recorded;
    shared += report.graph.definitions_shared;
  };
  // Each twice; numbers that differ beyond 32 bits are different keys.
  for (int i = 0; i < 2; ++i) {
    count("a"), count("b"), count(1), count(uint64_t{1} + (uint64_t{1} << 32)), count("a", 1);
    count("a", 2), count("a", 1u), count("a", 1.0f), count("a", -0.0f), count("a", 0.0f);
    count("a", "x"), count("a", std::string("y")), count("a", "x", "y"), count("a", "xy", "");
    count("a", Kind::a), count("a", Kind::b), count("a", true);
  }
  EXPECT_EQ(recorded, 17u);
  EXPECT_EQ(shared, 16u);  // all of them hold the same graph
}

TEST_P(GraphsTest, ABoundScalarIsEachSubmissionsOwn) {
  worker_.run(
      [](Orchestrator& o, const Args& args) {
        auto body = [](Orchestrator& inner, const Args& a) {
          inner.submit(mix, {inout(a.tensor(0)), a.bound_scalar<uint64_t>(0)});
        };
        for (uint64_t i : {5, 7}) o.submit_graph("bound", body, {inout(args.tensor(0)), i});
      },
      {inout(x_)});
  EXPECT_EQ(x_[0], 3u * (3 * 1 + 5) + 7);
}

TEST_P(GraphsTest, AValueThatTheBodyLooksAtIsPartOfTheSignature) {
  auto body = [](Orchestrator& inner, const Args& a) {
    uint64_t times = a.bound_scalar<uint64_t>(0).value();
    for (uint64_t i = 0; i < times; ++i) {
      inner.submit(mix, {inout(a.tensor(0)), a.bound_scalar<uint64_t>(1)});
    }
  };
  RunReport report = worker_.run(
      [&](Orchestrator& o, const Args& args) {
        for (uint64_t times : {1, 2, 1, 2}) {
          o.submit_graph("times", body, {inout(args.tensor(0)), times, uint64_t{10} * times});
        }
      },
      {inout(x_)});
  EXPECT_EQ(report.graph.definitions_recorded, 2u);
  uint64_t expected = 1;
  for (uint64_t times : {1, 2, 1, 2}) {
    for (uint64_t i = 0; i < times; ++i) expected = 3 * expected + 10 * times;
  }
  EXPECT_EQ(x_[0], expected);
}

TEST_P(GraphsTest, BytesThatTheBodyReadsAreGuards) {
  Tensor lens = worker_.malloc({4}, DType::i32);
  Tensor x = worker_.malloc({8}, DType::u64);
  worker_.memset(x, 0);
  auto body = [](Orchestrator& inner, const Args& a) {
    for (int64_t i = 0; i < 2; ++i) {
      for (int32_t n = inner.get_tensor_data<int32_t>(a.tensor(1), {i}); n > 0; --n) {
        inner.submit(mix, {inout(a.tensor(0)), uint64_t{1}});
      }
    }
  };
  auto run = [&](std::vector<int32_t> values) {
    worker_.copy_to(lens, values);
    return worker_.run(
        [&](Orchestrator& o, const Args& args) {
          o.submit_graph("lens", body, {inout(args.tensor(0)), in(args.tensor(1))});
        },
        {inout(x), in(lens)});
  };
  EXPECT_EQ(run({1, 2, 9, 9}).graph.definitions_recorded, 1u);
  RunReport same = run({1, 2, 8, 8});  // it did not look at those
  EXPECT_EQ(same.graph.definitions_recorded, 0u);
  EXPECT_EQ(same.graph.blocks, 3u);
  if (!worker_.properties().host_views) {
    // One range for two elements; builds with checks record again, which reads both.
    EXPECT_EQ(same.host_views.devcopy, detail::kCheckBounds ? 3u : 1u);
  }
  RunReport other = run({2, 2, 9, 9});
  EXPECT_EQ(other.graph.definitions_recorded, 1u);
  EXPECT_EQ(other.graph.blocks, 4u);
  EXPECT_EQ(run({1, 2, 9, 9}).graph.definitions_recorded, 0u);
  Values result(8);
  worker_.copy_from(result, x);
  uint64_t expected = 0;
  for (int i = 0; i < 3 + 3 + 4 + 3; ++i) expected = 3 * expected + 1;
  EXPECT_EQ(result, Values(8, expected));
}

TEST_P(GraphsTest, Nest) {
  auto outer = [](Orchestrator& o, const Args& args) {
    o.submit_graph("step", Step, {inout(args.tensor(0)), out(args.tensor(1)), uint64_t{4}});
    o.submit_graph("step", Step,
                   {inout(args.tensor(0)), out(args.tensor(1)), args.bound_scalar<uint64_t>(0)});
    o.submit(mix, {inout(args.tensor(1)), args.bound_scalar<uint64_t>(0)});
  };
  auto orchestration = [&](Orchestrator& o, const Args& args) {
    for (uint64_t i = 0; i < 3; ++i) {
      o.submit_graph("outer", outer, {inout(args.tensor(0)), out(args.tensor(1)), i});
    }
    o.submit_graph("step", Step, {inout(args.tensor(0)), out(args.tensor(1)), uint64_t{9}});
  };
  RunReport report = worker_.run(orchestration, {inout(x_), inout(y_)});
  EXPECT_EQ(report.graph.definitions_recorded, 2u);
  EXPECT_EQ(report.graph.blocks, 3u * (7 + 7 + 1) + 7);
  uint64_t x = 1, y = 0;
  auto step = [&](uint64_t s) { x = 3 * x + s, y = x + 2; };
  for (uint64_t i = 0; i < 3; ++i) step(4), step(i), y = 3 * y + i;
  step(9);
  EXPECT_EQ(x_, Values(kSize, x));
  EXPECT_EQ(y_, Values(kSize, y));
}

// What an inner body looks at, the graphs around it are for, too, even when the inner one is there
// already.
TEST_P(GraphsTest, AValueThatAnInnerBodyLooksAtIsPartOfTheOuterSignature) {
  static constexpr auto inner = [](Orchestrator& o, const Args& args) {
    uint64_t times = args.bound_scalar<uint64_t>(0).value();
    for (uint64_t i = 0; i < times; ++i) o.submit(mix, {inout(args.tensor(0)), uint64_t{1}});
  };
  auto outer = [](Orchestrator& o, const Args& args) {
    o.submit_graph("inner", inner, {inout(args.tensor(0)), args.bound_scalar<uint64_t>(0)});
  };
  auto orchestration = [&](Orchestrator& o, const Args& args) {
    o.submit_graph("inner", inner, {inout(args.tensor(0)), uint64_t{2}});
    for (uint64_t times : {uint64_t{2}, uint64_t{3}, uint64_t{2}, uint64_t{1}}) {
      o.submit_graph("outer", outer, {inout(args.tensor(0)), times});
    }
  };
  RunReport report = worker_.run(orchestration, {inout(x_)});
  uint64_t x = 1;
  for (int i = 0; i < 2 + 2 + 3 + 2 + 1; ++i) x = 3 * x + 1;
  EXPECT_EQ(x_, Values(kSize, x));
  EXPECT_EQ(report.graph.definitions_recorded, 3u + 3u);
}

TEST_P(GraphsTest, TensorsThatOverlapAreOrderedInside) {
  auto body = [](Orchestrator& o, const Args& args) {
    o.submit(mix, {inout(args.tensor(0)), uint64_t{1}});
    o.submit(mix, {inout(args.tensor(1)), uint64_t{2}});
    o.submit(mix, {inout(args.tensor(0)), uint64_t{3}});
  };
  Tensor a = worker_.malloc({32}, DType::u64);
  worker_.memset(a, 0);
  worker_.run(
      [&](Orchestrator& o, const Args& args) {
        const Tensor& t = args.tensor(0);
        o.submit_graph("overlap", body, {inout(t.slice(0, 0, 8)), inout(t.slice(0, 4, 12))});
        o.submit_graph("overlap", body, {inout(t.slice(0, 2, 10)), inout(t.slice(0, 6, 14))});
      },
      {inout(a)});
  Values expected(32);
  auto mixed = [&](size_t begin, uint64_t s) {
    for (size_t i = begin; i < begin + 8; ++i) expected[i] = 3 * expected[i] + s;
  };
  mixed(0, 1), mixed(4, 2), mixed(0, 3), mixed(2, 1), mixed(6, 2), mixed(2, 3);
  Values result(32);
  worker_.copy_from(result, a);
  EXPECT_EQ(result, expected);
}

// What lies between the elements of a strided 'out' is nobody's to write.
TEST_P(GraphsTest, AStridedOutIsWrittenWhenItsElementsAre) {
  for (bool halves : {false, true}) {
    auto body = [](Orchestrator& o, const Args& args, bool by_halves) {
      const Tensor& column = args.tensor(1);
      Tensor x = args.tensor(0).reshape({column.size(), 1});
      if (by_halves) {
        o.submit(next, {in(x.slice(0, 0, 5)), out(column.slice(0, 0, 5))});
        o.submit(next, {in(x.slice(0, 5, 8)), out(column.slice(0, 5, 8))});
      } else {
        o.submit(next, {in(x), out(column)});
      }
    };
    Values x(8, 1), y(kSize, 9), expected(kSize, 9);
    for (size_t i = 2; i < expected.size(); i += 4) expected[i] = 2;
    worker_.run(
        [&](Orchestrator& o, const Args& args) {
          Tensor column = args.tensor(1).reshape({8, 4}).slice(1, 2, 3);
          o.submit_graph("column", body, {in(args.tensor(0)), out(column)}, halves);
        },
        {in(x), inout(y)});
    EXPECT_EQ(y, expected);
  }
  auto first_half = [](Orchestrator& o, const Args& args) {
    o.submit(mix, {out(args.tensor(0).slice(0, 0, 4)), uint64_t{1}});
  };
  EXPECT_THAT(Refused(ErrorCode::mismatch,
                      [&](Orchestrator& o, const Args& args) {
                        Tensor column = args.tensor(0).reshape({8, 4}).slice(1, 2, 3);
                        o.submit_graph("half", first_half, {out(column)});
                      },
                      {inout(y_)}),
              HasSubstr("does not write all of tensor 0 (u64[8, 1] with strides [4, 1])"));
}

TEST_P(GraphsTest, TakeDeviceTensorsAPredicateAndOrder) {
  Tensor d = worker_.malloc({kSize}, DType::u64);
  worker_.memset(d, 0);
  auto body = [](Orchestrator& o, const Args& args) {
    o.submit(mix, {inout(args.tensor(0)), uint64_t{7}});
  };
  worker_.run(
      [&](Orchestrator& o, const Args& args) {
        Task first = o.submit_graph("d", body, {inout(d)}, GraphOptions{.name = "first"});
        Predicate no = when(args.tensor(0), {0}, Compare::equal, 99);
        Predicate yes = when(args.tensor(0), {0}, Compare::equal, 1);
        o.submit_graph("d", body, {inout(d)}, GraphOptions{.after = first, .when = no});
        o.submit_graph("d", body, {inout(d)}, GraphOptions{.when = yes});
      },
      {in(x_)});
  Values result(kSize);
  worker_.copy_from(result, d);
  EXPECT_EQ(result, Values(kSize, 3 * 7 + 7));
}

// A lane may come to the blocks of an instance when these have run and the bytes of the instance
// hold another tensor.
TEST_P(GraphsTest, EndWhileOthersAreOnTheirWay) {
  Worker worker({.platform = GetParam(), .threads = 8});
  auto body = [](Orchestrator& o, const Args& args) {
    Tensor t = o.alloc(args.tensor(0).shape(), DType::u64);
    for (int i = 0; i < 4; ++i) {
      o.submit(next, {in(args.tensor(0)), out(t)}, {.blocks = 16});
      o.submit(next, {in(t), out(args.tensor(0))}, {.blocks = 16});
    }
  };
  Values x(1 << 14, 0);
  for (int round = 0; round < 20; ++round) {
    worker.run(
        [&](Orchestrator& o, const Args& args) {
          for (int i = 0; i < 50; ++i) {
            o.submit_graph("late", body, {inout(args.tensor(0))});
            auto scope = o.scope();
            Tensor other = o.alloc(args.tensor(0).shape(), DType::u64);
            o.submit(next, {in(args.tensor(0)), out(other)});
          }
        },
        {inout(x)});
  }
  EXPECT_EQ(x, Values(x.size(), 20u * 50 * 8));
}

TEST_P(GraphsTest, AreSafeFromSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<Values> x(4, Values(kSize, 1)), y(4, Values(kSize));
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        worker_.run(
            [&](Orchestrator& o, const Args& args) {
              for (uint64_t i = 0; i < 3; ++i) {
                o.submit_graph(i + t / 2, Step, {inout(args.tensor(0)), out(args.tensor(1)), i});
              }
            },
            {inout(x[t]), out(y[t])});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t expected = 1;
  for (int round = 0; round < 20; ++round) {
    for (uint64_t i = 0; i < 3; ++i) expected = 3 * expected + i;
  }
  for (const Values& values : x) EXPECT_EQ(values, Values(kSize, expected));
}

/// Binds of one worker that are under way at the same time, each with a recording of its own.
TEST_P(GraphsTest, ABindInsideABindHasAnArenaOfItsOwn) {
  constexpr int kDepth = 3;
  std::vector<Values> x(kDepth, Values(kSize, 1)), y(kDepth, Values(kSize));
  std::function<void(int)> bind = [&](int depth) {
    worker_.run(
        [&](Orchestrator& o, const Args& args) {
          for (uint64_t i = 0; i < 4; ++i) {
            o.submit_graph(depth, Step, {inout(args.tensor(0)), out(args.tensor(1)), i});
            if (i == 1 && depth + 1 < kDepth) bind(depth + 1);
          }
        },
        {inout(x[static_cast<size_t>(depth)]), out(y[static_cast<size_t>(depth)])});
  };
  for (int round = 0; round < 2; ++round) bind(0);
  // The one at depth d has run twice.
  uint64_t expected = 1;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 4; ++i) expected = 3 * expected + i;
  }
  for (const Values& values : x) EXPECT_EQ(values, Values(kSize, expected));
  for (const Values& values : y) EXPECT_EQ(values, Values(kSize, expected + 2));
}

/// What several submitted runs have bound and not executed yet.
TEST_P(GraphsTest, RunsInFlightKeepTheirImages) {
  conformance::Gate gate;
  Values shared(kSize, 1);
  Tensor d = worker_.malloc({kSize}, DType::u64);
  worker_.copy_to(d, shared);
  std::vector<int64_t> blocked(4);
  auto bump = [](Orchestrator& o, const Args& args) { conformance::BumpAfterGate(o, args); };
  RunHandle first = worker_.submit(bump, {inout(blocked), int64_t{3}, conformance::Address(gate)});
  std::vector<RunHandle> runs;
  for (uint64_t run = 0; run < 4; ++run) {
    runs.push_back(worker_.submit(
        [&](Orchestrator& o, const Args& args) {
          auto body = [](Orchestrator& inner, const Args& a) {
            inner.submit(mix, {inout(a.tensor(0)), a.bound_scalar<uint64_t>(0)});
          };
          for (uint64_t i = 0; i < 5; ++i) {
            o.submit_graph("bound", body, {inout(args.tensor(0)), 10 * run + i});
          }
        },
        {inout(d)}));
  }
  gate.Open();
  first.result();
  uint64_t expected = 1;
  for (uint64_t run = 0; run < 4; ++run) {
    EXPECT_EQ(runs[run].result().copies.control, run == 0 ? 2u : 1u);
    for (uint64_t i = 0; i < 5; ++i) expected = 3 * expected + 10 * run + i;
  }
  Values result(kSize);
  worker_.copy_from(result, d);
  EXPECT_EQ(result, Values(kSize, expected));
}

TEST_P(GraphsTest, ASmallBudgetEvictsWhatNoRunUses) {
  Worker worker({.platform = GetParam(), .threads = 1, .max_definitions = 2});
  auto run = [&](int key) {
    auto body = [](Orchestrator& inner, const Args& a, int k) {
      inner.submit(mix, {inout(a.tensor(0)), static_cast<uint64_t>(k)});
    };
    return worker
        .run([&](Orchestrator& o,
                 const Args& args) { o.submit_graph("k", body, {inout(args.tensor(0))}, key); },
             {inout(x_)})
        .graph;
  };
  EXPECT_EQ(run(1).definitions_recorded, 1u);
  EXPECT_EQ(run(2).definitions_recorded, 1u);
  EXPECT_EQ(run(1).definitions_recorded, 0u);
  EXPECT_EQ(run(3).definitions_recorded, 1u);  // 2 goes
  EXPECT_EQ(run(1).definitions_recorded, 0u);
  EXPECT_EQ(run(1).definitions_evicted, 1u);
  EXPECT_EQ(run(2).definitions_recorded, 1u);
}

// Whole runs.

void LoopOrchestration(Orchestrator& o, const Args& args) {
  int64_t times = o.get_tensor_data<int32_t>(args.tensor(1), {0});
  for (int64_t i = 0; i < times; ++i) {
    o.submit(mix, {inout(args.tensor(0)), args.bound_scalar<uint64_t>(0)});
  }
}

Program LoopProgram() {
  return {.name = "loop",
          .summary = "mixes as often as a tensor says",
          .orchestration = LoopOrchestration,
          .signature = {{.direction = Direction::inout, .dtype = DType::u64, .rank = 1},
                        {.direction = Direction::in, .dtype = DType::i32, .rank = 1},
                        {.direction = Direction::scalar, .dtype = DType::u64}},
          .kernels = {mix},
          .replayable = true};
}

TEST_P(GraphsTest, AReplayableProgramIsOneTaskWhileWhatItLookedAtIsTheSame) {
  Program program = LoopProgram();
  worker_.load(program);
  uint64_t expected = 1;
  auto run = [&](int32_t times, uint64_t scalar) {
    std::vector<int32_t> count{times};
    RunReport report = worker_.run(program, {inout(x_), in(count), scalar});
    for (int32_t i = 0; i < times; ++i) expected = 3 * expected + scalar;
    EXPECT_EQ(x_, Values(kSize, expected));
    EXPECT_EQ(report.graph.tasks, 1u);
    EXPECT_EQ(report.graph.replays, 1u);
    EXPECT_EQ(report.graph.blocks, static_cast<uint64_t>(times));
    return report.graph.definitions_recorded;
  };
  EXPECT_EQ(run(3, 5), 1u);
  EXPECT_EQ(run(3, 6), 0u);
  EXPECT_EQ(run(2, 6), 1u);
  EXPECT_EQ(run(3, 7), 0u);
}

TEST_P(GraphsTest, AReplayableProgramMustBeLoaded) {
  Program program = LoopProgram();
  std::vector<int32_t> count{1};
  try {
    worker_.run(program, {inout(x_), in(count), uint64_t{1}});
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.message(), HasSubstr("load"));
  }
}

// Whatever was recorded in the same memory before, equal graphs are one.
TEST_P(GraphsTest, EqualGraphsAreOneWhateverWasRecordedBetween) {
  auto wide = [](Orchestrator& o, const Args& args) {
    for (int i = 0; i < 30; ++i) {
      o.submit(mix, {inout(args.tensor(0)), ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}},
               {.name = "a rather long name"});
    }
  };
  RunReport report = worker_.run(
      [&](Orchestrator& o, const Args& args) {
        for (int i = 0; i < 4; ++i) {
          o.submit_graph(2 * i, wide, {inout(args.tensor(0))});
          o.submit_graph(2 * i + 1, Step,
                         {inout(args.tensor(0)), out(args.tensor(1)), uint64_t{1}});
        }
      },
      {inout(x_), out(y_)}, {.verify_replays = true});
  EXPECT_EQ(report.graph.definitions_recorded, 8u);
  EXPECT_EQ(report.graph.definitions_shared, 6u);
}

int hidden_state = 0;

TEST_P(GraphsTest, VerifyFindsABodyThatDependsOnMore) {
  auto body = [](Orchestrator& o, const Args& args) {
    for (int i = 0; i <= hidden_state; ++i) o.submit(mix, {inout(args.tensor(0)), uint64_t{1}});
  };
  auto orchestration = [&](Orchestrator& o, const Args& args) {
    o.submit_graph("hidden", body, {inout(args.tensor(0))});
  };
  hidden_state = 0;
  RunOptions verify{.verify_replays = true};
  for (int i = 0; i < 2; ++i) worker_.run(orchestration, {inout(x_)}, verify);
  hidden_state = 1;
  try {
    worker_.run(orchestration, {inout(x_)}, verify);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.message(), HasSubstr("graph 'hidden' gave 1 tasks"));
  }
}

// What a body must not do.

using Body = void (*)(Orchestrator&, const Args&);

struct Misused {
  const char* name;
  ErrorCode code;
  std::vector<std::string> words;
  Body body;
};

Orchestrator* outer_orchestrator = nullptr;
Tensor kept;

std::vector<Misused> Misuses() {
  return {
      {"writes_in",
       ErrorCode::mismatch,
       {"graph 'g'", "argument 0", "'in'"},
       [](Orchestrator& o, const Args& a) {
         o.submit(mix, {inout(a.tensor(2)), uint64_t{1}});
       }},
      {"reads_out_first",
       ErrorCode::not_ready,
       {"graph 'g'", "argument 0", "out"},
       [](Orchestrator& o, const Args& a) {
         o.submit(mix, {inout(a.tensor(1)), uint64_t{1}});
       }},
      {"leaves_out_unwritten",
       ErrorCode::mismatch,
       {"graph 'g'", "tensor 1", "'out'"},
       [](Orchestrator& o, const Args& a) {
         o.submit(mix, {inout(a.tensor(0)), uint64_t{1}});
       }},
      {"uses_a_tensor_of_the_run",
       ErrorCode::stale,
       {"graph 'g'", "argument 0"},
       [](Orchestrator& o, const Args&) {
         o.submit(mix, {inout(kept), uint64_t{1}});
       }},
      {"submits_elsewhere",
       ErrorCode::invalid_argument,
       {"graph 'g'", "not its own"},
       [](Orchestrator&, const Args& a) {
         outer_orchestrator->submit(mix, {inout(a.tensor(0)), uint64_t{1}});
       }},
      {"sets_data",
       ErrorCode::not_ready,
       {"graph 'g'", "set_tensor_data"},
       [](Orchestrator& o, const Args& a) { o.set_tensor_data<uint64_t>(a.tensor(0), {0}, 1); }},
      {"gets_out",
       ErrorCode::not_ready,
       {"graph 'g'", "get_tensor_data", "'out'"},
       [](Orchestrator& o, const Args& a) { o.get_tensor_data<uint64_t>(a.tensor(1), {0}); }},
      {"gets_what_it_writes",
       ErrorCode::not_ready,
       {"graph 'g'", "get_tensor_data", "task 0"},
       [](Orchestrator& o, const Args& a) {
         o.submit(mix, {inout(a.tensor(0)), uint64_t{1}});
         o.get_tensor_data<uint64_t>(a.tensor(0), {0});
       }},
      {"submits_nothing",
       ErrorCode::orchestration,
       {"graph 'g'", "no task"},
       [](Orchestrator&, const Args&) {}},
      {"throws",
       ErrorCode::orchestration,
       {"graph 'g'", "oh no"},
       [](Orchestrator&, const Args&) { throw std::runtime_error("oh no"); }},
  };
}

TEST_P(GraphsTest, BodiesThatBreakTheRulesAreErrorsAndTheWorkerGoesOn) {
  for (const Misused& misused : Misuses()) {
    SCOPED_TRACE(misused.name);
    std::string message =
        Refused(misused.code,
                [&](Orchestrator& o, const Args& args) {
                  outer_orchestrator = &o;
                  kept = args.tensor(0);
                  o.submit_graph("g", misused.body,
                                 {inout(args.tensor(0)), out(args.tensor(1)), in(args.tensor(2))});
                },
                {inout(x_), inout(y_), in(z_)});
    for (const std::string& word : misused.words) EXPECT_THAT(message, HasSubstr(word));
    Values x(kSize, 1), y(kSize);
    worker_.run(
        [](Orchestrator& o, const Args& args) {
          o.submit_graph("step", Step, {inout(args.tensor(0)), out(args.tensor(1)), uint64_t{2}});
        },
        {inout(x), out(y)});
    EXPECT_EQ(y, Values(kSize, 7));
  }
}

void Endless(Orchestrator& o, const Args& args) {
  o.submit_graph("endless", Endless, {inout(args.tensor(0))});
}

TEST_P(GraphsTest, ABodyThatRecordsItselfIsAnError) {
  std::string message =
      Refused(ErrorCode::invalid_argument,
              [](Orchestrator& o, const Args& args) { Endless(o, args); }, {inout(x_)});
  EXPECT_THAT(message, HasSubstr("endless"));
}

TEST_P(GraphsTest, ABoundScalarIsOfItsRecordingOnly) {
  static std::optional<BoundScalar<uint64_t>> bound;
  auto keep = [](Orchestrator& inner, const Args& a) {
    bound = a.bound_scalar<uint64_t>(0);
    inner.submit(mix, {inout(a.tensor(0)), *bound});
  };
  auto use = [](Orchestrator& inner, const Args& a) {
    inner.submit(mix, {inout(a.tensor(0)), *bound});
  };
  auto look = [](Orchestrator& inner, const Args& a) {
    inner.submit(mix, {inout(a.tensor(0)), bound->value()});
  };
  auto refused = [&](auto then) {
    return Refused(ErrorCode::stale,
                   [&](Orchestrator& o, const Args& args) {
                     bound.reset();
                     o.submit_graph("keep", keep, {inout(args.tensor(0)), uint64_t{1}});
                     // A replay does not call the body: then the one kept is that of the run.
                     if (!bound) bound = args.bound_scalar<uint64_t>(0);
                     then(o, args);
                   },
                   {inout(x_), uint64_t{5}});
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(refused([&](Orchestrator& o, const Args& args) {
                  o.submit_graph("use", use, {inout(args.tensor(0)), uint64_t{2}});
                }),
                HasSubstr("boundary scalar"));
    EXPECT_THAT(refused([&](Orchestrator& o, const Args& args) {
                  o.submit_graph("look", look, {inout(args.tensor(0)), uint64_t{2}});
                }),
                HasSubstr("boundary scalar"));
  }
}

TEST_P(GraphsTest, ATensorOfARecordingIsStaleAfterIt) {
  std::string message = Refused(ErrorCode::stale,
                                [](Orchestrator& o, const Args& args) {
                                  auto body = [](Orchestrator& inner, const Args& a) {
                                    kept = inner.alloc({kSize}, DType::u64);
                                    inner.submit(next, {in(a.tensor(0)), out(kept)});
                                  };
                                  o.submit_graph("keeps", body, {in(args.tensor(0))});
                                  o.submit(mix, {inout(kept), uint64_t{1}});
                                },
                                {inout(x_)});
  EXPECT_THAT(message, HasSubstr("another run"));
}

}  // namespace
}  // namespace precast
