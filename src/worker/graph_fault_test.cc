// Recorded graphs when memory or the driver fails, and what a warm run does not ask of either.
#include "abi/image.h"
#include "base/failing_new_test.h"
#include "platforms/sim/profile.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"
#include "worker/worker_impl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace precast::detail {
namespace {

using device::Call;
using device::FaultyDriver;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSize = 40;
constexpr uint64_t kAlignment = 64;  // bytes

PRECAST_KERNEL(plus, Core::vector)(const KernelContext& k) {
  auto a = k.tensor<const int64_t>(0), b = k.tensor<const int64_t>(1);
  auto sum = k.tensor<int64_t>(2);
  for (const void* data : std::array<const void*, 3>{a.data(), b.data(), sum.data()}) {
    if (reinterpret_cast<uintptr_t>(data) % kAlignment != 0) {
      Fail(ErrorCode::internal, "{} is not aligned", fmt::ptr(data));
    }
  }
  for (int64_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
}

/// x += 2 * w
void Layer(Orchestrator& o, const Args& args) {
  const Tensor &x = args.tensor(0), &w = args.tensor(1);
  Tensor t = o.alloc({kSize}, DType::i64);
  o.submit(plus, {in(x), in(w), out(t)});
  o.submit(plus, {in(t), in(w), out(x)});
}
/// x += 4 * w
void TwoLayers(Orchestrator& o, const Args& args) {
  for (int i = 0; i < 2; ++i) {
    o.submit_graph("layer", Layer, {inout(args.tensor(0)), in(args.tensor(1))});
  }
}
/// x += 18 * w
void Build(Orchestrator& o, const Args& args) {
  for (int i = 0; i < 3; ++i) {
    o.submit_graph("layer", Layer, {inout(args.tensor(0)), in(args.tensor(1))});
    o.submit_graph("two", TwoLayers, {inout(args.tensor(0)), in(args.tensor(1))});
  }
}
constexpr uint64_t kSubmissions = 6;

/// A worker on a driver that can be made to fail.
struct GraphWorker {
  explicit GraphWorker(UploadMode upload = UploadMode::one, uint64_t shift = 0,
                       uint64_t definition_budget = 1 << 20) {
    auto real = std::make_unique<sim::SimDriver>(sim::A2a3Profile(), 1);
    sim = real.get();
    auto faulty = std::make_unique<FaultyDriver>(std::move(real));
    driver = faulty.get();
    driver->ShiftAddresses(shift);
    driver->set_before_reset([this] {
      EXPECT_EQ(sim->held().pinned_blocks, 0u) << "it would outlive the device's owner";
      if (!lost) {
        EXPECT_EQ(sim->held().allocations, 0u);
      }
      closed = true;
    });
    worker = std::make_unique<WorkerImpl>(WorkerOptions{.platform = "a2a3sim",
                                                        .threads = 1,
                                                        .definition_budget = definition_budget,
                                                        .upload = upload,
                                                        .log_level = "off"},
                                          std::move(faulty));
  }
  ~GraphWorker() {
    worker.reset();
    EXPECT_TRUE(closed);
  }

  RunReport Run(const Orchestration& orchestration = Build, int64_t times = 18) {
    for (int64_t i = 0; i < kSize; ++i) {
      w[static_cast<size_t>(i)] = i;
      x[static_cast<size_t>(i)] = 7;
    }
    RunReport report =
        worker->Launch(orchestration, {inout(x), in(w)}, {}, nullptr, true)->Result();
    for (int64_t i = 0; i < kSize; ++i) {
      EXPECT_EQ(x[static_cast<size_t>(i)], 7 + times * i) << i;
    }
    return report;
  }

  sim::SimDriver* sim = nullptr;
  FaultyDriver* driver = nullptr;
  bool closed = false, lost = false;
  std::unique_ptr<WorkerImpl> worker;
  std::vector<int64_t> x = std::vector<int64_t>(kSize), w = std::vector<int64_t>(kSize);
};

class GraphFaultTest : public testing::TestWithParam<UploadMode> {};
INSTANTIATE_TEST_SUITE_P(Upload, GraphFaultTest,
                         testing::Values(UploadMode::one, UploadMode::per_submission),
                         [](const auto& mode) {
                           return mode.param == UploadMode::one ? "one" : "per_submission";
                         });

TEST_P(GraphFaultTest, AnyDriverCallMayFailAndTheNextRunIsRight) {
  for (ErrorCode code : {ErrorCode::io, ErrorCode::out_of_memory}) {
    int failures = 0;
    bool struck = true;
    for (uint64_t n = 1; struck; ++n) {
      SCOPED_TRACE("call " + std::to_string(n));
      GraphWorker setup(GetParam());
      setup.driver->FailNth(n, code);
      try {
        for (int i = 0; i < 2; ++i) setup.Run();
      } catch (const Error& error) {
        ++failures;
        EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
        EXPECT_THAT(error.message(), HasSubstr("injected failure"));
      }
      struck = setup.driver->struck();
      setup.driver->FailNone();
      setup.Run();
      RunReport report = setup.Run();
      EXPECT_EQ(report.graph.definitions_recorded, 0u);
      EXPECT_EQ(report[Phase::graph_upload].modelled_ps > 0, GetParam() != UploadMode::one);
      EXPECT_EQ(setup.sim->held().allocations, 2u) << "definitions, and the context's block";
    }
    EXPECT_GT(failures, 8);
  }
}

// The run is over then, and its results are in place.
TEST_P(GraphFaultTest, AFailureToGiveBackWhatIsEvictedEndsNoRun) {
  bool struck = true;
  for (uint64_t n = 1; struck; ++n) {
    SCOPED_TRACE("free " + std::to_string(n));
    GraphWorker setup(GetParam(), 0, 0);
    setup.driver->FailNth(n, ErrorCode::io, {Call::free});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(setup.Run().graph.definitions_recorded, 2u);
    struck = setup.driver->struck();
  }
}

TEST_P(GraphFaultTest, PinnedMemoryIsFreedBeforeTheResetOfALostDevice) {
  bool struck = true;
  for (uint64_t n = 1; struck; ++n) {
    SCOPED_TRACE("from call " + std::to_string(n));
    GraphWorker setup(GetParam());
    setup.driver->LoseFrom(n);
    setup.lost = true;
    try {
      for (int i = 0; i < 2; ++i) setup.Run();
    } catch (const Error& error) {
      EXPECT_EQ(Name(error.code()), Name(ErrorCode::device_lost)) << error.message();
    }
    struck = setup.driver->struck();
  }
}

TEST_P(GraphFaultTest, WhatIsSentIsAlignedByItsAddress) {
  for (bool refuse : {false, true}) {
    GraphWorker setup(GetParam(), kAlignment);  // addresses are odd multiples of 64
    setup.driver->RefusePinned(refuse);
    int images = 0;
    setup.driver->set_on_copy([&](device::Address target, const void* source, uint64_t bytes) {
      EXPECT_EQ(target % kAlignment, 0u);
      auto begin = static_cast<const char*>(source);
      for (uint64_t at = 0; at + sizeof(abi::Header) <= bytes;) {
        abi::Header header;
        std::memcpy(&header, begin + at, sizeof(header));
        if (header.magic != abi::kMagic) return;
        ++images;
        EXPECT_EQ((target + at) % kAlignment, 0u);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(begin + at) % kAlignment, 0u);
        at += header.total_bytes;
      }
    });
    RunReport report = setup.Run();
    EXPECT_EQ(images, 3) << "two definitions and an image";
    if (refuse) {
      EXPECT_THAT(report.warnings,
                  ElementsAre(HasSubstr("bytes of definitions: sent from pageable memory"),
                              HasSubstr("bytes of image: sent from pageable memory")));
    } else {
      EXPECT_THAT(report.warnings, ElementsAre());
    }
    setup.Run();
    EXPECT_EQ(images, 4);
  }
}

TEST_P(GraphFaultTest, AnArenaThatMayNotGrowGoesOnInPageableMemoryAndTheReportSaysSo) {
  GraphWorker setup(GetParam());
  EXPECT_TRUE(setup.Run().warnings.empty());
  setup.driver->RefusePinned(true);
  EXPECT_TRUE(setup.Run().warnings.empty()) << "there is room";
  constexpr int64_t kMany = 4000;  // tasks: more than the first block holds
  RunReport report = setup.Run(
      [](Orchestrator& o, const Args& args) {
        for (int64_t i = 0; i < kMany / 2; ++i) Layer(o, args);
      },
      kMany);
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("sent from pageable memory")));
  EXPECT_EQ(report.copies.control, 1u) << "still in one copy";
}

