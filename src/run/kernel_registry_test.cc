#include "run/kernel_registry.h"

#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace precast::run {
namespace {

using device::Call;
using device::FaultyDriver;

PRECAST_KERNEL(one, Core::vector)(const KernelContext&) {}
PRECAST_KERNEL(two, Core::cube)(const KernelContext&) {}
constexpr Kernel kSomewhere{"somewhere", Core::vector, &two_body, "moon, cpu ,mars"};
constexpr Kernel kElsewhere{"elsewhere", Core::vector, &two_body, "moon,cpu2"};

template <typename F>
std::string MessageOf(ErrorCode code, F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

class KernelRegistryTest : public testing::Test {
 protected:
  FaultyDriver driver_{std::make_unique<sim::SimDriver>(sim::CpuProfile(), 1)};
  KernelRegistry registry_{&driver_, "cpu"};
};

TEST_F(KernelRegistryTest, LoadsEachKernelOnce) {
  EXPECT_EQ(registry_.Index(one), 0u);
  EXPECT_EQ(registry_.Index(two), 1u);
  EXPECT_EQ(registry_.Index(one), 0u);
  EXPECT_EQ(driver_.calls(Call::load_kernels), 2u);
  EXPECT_EQ(registry_.Name(1), "two");
  EXPECT_EQ(registry_.Name(2), "#2");
}

TEST_F(KernelRegistryTest, TellsKernelsApartByFunctionAndCore) {
  Kernel on_cube{"one", Core::cube, one.function};
  EXPECT_EQ(registry_.Index(one), 0u);
  EXPECT_EQ(registry_.Index(on_cube), 1u);
}

TEST_F(KernelRegistryTest, ChecksThePlatform) {
  EXPECT_EQ(registry_.Index(kSomewhere), 0u);
  EXPECT_EQ(MessageOf(ErrorCode::not_found, [&] { registry_.Index(kElsewhere); }),
            "kernel 'elsewhere' does not exist on platform 'cpu' (it exists on: moon,cpu2)");
}

TEST_F(KernelRegistryTest, RefusesAKernelWithoutAFunction) {
  EXPECT_EQ(MessageOf(ErrorCode::invalid_argument, [&] { registry_.Index(kNoKernel); }),
            "kernel 'dependency' has no function");
  EXPECT_EQ(MessageOf(ErrorCode::invalid_argument, [&] { registry_.Index(Kernel{}); }),
            "kernel '' has no function");
}

TEST_F(KernelRegistryTest, AKernelThatFailedToLoadIsLoadedNextTime) {
  driver_.FailNth(1, ErrorCode::out_of_memory, {Call::load_kernels});
  MessageOf(ErrorCode::out_of_memory, [&] { registry_.Index(one); });
  EXPECT_EQ(registry_.Index(two), 0u);
  EXPECT_EQ(registry_.Index(one), 1u);
}

TEST_F(KernelRegistryTest, GivesAllThreadsTheSameIndices) {
  std::vector<std::thread> threads;
  std::vector<uint32_t> sums(4);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) sums[t] += registry_.Index(t % 2 == 0 ? one : two);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums[0] + sums[1], 100u);
  EXPECT_EQ(sums[2], sums[0]);
  EXPECT_EQ(sums[3], sums[1]);
}

}  // namespace
}  // namespace precast::run
