#include "platforms/sim/sim_memory.h"

#include <precast/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace precast::sim {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

// The message of the Error that `call` throws, with its code checked.
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

char* Kernel(const SimMemory& memory, uint64_t address) {
  return static_cast<char*>(memory.Translate(address));
}

TEST(SimMemory, SixtyFourGibibytesCostNothingUntilUsed) {
  SimMemory memory(64 * kGiB, false);
  EXPECT_EQ(memory.size(), 64 * kGiB);
  uint64_t address = memory.Allocate(40 * kGiB);
  EXPECT_EQ(memory.Committed(), 0u);
  char* bytes = memory.Locate("test", address, 40 * kGiB);
  bytes[0] = 1;
  bytes[40 * kGiB - 1] = 2;
  EXPECT_GT(memory.Committed(), 0u);
  EXPECT_LE(memory.Committed(), 4 * kMiB);
  memory.Free(address);
  EXPECT_EQ(memory.Committed(), 0u);
  EXPECT_EQ(memory.InUse(), 0u);
}

TEST(SimMemory, AddressesAreAlignedAndAtAConstantDistanceFromKernels) {
  SimMemory memory(64 * kMiB, false);
  EXPECT_NE(memory.Distance(), 0);
  uint64_t small = memory.Allocate(100), large = memory.Allocate(3 * kMiB);
  EXPECT_EQ(small % 4096, 0u);
  EXPECT_EQ(large % (2 * kMiB), 0u);
  for (uint64_t address : {small, small + 99, large, large + 3 * kMiB - 1}) {
    EXPECT_EQ(reinterpret_cast<uint64_t>(memory.Translate(address)),
              address + static_cast<uint64_t>(memory.Distance()));
  }
  EXPECT_EQ(memory.InUse(), 4096 + 4 * kMiB);
  EXPECT_EQ(memory.Allocations(), 2u);
}

TEST(SimMemory, TranslatesOnlyInsideLiveAllocations) {
  SimMemory memory(64 * kMiB, false);
  uint64_t address = memory.Allocate(100);
  EXPECT_EQ(memory.Translate(address - 1), nullptr);
  EXPECT_EQ(memory.Translate(address + 100), nullptr);
  EXPECT_EQ(memory.Translate(0), nullptr);
  EXPECT_EQ(memory.Translate(UINT64_MAX), nullptr);
  EXPECT_EQ(memory.Translate(address + static_cast<uint64_t>(memory.Distance())), nullptr);
  memory.Free(address);
  EXPECT_EQ(memory.Translate(address), nullptr);
}

TEST(SimMemory, OutOfMemoryNamesTheNumbers) {
  SimMemory memory(8 * kMiB, false);
  EXPECT_EQ(MessageOf(ErrorCode::invalid_argument, [&] { memory.Allocate(0); }),
            "allocation of 0 device bytes; allowed: 1 or more");
  memory.Allocate(4 * kMiB);
  EXPECT_EQ(MessageOf(ErrorCode::out_of_memory, [&] { memory.Allocate(5000000); }),
            "out of device memory: 5000000 bytes asked, 4194304 in use, 4194304 available "
            "(4194304 in one piece)");
  EXPECT_THAT(MessageOf(ErrorCode::out_of_memory, [&] { memory.Allocate(UINT64_MAX); }),
              HasSubstr("18446744073709551615 bytes asked"));
  memory.Allocate(4 * kMiB);
  EXPECT_THAT(MessageOf(ErrorCode::out_of_memory, [&] { memory.Allocate(1); }),
              HasSubstr(" 0 available"));
}

TEST(SimMemory, FreesOnlyTheStartOfALiveAllocation) {
  SimMemory memory(8 * kMiB, false);
  uint64_t address = memory.Allocate(100);
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.Free(address + 64); }),
              HasSubstr("is byte 64 of the allocation of 100 bytes"));
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.Free(address - 4096); }),
              HasSubstr("is in no live allocation"));
  memory.Free(address);
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.Free(address); }),
              HasSubstr("is in no live allocation"));
  EXPECT_EQ(memory.Allocations(), 0u);
}

TEST(SimMemory, RangesStayInOneAllocation) {
  SimMemory memory(8 * kMiB, false);
  uint64_t first = memory.Allocate(4096), second = memory.Allocate(4096);
  EXPECT_EQ(second, first + 4096) << "they touch, so a range over both would look good";
  EXPECT_NE(memory.Locate("copy", first + 96, 4000), nullptr);
  EXPECT_EQ(
      MessageOf(ErrorCode::invalid_argument, [&] { memory.Locate("copy", first + 96, 4001); }),
      fmt::format("copy: 4001 bytes from byte 96 of the allocation of 4096 bytes at device address "
                  "{:#x}; allowed: at most 4000",
                  first));
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.Locate("copy", first, 0); }),
              HasSubstr("0 bytes"));
  MessageOf(ErrorCode::invalid_argument, [&] { memory.Locate("copy", first + 8, UINT64_MAX); });
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.Locate("copy", 64, 1); }),
              HasSubstr("in no live allocation"));
}

TEST(SimMemory, AHostViewShowsTheSameBytes) {
  SimMemory memory(64 * kMiB, false);
  uint64_t address = memory.Allocate(10000), other = memory.Allocate(4096);
  std::memset(Kernel(memory, address), 7, 10000);
  char* view = static_cast<char*>(memory.MapView(address, 10000));
  EXPECT_NE(reinterpret_cast<uint64_t>(view), address);
  EXPECT_NE(view, Kernel(memory, address));
  EXPECT_EQ(view[0], 7);
  EXPECT_EQ(view[9999], 7);
  view[5000] = 9;
  EXPECT_EQ(Kernel(memory, address)[5000], 9);
  char* other_view = static_cast<char*>(memory.MapView(other, 4096));
  EXPECT_EQ(other_view[0], 0);
  EXPECT_EQ(memory.Views(), 2u);
  memory.UnmapView(address, view);
  memory.UnmapView(other, other_view);
  EXPECT_EQ(memory.Views(), 0u);
}

