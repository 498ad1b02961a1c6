#include "platforms/sim/sim_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace precast::sim {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

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

Profile SixtyFourKibibytePages() {
  Profile profile = A2a3Profile();
  ApplyOptions("host_page=64k", &profile);
  return profile;
}

// What must hold on every profile.
class SimDriverTest : public testing::TestWithParam<Profile (*)()> {
 protected:
  SimDriver driver_{GetParam()(), 2};
};

INSTANTIATE_TEST_SUITE_P(Profiles, SimDriverTest,
                         testing::Values(CpuProfile, A2a3Profile, SixtyFourKibibytePages,
                                         A5Profile));

TEST_P(SimDriverTest, ReportsItsProfileAndWhatIsInUse) {
  Profile profile = GetParam()();
  device::Properties properties = driver_.properties();
  EXPECT_EQ(properties.platform, profile.name);
  EXPECT_EQ(properties.cube_cores, profile.cube_cores);
  EXPECT_EQ(properties.vector_cores, profile.vector_cores);
  EXPECT_EQ(properties.threads, 2);
  EXPECT_EQ(properties.host_views, profile.host_views());
  EXPECT_EQ(properties.host_page_bytes, profile.host_page_bytes);
  EXPECT_EQ(properties.memory_bytes, profile.memory_bytes);
  EXPECT_EQ(properties.memory_in_use, 0u);
  EXPECT_EQ(properties.memory_committed, 0u);

  device::Address address = driver_.Allocate(3 * kMiB);
  driver_.Fill(address, 1, 5000);
  properties = driver_.properties();
  EXPECT_EQ(properties.memory_in_use, 4 * kMiB);
  EXPECT_GE(properties.memory_committed, 5000u);
  driver_.Free(address);
  EXPECT_EQ(driver_.properties().memory_in_use, 0u);
}

TEST_P(SimDriverTest, EachCallAdvancesTheClockOfItsThread) {
  Profile profile = GetParam()();
  auto cost = [&](Priced call, uint64_t bytes, auto&& run) {
    uint64_t before = driver_.ModelledPicoseconds();
    run();
    EXPECT_EQ(driver_.ModelledPicoseconds() - before, profile.Cost(call, bytes));
  };
  std::vector<char> host(10000);
  device::Address address = 0;
  void* pinned = nullptr;
  void* view = nullptr;
  cost(Priced::allocate, 10000, [&] { address = driver_.Allocate(10000); });
  cost(Priced::copy_to_device, 10000, [&] { driver_.CopyToDevice(address, host.data(), 10000); });
  cost(Priced::copy_to_host, 4, [&] { driver_.CopyToHost(host.data(), address, 4); });
  cost(Priced::allocate_pinned, 10000, [&] { pinned = driver_.AllocatePinned(10000); });
  if (profile.host_view_minimum == 0) {
    cost(Priced::register_view, 10000, [&] { view = driver_.RegisterHostView(address, 10000); });
    cost(Priced::unregister_view, 10000, [&] { driver_.UnregisterHostView(address, view); });
  } else {
    uint64_t before = driver_.ModelledPicoseconds();
    EXPECT_EQ(driver_.RegisterHostView(address, 10000), nullptr);
    EXPECT_EQ(driver_.ModelledPicoseconds(), before) << "a refusal takes no time";
  }
  uint64_t before = driver_.ModelledPicoseconds();
  std::thread([&] { driver_.CopyToHost(host.data(), address, 4); }).join();
  EXPECT_EQ(driver_.ModelledPicoseconds(), before);
  driver_.FreePinned(pinned);
  cost(Priced::free, 0, [&] { driver_.Free(address); });
}

TEST_P(SimDriverTest, CopiesAndFills) {
  std::vector<char> sent(10000), received(10000);
  std::iota(sent.begin(), sent.end(), char{0});
  device::Address address = driver_.Allocate(10000);
  EXPECT_EQ(address % 64, 0u);
  driver_.CopyToDevice(address, sent.data(), 10000);
  driver_.Fill(address + 10, 0xee, 3);
  driver_.CopyToHost(received.data(), address, 10000);
  std::memset(sent.data() + 10, 0xee, 3);
  EXPECT_EQ(sent, received);
  driver_.CopyToHost(received.data(), address + 9999, 1);
  EXPECT_EQ(received[0], sent[9999]);
  driver_.Free(address);
}

TEST_P(SimDriverTest, CopiesStayInsideOneAllocation) {
  char host[64] = {};
  device::Address address = driver_.Allocate(100);
  EXPECT_THAT(
      MessageOf(ErrorCode::invalid_argument, [&] { driver_.CopyToDevice(address + 64, host, 64); }),
      HasSubstr("copy to device: 64 bytes from byte 64 of the allocation of 100 bytes"));
  EXPECT_THAT(
      MessageOf(ErrorCode::invalid_argument, [&] { driver_.CopyToHost(host, address + 100, 1); }),
      HasSubstr("copy to host: 1 bytes at device address"));
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { driver_.Fill(address, 0, 101); }),
              HasSubstr("fill: 101 bytes from byte 0"));
  EXPECT_THAT(
      MessageOf(ErrorCode::invalid_argument, [&] { driver_.CopyToDevice(address, nullptr, 4); }),
      HasSubstr("null"));
  EXPECT_THAT(
      MessageOf(ErrorCode::invalid_argument, [&] { driver_.CopyToHost(nullptr, address, 4); }),
      HasSubstr("null"));
  MessageOf(ErrorCode::invalid_argument, [&] { driver_.CopyToHost(host, address, 0); });
  driver_.Free(address);
  MessageOf(ErrorCode::invalid_argument, [&] { driver_.CopyToHost(host, address, 4); });
  MessageOf(ErrorCode::invalid_argument, [&] { driver_.Free(address); });
}

