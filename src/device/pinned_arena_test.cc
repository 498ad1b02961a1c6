#include "device/pinned_arena.h"

#include "platforms/sim/profile.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace precast::device {
namespace {

class PinnedArenaTest : public testing::Test {
 protected:
  uint64_t pinned_blocks() { return sim_->held().pinned_blocks; }

  sim::SimDriver* sim_ = new sim::SimDriver(sim::A2a3Profile(), 1);
  FaultyDriver driver_{std::unique_ptr<Driver>(sim_)};
};

bool IsAligned(const PinnedArena& arena) {
  return reinterpret_cast<uintptr_t>(arena.data()) % kArenaAlignment == 0;
}

TEST_F(PinnedArenaTest, HoldsNothingUntilAsked) {
  PinnedArena arena(&driver_);
  EXPECT_EQ(arena.data(), nullptr);
  EXPECT_EQ(arena.capacity(), 0u);
  EXPECT_TRUE(arena.pinned());
  EXPECT_EQ(driver_.calls(), 0u);
  arena.Reserve(0, 0);
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(PinnedArenaTest, GrowsKeepsWhatIsUsedAndTheCapacity) {
  PinnedArena arena(&driver_);
  arena.Reserve(1000, 0);
  ASSERT_TRUE(IsAligned(arena));
  EXPECT_TRUE(arena.pinned());
  uint64_t first = arena.capacity();
  EXPECT_GE(first, 1000u);
  std::memset(arena.data(), 7, first);
  char* before = arena.data();
  arena.Reserve(first, first);
  EXPECT_EQ(arena.data(), before) << "there was room";
  arena.Reserve(first + 1, first);
  ASSERT_TRUE(IsAligned(arena));
  EXPECT_GE(arena.capacity(), 2 * first) << "doubling keeps appending linear";
  EXPECT_EQ(arena.data()[0], 7);
  EXPECT_EQ(arena.data()[first - 1], 7);
  EXPECT_EQ(pinned_blocks(), 1u) << "the old block is free";
  uint64_t allocations = driver_.calls(Call::allocate_pinned);
  arena.Reserve(arena.capacity(), 0);
  EXPECT_EQ(driver_.calls(Call::allocate_pinned), allocations) << "a warm run pins nothing";
  arena.Reserve(100'000'001, 1);
  EXPECT_GE(arena.capacity(), 100'000'001u);
  EXPECT_EQ(arena.data()[0], 7);
}

TEST_F(PinnedArenaTest, ReleasedByDestructorMoveAndRelease) {
  {
    PinnedArena arena(&driver_);
    arena.Reserve(10, 0);
    EXPECT_EQ(pinned_blocks(), 1u);
  }
  EXPECT_EQ(pinned_blocks(), 0u);
  PinnedArena arena(&driver_);
  arena.Reserve(10, 0);
  PinnedArena moved(std::move(arena));
  EXPECT_NE(moved.data(), nullptr);
  EXPECT_EQ(pinned_blocks(), 1u);
  PinnedArena other(&driver_);
  other.Reserve(10, 0);
  other = std::move(moved);
  EXPECT_EQ(pinned_blocks(), 1u);
  other.Release();
  EXPECT_EQ(pinned_blocks(), 0u);
  EXPECT_EQ(other.data(), nullptr);
  EXPECT_EQ(other.capacity(), 0u);
  other.Reserve(10, 0);
  EXPECT_EQ(pinned_blocks(), 1u);
}

TEST_F(PinnedArenaTest, RefusedRoomToGrowTakesJustEnough) {
  PinnedArena arena(&driver_);
  arena.Reserve(1 << 20, 0);
  driver_.FailNth(1, ErrorCode::out_of_memory, {Call::allocate_pinned});
  arena.Reserve((1 << 20) + 1, 10);
  EXPECT_TRUE(arena.pinned());
  EXPECT_EQ(arena.capacity(), uint64_t{(1 << 20) + 64});
}

// Refuses to pin anything.
class Unpinning : public Driver {
 public:
  explicit Unpinning(ErrorCode code) : code_(code) {}
  Properties properties() const override { return {}; }
  Address Allocate(uint64_t) override { return 0; }
  void Free(Address) override {}
  void CopyToDevice(Address, const void*, uint64_t) override {}
  void CopyToHost(void*, Address, uint64_t) override {}
  void Fill(Address, uint8_t, uint64_t) override {}
  void* AllocatePinned(uint64_t) override { throw Error(code_, "refused"); }
  void FreePinned(void*) override { ADD_FAILURE() << "was never pinned"; }
  void LoadKernels(uint32_t, std::span<const Kernel>) override {}
  Ticket Execute(const Launch&) override { return 0; }
  bool Wait(Ticket, std::chrono::nanoseconds) override { return true; }
  Outcome Collect(Ticket) override { return {}; }
  void Reset() override {}

 private:
  ErrorCode code_;
};

TEST_F(PinnedArenaTest, FallsBackToPageableMemoryAndSaysSo) {
  Unpinning driver(ErrorCode::out_of_memory);
  PinnedArena arena(&driver);
  arena.Reserve(1000, 0);
  ASSERT_TRUE(IsAligned(arena));
  EXPECT_FALSE(arena.pinned());
  std::memset(arena.data(), 9, arena.capacity());
  uint64_t used = arena.capacity();
  arena.Reserve(used + 1, used);
  EXPECT_FALSE(arena.pinned());
  EXPECT_EQ(arena.data()[used - 1], 9);
  arena.Release();
  EXPECT_TRUE(arena.pinned()) << "nothing is held";
}

TEST_F(PinnedArenaTest, GoesBackToPinnedMemoryWhenItGrows) {
  PinnedArena arena(&driver_);
  driver_.FailNth(1, ErrorCode::out_of_memory, {Call::allocate_pinned});
  arena.Reserve(1 << 20, 0);  // exactly what is asked, so it is tried once
  EXPECT_FALSE(arena.pinned());
  arena.data()[0] = 5;
  arena.Reserve(2 << 20, 1);
  EXPECT_TRUE(arena.pinned());
  EXPECT_EQ(arena.data()[0], 5);
}

TEST_F(PinnedArenaTest, ALostDeviceIsNoRefusal) {
  PinnedArena arena(&driver_);
  arena.Reserve(100, 0);
  char* before = arena.data();
  uint64_t capacity = arena.capacity();
  driver_.FailNth(1, ErrorCode::device_lost, {Call::allocate_pinned});
  EXPECT_THROW(arena.Reserve(1 << 20, 100), Error);
  EXPECT_EQ(arena.data(), before);
  EXPECT_EQ(arena.capacity(), capacity);
  EXPECT_EQ(pinned_blocks(), 1u);
}

TEST_F(PinnedArenaTest, AbsurdSizesAreErrorsAndChangeNothing) {
  PinnedArena arena(&driver_);
  arena.Reserve(100, 0);
  char* before = arena.data();
  for (uint64_t bytes : {UINT64_MAX, (uint64_t{1} << 62) + 1}) {
    try {
      arena.Reserve(bytes, 100);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    }
  }
  EXPECT_EQ(arena.data(), before);
}

TEST_F(PinnedArenaTest, NothingLeaksWhateverCallFails) {
  int errors = 0;
  for (uint64_t n = 1; n < 12; ++n) {
    driver_.FailNth(n, ErrorCode::io);
    {
      PinnedArena arena(&driver_);
      for (uint64_t bytes = 1000; bytes < 10'000'000; bytes *= 4) {
        uint64_t blocks = driver_.calls(Call::free_pinned);
        bool struck = driver_.struck();
        std::optional<Error> error = arena.Reserve(bytes, arena.capacity());
        bool failed = driver_.struck() && !struck && driver_.calls(Call::free_pinned) > blocks;
        EXPECT_TRUE(!error.has_value() || failed) << error->message();
        errors += error.has_value();
        ASSERT_GE(arena.capacity(), bytes);
        std::memset(arena.data(), 1, arena.capacity());
      }
    }
    EXPECT_EQ(pinned_blocks(), 0u) << n;
  }
  EXPECT_GT(errors, 0) << "an old block that can't be given back is reported";
}

TEST_F(PinnedArenaTest, ReleaseReportsWhatItMet) {
  PinnedArena arena(&driver_);
  arena.Reserve(100, 0);
  driver_.FailNth(1, ErrorCode::io, {Call::free_pinned});
  std::optional<Error> error = arena.Release();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::io);
  EXPECT_EQ(arena.data(), nullptr);
  EXPECT_FALSE(arena.Release().has_value());
}

}  // namespace
}  // namespace precast::device