TEST(GraphUploadTest, PerSubmissionAllocatesAndCopiesEachAloneAndLetsGo) {
  GraphWorker setup(UploadMode::per_submission);
  setup.Run();
  std::vector<uint64_t> bytes;
  setup.driver->set_on_copy(
      [&](device::Address, const void*, uint64_t count) { bytes.push_back(count); });
  uint64_t allocations = setup.driver->calls(Call::allocate);
  uint64_t frees = setup.driver->calls(Call::free);
  RunReport report = setup.Run();
  EXPECT_EQ(setup.driver->calls(Call::allocate) - allocations, kSubmissions);
  EXPECT_EQ(setup.driver->calls(Call::free) - frees, kSubmissions);
  ASSERT_EQ(bytes.size(), 2 + kSubmissions + 1) << "two arguments, submissions, the image";
  // A record, and the places of two tensors.
  for (size_t i = 0; i < kSubmissions; ++i) EXPECT_EQ(bytes[2 + i], 64u + 2 * 8);
  EXPECT_EQ(bytes.back(), report.graph.image_bytes);
  EXPECT_EQ(report.copies.control, kSubmissions + 1);
  EXPECT_EQ(report[Phase::graph_upload].bytes, kSubmissions * 80);
  EXPECT_EQ(report[Phase::graph_upload].modelled_ps, kSubmissions * (17'000'000 + 80 * 50));
  EXPECT_EQ(report[Phase::host_view_close].modelled_ps, kSubmissions * 8'000'000);
}

