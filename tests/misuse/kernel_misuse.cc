// What kernels do wrong while a run executes.
#include "misuse/misuse.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

namespace precast::misuse {
namespace {

PRECAST_KERNEL(throws, Core::vector)(const KernelContext&) {
  throw std::runtime_error("divided by a cucumber");
}
PRECAST_KERNEL(throws_number, Core::cube)(const KernelContext&) { throw 42; }
PRECAST_KERNEL(throws_in_block_2, Core::vector)(const KernelContext& k) {
  if (k.block() == 2) throw std::runtime_error("block 2 is cursed");
}
PRECAST_KERNEL(fails, Core::vector)(const KernelContext& k) {
  k.fail("value 7 is not prime enough");
}
PRECAST_KERNEL(asks_for_tensor_4, Core::vector)(const KernelContext& k) { k.tensor<int64_t>(4); }
PRECAST_KERNEL(asks_for_floats, Core::vector)(const KernelContext& k) { k.tensor<float>(0); }
PRECAST_KERNEL(writes_its_input, Core::vector)(const KernelContext& k) {
  k.tensor<int64_t>(0)[0] = 1;
}
PRECAST_KERNEL(asks_for_scalar_1, Core::vector)(const KernelContext& k) { k.scalar<int64_t>(1); }
PRECAST_KERNEL(asks_for_another_scalar, Core::vector)(const KernelContext& k) {
  k.scalar<float>(0);
}
PRECAST_KERNEL(follows_a_wild_address, Core::vector)(const KernelContext& k) {
  k.pointer(0x123450);
}

/// What a kernel may do to the worker that runs it. Scalar 0 is the address of one.
struct Reentry {
  Worker& worker;
  std::function<void(Worker&)> act;
};
PRECAST_KERNEL(uses_its_worker, Core::vector)(const KernelContext& k) {
  const Reentry& reentry = *reinterpret_cast<const Reentry*>(k.scalar<uint64_t>(0));
  reentry.act(reentry.worker);
}

// Index checks exist in checked builds only.
PRECAST_KERNEL(indexes_outside, Core::vector)(const KernelContext& k) {
  k.tensor<int64_t>(0)[8] = 0;
}
PRECAST_KERNEL(indexes_outside_an_axis, Core::vector)(const KernelContext& k) {
  k.tensor<int64_t>(0)(-1) = 0;
}
PRECAST_KERNEL(indexes_another_rank, Core::vector)(const KernelContext& k) {
  k.tensor<int64_t>(0)(0, 0) = 0;
}

/// A chain of five tasks; the third, "middle", runs `kernel`. Two have run before it, two wait.
std::function<void(Worker&)> Running(const Kernel& kernel, uint32_t blocks = 1) {
  return Building([&kernel, blocks](Orchestrator& o, const Args& args) {
    const Tensor& x = args.tensor(0);
    for (int64_t i = 0; i < 2; ++i) o.submit(bump, {inout(x), i});
    o.submit(kernel, {inout(x), int64_t{5}}, {.blocks = blocks, .name = "middle"});
    for (int64_t i = 0; i < 2; ++i) o.submit(bump, {inout(x), i});
  });
}

std::function<void(Worker&)> ReadOnly(const Kernel& kernel) {
  return Building([&kernel](Orchestrator& o, const Args& args) {
    o.submit(kernel, {in(args.tensor(0))}, {.name = "reader"});
  });
}

/// `act` inside a kernel of the same worker: under `run`, the oracle and `submit`.
std::function<void(Worker&)> InsideAKernel(std::function<void(Worker&)> act) {
  return [act](Worker& worker) {
    Reentry reentry{worker, act};
    auto address = reinterpret_cast<uint64_t>(&reentry);
    std::vector<int64_t> x(8);
    auto build = [](Orchestrator& o, const Args& args) {
      o.submit(uses_its_worker, {inout(args.tensor(0)), args.scalar<uint64_t>(0)},
               {.name = "greedy"});
    };
    EXPECT_THROW(worker.run(build, {inout(x), address}), Error);
    EXPECT_THROW(worker.run(build, {inout(x), address}, {.oracle = true}), Error);
    worker.submit(build, {inout(x), address}).result();
  };
}

/// The same with a device tensor.
std::function<void(Worker&)> CopyingInsideAKernel(
    std::function<void(Worker&, const Tensor&, std::vector<int64_t>&)> act) {
  return [act](Worker& worker) {
    DeviceTensor t(worker, {8});
    std::vector<int64_t> host(8);
    InsideAKernel([&](Worker& same) { act(same, *t, host); })(worker);
  };
}

void BuildBump(Orchestrator& o, const Args& args) {
  o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
}

}  // namespace

std::vector<Misuse> KernelMisuse() {
  std::vector<Misuse> misuse = {
      {"kernel_that_throws",
       ErrorCode::kernel_failed,
       {"task 2 'middle'", "kernel throws", "divided by a cucumber", "2 of 5"},
       Running(throws)},
      {"kernel_that_throws_a_number",
       ErrorCode::kernel_failed,
       {"task 2 'middle'", "kernel throws_number", "2 of 5"},
       Running(throws_number)},
      {"kernel_that_throws_in_one_block",
       ErrorCode::kernel_failed,
       {"task 2 'middle'", "kernel throws_in_block_2", "cursed", "2 of 5"},
       Running(throws_in_block_2, 5)},
      {"kernel_that_reports_failure",
       ErrorCode::kernel_failed,
       {"task 2 'middle'", "kernel fails", "value 7 is not prime enough", "2 of 5"},
       Running(fails)},
      {"kernel_that_asks_for_a_missing_tensor",
       ErrorCode::out_of_range,
       {"'middle'", "asks_for_tensor_4", "tensor 4", "1"},
       Running(asks_for_tensor_4)},
      {"kernel_that_asks_for_another_dtype",
       ErrorCode::mismatch,
       {"'middle'", "asks_for_floats", "f32", "i64"},
       Running(asks_for_floats)},
      {"kernel_that_asks_for_a_missing_scalar",
       ErrorCode::out_of_range,
       {"'middle'", "asks_for_scalar_1", "scalar 1", "1"},
       Running(asks_for_scalar_1)},
      {"kernel_that_asks_for_another_scalar_type",
       ErrorCode::mismatch,
       {"'middle'", "asks_for_another_scalar", "f32", "i64"},
       Running(asks_for_another_scalar)},
      {"kernel_that_follows_a_wild_address",
       ErrorCode::invalid_argument,
       {"'middle'", "follows_a_wild_address", "0x123450"},
       Running(follows_a_wild_address)},
      {"kernel_that_writes_its_input",
       ErrorCode::mismatch,
       {"'reader'", "writes_its_input", "tensor 0", "'in'"},
       ReadOnly(writes_its_input)},
      {"kernel_that_throws_among_others",
       ErrorCode::kernel_failed,
       {"'bad'", "cucumber"},
       Building([](Orchestrator& o, const Args& args) {
         Tensor t = o.alloc({200}, DType::i64);
         for (int64_t i = 0; i < 200; ++i) {
           o.submit(put, {out(t.slice(0, i, i + 1)), i});
           if (i == 120) o.submit(throws, {in(args.tensor(0))}, {.name = "bad"});
         }
       })},
      {"kernel_that_throws_under_the_oracle",
       ErrorCode::kernel_failed,
       {"task 1 'bad'", "kernel throws", "cucumber", "1 of 3"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         worker.run(
             [](Orchestrator& o, const Args& args) {
               o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
               o.submit(throws, {inout(args.tensor(0))}, {.name = "bad"});
               o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
             },
             {inout(x)}, {.oracle = true});
       }},
      {"run_inside_a_kernel",
       ErrorCode::invalid_argument,
       {"'greedy'", "run inside a kernel of the same worker"},
       InsideAKernel([](Worker& worker) {
         std::vector<int64_t> y(8);
         worker.run(BuildBump, {inout(y)});
       })},
      {"submit_inside_a_kernel",
       ErrorCode::invalid_argument,
       {"'greedy'", "submit inside a kernel of the same worker"},
       InsideAKernel([](Worker& worker) {
         std::vector<int64_t> y(8);
         worker.submit(BuildBump, {inout(y)});
       })},
      {"copy_to_inside_a_kernel",
       ErrorCode::invalid_argument,
       {"'greedy'", "copy_to inside a kernel of the same worker"},
       CopyingInsideAKernel([](Worker& worker, const Tensor& t, std::vector<int64_t>& host) {
         worker.copy_to(t, host);
       })},
      {"copy_from_inside_a_kernel",
       ErrorCode::invalid_argument,
       {"'greedy'", "copy_from inside a kernel of the same worker"},
       CopyingInsideAKernel([](Worker& worker, const Tensor& t, std::vector<int64_t>& host) {
         worker.copy_from(host, t);
       })},
      {"memset_inside_a_kernel",
       ErrorCode::invalid_argument,
       {"'greedy'", "memset inside a kernel of the same worker"},
       CopyingInsideAKernel(
           [](Worker& worker, const Tensor& t, std::vector<int64_t>&) { worker.memset(t, 0); })},
      {"kernel_of_a_mixed_task_that_throws",
       ErrorCode::kernel_failed,
       {"'mixed'", "throws_number", "throws"},
       Building([](Orchestrator& o, const Args& args) {
         static constexpr Kernel kIdle{"idle", Core::cube, [](const KernelContext&) {}};
         o.submit(MixedKernel{throws_number, throws}, {inout(args.tensor(0))}, {.name = "mixed"});
         o.submit(kIdle, {inout(args.tensor(0))});
       })},
  };
  if (detail::kCheckBounds) {
    misuse.push_back({"kernel_that_indexes_outside",
                      ErrorCode::out_of_range,
                      {"'middle'", "indexes_outside", "element 8", "7 allowed"},
                      Running(indexes_outside)});
    misuse.push_back({"kernel_that_indexes_outside_an_axis",
                      ErrorCode::out_of_range,
                      {"'middle'", "indexes_outside_an_axis", "-1", "axis 0", "7 allowed"},
                      Running(indexes_outside_an_axis)});
    misuse.push_back({"kernel_that_indexes_another_rank",
                      ErrorCode::out_of_range,
                      {"'middle'", "indexes_another_rank", "2", "rank 1"},
                      Running(indexes_another_rank)});
  }
  return misuse;
}

/// Two runs that are in flight at once keep more memory than one, so this is no entry of the table.
TEST(KernelMisuseTest, WaitInsideAKernel) {
  Worker worker({.threads = 2});
  std::vector<int64_t> y(8);
  RunHandle handle = worker.submit(BuildBump, {inout(y)});
  ExpectError(ErrorCode::invalid_argument,
              {"'greedy'", "waiting for a run inside a kernel of the same worker"},
              [&] { InsideAKernel([&](Worker&) { handle.wait(); })(worker); });
  handle.wait();
  EXPECT_EQ(y, std::vector<int64_t>(8, 1));
}

// A kernel that exceeds its time budget. Its memory is given back once it returns, so this is no
// entry of the table.

std::atomic<bool> release_sleepers;
std::atomic<int> sleepers;
PRECAST_KERNEL(sleeps, Core::vector)(const KernelContext&) {
  ++sleepers;
  while (!release_sleepers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --sleepers;
}

class TimeoutTest : public testing::TestWithParam<std::string> {
 protected:
  TimeoutTest() { release_sleepers = false; }
  ~TimeoutTest() override {
    release_sleepers = true;
    while (sleepers > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static void Sleep(Worker& worker) {
    std::vector<int64_t> x(8);
    worker.run(
        [](Orchestrator& o, const Args& args) {
          o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
          o.submit(sleeps, {inout(args.tensor(0))}, {.name = "stuck"});
          o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
        },
        {inout(x)}, {.kernel_timeout = std::chrono::milliseconds(200)});
  }
  static void ExpectWorks(Worker& worker) {
    std::vector<int64_t> x(8);
    worker.run(
        [](Orchestrator& o, const Args& args) {
          o.submit(bump, {inout(args.tensor(0)), int64_t{4}});
        },
        {inout(x)});
    EXPECT_EQ(x, std::vector<int64_t>(8, 4));
  }
};
INSTANTIATE_TEST_SUITE_P(All, TimeoutTest, testing::Values("cpu", "a2a3sim", "a5sim"),
                         [](const auto& test) { return test.param; });

TEST_P(TimeoutTest, FailsTheRunAndTheWorkerGoesOn) {
  Worker worker({.platform = GetParam(), .threads = 2});
  ExpectWorks(worker);
  Bytes in_use = worker.properties().memory_in_use;
  for (int round = 0; round < 2; ++round) {
    ExpectError(ErrorCode::timeout, {"task 1 'stuck'", "kernel sleeps", "200 ms", "1 of 3"},
                [&] { Sleep(worker); });
    ExpectWorks(worker);  // while the kernel still sleeps
  }
  release_sleepers = true;
  for (int i = 0; i < 1000 && worker.properties().memory_in_use > in_use; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ExpectWorks(worker);
  }
  EXPECT_EQ(worker.properties().memory_in_use, in_use) << "what the kernels held is given back";
}

TEST_P(TimeoutTest, ManyStuckKernelsLoseTheDevice) {
  Worker worker({.platform = GetParam(), .threads = 2});
  bool lost = false;
  for (int round = 0; round < 100 && !lost; ++round) {
    try {
      Sleep(worker);
      FAIL() << "the kernel should have timed out";
    } catch (const Error& error) {
      lost = error.code() == ErrorCode::device_lost;
      EXPECT_TRUE(lost || error.code() == ErrorCode::timeout) << error.message();
    }
  }
  EXPECT_TRUE(lost);
  ExpectError(ErrorCode::device_lost, {"lost"}, [&] { ExpectWorks(worker); });
  release_sleepers = true;  // destroying the worker is what is left
}

TEST_P(TimeoutTest, TheWorkersBudgetHolds) {
  Worker worker(
      {.platform = GetParam(), .threads = 2, .kernel_timeout = std::chrono::milliseconds(30)});
  std::vector<int64_t> x(8);
  ExpectError(ErrorCode::timeout, {"sleeps", "30 ms"}, [&] {
    worker.run([](Orchestrator& o, const Args& args) { o.submit(sleeps, {inout(args.tensor(0))}); },
               {inout(x)});
  });
  EXPECT_EQ(x, std::vector<int64_t>(8)) << "a failed run copies nothing back";
  release_sleepers = true;
}

}  // namespace precast::misuse