TEST_P(SimDriverTest, PinnedMemoryIsAlignedAndTracked) {
  std::vector<void*> blocks;
  for (uint64_t bytes : {1, 63, 64, 65, 100000}) {
    blocks.push_back(driver_.AllocatePinned(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 64, 0u);
    std::memset(blocks.back(), 1, bytes);
  }
  EXPECT_EQ(driver_.held().pinned_blocks, 5u);
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument,
                        [&] { driver_.FreePinned(static_cast<char*>(blocks[4]) + 64); }),
              HasSubstr("is no pinned block"));
  for (void* block : blocks) driver_.FreePinned(block);
  MessageOf(ErrorCode::invalid_argument, [&] { driver_.FreePinned(blocks[0]); });
  EXPECT_EQ(driver_.held().pinned_blocks, 0u);
  MessageOf(ErrorCode::invalid_argument, [&] { driver_.AllocatePinned(0); });
  EXPECT_THAT(MessageOf(ErrorCode::out_of_memory, [&] { driver_.AllocatePinned(UINT64_MAX); }),
              HasSubstr("18446744073709551615 bytes asked"));
}

TEST_P(SimDriverTest, HostViewsFollowTheProfile) {
  for (uint64_t bytes : {uint64_t{4}, 2 * kMiB - 1, 2 * kMiB, 3 * kMiB}) {
    device::Address address = driver_.Allocate(bytes);
    void* view = driver_.RegisterHostView(address, bytes);
    EXPECT_EQ(view != nullptr,
              bytes >= GetParam()().host_view_minimum && driver_.properties().host_views)
        << bytes;
    if (view != nullptr) {
      int value = 0;
      driver_.Fill(address, 3, 4);
      std::memcpy(&value, view, 4);
      EXPECT_EQ(value, 0x03030303);
      EXPECT_EQ(driver_.held().host_views, 1u);
      driver_.UnregisterHostView(address, view);
    }
    EXPECT_EQ(driver_.held().host_views, 0u);
    driver_.Free(address);
  }
}

TEST_P(SimDriverTest, ResetReleasesWhatIsLeft) {
  device::Address address = driver_.Allocate(3 * kMiB);
  driver_.RegisterHostView(address, 3 * kMiB);
  driver_.AllocatePinned(100);
  driver_.Reset();
  EXPECT_EQ(driver_.held().allocations, 0u);
  EXPECT_EQ(driver_.held().pinned_blocks, 0u);
  EXPECT_EQ(driver_.held().host_views, 0u);
  EXPECT_EQ(driver_.properties().memory_committed, 0u);
}

TEST_P(SimDriverTest, AnImageMustLieInAnAllocation) {
  MessageOf(ErrorCode::invalid_argument,
            [&] { driver_.Execute({.image = 64, .image_bytes = 64}); });
  device::Address address = driver_.Allocate(128);
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument,
                        [&] { driver_.Execute({.image = address, .image_bytes = 129}); }),
              HasSubstr("execute: 129 bytes from byte 0"));
}

TEST_P(SimDriverTest, CallsFromManyThreads) {
  std::vector<std::thread> threads;
  for (char t = 1; t <= 4; ++t) {
    threads.emplace_back([this, t] {
      std::vector<char> bytes(5000, t), back(5000);
      for (int i = 0; i < 50; ++i) {
        device::Address address = driver_.Allocate(5000);
        char* pinned = static_cast<char*>(driver_.AllocatePinned(5000));
        std::memcpy(pinned, bytes.data(), 5000);
        driver_.CopyToDevice(address, pinned, 5000);
        driver_.CopyToHost(back.data(), address, 5000);
        EXPECT_EQ(back, bytes);
        driver_.FreePinned(pinned);
        driver_.Free(address);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver_.held().allocations, 0u);
  EXPECT_EQ(driver_.held().pinned_blocks, 0u);
}

TEST(SimDriver, ThreadsAreOnePerProcessorByDefaultAndBounded) {
  EXPECT_GE(PropertiesOf(A2a3Profile(), 0).threads, 1);
  EXPECT_EQ(PropertiesOf(A2a3Profile(), 256).threads, 256);
  EXPECT_EQ(MessageOf(ErrorCode::invalid_argument, [] { PropertiesOf(A2a3Profile(), 257); }),
            "257 threads; allowed: 0 (one per processor) to 256");
  MessageOf(ErrorCode::invalid_argument, [] { SimDriver driver(A2a3Profile(), -1); });
}

}  // namespace
}  // namespace precast::sim
