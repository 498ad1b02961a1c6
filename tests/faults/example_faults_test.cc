// The small cases of every example on every platform, while the n-th call of the driver or the n-th
// allocation of host memory fails, for every n: a clear error, nothing that stays behind, a device
// released in order, and the next job on the same worker is right.
#include "base/failing_new_test.h"
#include "platforms/registry.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"
#include "worker/worker_access.h"

#include <precast/precast.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

const precast::Program& precast_program_vector_add();
const precast::Program& precast_program_bgemm();
const precast::Program& precast_program_paged_attention();
const precast::Program& precast_program_qwen3();
const precast::Program& precast_program_qwen3_14b_decode();

namespace precast::faults {
namespace {

using device::FaultyDriver;
using testing::HasSubstr;

struct Subject {
  std::string name;
  const Program& (*program)();
  std::string case_name;
  std::vector<std::pair<std::string, std::string>> settings = {};
};

const std::vector<Subject>& Subjects() {
  static const std::vector<Subject> subjects = {
      {"vector_add", precast_program_vector_add, "small"},
      {"bgemm", precast_program_bgemm, "small"},
      {"paged_attention_small1", precast_program_paged_attention, "small1"},
      {"paged_attention_small2", precast_program_paged_attention, "small2"},
      {"paged_attention_ragged", precast_program_paged_attention, "ragged"},
      {"paged_attention_small1_child_memory", precast_program_paged_attention,
       "small1_child_memory"},
      {"paged_attention_grow_child_memory", precast_program_paged_attention, "grow_child_memory"},
      {"qwen3", precast_program_qwen3, "default", {{"prompt", "A"}, {"tokens", "2"}}},
      {"qwen3_14b_decode", precast_program_qwen3_14b_decode, "default", {{"scale", "small"}}}};
  return subjects;
}

/// In builds with sanitizers everything takes many times as long: they look at a sample.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// The calls of a job that are made to fail: all of them, or, where there are very many (forty
/// layers of weights are uploaded one by one, all in the same way), the first, the last, and some
/// between.
std::vector<uint64_t> Chosen(uint64_t calls) {
  const uint64_t dense = kSanitized ? 5 : 40, sparse = kSanitized ? 97 : 101;
  std::vector<uint64_t> chosen;
  for (uint64_t n = 1; n <= calls; ++n) {
    bool all = !kSanitized && calls <= 10 * dense;
    if (all || n <= dense || calls - n < dense || n % sparse == 0) chosen.push_back(n);
  }
  return chosen;
}

struct ProcessFigures {
  int64_t threads, files;
  bool operator==(const ProcessFigures&) const = default;
};
void PrintTo(const ProcessFigures& figures, std::ostream* out) {
  *out << figures.threads << " threads, " << figures.files << " open files";
}
ProcessFigures ThisProcess() {
  auto count = [](const char* directory) {
    std::filesystem::directory_iterator begin(directory), end;
    return static_cast<int64_t>(std::distance(begin, end));
  };
  return {count("/proc/self/task"), count("/proc/self/fd")};
}

/// The figures of this process, as soon as they are what is expected: a thread that was joined may
/// be listed for a moment.
ProcessFigures Settled(const ProcessFigures& expected) {
  for (int i = 0; i < 2000 && ThisProcess() != expected; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ThisProcess();
}

/// A worker on a driver that can be made to fail.
class FaultyWorker {
 public:
  explicit FaultyWorker(const std::string& platform, int threads) {
    auto real = platforms::MakeDriver(platform, threads);
    sim_ = dynamic_cast<sim::SimDriver*>(real.get());
    auto faulty = std::make_unique<FaultyDriver>(std::move(real));
    driver_ = faulty.get();
    driver_->set_before_reset([this] {
      // Views, pinned memory and allocations were to go before the device is reset.
      EXPECT_EQ(sim_->held().host_views, 0u);
      EXPECT_EQ(sim_->held().pinned_blocks, 0u);
      if (!may_keep_) {
        EXPECT_EQ(sim_->held().allocations, 0u);
      }
      reset_ = true;
    });
    auto impl = std::make_unique<detail::WorkerImpl>(
        WorkerOptions{.platform = platform, .threads = threads, .log_level = "off"},
        std::move(faulty));
    impl_ = impl.get();
    worker_ = detail::WorkerAccess::Make(std::move(impl));
  }
  ~FaultyWorker() {
    worker_.reset();
    EXPECT_TRUE(reset_);
  }
  FaultyWorker(const FaultyWorker&) = delete;
  FaultyWorker& operator=(const FaultyWorker&) = delete;

  Worker& worker() { return *worker_; }
  FaultyDriver& driver() { return *driver_; }
  sim::SimDriver::Held held() const { return sim_->held(); }
  device::DeviceMemory::Usage usage() const { return impl_->memory().usage(); }
  /// A lost device may still write to memory of a run that nobody could wait for.
  void MayKeepAllocations() { may_keep_ = true; }

 private:
  sim::SimDriver* sim_ = nullptr;
  FaultyDriver* driver_ = nullptr;
  detail::WorkerImpl* impl_ = nullptr;
  bool reset_ = false, may_keep_ = false;
  std::unique_ptr<Worker> worker_;
};

class ExampleFaultsTest : public testing::TestWithParam<std::tuple<size_t, std::string>> {
 protected:
  const Subject& subject() const { return Subjects()[std::get<0>(GetParam())]; }
  const std::string& platform() const { return std::get<1>(GetParam()); }

  std::unique_ptr<CaseRun> MakeCase(Worker& worker, bool golden) const {
    const Program& program = subject().program();
    Params params(program.params);
    for (const auto& [name, value] : subject().settings) params.Set(name, value);
    for (const Case& kase : program.cases) {
      if (kase.name == subject().case_name) return kase.make({worker, params, golden});
    }
    throw std::out_of_range(subject().case_name);
  }
  /// All that a user does for one job.
  void Job(Worker& worker, bool golden) const {
    const Program& program = worker.load(subject().program());
    std::unique_ptr<CaseRun> run = MakeCase(worker, golden);
    for (int round = 0; run->WantsRound(round, 0); ++round) {
      run->After(round, worker.run(program, run->Args(round)));
    }
    if (!golden) return;
    GoldenResult result = run->Check();
    EXPECT_TRUE(result.pass) << result.detail;
  }
  /// A right job, after which the worker holds no more than after a job without faults.
  void ExpectWorks(FaultyWorker& setup) const {
    Job(setup.worker(), true);
    EXPECT_EQ(setup.usage().allocations, 0u);
    EXPECT_EQ(setup.usage().views, 0u);
    EXPECT_LE(setup.held().allocations, fresh_.allocations);
    EXPECT_LE(setup.held().pinned_blocks, fresh_.pinned_blocks);
    EXPECT_EQ(setup.held().host_views, 0u);
  }
  /// What a worker holds after a job without faults, and the calls that it makes for one.
  void Measure() {
    FaultyWorker setup(platform(), 2);
    Job(setup.worker(), true);
    fresh_ = setup.held();
    calls_ = setup.driver().calls();
  }

  sim::SimDriver::Held fresh_;
  uint64_t calls_ = 0;
};

TEST_P(ExampleFaultsTest, AnyDriverCallMayFail) {
  Measure();
  ProcessFigures before = ThisProcess();
  uint64_t failures = 0;
  for (uint64_t n : Chosen(calls_)) {
    ErrorCode code = n % 2 == 0 ? ErrorCode::io : ErrorCode::out_of_memory;
    SCOPED_TRACE("call " + std::to_string(n) + " of " + std::to_string(calls_));
    {
      FaultyWorker setup(platform(), 2);
      setup.driver().FailNth(n, code);
      try {
        Job(setup.worker(), false);
      } catch (const Error& error) {
        ++failures;
        EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
        EXPECT_THAT(error.message(), HasSubstr("injected failure of the driver call"));
      }
      setup.driver().FailNone();
      EXPECT_EQ(setup.usage().allocations, 0u) << "the case frees what it has";
      ExpectWorks(setup);
    }
    EXPECT_EQ(Settled(before), before);
    if (HasFailure()) break;  // one is enough to look at
  }
  EXPECT_GE(2 * failures, Chosen(calls_).size()) << "most calls are needed";
  RecordProperty("driver_calls", std::to_string(calls_));
  RecordProperty("failures", std::to_string(failures));
}

void ExpectLost(const std::function<void()>& act) {
  try {
    act();
    ADD_FAILURE() << "threw nothing";
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(ErrorCode::device_lost)) << error.message();
  }
}

TEST_P(ExampleFaultsTest, TheDeviceMayBeLostAtAnyCall) {
  Measure();
  ProcessFigures before = ThisProcess();
  for (uint64_t n : Chosen(calls_)) {
    SCOPED_TRACE("from call " + std::to_string(n) + " of " + std::to_string(calls_));
    {
      FaultyWorker setup(platform(), 2);
      setup.driver().LoseFrom(n);
      try {
        Job(setup.worker(), false);
      } catch (const Error& error) {
        EXPECT_EQ(Name(error.code()), Name(ErrorCode::device_lost)) << error.message();
      }
      if (setup.driver().struck()) {
        setup.MayKeepAllocations();
        uint64_t calls = setup.driver().calls();
        bool orchestrated = false;
        std::vector<float> x(4);
        auto build = [&](Orchestrator&, const Args&) { orchestrated = true; };
        ExpectLost([&] { setup.worker().malloc({4}, DType::f32); });
        ExpectLost([&] { setup.worker().run(build, {inout(x)}); });
        ExpectLost([&] { setup.worker().submit(build, {inout(x)}); });
        ExpectLost([&] { Job(setup.worker(), false); });
        EXPECT_FALSE(orchestrated) << "it is said at once";
        EXPECT_EQ(setup.driver().calls(), calls) << "nobody asks the device again";
      }
    }
    EXPECT_EQ(Settled(before), before);
    if (HasFailure()) break;
  }
}

/// Every one of the first hundred allocations, then some of the later ones, at growing distances.
TEST_P(ExampleFaultsTest, HostMemoryMayRunOutAtAnyAllocation) {
  if (!test::FailNew::kWorks) GTEST_SKIP() << "sanitizers have operators of their own";
  Measure();
  ProcessFigures before = ThisProcess();
  bool struck = true;
  int failures = 0;
  for (uint64_t n = 1; struck; n += 1 + (n < 100 ? 0 : n / 6)) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    {
      FaultyWorker setup(platform(), 1);
      try {
        test::FailNew fail(n);
        struct Note {
          test::FailNew& fail;
          bool& struck;
          ~Note() { struck = fail.struck(); }
        } note{fail, struck};
        Job(setup.worker(), false);
      } catch (const std::bad_alloc&) {  // in code of the example itself
        ++failures;
      } catch (const Error& error) {
        ++failures;
        bool in_kernel = error.code() == ErrorCode::kernel_failed &&
                         error.message().find("bad_alloc") != std::string::npos;
        EXPECT_TRUE(error.code() == ErrorCode::out_of_memory || in_kernel)
            << Name(error.code()) << ": " << error.message();
      }
      EXPECT_EQ(setup.usage().allocations, 0u) << "the case frees what it has";
      ExpectWorks(setup);
    }
    EXPECT_EQ(Settled(before), before);
    if (HasFailure()) break;
  }
  EXPECT_GT(failures, 20);
  RecordProperty("failures", std::to_string(failures));
}

INSTANTIATE_TEST_SUITE_P(All, ExampleFaultsTest,
                         testing::Combine(testing::Range(size_t{0}, Subjects().size()),
                                          testing::Values("cpu", "a2a3sim", "a5sim")),
                         [](const auto& test) {
                           return Subjects()[std::get<0>(test.param)].name + "_" +
                                  std::get<1>(test.param);
                         });

}  // namespace
}  // namespace precast::faults