TEST(SimMemory, ViewsAreOfWholeAllocationsAndEndBeforeThem) {
  SimMemory memory(64 * kMiB, false);
  uint64_t address = memory.Allocate(10000);
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.MapView(address, 4096); }),
              HasSubstr("4096 bytes of the allocation of 10000 bytes"));
  MessageOf(ErrorCode::invalid_argument, [&] { memory.MapView(address + 4096, 4096); });
  void* view = memory.MapView(address, 10000);
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.MapView(address, 10000); }),
              HasSubstr("has one already"));
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument, [&] { memory.Free(address); }),
              HasSubstr("still has a host view"));
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument,
                        [&] { memory.UnmapView(address, static_cast<char*>(view) + 1); }),
              HasSubstr("is not the view"));
  memory.UnmapView(address, view);
  MessageOf(ErrorCode::invalid_argument, [&] { memory.UnmapView(address, view); });
  MessageOf(ErrorCode::invalid_argument, [&] { memory.UnmapView(address, nullptr); });
  memory.Free(address);
}

TEST(SimMemory, OnAUnifiedDeviceAllAddressesAreOne) {
  SimMemory memory(64 * kMiB, true);
  EXPECT_EQ(memory.Distance(), 0);
  uint64_t address = memory.Allocate(3 * kMiB);
  char* host = reinterpret_cast<char*>(address);
  std::memset(host, 5, 3 * kMiB);
  EXPECT_EQ(Kernel(memory, address), host);
  EXPECT_EQ(memory.MapView(address, 3 * kMiB), host);
  MessageOf(ErrorCode::invalid_argument, [&] { memory.Free(address); });
  memory.UnmapView(address, host);
  EXPECT_GE(memory.Committed(), 3 * kMiB);
  memory.Free(address);
  EXPECT_EQ(memory.Committed(), 0u);
}

TEST(SimMemory, ClearDropsEverything) {
  SimMemory memory(64 * kMiB, false);
  uint64_t address = memory.Allocate(4096);
  memory.Allocate(3 * kMiB);
  Kernel(memory, address)[0] = 1;
  memory.MapView(address, 4096);
  memory.Clear();
  EXPECT_EQ(memory.Allocations(), 0u);
  EXPECT_EQ(memory.Views(), 0u);
  EXPECT_EQ(memory.InUse(), 0u);
  EXPECT_EQ(memory.Committed(), 0u);
  memory.Allocate(64 * kMiB);
}

TEST(SimMemory, SeveralAreIndependent) {
  SimMemory one(64 * kGiB, false), two(64 * kGiB, false), three(64 * kGiB, true);
  uint64_t address = one.Allocate(100);
  EXPECT_EQ(two.Translate(address), nullptr);
  EXPECT_EQ(three.Translate(address), nullptr);
}

TEST(SimMemory, AbsurdSizesAreRefusedBySystemOrAllocator) {
  EXPECT_THAT(MessageOf(ErrorCode::io, [] { SimMemory memory(uint64_t{1} << 62, false); }),
              HasSubstr("simulated device memory: "));
}

TEST(SimMemory, ManyThreadsAtOnce) {
  SimMemory memory(64 * kMiB, false);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, &wrong, t] {
      for (int i = 0; i < 300; ++i) {
        uint64_t bytes = 1 + static_cast<uint64_t>(i) * 4001 % 100000;
        uint64_t address = memory.Allocate(bytes);
        std::memset(memory.Locate("fill", address, bytes), t, bytes);
        char* view = static_cast<char*>(memory.MapView(address, bytes));
        if (view[bytes - 1] != t || view[0] != t) ++wrong;
        memory.UnmapView(address, view);
        if (memory.Translate(address + bytes - 1) == nullptr) ++wrong;
        memory.Free(address);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(memory.InUse(), 0u);
  EXPECT_EQ(memory.Committed(), 0u);
}

// Reads a byte in a way that the compiler has to keep.
char Peek(uint64_t address) { return *reinterpret_cast<volatile char*>(address); }

TEST(SimMemoryDeathTest, TheHostFaultsOnADeviceAddress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  SimMemory memory(64 * kMiB, false);
  uint64_t address = memory.Allocate(4096);
  Kernel(memory, address)[0] = 1;
  EXPECT_DEATH(Peek(address), "");
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(address) = 1, "");
}

TEST(SimMemoryDeathTest, ADroppedViewFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The hole of a large view: a child that maps a little memory of its own does not fill it.
  constexpr uint64_t kSize = 32 * kMiB;
  SimMemory memory(64 * kMiB, false);
  uint64_t address = memory.Allocate(kSize);
  uint64_t view = reinterpret_cast<uint64_t>(memory.MapView(address, kSize));
  EXPECT_EQ(Peek(view), 0);
  memory.UnmapView(address, reinterpret_cast<void*>(view));
  EXPECT_DEATH(Peek(view), "");
}

TEST(SimMemoryDeathTest, KernelMemoryIsGoneWithTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  uint64_t bytes = 0;
  {
    SimMemory memory(64 * kMiB, false);
    bytes = reinterpret_cast<uint64_t>(Kernel(memory, memory.Allocate(4096)));
    EXPECT_EQ(Peek(bytes), 0);
  }
  EXPECT_DEATH(Peek(bytes), "");
}

}  // namespace
}  // namespace precast::sim
