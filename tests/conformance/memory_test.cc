// Device memory that outlives runs: malloc, free, copies, fills, addresses, figures.
#include "conformance/conformance.h"

#include <algorithm>
#include <map>

namespace precast::conformance {
namespace {

using scenes::copy;
using scenes::fold;

class MemoryTest : public OnPlatform {
 protected:
  Worker worker_{Options()};
};
PRECAST_ON_ALL_PLATFORMS(MemoryTest);

std::vector<uint8_t> Pattern(size_t n, uint8_t seed) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed);
  return bytes;
}

TEST_P(MemoryTest, MallocGivesWhatWasAskedFor) {
  Tensor t = worker_.malloc({3, 5, 2}, DType::bf16);
  EXPECT_EQ(t.kind(), Tensor::Kind::device);
  EXPECT_EQ(t.dtype(), DType::bf16);
  EXPECT_EQ(t.shape(), (Shape{3, 5, 2}));
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.extent_bytes(), 60u);
  worker_.free(t);
  Tensor scalar = worker_.malloc({}, DType::f64);
  EXPECT_EQ(scalar.size(), 1);
  worker_.free(scalar);
}

TEST_P(MemoryTest, BytesComeBackForEverySize) {
  for (size_t n : {size_t{1}, size_t{3}, size_t{64}, size_t{4095}, size_t{4096}, size_t{4097},
                   size_t{65536}, size_t{1} << 20, (size_t{5} << 20) + 1}) {
    SCOPED_TRACE(n);
    Tensor t = worker_.malloc({static_cast<int64_t>(n)}, DType::u8);
    std::vector<uint8_t> bytes = Pattern(n, 1), back(n);
    worker_.copy_to(t, bytes);
    worker_.copy_from(back, t);
    EXPECT_EQ(back, bytes);
    worker_.free(t);
  }
}

TEST_P(MemoryTest, CopiesAndFillsReachOnlyTheirView) {
  Tensor t = worker_.malloc({4, 100}, DType::u8);
  std::vector<uint8_t> expected = Pattern(400, 9);
  worker_.copy_to(t, expected);
  std::vector<uint8_t> row = Pattern(100, 77), part(30);
  worker_.copy_to(t.select(0, 2), row);
  std::ranges::copy(row, expected.begin() + 200);
  worker_.memset(t.select(0, 1).slice(0, 10, 40), 0xab);
  std::fill_n(expected.begin() + 110, 30, uint8_t{0xab});
  std::vector<uint8_t> all(400);
  worker_.copy_from(all, t);
  EXPECT_EQ(all, expected);
  worker_.copy_from(part, t.view({3, 50}, {1, 30}));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 350));
  worker_.free(t);
}

TEST_P(MemoryTest, MemsetSetsEveryByte) {
  Tensor t = worker_.malloc({77}, DType::i32);
  worker_.memset(t, 0x01);
  std::vector<int32_t> values(77);
  worker_.copy_from(values, t);
  EXPECT_EQ(values, std::vector<int32_t>(77, 0x01010101));
  worker_.free(t);
}

TEST_P(MemoryTest, InUseFollowsMallocAndFree) {
  WorkerProperties before = worker_.properties();
  EXPECT_GT(before.memory_bytes, before.memory_in_use);
  Tensor small = worker_.malloc({1}, DType::u8), large = worker_.malloc({1 << 20}, DType::f32);
  WorkerProperties during = worker_.properties();
  EXPECT_GE(during.memory_in_use, before.memory_in_use + 1 + (4u << 20));
  EXPECT_EQ(during.memory_bytes, before.memory_bytes);
  worker_.free(small);
  worker_.free(large);
  EXPECT_EQ(worker_.properties().memory_in_use, before.memory_in_use);
}

TEST_P(MemoryTest, FreedMemoryIsAvailableAgain) {
  Bytes total = worker_.properties().memory_bytes;
  int64_t quarter = static_cast<int64_t>(total / 4);
  for (int round = 0; round < 20; ++round) {  // 5 times the device in all
    Tensor t = worker_.malloc({quarter / 4096, 4096}, DType::u8);
    worker_.free(t);
  }
}

TEST_P(MemoryTest, ManyAllocationsKeepTheirBytes) {
  std::map<int, std::pair<Tensor, std::vector<uint8_t>>> live;
  uint64_t state = 12345;
  auto random = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  auto check_and_free = [&](auto it) {
    auto& [tensor, bytes] = it->second;
    std::vector<uint8_t> back(bytes.size());
    worker_.copy_from(back, tensor);
    EXPECT_EQ(back, bytes);
    worker_.free(tensor);
    live.erase(it);
  };
  Bytes before = worker_.properties().memory_in_use;
  for (int i = 0; i < 600; ++i) {
    if (live.size() > 40 || (!live.empty() && random(3) == 0)) {
      check_and_free(std::next(live.begin(), static_cast<int>(random(live.size()))));
      continue;
    }
    size_t n = 1 + random(i % 10 == 0 ? 300000 : 3000);
    Tensor t = worker_.malloc({static_cast<int64_t>(n)}, DType::u8);
    std::vector<uint8_t> bytes = Pattern(n, static_cast<uint8_t>(i));
    worker_.copy_to(t, bytes);
    live.emplace(i, std::pair(t, std::move(bytes)));
  }
  while (!live.empty()) check_and_free(live.begin());
  EXPECT_EQ(worker_.properties().memory_in_use, before);
}

