#include "device/device_memory.h"

#include "base/tensor_access.h"
#include "platforms/sim/profile.h"
#include "platforms/sim/sim_driver.h"
#include "support/faulty_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace precast::device {
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

class DeviceMemoryTest : public testing::Test {
 protected:
  explicit DeviceMemoryTest(sim::Profile profile = Small())
      : sim_(new sim::SimDriver(std::move(profile), 1)) {}

  static sim::Profile Small() {
    sim::Profile profile = sim::A2a3Profile();
    profile.memory_bytes = 64 * kMiB;
    return profile;
  }
  sim::SimDriver::Held held() const { return sim_->held(); }

  // Another tracker on the same device, with another mark.
  std::unique_ptr<DeviceMemory> Stranger() {
    std::unique_ptr<DeviceMemory> stranger;
    do {
      stranger = std::make_unique<DeviceMemory>(&driver_);
    } while (stranger->owner() == memory_.owner());
    return stranger;
  }

  sim::SimDriver* sim_;
  FaultyDriver driver_{std::unique_ptr<Driver>(sim_)};
  DeviceMemory memory_{&driver_};
};

TEST_F(DeviceMemoryTest, MallocMakesDeviceTensors) {
  Tensor tensor = memory_.Malloc({3, 5}, DType::f32);
  EXPECT_EQ(tensor.kind(), Tensor::Kind::device);
  EXPECT_EQ(tensor.shape(), Shape({3, 5}));
  EXPECT_EQ(tensor.dtype(), DType::f32);
  Tensor scalar = memory_.Malloc({}, DType::i64);
  EXPECT_NE(memory_.Of(tensor), memory_.Of(scalar));
  EXPECT_EQ(memory_.Of(tensor.select(0, 2)), memory_.Of(tensor) + 40);
  DeviceMemory::Usage usage = memory_.usage();
  EXPECT_EQ(usage.allocations, 2u);
  EXPECT_EQ(usage.bytes, 68u);
  EXPECT_EQ(usage.views, 0u);
  memory_.Free(tensor);
  memory_.Free(scalar);
  EXPECT_EQ(memory_.usage().allocations, 0u);
  EXPECT_EQ(memory_.usage().bytes, 0u);
  EXPECT_EQ(held().allocations, 0u);
}

TEST_F(DeviceMemoryTest, MallocRefusesWhatCannotBe) {
  MessageOf(ErrorCode::invalid_argument, [&] { memory_.Malloc({2}, DType::none); });
  MessageOf(ErrorCode::out_of_range, [&] { memory_.Malloc({4294967295, 2147483648}, DType::f64); });
  EXPECT_THAT(MessageOf(ErrorCode::out_of_memory,
                        [&] {
                          memory_.Malloc({65, 1048576}, DType::u8);
                        }),
              HasSubstr("68157440 bytes asked"));
  EXPECT_EQ(memory_.usage().allocations, 0u);
  Tensor tensor = memory_.Malloc({64, 1048576}, DType::u8);
  memory_.Free(tensor);
}

TEST_F(DeviceMemoryTest, ClaimGivesTheAllocationOfAnyView) {
  Tensor tensor = memory_.Malloc({100}, DType::i32);
  Claimed claimed = memory_.Claim(tensor.slice(0, 50, 60));
  EXPECT_EQ(claimed.address, memory_.Of(tensor));
  EXPECT_EQ(claimed.bytes, 400u);
  EXPECT_EQ(memory_.Claim(tensor).index, claimed.index);
  memory_.Release(claimed.index);
  memory_.Release(claimed.index);
  memory_.Free(tensor);
}

TEST_F(DeviceMemoryTest, PinsDelayFree) {
  Tensor tensor = memory_.Malloc({4}, DType::f32);
  Claimed claimed = memory_.Claim(tensor);
  memory_.Claim(tensor);
  EXPECT_EQ(MessageOf(ErrorCode::invalid_argument, [&] { memory_.Free(tensor); }),
            "free of f32[4]: pinned by 2 runs in flight or copies; wait for them first");
  memory_.Release(claimed.index);
  MessageOf(ErrorCode::invalid_argument, [&] { memory_.Free(tensor); });
  EXPECT_EQ(memory_.Claim(tensor).address, claimed.address) << "still live";
  memory_.Release(claimed.index);
  memory_.Release(claimed.index);
  memory_.Free(tensor);
}

