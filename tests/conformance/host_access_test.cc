// get_tensor_data and set_tensor_data on device memory that outlives runs: through a host view
// where the platform has them, by copies elsewhere, with the same results.
#include "conformance/conformance.h"

namespace precast::conformance {
namespace {

using namespace std::chrono_literals;
using scenes::bump;
using scenes::copy;
using scenes::put;

class HostAccessTest : public OnPlatform {
 protected:
  static WorkerOptions TwoThreads(WorkerOptions options) {
    options.threads = 2;
    return options;
  }

  /// What an orchestration reads at element `i` of a device tensor.
  int64_t Get(const Tensor& tensor, int64_t i) {
    int64_t value = 0;
    worker_.run(
        [&](Orchestrator& o, const Args& args) {
          value = o.get_tensor_data<int64_t>(args.tensor(0), {i});
          o.submit(kNoKernel, {in(args.tensor(0))});
        },
        {in(tensor)});
    return value;
  }

  Gate gate_;
  Worker worker_{TwoThreads(Options())};
};
PRECAST_ON_ALL_PLATFORMS(HostAccessTest);

TEST_P(HostAccessTest, GetReadsWhatIsThereForEverySize) {
  for (int64_t n : {1, 8, 512, 8192, 40000, 300000}) {  // below and above pages of every size
    SCOPED_TRACE(n);
    Tensor t = worker_.malloc({n}, DType::i64);
    worker_.copy_to(t, Counted(static_cast<size_t>(n), 7));
    EXPECT_EQ(Get(t, 0), 7);
    EXPECT_EQ(Get(t, n - 1), n + 6);
    EXPECT_EQ(Get(t.slice(0, n / 2, n), 0), n / 2 + 7);
    worker_.free(t);
  }
}

TEST_P(HostAccessTest, NothingIsStale) {
  Tensor t = worker_.malloc({100}, DType::i64);
  for (int64_t round = 0; round < 5; ++round) {
    worker_.copy_to(t, Counted(100, round));
    EXPECT_EQ(Get(t, 3), round + 3) << "after a copy to the device";
    worker_.run(BumpOnce, {inout(t), round});
    EXPECT_EQ(Get(t, 3), Join(round + 3, round)) << "after a run";
    worker_.memset(t, 0);
    EXPECT_EQ(Get(t, 3), 0) << "after a fill";
  }
  worker_.free(t);
}

/// New memory at an old address is not what was there.
TEST_P(HostAccessTest, ViewsDoNotOutliveTheirAllocation) {
  for (int64_t round = 0; round < 20; ++round) {
    Tensor t = worker_.malloc({1000}, DType::i64);
    worker_.copy_to(t, Counted(1000, round * 10));
    EXPECT_EQ(Get(t, 5), round * 10 + 5);
    worker_.free(t);
  }
}

TEST_P(HostAccessTest, SetIsSeenByTasksAndStays) {
  Tensor t = worker_.malloc({10}, DType::i64);
  worker_.copy_to(t, Counted(10));
  std::vector<int64_t> seen(10), back(10), expected = Counted(10);
  worker_.run(
      [](Orchestrator& o, const Args& args) {
        const int64_t values[] = {-1, -2, -3};
        o.set_tensor_data(args.tensor(0).slice(0, 4, 7), std::span<const int64_t>(values));
        o.set_tensor_data<int64_t>(args.tensor(0), {9}, 900);
        EXPECT_EQ(o.get_tensor_data<int64_t>(args.tensor(0), {5}), -2);
        o.submit(copy, {in(args.tensor(0)), out(args.tensor(1))});
      },
      {inout(t), out(seen)});
  for (int64_t i : {4, 5, 6}) expected[static_cast<size_t>(i)] = 3 - i;
  expected[9] = 900;
  EXPECT_EQ(seen, expected);
  worker_.copy_from(back, t);
  EXPECT_EQ(back, expected);
  worker_.free(t);
}

TEST_P(HostAccessTest, ARunMayConsistOfSetsOnly) {
  Tensor t = worker_.malloc({4}, DType::i64);
  worker_.memset(t, 0);
  worker_.run(
      [](Orchestrator& o, const Args& args) { o.set_tensor_data<int64_t>(args.tensor(0), {2}, 5); },
      {inout(t)});
  EXPECT_EQ(Get(t, 2), 5);
  worker_.free(t);
}

TEST_P(HostAccessTest, GetWaitsForTheRunThatWrites) {
  Tensor t = worker_.malloc({4}, DType::i64), other = worker_.malloc({4}, DType::i64);
  worker_.copy_to(t, Counted(4));
  worker_.copy_to(other, Counted(4, 50));
  RunHandle writer = worker_.submit(BumpAfterGate, {inout(t), int64_t{1}, Address(gate_)});
  int64_t waited = 0, not_waited = 0;
  bool done = true;
  std::thread opener;
  worker_.run(
      [&](Orchestrator& o, const Args& args) {
        not_waited = o.get_tensor_data<int64_t>(args.tensor(1), {1});
        done = writer.done();
        opener = std::thread([this] {
          std::this_thread::sleep_for(10ms);
          gate_.Open();
        });
        waited = o.get_tensor_data<int64_t>(args.tensor(0), {3});
        o.submit(kNoKernel, {in(args.tensor(0))});
      },
      {in(t), in(other)});
  EXPECT_EQ(not_waited, 51);
  EXPECT_FALSE(done) << "no run writes that one, so nothing is waited for";
  EXPECT_EQ(waited, Join(3, 1));
  opener.join();
  writer.wait();
  worker_.free(t);
  worker_.free(other);
}

TEST_P(HostAccessTest, SetWaitsForTheRunThatReads) {
  Tensor t = worker_.malloc({1000}, DType::i64);
  std::vector<int64_t> y(1000);
  worker_.copy_to(t, Counted(1000));
  RunHandle reader = worker_.submit(CopySlowly, {in(t), out(y)});
  worker_.run(
      [](Orchestrator& o, const Args& args) {
        for (int64_t i = 0; i < 1000; ++i) o.set_tensor_data<int64_t>(args.tensor(0), {i}, -1);
      },
      {inout(t)});
  reader.wait();
  EXPECT_EQ(y, Counted(1000));
  EXPECT_EQ(Get(t, 999), -1);
  worker_.free(t);
}

/// Device tensors need not be arguments: a task or a get may name one directly.
TEST_P(HostAccessTest, DeviceTensorsNeedNotBeArguments) {
  Tensor t = worker_.malloc({8}, DType::i64);
  worker_.copy_to(t, Counted(8));
  std::vector<int64_t> y(8);
  worker_.run(
      [&](Orchestrator& o, const Args& args) {
        EXPECT_EQ(o.get_tensor_data<int64_t>(t, {6}), 6);
        o.submit(bump, {inout(t), int64_t{1}});
        o.submit(copy, {in(t), out(args.tensor(0))});
      },
      {out(y)});
  EXPECT_EQ(y[6], Join(6, 1));
  EXPECT_EQ(Get(t, 6), Join(6, 1));
  worker_.free(t);
}

}  // namespace
}  // namespace precast::conformance
