#include "sched/instance.h"

#include "support/test_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace precast::sched {
namespace {

using test::TestGraph;
using test::TestImage;
using testing::HasSubstr;

PRECAST_KERNEL(first, Core::cube)(const KernelContext&) {}
PRECAST_KERNEL(second, Core::vector)(const KernelContext&) {}
PRECAST_KERNEL(third, Core::vector)(const KernelContext&) {}

/// The context of the first task's block 0.
KernelContext ContextOf(const Instance& instance) {
  return {&instance, abi::TaskAt(instance.image, abi::kFirstTask), 0, 1, 0};
}

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

TEST(InstanceTest, DescribesTasks) {
  TestGraph g;
  Tensor x = g.Data<float>({});
  uint32_t a = g.Kernel(first), b = g.Kernel(second), c = g.Kernel(third);
  std::vector<abi::TaskId> tasks = {
      g.Submit(b, {inout(x)}),
      g.Submit(b, {inout(x)}, {.name = "softmax"}),
      g.Submit(abi::Mix{{a, b, c}, 3}, {inout(x)}, {.name = "mixed"}),
      g.Submit(abi::Mix{{a, c}, 2}, {inout(x)}, {}),
      g.Submit(abi::kNoKernel, {}),
      g.Submit(abi::kNoKernel, {}, {.name = "barrier"}),
  };
  TestImage image = g.Seal();
  Instance instance = g.Instance(image);
  std::vector<std::string> descriptions, names;
  for (abi::TaskId id : tasks) {
    const abi::Task* task = abi::TaskAt(instance.image, id);
    descriptions.push_back(instance.Describe(task));
    names.emplace_back(instance.TaskName(task));
  }
  EXPECT_THAT(descriptions, testing::ElementsAre("task 0 'second' (kernel second)",
                                                 "task 1 'softmax' (kernel second)",
                                                 "task 2 'mixed' (kernels first + second + third)",
                                                 "task 3 'first' (kernels first + third)",
                                                 "task 4 'dependency'", "task 5 'barrier'"));
  EXPECT_THAT(names,
              testing::ElementsAre("second", "softmax", "mixed", "first", "dependency", "barrier"));
}

struct Call {
  const char* kernel;
  uint32_t block, blocks, sub_block;
  bool operator==(const Call&) const = default;
};
void PrintTo(const Call& call, std::ostream* out) {
  *out << call.kernel << ' ' << call.block << '/' << call.blocks << ' ' << call.sub_block;
}
void Note(const char* name, const KernelContext& k) {
  reinterpret_cast<std::vector<Call>*>(k.scalar<uint64_t>(0))
      ->push_back({name, k.block(), k.blocks(), k.sub_block()});
}
PRECAST_KERNEL(note_a, Core::cube)(const KernelContext& k) { Note("a", k); }
PRECAST_KERNEL(note_b, Core::vector)(const KernelContext& k) { Note("b", k); }
PRECAST_KERNEL(note_c, Core::vector)(const KernelContext& k) { Note("c", k); }

TEST(InstanceTest, RunsEachKernelOfAMixedTaskForEachBlock) {
  std::vector<Call> calls;
  TestGraph g;
  abi::Mix mix{{g.Kernel(note_a), g.Kernel(note_b), g.Kernel(note_c)}, 3};
  g.Submit(mix, {reinterpret_cast<uint64_t>(&calls)}, {.blocks = 2});
  TestImage image = g.Seal();
  Instance instance = g.Instance(image);
  const abi::Task* task = abi::TaskAt(instance.image, abi::kFirstTask);
  ASSERT_EQ(Items(instance, task), 6u);
  for (uint64_t item = 0; item < 6; ++item) RunItem(instance, task, item);
  EXPECT_EQ(calls, (std::vector<Call>{{"a", 0, 2, 0},
                                      {"a", 1, 2, 0},
                                      {"b", 0, 2, 0},
                                      {"b", 1, 2, 0},
                                      {"c", 0, 2, 1},
                                      {"c", 1, 2, 1}}));
}

TEST(InstanceTest, ATaskOfManyBlocksHasAsManyItems) {
  TestGraph g;
  g.Submit(g.Kernel(second), {}, {.blocks = std::numeric_limits<uint32_t>::max()});
  TestImage image = g.Seal();
  Instance instance = g.Instance(image);
  EXPECT_EQ(Items(instance, abi::TaskAt(instance.image, abi::kFirstTask)), 0xffffffffu);
}

// Predicates.

template <Element T>
bool Holds(T value, Compare compare, int64_t constant) {
  TestGraph g;
  Tensor x = g.Data<T>({3});
  g.Values<T>(x)[1] = value;
  Predicate predicate{x.select(0, 1), compare, constant};
  g.Submit(g.Kernel(second), {}, {.when = &predicate});
  TestImage image = g.Seal();
  Instance instance = g.Instance(image);
  return ShouldRun(instance, abi::TaskAt(instance.image, abi::kFirstTask));
}

template <Element T>
void ExpectComparesAsNumbers(T value) {
  int64_t wide = static_cast<int64_t>(value);
  for (int64_t constant : {wide - 1, wide, wide + 1, int64_t{-1}, int64_t{0}}) {
    SCOPED_TRACE(testing::Message() << Name(kDTypeOf<T>) << " " << wide << " " << constant);
    EXPECT_EQ(Holds(value, Compare::equal, constant), wide == constant);
    EXPECT_EQ(Holds(value, Compare::not_equal, constant), wide != constant);
    EXPECT_EQ(Holds(value, Compare::less, constant), wide < constant);
    EXPECT_EQ(Holds(value, Compare::less_equal, constant), wide <= constant);
    EXPECT_EQ(Holds(value, Compare::greater, constant), wide > constant);
    EXPECT_EQ(Holds(value, Compare::greater_equal, constant), wide >= constant);
  }
}

TEST(PredicateTest, ComparesEveryIntegerTypeByValue) {
  ExpectComparesAsNumbers<bool>(true);
  ExpectComparesAsNumbers<uint8_t>(200);
  ExpectComparesAsNumbers<int8_t>(-100);
  ExpectComparesAsNumbers<int16_t>(-30'000);
  ExpectComparesAsNumbers<uint16_t>(60'000);
  ExpectComparesAsNumbers<int32_t>(-2'000'000'000);
  ExpectComparesAsNumbers<uint32_t>(4'000'000'000);
  ExpectComparesAsNumbers<int64_t>(-9'000'000'000'000'000'000);
  ExpectComparesAsNumbers<uint64_t>(9'000'000'000'000'000'000u);
}

TEST(PredicateTest, AValueBeyondTheConstantsTypeIsLarger) {
  uint64_t large = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(Holds(large, Compare::greater, std::numeric_limits<int64_t>::max()));
  EXPECT_FALSE(Holds(large, Compare::equal, -1));
  EXPECT_FALSE(Holds(large, Compare::less, -1));
}

TEST(PredicateTest, NoPredicateHolds) {
  TestGraph g;
  g.Submit(g.Kernel(second), {});
  TestImage image = g.Seal();
  Instance instance = g.Instance(image);
  EXPECT_TRUE(ShouldRun(instance, abi::TaskAt(instance.image, abi::kFirstTask)));
}

// KernelContext.

TEST(KernelContextTest, ResolvesViews) {
  TestGraph g;
  Tensor x = g.Data<int32_t>({4, 5});
  for (int32_t i = 0; i < 20; ++i) g.Values<int32_t>(x)[static_cast<size_t>(i)] = i;
  g.Submit(g.Kernel(second), {in(x.view({1, 2}, {2, 3})), inout(x.select(0, 0)), int8_t{-3}, 2.5});
  TestImage image = g.Seal();
  Instance instance = g.Instance(image);
  KernelContext k = ContextOf(instance);
  EXPECT_EQ(k.tensors(), 2u);
  EXPECT_EQ(k.scalars(), 2u);
  EXPECT_EQ(k.dtype(0), DType::i32);
  auto view = k.tensor<const int32_t>(0);
  EXPECT_EQ(view.rank(), 2);
  EXPECT_EQ(view.size(), 6);
  EXPECT_EQ(view.shape(1), 3);
  EXPECT_EQ(view.stride(0), 5);
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(view[0], 7);
  EXPECT_EQ(view[4], 13);
  EXPECT_EQ(view(1, 2), 14);
  auto row = k.tensor<int32_t>(1);
  EXPECT_TRUE(row.is_contiguous());
  row[4] = 99;
  EXPECT_EQ(g.Values<int32_t>(x)[4], 99);
  EXPECT_EQ(k.scalar<int8_t>(0), -3);
  EXPECT_EQ(k.scalar<double>(1), 2.5);
  EXPECT_EQ(k.task_name(), "second");
}

TEST(KernelContextTest, NamesWhatAKernelGotWrong) {
  TestGraph g;
  Tensor x = g.Data<int32_t>({4, 5});
  g.Submit(g.Kernel(second), {in(x), 1.0f});
  TestImage image = g.Seal();
  Instance instance = g.Instance(image);
  KernelContext k = ContextOf(instance);
  EXPECT_EQ(MessageOf(ErrorCode::out_of_range, [&] { k.tensor<const int32_t>(1); }),
            "kernel asks for tensor 1, the task has 1");
  EXPECT_EQ(MessageOf(ErrorCode::out_of_range, [&] { k.dtype(7); }),
            "kernel asks for tensor 7, the task has 1");
  EXPECT_EQ(MessageOf(ErrorCode::mismatch, [&] { k.tensor<const float>(0); }),
            "kernel asks for tensor 0 as f32, it is i32");
  EXPECT_EQ(MessageOf(ErrorCode::mismatch, [&] { k.tensor<int32_t>(0); }),
            "kernel asks to write tensor 0, which was submitted as 'in'");
  EXPECT_EQ(MessageOf(ErrorCode::out_of_range, [&] { k.scalar<float>(1); }),
            "kernel asks for scalar 1, the task has 1");
  EXPECT_EQ(MessageOf(ErrorCode::mismatch, [&] { k.scalar<double>(0); }),
            "kernel asks for scalar 0 as f64, it is f32");
  EXPECT_EQ(MessageOf(ErrorCode::kernel_failed, [&] { k.fail("why"); }), "why");
}

TEST(KernelContextTest, TranslatesAddresses) {
  TestGraph g;
  g.Submit(g.Kernel(second), {});
  TestImage image = g.Seal();
  int value = 5;
  AddressSpace space{0,
                     [&](uint64_t address) -> void* { return address == 1234 ? &value : nullptr; }};
  KernelTable table;
  Instance instance(image.data(), table, space);
  KernelContext k = ContextOf(instance);
  EXPECT_EQ(k.pointer(1234), &value);
  EXPECT_EQ(MessageOf(ErrorCode::invalid_argument, [&] { k.pointer(0x10); }),
            "device address 0x10 lies in no live allocation");
}

TEST(KernelContextTest, SplitsItemsBetweenBlocks) {
  for (int64_t n : {0, 1, 7, 100}) {
    for (uint32_t blocks : {1u, 3u, 8u}) {
      int64_t next = 0, least = n, most = 0;
      for (uint32_t block = 0; block < blocks; ++block) {
        KernelContext k(nullptr, nullptr, block, blocks, 0);
        EXPECT_EQ(k.block_begin(n), next);
        next = k.block_end(n);
        least = std::min(least, next - k.block_begin(n));
        most = std::max(most, next - k.block_begin(n));
      }
      EXPECT_EQ(next, n);
      EXPECT_LE(most - least, 1);
    }
  }
}

TEST(KernelTableTest, HoldsKernelsByIndex) {
  KernelTable table;
  std::vector<Kernel> kernels(600, second);
  kernels[599] = third;
  table.Load(100, kernels);
  EXPECT_EQ(table[100].function, second.function);
  EXPECT_EQ(table[699].function, third.function);
  EXPECT_THAT(MessageOf(ErrorCode::out_of_memory,
                        [&] { table.Load(KernelTable::kCapacity - 599, kernels); }),
              HasSubstr("65537 kernels loaded; a device holds at most 65536"));
}

}  // namespace
}  // namespace precast::sched