/// From the call to the report in the caller's hands. What there is belongs to the run as a whole:
/// its state and its report.
TEST(WarmRunTest, AllocationsDoNotDependOnHowMuchIsSubmitted) {
  if (!test::FailNew::kWorks) GTEST_SKIP() << "sanitizers have operators of their own";
  GraphWorker setup;
  auto count = [&](int64_t submissions) {
    Orchestration build = [&](Orchestrator& o, const Args& args) {
      for (int64_t i = 0; i < submissions; ++i) {
        o.submit_graph("layer", Layer, {inout(args.tensor(0)), in(args.tensor(1))});
      }
    };
    for (int i = 0; i < 3; ++i) setup.Run(build, 2 * submissions);
    test::CountNew counter;
    setup.Run(build, 2 * submissions);
    return counter.count();
  };
  uint64_t one = count(1);
  EXPECT_EQ(count(200), one);
  EXPECT_LE(one, 2u);

  Program program{.name = "layer",
                  .summary = "x += 2 w",
                  .orchestration = Layer,
                  .signature = {{Direction::inout, DType::i64, 1}, {Direction::in, DType::i64, 1}},
                  .kernels = {plus},
                  .replayable = true};
  setup.worker->Load(program);
  auto run = [&] {
    std::fill(setup.w.begin(), setup.w.end(), 1);
    std::fill(setup.x.begin(), setup.x.end(), 7);
    test::CountNew counter;
    setup.worker->Launch(program.orchestration, {inout(setup.x), in(setup.w)}, {}, &program, true)
        ->Result();
    EXPECT_EQ(setup.x.back(), 9);
    return counter.count();
  };
  for (int i = 0; i < 3; ++i) run();
  EXPECT_LE(run(), one);
}

/// Between the first and the last line of the orchestration of a warm run.
TEST(WarmRunTest, SubmittingAllocatesNothing) {
  if (!test::FailNew::kWorks) GTEST_SKIP() << "sanitizers have operators of their own";
  GraphWorker setup;
  uint64_t flat = 0, graphs = 0, first = 0;
  auto build = [&](Orchestrator& o, const Args& args) {
    const Tensor &x = args.tensor(0), &w = args.tensor(1);
    {
      test::CountNew count;
      for (int i = 0; i < 100; ++i) Layer(o, args);
      flat = count.count();
    }
    {
      test::CountNew count;
      o.submit_graph("layer", Layer, {inout(x), in(w)});
      first = count.count();
    }
    test::CountNew count;
    for (int i = 0; i < 100; ++i) o.submit_graph("layer", Layer, {inout(x), in(w)});
    graphs = count.count();
  };
  constexpr int64_t kTimes = 2 * (100 + 1 + 100);
  for (int i = 0; i < 3; ++i) setup.Run(build, kTimes);
  uint64_t allocations = setup.driver->calls(Call::allocate);
  uint64_t pinned = setup.driver->calls(Call::allocate_pinned);
  uint64_t copies = setup.driver->calls(Call::copy_to_device);
  RunReport report = setup.Run(build, kTimes);
  EXPECT_EQ(setup.driver->calls(Call::allocate), allocations);
  EXPECT_EQ(setup.driver->calls(Call::allocate_pinned), pinned);
  EXPECT_EQ(setup.driver->calls(Call::copy_to_device) - copies, 2u + 1) << "arguments, image";
  EXPECT_EQ(report.copies.control, 1u);
  EXPECT_EQ(flat, 0u);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(graphs, 0u);
}

}  // namespace
}  // namespace precast::detail
