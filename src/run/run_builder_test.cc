// What a RunBuilder keeps between runs and gives back, which the public API does not show: pins,
// uses, ranges for messages. The rest is tested through Worker in tests/.
#include "run/run_builder.h"

#include "base/failing_new_test.h"
#include "device/device_memory.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace precast::detail {
namespace {

using device::Call;

PRECAST_KERNEL(touch, Core::vector)(const KernelContext&) {}
PRECAST_KERNEL(other, Core::vector)(const KernelContext&) {}

class RunBuilderTest : public testing::Test {
 protected:
  RunBuilderTest() {
    image_.grow = [this](graph::ImageMemory& self, uint64_t bytes, uint64_t) {
      bytes_.resize(std::max<uint64_t>(bytes, 1 << 16) / 8);
      self.data = reinterpret_cast<char*>(bytes_.data());
      self.capacity = bytes_.size() * 8;
    };
  }

  void Begin(ArgList args, const Program* program = nullptr) {
    builder_.Begin(&image_, ++serial_, 1 << 20, args, program);
  }
  std::string Orchestrate(const Orchestration& orchestration) {
    try {
      builder_.Orchestrate(orchestration);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }
  /// Whether the allocation can be freed, i.e. nothing pins it.
  bool CanFree(const Tensor& tensor) {
    try {
      memory_.Free(tensor);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  device::FaultyDriver driver_{std::make_unique<sim::SimDriver>(sim::A5Profile(), 1)};
  device::DeviceMemory memory_{&driver_};
  run::KernelRegistry kernels_{&driver_, "a5sim"};
  run::DefinitionStore definitions_{&driver_, {}};
  std::atomic<uint32_t> next_serial_{1000};
  std::vector<uint64_t> bytes_;
  graph::ImageMemory image_;
  RunBuilder builder_{RunDevice{&driver_, &memory_, &kernels_, &definitions_, &next_serial_}};
  uint32_t serial_ = 0;
  Tensor a_ = memory_.Malloc({16}, DType::i32), b_ = memory_.Malloc({16}, DType::i32);
};

TEST_F(RunBuilderTest, ClaimsEachAllocationOnceAndLetsGo) {
  Begin({in(a_), inout(a_.view({0}, {4}))});
  EXPECT_EQ(Orchestrate([&](Orchestrator& o, const Args& args) {
              o.submit(touch, {inout(args.tensor(1)), in(b_)});
              o.submit(touch, {in(b_.view({3}, {5}))});
            }),
            "");
  ASSERT_EQ(builder_.access().uses().size(), 2u);
  EXPECT_EQ(builder_.access().uses()[0].address, memory_.Of(a_));
  EXPECT_EQ(builder_.access().uses()[1].bytes, 64u);
  EXPECT_TRUE(
      builder_.graph().buffer(builder_.access().uses()[0].buffer).is(graph::Buffer::kModified));
  EXPECT_FALSE(
      builder_.graph().buffer(builder_.access().uses()[1].buffer).is(graph::Buffer::kModified));
  EXPECT_FALSE(CanFree(a_));
  EXPECT_FALSE(CanFree(b_));
  builder_.Release();
  builder_.Release();
  EXPECT_TRUE(CanFree(a_));
  EXPECT_TRUE(CanFree(b_));
}

TEST_F(RunBuilderTest, LetsGoAfterAFailedBegin) {
  EXPECT_THROW(Begin({in(a_), in(Tensor())}), Error);
  builder_.Release();
  Tensor freed = memory_.Malloc({4}, DType::f32);
  memory_.Free(freed);
  EXPECT_THROW(Begin({in(a_), in(freed)}), Error);
  builder_.Release();
  EXPECT_TRUE(CanFree(a_));
}

/// Whatever allocation fails while arguments and imports are claimed.
TEST_F(RunBuilderTest, LetsGoWhenMemoryRunsOut) {
  bool struck = true;
  for (uint64_t n = 1; struck; ++n) {
    RunBuilder builder{RunDevice{&driver_, &memory_, &kernels_, &definitions_, &next_serial_}};
    Tensor a = memory_.Malloc({16}, DType::i32), b = memory_.Malloc({16}, DType::i32);
    std::vector<Arg> args = {in(a), inout(b)};
    uint32_t serial = ++serial_;
    try {
      test::FailNew fail(n);
      struct Note {
        test::FailNew& fail;
        bool& struck;
        ~Note() { struck = fail.struck(); }
      } note{fail, struck};
      builder.Begin(&image_, serial, 1 << 20, args, nullptr);
    } catch (const std::bad_alloc&) {
    }
    builder.Release();
    EXPECT_TRUE(CanFree(a)) << n;
    EXPECT_TRUE(CanFree(b)) << n;
  }
}

TEST_F(RunBuilderTest, MemoryThatRunsOutIsNotTheOrchestrationsFault) {
  Begin({in(a_)});
  try {
    builder_.Orchestrate([](Orchestrator&, const Args&) { throw std::bad_alloc(); });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_EQ(error.message(), "the host ran out of memory during the orchestration");
  }
  builder_.Release();
}

TEST_F(RunBuilderTest, LetsGoAfterAFailedOrchestration) {
  Begin({in(a_)});
  EXPECT_EQ(Orchestrate([&](Orchestrator& o, const Args&) {
              o.submit(touch, {in(b_)});
              throw 1;
            }),
            "the orchestration threw: an object that is not a std::exception");
  builder_.Release();
  EXPECT_TRUE(CanFree(a_));
  EXPECT_TRUE(CanFree(b_));
}

TEST_F(RunBuilderTest, ANewRunKnowsNothingOfTheOneBefore) {
  for (int round = 0; round < 3; ++round) {
    Begin({inout(round % 2 == 0 ? a_ : b_)});
    EXPECT_EQ(Orchestrate([&](Orchestrator& o, const Args& args) {
                o.set_tensor_data(args.tensor(0), {0}, 7);
                o.submit(touch, {inout(args.tensor(0))});
              }),
              "");
    EXPECT_EQ(builder_.access().uses().size(), 1u);
    EXPECT_EQ(builder_.graph().statistics().tasks, 1u);
    EXPECT_EQ(builder_.graph().statistics().edges, 0u);
    builder_.Release();
  }
}

TEST_F(RunBuilderTest, MergesChangedRangesAndShowsAFew) {
  Begin({inout(a_), inout(b_)});
  EXPECT_EQ(builder_.access().ChangedRanges(), "");
  Orchestrate([&](Orchestrator& o, const Args& args) {
    for (int i = 4; i < 8; ++i) o.set_tensor_data(args.tensor(0), {i}, i);
    o.set_tensor_data(args.tensor(1), {0}, 1);
  });
  std::string first =
      fmt::format("bytes 16 … 31 of allocation {}", builder_.access().uses()[0].allocation);
  EXPECT_EQ(builder_.access().ChangedRanges(),
            fmt::format("{}, bytes 0 … 3 of allocation {}", first,
                        builder_.access().uses()[1].allocation));
  builder_.Release();

  Begin({inout(a_)});
  Orchestrate([&](Orchestrator& o, const Args& args) {
    for (int i = 0; i < 16; i += 2) o.set_tensor_data(args.tensor(0), {15 - i}, i);
    for (int i = 0; i < 3; ++i) o.set_tensor_data(args.tensor(0), {2 * i}, i);
  });
  std::string ranges = builder_.access().ChangedRanges();
  EXPECT_TRUE(ranges.ends_with(" and 3 more")) << ranges;
  builder_.Release();
}

TEST_F(RunBuilderTest, CopiesWhatThePlatformDoesNotMap) {
  std::vector<int32_t> values(16, 5);
  driver_.CopyToDevice(memory_.Of(a_), values.data(), 64);
  uint64_t before = driver_.calls(Call::copy_to_host);
  Begin({in(a_)});
  int32_t seen = 0;
  Orchestrate([&](Orchestrator& o, const Args& args) {
    seen = o.get_tensor_data<int32_t>(args.tensor(0), {3});
    o.submit(touch, {in(args.tensor(0))});
  });
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(driver_.calls(Call::copy_to_host), before + 1);
  EXPECT_EQ(driver_.calls(Call::register_host_view), 1u);
  builder_.Release();
}

TEST_F(RunBuilderTest, RemembersKernelsButNotAcrossPrograms) {
  Program one{.name = "one", .kernels = {touch}}, two{.name = "two", .kernels = {other}};
  auto run = [&](const Program* program, const Kernel& kernel) {
    Begin({inout(a_)}, program);
    std::string message = Orchestrate(
        [&](Orchestrator& o, const Args& args) { o.submit(kernel, {inout(args.tensor(0))}); });
    builder_.Release();
    return message;
  };
  EXPECT_EQ(run(&one, touch), "");
  EXPECT_EQ(run(&two, touch), "kernel 'touch' is none of the kernels of program 'two': other");
  EXPECT_EQ(run(&two, other), "");
  EXPECT_EQ(run(nullptr, touch), "");
  EXPECT_EQ(run(&one, other), "kernel 'other' is none of the kernels of program 'one': touch");
  EXPECT_EQ(driver_.calls(Call::load_kernels), 2u);
}

TEST_F(RunBuilderTest, AScopeThatEndsTooEarlyFailsTheRunEvenThoughNothingCanBeThrown) {
  Begin({inout(a_)});
  std::string message = Orchestrate([&](Orchestrator& o, const Args& args) {
    o.submit(touch, {inout(args.tensor(0))});
    std::unique_ptr<Scope> outer(new Scope(o.scope()));
    Scope inner = o.scope();
    outer.reset();
  });
  EXPECT_EQ(message, "scope 2 ended before a scope that was opened inside it");
  builder_.Release();
}

TEST_F(RunBuilderTest, ARunThatOnlySetsValuesIsARun) {
  Begin({inout(a_)});
  EXPECT_EQ(Orchestrate([&](Orchestrator& o, const Args& args) {
              o.set_tensor_data(args.tensor(0), {0}, 1);
            }),
            "");
  builder_.Release();
  Begin({inout(a_)});
  EXPECT_EQ(Orchestrate([](Orchestrator&, const Args&) {}),
            "the orchestration submitted no task (at least 1 needed)");
  builder_.Release();
}

}  // namespace
}  // namespace precast::detail