TEST_F(DeviceMemoryTest, FreedHandlesAreStaleForeverEvenWhenIndexAndAddressAreReused) {
  Tensor first = memory_.Malloc({4}, DType::f32);
  Address address = memory_.Of(first);
  memory_.Free(first);
  auto expect_stale = [&] {
    EXPECT_THAT(
        MessageOf(ErrorCode::stale, [&] { memory_.Free(first); }),
        HasSubstr("device tensor f32[4] is stale: its allocation (number 0) has been freed"));
    MessageOf(ErrorCode::stale, [&] { memory_.Claim(first); });
    MessageOf(ErrorCode::stale, [&] { memory_.Of(first); });
    MessageOf(ErrorCode::stale, [&] { memory_.Claim(first.slice(0, 1, 2)); });
  };
  expect_stale();
  Tensor second = memory_.Malloc({4}, DType::f32);
  EXPECT_EQ(memory_.Of(second), address);
  EXPECT_EQ(detail::TensorAccess::Buffer(second), detail::TensorAccess::Buffer(first));
  expect_stale();
  memory_.Free(second);
}

TEST_F(DeviceMemoryTest, FreeTakesOnlyTheWholeAllocation) {
  Tensor tensor = memory_.Malloc({4, 6}, DType::i16);
  EXPECT_EQ(
      MessageOf(ErrorCode::invalid_argument, [&] { memory_.Free(tensor.select(0, 1)); }),
      "free of i16[6], a view of 12 of the 48 bytes of its allocation, from byte 12; allowed: "
      "the tensor that malloc returned");
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument,
                        [&] {
                          memory_.Free(tensor.view({0, 0}, {2, 6}));
                        }),
              HasSubstr("24 of the 48 bytes of its allocation, from byte 0"));
  Tensor odd = memory_.Malloc({5}, DType::i16);
  MessageOf(ErrorCode::invalid_argument, [&] { memory_.Free(odd.slice(0, 0, 5, 2)); });
  memory_.Free(odd);
  memory_.Free(tensor.reshape({24}));  // names the same bytes
  EXPECT_EQ(held().allocations, 0u);
}

TEST_F(DeviceMemoryTest, OnlyThisWorkersDeviceTensorsAreTaken) {
  std::unique_ptr<DeviceMemory> stranger = Stranger();
  Tensor foreign = stranger->Malloc({4}, DType::f32);
  for (auto call : {+[](DeviceMemory& memory, const Tensor& t) { memory.Free(t); },
                    +[](DeviceMemory& memory, const Tensor& t) { memory.Claim(t); },
                    +[](DeviceMemory& memory, const Tensor& t) { memory.Of(t); }}) {
    EXPECT_THAT(MessageOf(ErrorCode::mismatch, [&] { call(memory_, foreign); }),
                HasSubstr("device tensor f32[4] is memory of another worker"));
    float host[2];
    EXPECT_EQ(MessageOf(ErrorCode::mismatch, [&] { call(memory_, Tensor::host(host, {2})); }),
              "a host tensor (f32[2]) where device memory of this worker is needed (from malloc or "
              "tensor_at)");
    EXPECT_THAT(MessageOf(ErrorCode::mismatch, [&] { call(memory_, Tensor()); }),
                HasSubstr("a tensor that names nothing"));
  }
  stranger->Free(foreign);
}

TEST_F(DeviceMemoryTest, TensorAtFindsTheAllocationOfAnAddress) {
  Tensor tensor = memory_.Malloc({10}, DType::f64);
  Address address = memory_.Of(tensor);
  Tensor part = memory_.TensorAt(address + 16, {2, 2}, DType::f32);
  EXPECT_EQ(memory_.Of(part), address + 16);
  EXPECT_EQ(part.shape(), Shape({2, 2}));
  Claimed claimed = memory_.Claim(part);
  EXPECT_EQ(claimed.address, address);
  memory_.Release(claimed.index);
  memory_.Free(memory_.TensorAt(address, {80}, DType::u8));
  MessageOf(ErrorCode::stale, [&] { memory_.Claim(part); });
}

