// Host views when driver calls fail: the run says so, nothing leaks, the next run is right.
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"
#include "worker/worker_impl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace precast::detail {
namespace {

using device::Call;
using testing::HasSubstr;

class HostViewFaultTest : public testing::TestWithParam<HostViewPolicy> {
 protected:
  static WorkerOptions Options(HostViewPolicy policy) {
    return {.platform = "a2a3sim",
            .threads = 1,
            .host_views = policy,
            .host_view_budget = 150,
            .log_level = "off"};
  }

  /// Element 0 becomes element 3, plus 1.
  static void Look(Orchestrator& o, const Args& args) {
    int32_t value = o.get_tensor_data<int32_t>(args.tensor(0), {3});
    o.set_tensor_data(args.tensor(0), {0}, value + 1);
    o.submit(kNoKernel, {in(args.tensor(0))});
  }
  RunReport Run(const Tensor& tensor) {
    return worker_->Launch(Look, {inout(tensor)}, {}, nullptr, true)->Result();
  }
  int32_t First(const Tensor& tensor) {
    int32_t first = 0;
    sim_->CopyToHost(&first, worker_->memory().Of(tensor), 4);
    return first;
  }

  sim::SimDriver* sim_ = new sim::SimDriver(sim::A2a3Profile(), 1);
  device::FaultyDriver* driver_ = new device::FaultyDriver(std::unique_ptr<device::Driver>(sim_));
  std::unique_ptr<WorkerImpl> worker_ =
      std::make_unique<WorkerImpl>(Options(GetParam()), std::unique_ptr<device::Driver>(driver_));
  Tensor a_ = worker_->memory().Malloc({25}, DType::i32);
  Tensor b_ = worker_->memory().Malloc({25}, DType::i32);
};

// The budget holds one of the two views, so that the second run drops the first one's.
TEST_P(HostViewFaultTest, NothingLeaksWhicheverCallFails) {
  int failed = 0, warned = 0;
  for (uint64_t n = 1; n < 16; ++n) {
    SCOPED_TRACE(n);
    for (const Tensor& tensor : {a_, b_}) sim_->Fill(worker_->memory().Of(tensor), 1, 100);
    driver_->FailNth(n, ErrorCode::io,
                     {Call::register_host_view, Call::unregister_host_view, Call::copy_to_host,
                      Call::copy_to_device});
    for (const Tensor& tensor : {a_, b_}) {
      try {
        RunReport report = Run(tensor);
        for (const std::string& warning : report.warnings) {  // when the results are in place
          EXPECT_THAT(warning, HasSubstr("dropping a host view: "));
          ++warned;
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io) << error.message();
        ++failed;
      }
    }
    driver_->FailNone();
    EXPECT_LE(worker_->memory().usage().mapped_bytes, 150u);
    EXPECT_EQ(sim_->held().host_views, worker_->memory().usage().views);
    for (const Tensor& tensor : {a_, b_}) {
      Run(tensor);
      EXPECT_EQ(First(tensor), 0x01010102);
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_EQ(warned, GetParam() == HostViewPolicy::rebuild ? 2 : 0);
  worker_->memory().Free(a_);
  worker_->memory().Free(b_);
  EXPECT_EQ(worker_->memory().usage().views, 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, HostViewFaultTest,
                         testing::Values(HostViewPolicy::cache, HostViewPolicy::rebuild,
                                         HostViewPolicy::copy));

}  // namespace
}  // namespace precast::detail