TEST_P(MemoryTest, AddressesAreDistinctAndFollowViews) {
  Tensor a = worker_.malloc({10, 10}, DType::f32), b = worker_.malloc({10, 10}, DType::f32);
  uint64_t address_a = worker_.address(a), address_b = worker_.address(b);
  EXPECT_NE(address_a, 0u);
  EXPECT_GE(std::max(address_a, address_b) - std::min(address_a, address_b), 400u);
  EXPECT_EQ(address_a % 64, 0u);
  EXPECT_EQ(worker_.address(a.view({2, 3}, {1, 1})), address_a + 4 * 23);
  worker_.free(a);
  worker_.free(b);
}

TEST_P(MemoryTest, TensorAtIsTheSameMemory) {
  Tensor t = worker_.malloc({100}, DType::i64);
  std::vector<int64_t> values = Counted(100), part(20);
  worker_.copy_to(t, values);
  Tensor again = worker_.tensor_at(worker_.address(t), {10, 10}, DType::i64);
  EXPECT_EQ(again.shape(), (Shape{10, 10}));
  Tensor inside = worker_.tensor_at(worker_.address(t) + 8 * 30, {20}, DType::i64);
  worker_.copy_from(part, inside);
  EXPECT_EQ(part, Counted(20, 30));
  worker_.run(BumpOnce, {inout(inside), int64_t{4}});
  worker_.copy_from(values, t);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], i < 30 || i >= 50 ? i : Join(i, 4));
  }
  worker_.free(again);  // the whole allocation, whatever its shape
  EXPECT_THROW(worker_.copy_from(values, t), Error);
}

TEST_P(MemoryTest, BytesOutliveRuns) {
  Tensor t = worker_.malloc({50}, DType::i64);
  worker_.copy_to(t, Counted(50));
  for (int64_t round = 0; round < 5; ++round) worker_.run(BumpOnce, {inout(t), round});
  std::vector<int64_t> values(50);
  worker_.copy_from(values, t);
  for (int64_t i = 0; i < 50; ++i) {
    int64_t expected = i;
    for (int64_t round = 0; round < 5; ++round) expected = Join(expected, round);
    EXPECT_EQ(values[static_cast<size_t>(i)], expected);
  }
  worker_.free(t);
}

/// target[i] = what the addresses in tensor 0 point at
PRECAST_KERNEL(gather, Core::vector)(const KernelContext& k) {
  auto addresses = k.tensor<const uint64_t>(0);
  auto target = k.tensor<int64_t>(1);
  for (int64_t i = 0; i < target.size(); ++i) {
    target[i] = *static_cast<const int64_t*>(k.pointer(addresses[i]));
  }
}

TEST_P(MemoryTest, KernelsFollowAddressesInTensors) {
  Tensor t = worker_.malloc({16}, DType::i64);
  worker_.copy_to(t, Counted(16, 500));
  std::vector<uint64_t> addresses;
  for (int64_t i : {3, 15, 0, 7}) addresses.push_back(worker_.address(t.slice(0, i, i + 1)));
  std::vector<int64_t> found(4);
  worker_.run(
      [](Orchestrator& o, const Args& args) {
        // Tensor 2 is named so that the run holds on to it; the addresses say nothing.
        o.submit(gather, {in(args.tensor(0)), out(args.tensor(1)), in(args.tensor(2))});
      },
      {in(addresses), out(found), in(t)});
  EXPECT_EQ(found, (std::vector<int64_t>{503, 515, 500, 507}));
  worker_.free(t);
}

TEST_P(MemoryTest, PropertiesDescribeThePlatform) {
  WorkerProperties p = worker_.properties();
  EXPECT_EQ(p.platform, GetParam());
  EXPECT_GE(p.cube_cores, 1);
  EXPECT_GE(p.vector_cores, 1);
  EXPECT_GE(p.threads, 1);
  EXPECT_GE(p.host_page_bytes, 4096u);
  EXPECT_EQ(p.host_page_bytes & (p.host_page_bytes - 1), 0u);
  EXPECT_GE(p.memory_bytes, Bytes{1} << 30);
  if (GetParam().starts_with("a2a3sim")) {
    EXPECT_EQ(p.cube_cores, 24);
    EXPECT_EQ(p.vector_cores, 48);
    EXPECT_TRUE(p.host_views);
  }
  if (GetParam() == "a2a3sim:host_page=64k") {
    EXPECT_EQ(p.host_page_bytes, 65536u);
  }
  if (GetParam() == "a5sim") {
    EXPECT_FALSE(p.host_views);
  }
}

TEST_P(MemoryTest, CommittedMemoryIsWhatWasTouched) {
  Bytes before = worker_.properties().memory_committed;
  Tensor t = worker_.malloc({64 << 20}, DType::u8);
  worker_.memset(t, 1);
  EXPECT_GE(worker_.properties().memory_committed, before + (Bytes{64} << 20));
  worker_.free(t);
  EXPECT_LT(worker_.properties().memory_committed, before + (Bytes{1} << 20));
}

}  // namespace
}  // namespace precast::conformance