TEST_F(DeviceMemoryTest, TensorAtChecksTheAddress) {
  Tensor tensor = memory_.Malloc({10}, DType::f64);
  Address address = memory_.Of(tensor);
  EXPECT_EQ(
      MessageOf(ErrorCode::out_of_range, [&] { memory_.TensorAt(address + 16, {17}, DType::f32); }),
      fmt::format("f32[17] at device address {:#x} takes 68 bytes from byte 16 of an allocation "
                  "of 80 bytes; allowed: at most 64",
                  address + 16));
  EXPECT_THAT(MessageOf(ErrorCode::invalid_argument,
                        [&] { memory_.TensorAt(address + 2, {1}, DType::f32); }),
              HasSubstr("allowed: a multiple of 4"));
  for (Address wrong : {address - 8, address + 80, Address{0}, ~Address{7}}) {
    EXPECT_THAT(
        MessageOf(ErrorCode::invalid_argument, [&] { memory_.TensorAt(wrong, {1}, DType::f64); }),
        HasSubstr("is in no live allocation of this worker"));
  }
  std::unique_ptr<DeviceMemory> stranger = Stranger();
  MessageOf(ErrorCode::invalid_argument, [&] { stranger->TensorAt(address, {1}, DType::f64); });
  memory_.Free(tensor);
  MessageOf(ErrorCode::invalid_argument, [&] { memory_.TensorAt(address, {1}, DType::f64); });
}

TEST_F(DeviceMemoryTest, RemembersWhichRunsUseAnAllocation) {
  Tensor tensor = memory_.Malloc({4}, DType::f32);
  uint32_t index = memory_.Claim(tensor).index;
  EXPECT_EQ(memory_.LastUse(index), 0u);
  EXPECT_EQ(memory_.LastWrite(index), 0u);
  memory_.MarkUse(index, 5, true);
  memory_.MarkUse(index, 7, false);
  EXPECT_EQ(memory_.LastUse(index), 7u);
  EXPECT_EQ(memory_.LastWrite(index), 5u);
  memory_.MarkUse(index, 6, true);  // launched before 7, marked after it
  EXPECT_EQ(memory_.LastUse(index), 7u);
  EXPECT_EQ(memory_.LastWrite(index), 6u);
  memory_.Release(index);
  memory_.Free(tensor);
  Tensor next = memory_.Malloc({4}, DType::f32);
  EXPECT_EQ(memory_.Claim(next).index, index);
  EXPECT_EQ(memory_.LastUse(index), 0u) << "runs of an earlier allocation don't count";
  memory_.Release(index);
}

TEST_F(DeviceMemoryTest, AViewIsMappedOnFirstUseAndShared) {
  Tensor tensor = memory_.Malloc({1000}, DType::i32);
  uint32_t index = memory_.Claim(tensor).index;
  EXPECT_EQ(driver_.calls(Call::register_host_view), 0u) << "claiming maps nothing";
  driver_.Fill(memory_.Of(tensor), 1, 4000);
  auto* view = static_cast<int32_t*>(memory_.AcquireView(index).data);
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view[999], 0x01010101);
  EXPECT_EQ(memory_.AcquireView(memory_.Claim(tensor.slice(0, 10, 20)).index).data, view);
  EXPECT_EQ(driver_.calls(Call::register_host_view), 1u);
  EXPECT_EQ(memory_.usage().views, 1u);
  EXPECT_EQ(memory_.usage().mapped_bytes, 4000u);
  memory_.Release(index);
  memory_.Release(index);
  memory_.Free(tensor);
  EXPECT_EQ(driver_.calls(Call::unregister_host_view), 1u);
  EXPECT_EQ(held().host_views, 0u);
  EXPECT_EQ(memory_.usage().views, 0u);
  EXPECT_EQ(memory_.usage().mapped_bytes, 0u);
}

TEST_F(DeviceMemoryTest, AReusedAddressGetsANewView) {
  Tensor first = memory_.Malloc({1000}, DType::i32);
  Claimed claimed = memory_.Claim(first);
  memory_.AcquireView(claimed.index);
  memory_.Release(claimed.index);
  memory_.Free(first);
  Tensor second = memory_.Malloc({1000}, DType::i32);
  Claimed again = memory_.Claim(second);
  ASSERT_EQ(again.address, claimed.address);
  driver_.Fill(again.address, 2, 4000);
  EXPECT_EQ(static_cast<int32_t*>(memory_.AcquireView(again.index).data)[0], 0x02020202);
  EXPECT_EQ(driver_.calls(Call::register_host_view), 2u);
  memory_.Release(again.index);
}

