// Kinds of faults that users of task runtimes report, as far as no other test is about them.
// docs/testing.md has the table of all kinds.
#include "platforms/registry.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace precast::faults {
namespace {

using testing::HasSubstr;

class ReportedKindsTest : public testing::TestWithParam<std::string> {
 protected:
  Worker worker_{{.platform = GetParam(), .threads = 8}};
};

INSTANTIATE_TEST_SUITE_P(All, ReportedKindsTest, testing::Values("cpu", "a2a3sim", "a5sim"),
                         [](const auto& test) { return test.param; });

// A flag seen before its data.

constexpr int64_t kPayload = 2048;  // elements: many cache lines

PRECAST_KERNEL(write_payload, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<int64_t>(0);
  for (int64_t i = x.size() - 1; i >= 0; --i) x[i] = k.scalar<int64_t>(0) + i;
}
PRECAST_KERNEL(check_payload, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<const int64_t>(0);
  auto wrong = k.tensor<int64_t>(1);
  wrong[0] = 0;
  for (int64_t i = 0; i < x.size(); ++i) wrong[0] += x[i] != k.scalar<int64_t>(0) + i ? 1 : 0;
}

TEST_P(ReportedKindsTest, AConsumerSeesAllBytesOfItsProducer) {
  constexpr int64_t kPairs = 64, kRounds = 30;
  std::vector<int64_t> wrong(kPairs);
  for (int64_t round = 0; round < kRounds; ++round) {
    wrong.assign(kPairs, -1);
    worker_.run(
        [&](Orchestrator& o, const Args& args) {
          // The memory of earlier pairs is reused, so that old bytes are there to be seen.
          Tensor payload = o.alloc({kPairs, kPayload}, DType::i64);
          for (int64_t i = 0; i < kPairs; ++i) {
            o.submit(write_payload, {out(payload.select(0, i)), round * 1000 + i});
          }
          for (int64_t i = kPairs - 1; i >= 0; --i) {
            o.submit(check_payload, {in(payload.select(0, i)),
                                     out(args.tensor(0).slice(0, i, i + 1)), round * 1000 + i});
          }
        },
        {out(wrong)});
    ASSERT_EQ(wrong, std::vector<int64_t>(kPairs)) << "round " << round;
  }
}

// A write that overtakes a slow reader.

struct Race {
  std::atomic<bool> writing{false};
};
PRECAST_KERNEL(read_slowly, Core::vector)(const KernelContext& k) {
  auto& race = *reinterpret_cast<Race*>(k.scalar<uint64_t>(0));
  auto x = k.tensor<const int64_t>(0);
  auto seen = k.tensor<int64_t>(1);
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  while (!race.writing && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  for (int64_t i = 0; i < x.size(); ++i) seen[i] = x[i];
}
PRECAST_KERNEL(write_at_once, Core::vector)(const KernelContext& k) {
  auto& race = *reinterpret_cast<Race*>(k.scalar<uint64_t>(0));
  auto x = k.tensor<int64_t>(0);
  for (int64_t i = 0; i < x.size(); ++i) x[i] = 99;
  race.writing = true;
}

TEST_P(ReportedKindsTest, AWriteWaitsForASlowReader) {
  Race race;
  uint64_t address = reinterpret_cast<uint64_t>(&race);
  std::vector<int64_t> x(16, 7), seen(16);
  worker_.run(
      [&](Orchestrator& o, const Args& args) {
        o.submit(read_slowly, {in(args.tensor(0)), out(args.tensor(1)), address});
        // A part of what is read is enough.
        o.submit(write_at_once, {inout(args.tensor(0).slice(0, 15, 16)), address});
      },
      {inout(x), out(seen)});
  EXPECT_EQ(seen, std::vector<int64_t>(16, 7));
  EXPECT_EQ(x[15], 99);
}

// A recorded graph that is linked to where a buffer was allocated, not to who wrote it last.

PRECAST_KERNEL(set_late, Core::vector)(const KernelContext& k) {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  auto x = k.tensor<int64_t>(0);
  for (int64_t i = 0; i < x.size(); ++i) x[i] = k.scalar<int64_t>(0);
}
PRECAST_KERNEL(add, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<const int64_t>(0);
  auto sum = k.tensor<int64_t>(1);
  for (int64_t i = 0; i < x.size(); ++i) sum[i] += x[i];
}

void AddGraph(Orchestrator& o, const Args& args) {
  Tensor t = o.alloc({8}, DType::i64, 1000);
  o.submit(set_late, {out(t), int64_t{5}});
  o.submit(add, {in(t), inout(args.tensor(1))});
  o.submit(add, {in(args.tensor(0)), inout(args.tensor(1))});
}

TEST_P(ReportedKindsTest, ARecordedGraphFollowsTheLastWriter) {
  for (int round = 0; round < 3; ++round) {  // recorded, then replayed
    std::vector<int64_t> sum(8);
    worker_.run(
        [](Orchestrator& o, const Args& args) {
          Tensor t = o.alloc({8}, DType::i64, 100);
          for (int64_t value : {1, 2, 3}) {
            o.submit(set_late, {out(t), value});
            o.submit_graph("add", AddGraph, {in(t), inout(args.tensor(0))});
          }
        },
        {inout(sum)});
    EXPECT_EQ(sum, std::vector<int64_t>(8, 1 + 2 + 3 + 3 * 5));
  }
}

// A replay whose buffers have moved.

void Double(Orchestrator& o, const Args& args) {
  o.submit(add, {in(args.tensor(0)), inout(args.tensor(1))});
  o.submit(add, {in(args.tensor(0)), inout(args.tensor(1))});
}

TEST_P(ReportedKindsTest, AReplayUsesTheBuffersThatItIsGiven) {
  std::vector<Tensor> spacers;
  for (int64_t round = 0; round < 6; ++round) {
    std::vector<int64_t> x(8, round), host(8, 1);
    Tensor device = worker_.malloc({8}, DType::i64);
    worker_.copy_to(device, host);
    RunReport report = worker_.run(
        [](Orchestrator& o, const Args& args) {
          o.submit_graph("double", Double, {in(args.tensor(0)), inout(args.tensor(1))});
          o.submit_graph("double", Double, {in(args.tensor(0)), inout(args.tensor(2))});
        },
        {in(x), inout(host), inout(device)});
    EXPECT_EQ(report.graph.definitions_recorded, round == 0 ? 1u : 0u);
    std::vector<int64_t> copied(8);
    worker_.copy_from(copied, device);
    EXPECT_EQ(host, std::vector<int64_t>(8, 1 + 2 * round));
    EXPECT_EQ(copied, host);
    worker_.free(device);
    spacers.push_back(worker_.malloc({8 + round}, DType::i64));  // the next one lies elsewhere
  }
  for (const Tensor& tensor : spacers) worker_.free(tensor);
}

// The same input four times that makes four edges.

PRECAST_KERNEL(add_four, Core::vector)(const KernelContext& k) {
  auto sum = k.tensor<int64_t>(4);
  for (int64_t i = 0; i < sum.size(); ++i) {
    sum[i] = 0;
    for (size_t t = 0; t < 4; ++t) sum[i] += k.tensor<const int64_t>(t)[i];
  }
}

TEST_P(ReportedKindsTest, TheSameInputFourTimesIsOneEdge) {
  std::vector<int64_t> sum(8);
  RunReport report = worker_.run(
      [](Orchestrator& o, const Args& args) {
        Tensor t = o.alloc({8}, DType::i64);
        o.submit(set_late, {out(t), int64_t{6}});
        o.submit(add_four, {in(t), in(t), in(t), in(t), out(args.tensor(0))});
      },
      {out(sum)});
  EXPECT_EQ(report.graph.edges, 1u);
  EXPECT_EQ(sum, std::vector<int64_t>(8, 24));
}

// A graph that is dropped while it runs.

PRECAST_KERNEL(add_when_told, Core::vector)(const KernelContext& k) {
  auto& told = *reinterpret_cast<std::atomic<bool>*>(k.scalar<uint64_t>(0));
  told.wait(false);
  k.tensor<int64_t>(0)[0] += 1;
}
void Inner(Orchestrator& o, const Args& args) {
  for (int i = 0; i < 3; ++i) {
    o.submit(add_when_told, {inout(args.tensor(0)), args.bound_scalar<uint64_t>(0)});
  }
}
void Outer(Orchestrator& o, const Args& args) {
  for (int i = 0; i < 2; ++i) {
    o.submit_graph("inner", Inner, {inout(args.tensor(0)), args.bound_scalar<uint64_t>(0)});
  }
}

TEST_P(ReportedKindsTest, AGraphInFlightIsKeptWhateverElseIsRecorded) {
  Worker worker({.platform = GetParam(), .threads = 2, .max_definitions = 1});
  std::atomic<bool> told{false};
  std::vector<int64_t> x(1), y(1);
  RunHandle handle = worker.submit(
      [&](Orchestrator& o, const Args& args) {
        o.submit_graph("outer", Outer, {inout(args.tensor(0)), reinterpret_cast<uint64_t>(&told)});
      },
      {inout(x)});
  std::vector<RunHandle> others;
  for (int key = 0; key < 5; ++key) {  // each drops what may be dropped
    others.push_back(worker.submit(
        [&](Orchestrator& o, const Args& args) {
          auto body = [](Orchestrator& inner, const Args& a, int k) {
            inner.submit(set_late, {out(a.tensor(0)), int64_t{k}});
          };
          o.submit_graph("set", body, {out(args.tensor(0))}, key);
        },
        {out(y)}));
  }
  told = true;
  told.notify_all();
  handle.result();
  for (RunHandle& other : others) other.result();
  EXPECT_EQ(x[0], 6);
  EXPECT_EQ(y[0], 4);
}

// A boundary of more tensors than some small number.

constexpr int64_t kMany = 300;

void Sum(Orchestrator& o, const Args& args) {
  for (size_t i = 1; i <= kMany; ++i) o.submit(add, {in(args.tensor(i)), inout(args.tensor(0))});
}

TEST_P(ReportedKindsTest, ABoundaryMayHaveManyTensors) {
  std::vector<std::vector<int64_t>> parts;
  for (int64_t i = 0; i < kMany; ++i) parts.emplace_back(4, i);
  for (int round = 0; round < 2; ++round) {
    std::vector<int64_t> sum(4);
    std::vector<Arg> args = {inout(sum)};
    for (const auto& part : parts) args.push_back(in(part));
    worker_.run(
        [](Orchestrator& o, const Args& given) {
          std::vector<Arg> boundary = {inout(given.tensor(0))};
          for (size_t i = 1; i <= kMany; ++i) boundary.push_back(in(given.tensor(i)));
          o.submit_graph("sum", Sum, boundary);
        },
        args);
    EXPECT_EQ(sum, std::vector<int64_t>(4, kMany * (kMany - 1) / 2));
  }
}

// An exception that strands those who wait.

PRECAST_KERNEL(fail_when_told, Core::vector)(const KernelContext& k) {
  auto& told = *reinterpret_cast<std::atomic<bool>*>(k.scalar<uint64_t>(0));
  told.wait(false);
  k.fail("as told");
}

TEST_P(ReportedKindsTest, AFailedRunReleasesAllWhoWaitForIt) {
  // One for each waiter: what two threads of the caller do to one tensor, nobody orders for them.
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i) {
    tensors.push_back(worker_.malloc({4}, DType::i64));
    worker_.memset(tensors.back(), 0);
  }
  std::atomic<bool> told{false};
  std::vector<int64_t> later(4, 3);
  RunHandle bad = worker_.submit(
      [&](Orchestrator& o, const Args& args) {
        o.submit(fail_when_told,
                 {inout(args.tensor(0)), inout(args.tensor(1)), inout(args.tensor(2)),
                  inout(args.tensor(3)), reinterpret_cast<uint64_t>(&told)});
      },
      {inout(tensors[0]), inout(tensors[1]), inout(tensors[2]), inout(tensors[3])});
  RunHandle next = worker_.submit(
      [](Orchestrator& o, const Args& args) {
        o.submit(add, {in(args.tensor(0)), inout(args.tensor(1))});
      },
      {in(tensors[0]), inout(later)});
  std::vector<std::thread> waiters;
  std::atomic<int> released{0};
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&, i] {
      const Tensor& t = tensors[static_cast<size_t>(i)];
      std::vector<int64_t> copy(4, -1);
      if (i % 2 == 0) {
        worker_.copy_from(copy, t);
      } else {
        worker_.run(
            [&](Orchestrator& o, const Args&) {
              copy.assign(4, o.get_tensor_data<int64_t>(t, {0}));
              o.set_tensor_data<int64_t>(t, {0}, 0);
            },
            {inout(t)});
      }
      if (copy == std::vector<int64_t>(4)) ++released;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  told = true;
  told.notify_all();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(released, 4);
  EXPECT_THROW(bad.result(), Error);
  next.result();
  EXPECT_EQ(later, std::vector<int64_t>(4, 3));
  for (const Tensor& tensor : tensors) worker_.free(tensor);
}

// Symbols of several programs, and of several runtimes, in one process.

TEST(SymbolsTest, ProgramsWithTheSameSymbolsKeepTheirOwn) {
  Worker worker({.threads = 2});
  std::vector<const Program*> programs;
  for (const char* name : {"cli_probe", "fault_probe", "layers_probe", "stuck_probe"}) {
    programs.push_back(&worker.load(std::string(PRECAST_TEST_PROGRAMS_DIR "/") + name + ".so"));
    EXPECT_EQ(programs.back()->name, name);
  }
  for (int round = 0; round < 2; ++round) {
    std::vector<int32_t> x(16);
    worker.run(*programs[0], {out(x), false});
    EXPECT_EQ(x, std::vector<int32_t>(16, 7));
    std::vector<uint64_t> y(16);
    worker.run(*programs[1], {inout(y), int32_t{0}});
    EXPECT_EQ(y, std::vector<uint64_t>(16, 8));
  }
}

TEST(SymbolsTest, ASecondRuntimeInTheProcessKeepsToItself) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take two copies of one library for a mistake";
#endif
  void* own = dlopen("libprecast.so.0.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(own, nullptr) << dlerror();
  constexpr const char* kMakeDriver =
      "_ZN7precast9platforms10MakeDriverERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEi";
  Dl_info info{};
  ASSERT_NE(dladdr(dlsym(own, kMakeDriver), &info), 0);
  std::filesystem::path copy = std::filesystem::path(testing::TempDir()) /
                               ("precast_copy_" + std::to_string(getpid()) + ".so");
  std::filesystem::copy_file(std::filesystem::canonical(info.dli_fname), copy);
  void* second = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(second, nullptr) << dlerror();
  {
    using MakeDriver = std::unique_ptr<device::Driver> (*)(const std::string&, int);
    auto make = reinterpret_cast<MakeDriver>(dlsym(second, kMakeDriver));
    ASSERT_NE(make, nullptr);
    std::unique_ptr<device::Driver> driver = make("a2a3sim", 1);
    // The table of the driver's functions, to which an object begins with a pointer, and its first
    // two functions.
    void* const* table = *reinterpret_cast<void* const* const*>(driver.get());
    for (const void* address : {static_cast<const void*>(table), static_cast<const void*>(table[0]),
                                static_cast<const void*>(table[1])}) {
      ASSERT_NE(dladdr(address, &info), 0);
      EXPECT_EQ(info.dli_fname, copy.string()) << "made by the second, served by the first";
    }
    driver->Free(driver->Allocate(64));
  }
  dlclose(second);
  std::filesystem::remove(copy);
}

}  // namespace
}  // namespace precast::faults
