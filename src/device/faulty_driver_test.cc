#include "support/faulty_driver.h"

#include "platforms/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace precast::device {
namespace {

class FaultyDriverTest : public testing::Test {
 protected:
  FaultyDriver driver_{platforms::MakeDriver("a2a3sim", 1)};
};

TEST_F(FaultyDriverTest, PassesOnAndCounts) {
  Address address = driver_.Allocate(64);
  driver_.Fill(address, 3, 64);
  char byte = 0;
  driver_.CopyToHost(&byte, address, 1);
  EXPECT_EQ(byte, 3);
  driver_.CopyToDevice(address, &byte, 1);
  void* view = driver_.RegisterHostView(address, 64);
  ASSERT_NE(view, nullptr);
  driver_.UnregisterHostView(address, view);
  driver_.FreePinned(driver_.AllocatePinned(8));
  driver_.Free(address);
  driver_.LoadKernels(0, {});
  EXPECT_EQ(driver_.calls(), 10u);
  EXPECT_EQ(driver_.calls(Call::fill), 1u);
  EXPECT_EQ(driver_.properties().memory_in_use, 0u);
  driver_.Reset();
  EXPECT_EQ(driver_.calls(), 11u);
}

TEST_F(FaultyDriverTest, TheNthCallOfAKindFailsOnce) {
  driver_.FailNth(2, ErrorCode::out_of_memory, {Call::allocate});
  Address first = driver_.Allocate(64);
  driver_.Fill(first, 0, 64);  // not of that kind
  EXPECT_FALSE(driver_.struck());
  try {
    driver_.Allocate(64);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_EQ(error.message(), "injected failure of the driver call allocate");
  }
  EXPECT_TRUE(driver_.struck());
  EXPECT_EQ(driver_.calls(Call::allocate), 2u);
  driver_.Free(driver_.Allocate(64));
  driver_.Free(first);
}

TEST_F(FaultyDriverTest, WithoutKindsAnyCallFails) {
  Address address = driver_.Allocate(64);
  driver_.FailNth(1, ErrorCode::io);
  EXPECT_THROW(driver_.Fill(address, 0, 64), Error);
  driver_.FailNth(2, ErrorCode::io);
  driver_.Fill(address, 0, 64);
  EXPECT_THROW(driver_.AllocatePinned(64), Error);
  driver_.FailNth(1, ErrorCode::io);
  driver_.FailNone();
  driver_.Fill(address, 0, 64);
  driver_.Free(address);
}

TEST_F(FaultyDriverTest, AFailedReleaseHasReleased) {
  Address address = driver_.Allocate(64);
  void* view = driver_.RegisterHostView(address, 64);
  void* pinned = driver_.AllocatePinned(64);
  driver_.FailNth(1, ErrorCode::io, {Call::unregister_host_view});
  EXPECT_THROW(driver_.UnregisterHostView(address, view), Error);
  driver_.FailNth(1, ErrorCode::io, {Call::free_pinned});
  EXPECT_THROW(driver_.FreePinned(pinned), Error);
  driver_.FailNth(1, ErrorCode::io, {Call::free});
  EXPECT_THROW(driver_.Free(address), Error);
  EXPECT_EQ(driver_.properties().memory_in_use, 0u);
  EXPECT_THROW(driver_.FreePinned(pinned), Error) << "it is gone";
}

TEST_F(FaultyDriverTest, RefusesViewsOnDemand) {
  Address address = driver_.Allocate(64);
  driver_.RefuseHostViews(true);
  EXPECT_EQ(driver_.RegisterHostView(address, 64), nullptr);
  driver_.RefuseHostViews(false);
  void* view = driver_.RegisterHostView(address, 64);
  EXPECT_NE(view, nullptr);
  driver_.UnregisterHostView(address, view);
  driver_.Free(address);
}

TEST_F(FaultyDriverTest, EveryCallHasAName) {
  for (size_t i = 0; i < kCalls; ++i) EXPECT_FALSE(Name(static_cast<Call>(i)).empty());
  EXPECT_EQ(Name(Call::reset), "reset");
  EXPECT_EQ(static_cast<size_t>(Call::reset), kCalls - 1);
}

TEST_F(FaultyDriverTest, ALostDeviceStaysLost) {
  Address address = driver_.Allocate(64);
  driver_.LoseFrom(2);
  driver_.Fill(address, 3, 64);
  for (int i = 0; i < 3; ++i) {
    try {
      driver_.Fill(address, 4, 64);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device_lost);
    }
  }
  EXPECT_THROW(driver_.Free(address), Error) << "passed on all the same";
  driver_.FailNone();
  EXPECT_EQ(driver_.properties().memory_in_use, 0u);
}

}  // namespace
}  // namespace precast::device