TEST_F(DeviceMemoryTest, ARefusalIsRemembered) {
  driver_.RefuseHostViews(true);
  Tensor tensor = memory_.Malloc({10}, DType::i32);
  uint32_t index = memory_.Claim(tensor).index;
  EXPECT_EQ(memory_.AcquireView(index).data, nullptr);
  driver_.RefuseHostViews(false);
  EXPECT_EQ(memory_.AcquireView(index).data, nullptr);
  EXPECT_EQ(driver_.calls(Call::register_host_view), 1u);
  EXPECT_EQ(memory_.usage().views, 0u);
  memory_.Release(index);
  memory_.Free(tensor);
  EXPECT_EQ(driver_.calls(Call::unregister_host_view), 0u);
  index = memory_.Claim(memory_.Malloc({10}, DType::i32)).index;
  EXPECT_NE(memory_.AcquireView(index).data, nullptr) << "another allocation, another question";
  memory_.Release(index);
}

TEST_F(DeviceMemoryTest, AFailedRegistrationIsTriedAgain) {
  uint32_t index = memory_.Claim(memory_.Malloc({10}, DType::i32)).index;
  driver_.FailNth(1, ErrorCode::io, {Call::register_host_view});
  MessageOf(ErrorCode::io, [&] { memory_.AcquireView(index); });
  EXPECT_NE(memory_.AcquireView(index).data, nullptr);
  memory_.Release(index);
}

// Ten views of 1,000 bytes each, of which the budget holds three.
class ViewBudgetTest : public DeviceMemoryTest {
 protected:
  ViewBudgetTest() {
    for (int i = 0; i < 10; ++i) {
      indices_.push_back(bounded_.Claim(bounded_.Malloc({1000}, DType::u8)).index);
    }
  }
  ~ViewBudgetTest() override {
    for (uint32_t index : indices_) bounded_.Release(index);
  }
  /// Uses a view and lets go of it.
  HostView Use(size_t i) {
    HostView view = bounded_.AcquireView(indices_[i]);
    if (view.data != nullptr) bounded_.ReleaseView(indices_[i], false);
    return view;
  }

  DeviceMemory bounded_{&driver_, 3500};
  std::vector<uint32_t> indices_;
};

TEST_F(ViewBudgetTest, DropsTheLeastRecentlyUsed) {
  for (size_t i : {0, 1, 2}) EXPECT_EQ(Use(i).dropped, 0u);
  Use(0);
  EXPECT_EQ(Use(3).dropped, 1u) << "the view of 1";
  EXPECT_EQ(Use(0).is, HostView::Is::reused);
  EXPECT_EQ(Use(2).is, HostView::Is::reused);
  EXPECT_EQ(Use(3).is, HostView::Is::reused);
  EXPECT_EQ(Use(1).is, HostView::Is::established);
  EXPECT_EQ(Use(2).is, HostView::Is::reused) << "0 was the oldest";
  EXPECT_EQ(Use(0).is, HostView::Is::established);
  EXPECT_EQ(bounded_.usage().mapped_bytes, 3000u);
  EXPECT_EQ(driver_.calls(Call::register_host_view), 6u);
  EXPECT_EQ(driver_.calls(Call::unregister_host_view), 3u);
}

TEST_F(ViewBudgetTest, NeverDropsWhatIsInUse) {
  for (size_t i : {0, 1, 2}) bounded_.AcquireView(indices_[i]);
  HostView none = bounded_.AcquireView(indices_[3]);
  EXPECT_EQ(none.data, nullptr);
  EXPECT_EQ(none.is, HostView::Is::over_budget);
  bounded_.AcquireView(indices_[1]);
  bounded_.ReleaseView(indices_[1], false);
  EXPECT_EQ(bounded_.AcquireView(indices_[3]).data, nullptr) << "1 is used once more";
  bounded_.ReleaseView(indices_[1], false);
  EXPECT_EQ(bounded_.AcquireView(indices_[3]).dropped, 1u);
  EXPECT_EQ(Use(0).is, HostView::Is::reused);
}

TEST_F(ViewBudgetTest, WhatIsLargerThanTheBudgetDropsNothing) {
  Use(0);
  uint32_t large = bounded_.Claim(bounded_.Malloc({3501}, DType::u8)).index;
  EXPECT_EQ(bounded_.AcquireView(large).is, HostView::Is::over_budget);
  EXPECT_EQ(Use(0).is, HostView::Is::reused);
  bounded_.Release(large);
}

TEST_F(ViewBudgetTest, AFailureToDropIsPassedOnAndForgotten) {
  for (size_t i : {0, 1, 2}) Use(i);
  driver_.FailNth(1, ErrorCode::io, {Call::unregister_host_view});
  MessageOf(ErrorCode::io, [&] { bounded_.AcquireView(indices_[3]); });
  EXPECT_EQ(bounded_.usage().mapped_bytes, 2000u);
  EXPECT_EQ(Use(3).is, HostView::Is::established);
  EXPECT_EQ(held().host_views, 3u);
}

TEST_F(ViewBudgetTest, TheLastUserMayDrop) {
  bounded_.AcquireView(indices_[0]);
  bounded_.AcquireView(indices_[0]);
  EXPECT_FALSE(bounded_.ReleaseView(indices_[0], true)) << "still used";
  EXPECT_TRUE(bounded_.ReleaseView(indices_[0], true));
  EXPECT_EQ(held().host_views, 0u);
}

TEST_F(DeviceMemoryTest, ShutdownDropsViewsThenAllocations) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 5; ++i) tensors.push_back(memory_.Malloc({100}, DType::f32));
  for (size_t i = 0; i < 3; ++i) {
    uint32_t index = memory_.Claim(tensors[i]).index;
    memory_.AcquireView(index);
    memory_.Release(index);
  }
  EXPECT_EQ(memory_.DropViews(), std::nullopt);
  EXPECT_EQ(held().host_views, 0u);
  EXPECT_EQ(held().allocations, 5u);
  EXPECT_EQ(memory_.FreeAll(), std::nullopt);
  EXPECT_EQ(held().allocations, 0u);
  EXPECT_EQ(memory_.usage().allocations, 0u);
  for (const Tensor& tensor : tensors) MessageOf(ErrorCode::stale, [&] { memory_.Claim(tensor); });
}

TEST_F(DeviceMemoryTest, ShutdownGoesOnAfterAFailureAndReportsIt) {
  for (int i = 0; i < 3; ++i) {
    uint32_t index = memory_.Claim(memory_.Malloc({100}, DType::f32)).index;
    memory_.AcquireView(index);
    memory_.Release(index);
  }
  driver_.FailNth(2, ErrorCode::io, {Call::unregister_host_view});
  std::optional<Error> failure = memory_.DropViews();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code(), ErrorCode::io);
  EXPECT_EQ(held().host_views, 0u);
  driver_.FailNth(1, ErrorCode::device_lost, {Call::free});
  EXPECT_TRUE(memory_.FreeAll().has_value());
  EXPECT_EQ(held().allocations, 0u);
}

TEST_F(DeviceMemoryTest, TheDestructorReleasesEverything) {
  {
    std::unique_ptr<DeviceMemory> other = Stranger();
    uint32_t index = other->Claim(other->Malloc({100}, DType::f32)).index;
    other->AcquireView(index);
    other->Malloc({100}, DType::f32);
    EXPECT_EQ(held().allocations, 2u);
  }
  EXPECT_EQ(held().allocations, 0u);
  EXPECT_EQ(held().host_views, 0u);
}

TEST_F(DeviceMemoryTest, NothingLeaksWhicheverCallFails) {
  uint64_t calls = 0;
  for (uint64_t n = 1; n < 40; ++n) {
    driver_.FailNth(n, ErrorCode::io);
    calls = driver_.calls();
    {
      std::unique_ptr<DeviceMemory> memory = Stranger();
      for (int i = 0; i < 4; ++i) {
        try {
          Tensor tensor = memory->Malloc({1000}, DType::f32);
          uint32_t index = memory->Claim(tensor).index;
          try {
            memory->AcquireView(index);
          } catch (const Error&) {
          }
          memory->Release(index);
          if (i % 2 == 0) {
            try {
              memory->Free(tensor);
            } catch (const Error&) {
              MessageOf(ErrorCode::stale, [&] { memory->Claim(tensor); });
            }
          }
        } catch (const Error&) {
        }
      }
    }
    EXPECT_EQ(held().allocations, 0u) << n;
    EXPECT_EQ(held().host_views, 0u) << n;
  }
  driver_.FailNone();
  EXPECT_LT(driver_.calls() - calls, 39u) << "n went past the last call";
}

TEST_F(DeviceMemoryTest, ManyAllocations) {
  std::vector<Tensor> tensors;
  std::set<Address> addresses;
  for (int i = 0; i < 3000; ++i) {
    tensors.push_back(memory_.Malloc({i % 50 + 1}, DType::f32));
    addresses.insert(memory_.Of(tensors.back()));
  }
  EXPECT_EQ(addresses.size(), 3000u);
  for (const Tensor& tensor : tensors) {
    Claimed claimed = memory_.Claim(tensor);
    EXPECT_EQ(claimed.bytes, tensor.extent_bytes());
    memory_.Release(claimed.index);
  }
  for (size_t i = 0; i < tensors.size(); i += 2) memory_.Free(tensors[i]);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i % 2 == 0) {
      MessageOf(ErrorCode::stale, [&] { memory_.Claim(tensors[i]); });
    } else {
      memory_.Release(memory_.Claim(tensors[i]).index);
    }
  }
}

// A claim that succeeds must keep the memory: nobody frees it, and it is not someone else's.
TEST_F(DeviceMemoryTest, ClaimsRaceWithFreeAndReuse) {
  constexpr int kFrees = 300;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  // The current handle, published under a mutex; claimers keep using old ones on purpose.
  std::mutex mutex;
  Tensor current = memory_.Malloc({64}, DType::i32);
  std::vector<std::thread> claimers;
  for (int t = 0; t < 3; ++t) {
    claimers.emplace_back([&] {
      while (!done) {
        Tensor tensor;
        {
          std::lock_guard lock(mutex);
          tensor = current;
        }
        for (int i = 0; i < 3; ++i) {
          try {
            Claimed claimed = memory_.Claim(tensor);
            if (claimed.bytes != tensor.extent_bytes()) ++wrong;
            if (memory_.AcquireView(claimed.index).data == nullptr) ++wrong;
            memory_.ReleaseView(claimed.index, i == 0);
            memory_.MarkUse(claimed.index, 1, true);
            memory_.Release(claimed.index);
          } catch (const Error& error) {
            if (error.code() != ErrorCode::stale) ++wrong;
          }
        }
      }
    });
  }
  for (int frees = 0; frees < kFrees;) {
    Tensor old = current;
    try {
      memory_.Free(old);
      ++frees;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) ++wrong;  // pinned: keep it
      std::this_thread::yield();
      continue;
    }
    Tensor next = memory_.Malloc({frees % 100 + 1}, DType::i32);
    std::lock_guard lock(mutex);
    current = next;
  }
  done = true;
  for (std::thread& thread : claimers) thread.join();
  EXPECT_EQ(wrong, 0);
  memory_.Free(current);
  EXPECT_EQ(held().allocations, 0u);
  EXPECT_EQ(held().host_views, 0u);
}

class UnmappableMemoryTest : public DeviceMemoryTest {
 protected:
  UnmappableMemoryTest() : DeviceMemoryTest(sim::A5Profile()) {}
};

TEST_F(UnmappableMemoryTest, HasNoViews) {
  Tensor tensor = memory_.Malloc({10}, DType::i32);
  Claimed claimed = memory_.Claim(tensor);
  EXPECT_EQ(memory_.AcquireView(claimed.index).data, nullptr);
  EXPECT_EQ(memory_.usage().views, 0u);
  memory_.Release(claimed.index);
}

class UnifiedMemoryTest : public DeviceMemoryTest {
 protected:
  UnifiedMemoryTest() : DeviceMemoryTest(sim::CpuProfile()) {}
};

TEST_F(UnifiedMemoryTest, AViewIsTheAddress) {
  Tensor tensor = memory_.Malloc({10}, DType::i32);
  Claimed claimed = memory_.Claim(tensor);
  EXPECT_EQ(reinterpret_cast<Address>(memory_.AcquireView(claimed.index).data), claimed.address);
  memory_.Release(claimed.index);
  memory_.Free(tensor);
  EXPECT_EQ(held().host_views, 0u);
}

using DeviceMemoryDeathTest = DeviceMemoryTest;

TEST_F(DeviceMemoryDeathTest, AViewFaultsAfterFree) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Tensor tensor = memory_.Malloc({10}, DType::i32);
  uint32_t index = memory_.Claim(tensor).index;
  auto* view = static_cast<volatile int32_t*>(memory_.AcquireView(index).data);
  EXPECT_EQ(view[0], 0);
  memory_.Release(index);
  memory_.Free(tensor);
  EXPECT_DEATH(view[0] = 1, "");
}

}  // namespace
}  // namespace precast::device
