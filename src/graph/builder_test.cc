// The graphs that the builder makes: edges, scopes, errors that change nothing, and the bytes of
// the image. What overlaps what is tested with the region map; the heap in builder_heap_test.cc.
#include "graph/builder.h"

#include "base/tensor_access.h"
#include "graph/validator.h"
#include "support/test_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace precast::graph {
namespace {

using test::TestGraph;
using test::TestImage;
using testing::ElementsAre;
using testing::IsEmpty;

PRECAST_KERNEL(work, Core::vector)(const KernelContext&) {}
PRECAST_KERNEL(cube_work, Core::cube)(const KernelContext&) {}

/// Numbers of the tasks that wait for a task, in ascending order.
std::vector<uint32_t> ConsumersOf(const TestImage& image, uint32_t number) {
  const abi::Header* header = image.header();
  const abi::Task* task = abi::TaskAt(image.data(), abi::kFirstTask);
  auto next = [&] {
    abi::TaskId id =
        static_cast<abi::TaskId>((reinterpret_cast<const char*>(task) - image.data()) / abi::kUnit);
    task = abi::TaskAt(image.data(), id + task->units);
  };
  while (task->number != number) next();
  std::vector<abi::TaskId> ids;
  uint32_t inlined = std::min(task->consumers, abi::kInlineConsumers);
  uint32_t rest = task->consumers - inlined;
  const abi::ConsumerChunk* chunks = abi::At<abi::ConsumerChunk>(image.data(), header->chunks);
  std::vector<uint32_t> order;
  for (uint32_t chunk = task->chunk; chunk != 0; chunk = chunks[chunk - 1].older) {
    order.insert(order.begin(), chunk);
  }
  ids.assign(task->consumer, task->consumer + inlined);
  for (uint32_t chunk : order) {
    uint32_t used = std::min(rest, abi::kChunkConsumers);
    ids.insert(ids.end(), chunks[chunk - 1].consumer, chunks[chunk - 1].consumer + used);
    rest -= used;
  }
  EXPECT_EQ(rest, 0u);
  std::vector<uint32_t> numbers;
  for (abi::TaskId id : ids) numbers.push_back(abi::TaskAt(image.data(), id)->number);
  return numbers;
}

using Edges = std::vector<std::pair<uint32_t, uint32_t>>;
Edges EdgesOf(const TestImage& image) {
  Validate(image.span());
  Edges edges;
  for (uint32_t from = 0; from < image.header()->tasks; ++from) {
    for (uint32_t to : ConsumersOf(image, from)) edges.emplace_back(from, to);
  }
  EXPECT_EQ(image.header()->edges, edges.size());
  return edges;
}

class BuilderTest : public testing::Test {
 protected:
  abi::TaskId Submit(ArgList args, const TestGraph::Options& options = {}) {
    return g_.Submit(g_.Kernel(work), args, options);
  }
  Edges EdgesNow() { return EdgesOf(g_.Seal()); }

  /// All of an image but its layouts: the table may keep one that only a refused task used, since
  /// tensors remember its number.
  static std::string WithoutLayouts(const TestImage& image) {
    const abi::Header& h = *image.header();
    std::string bytes(image.data() + sizeof(h), h.task_bytes);
    auto append = [&](const abi::Section& section, size_t record) {
      bytes.append(image.data() + section.offset, section.count * record);
    };
    append(h.chunks, sizeof(abi::ConsumerChunk));
    append(h.predicates, sizeof(abi::Predicate));
    append(h.mixes, sizeof(abi::Mix));
    append(h.names, sizeof(abi::Name));
    append(h.name_bytes, 1);
    append(h.roots, sizeof(abi::TaskId));
    append(h.slots, sizeof(abi::Slot));
    return fmt::format("{} {} {} {}", h.tasks, h.edges, h.blocks, bytes);
  }

  /// The message of a submit that fails. It must leave the graph as it was (B1).
  std::string Refused(ErrorCode code, ArgList args, const TestGraph::Options& options = {}) {
    std::string before = WithoutLayouts(g_.Seal());
    std::string message;
    try {
      Submit(args, options);
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
      message = error.message();
    }
    EXPECT_TRUE(before == WithoutLayouts(g_.Seal())) << "the image has changed: " << message;
    return message;
  }

  TestGraph g_;
  Tensor x_ = g_.Data<float>({8, 8}), y_ = g_.Data<float>({8}), z_ = g_.Data<float>({8});
};

// Edges.

TEST_F(BuilderTest, ReadAfterWrite) {
  Submit({inout(x_)});
  Submit({in(x_), inout(y_)});
  Submit({in(x_), inout(z_)});
  EXPECT_EQ(EdgesNow(), (Edges{{0, 1}, {0, 2}}));
}

TEST_F(BuilderTest, WriteAfterRead) {
  Submit({in(x_)});
  Submit({in(x_)});
  Submit({out(x_)});
  EXPECT_EQ(EdgesNow(), (Edges{{0, 2}, {1, 2}}));
}

TEST_F(BuilderTest, WriteAfterWrite) {
  Submit({out(x_)});
  Submit({out(x_)});
  Submit({out(x_)});
  EXPECT_EQ(EdgesNow(), (Edges{{0, 1}, {1, 2}}));
}

TEST_F(BuilderTest, PartsThatDoNotOverlapAreApart) {
  Submit({out(x_.select(0, 1))});
  Submit({out(x_.select(0, 2))});
  Submit({in(x_.view({0, 0}, {2, 8}))});
  Submit({in(x_.view({2, 0}, {2, 8}))});
  Submit({inout(x_)});
  // Edges that others imply may be there, too.
  Edges edges = EdgesNow();
  EXPECT_THAT(edges, testing::IsSupersetOf(Edges{{0, 2}, {1, 3}, {2, 4}, {3, 4}}));
  EXPECT_THAT(edges, testing::IsSubsetOf(Edges{{0, 2}, {1, 3}, {2, 4}, {3, 4}, {0, 4}, {1, 4}}));
}

TEST_F(BuilderTest, AnEdgeExistsOnce) {
  Submit({inout(x_), inout(y_), inout(z_)});
  abi::TaskId first = abi::kFirstTask;
  Submit({in(x_), in(y_), inout(z_)}, {.after = {first, first}});
  EXPECT_EQ(EdgesNow(), (Edges{{0, 1}}));
}

TEST_F(BuilderTest, NoDepOrdersNothing) {
  Submit({inout(x_)});
  Submit({no_dep(x_)});
  Submit({inout(x_)});
  EXPECT_EQ(EdgesNow(), (Edges{{0, 2}}));
}

TEST_F(BuilderTest, AfterOrdersTasksThatShareNothing) {
  abi::TaskId a = Submit({inout(x_)});
  abi::TaskId b = Submit({inout(y_)});
  abi::TaskId barrier = g_.Submit(abi::kNoKernel, {}, {.after = {a, b}});
  Submit({inout(z_)}, {.after = {barrier}});
  EXPECT_EQ(EdgesNow(), (Edges{{0, 2}, {1, 2}, {2, 3}}));
}

TEST_F(BuilderTest, APredicateReadsItsElementAndKeepsOutputs) {
  Tensor flags = g_.Data<int32_t>({4});
  Submit({inout(flags.select(0, 2))});
  Submit({out(x_)});
  Predicate on{flags.select(0, 2), Compare::equal, 1};
  Submit({out(x_)}, {.when = &on});
  Submit({inout(flags)});
  Submit({in(x_)});
  EXPECT_EQ(EdgesNow(), (Edges{{0, 2}, {1, 2}, {2, 3}, {2, 4}}));
  const abi::Task* task = g_.Task(abi::kFirstTask + 4);
  EXPECT_EQ(abi::Arguments(task)[0].direction, static_cast<uint32_t>(Direction::inout));
}

TEST_F(BuilderTest, TheSameRegionTwiceIsAnInout) {
  Submit({out(x_)});
  abi::TaskId id = Submit({in(x_), out(x_)});
  EXPECT_EQ(abi::Arguments(g_.Task(id))[0].direction, static_cast<uint32_t>(Direction::inout));
  EXPECT_EQ(abi::Arguments(g_.Task(id))[1].direction, static_cast<uint32_t>(Direction::inout));
  EXPECT_EQ(EdgesNow(), (Edges{{0, 1}}));
}

class ManyConsumersTest : public testing::TestWithParam<uint32_t> {};

TEST_P(ManyConsumersTest, AreKeptInOrder) {
  TestGraph g;
  Tensor x = g.Data<float>({}), y = g.Data<float>({});
  uint32_t kernel = g.Kernel(work);
  // Two producers take turns, so their chunks are mixed.
  g.Submit(kernel, {inout(x)});
  g.Submit(kernel, {inout(y)});
  std::vector<uint32_t> of_x, of_y;
  for (uint32_t i = 0; i < GetParam(); ++i) {
    of_x.push_back(2 * i + 2);
    of_y.push_back(2 * i + 3);
    g.Submit(kernel, {in(x)});
    g.Submit(kernel, {in(y)});
  }
  TestImage image = g.Seal();
  Validate(image.span());
  EXPECT_EQ(ConsumersOf(image, 0), of_x);
  EXPECT_EQ(ConsumersOf(image, 1), of_y);
  uint32_t beyond = GetParam() > 6 ? GetParam() - 6 : 0;
  EXPECT_EQ(image.header()->chunks.count, 2 * ((beyond + 14) / 15));
  EXPECT_EQ(image.header()->roots.count, 2u);
}
INSTANTIATE_TEST_SUITE_P(Counts, ManyConsumersTest,
                         testing::Values(1, 5, 6, 7, 20, 21, 22, 36, 37, 500));

// Scopes.

TEST_F(BuilderTest, ACreatedTensorDiesWithItsScope) {
  uint32_t scope = g_.builder().OpenScope();
  Tensor t = g_.builder().Alloc({4}, DType::f32);
  Submit({out(t)});
  EXPECT_TRUE(g_.builder().CloseScope(scope));
  EXPECT_EQ(Refused(ErrorCode::stale, {in(t)}),
            "task 1 'work' (kernel work): argument 0 (f32[4]): used after its scope");
  EXPECT_FALSE(g_.builder().CloseScope(scope)) << "an outer scope is the innermost now";
}

TEST_F(BuilderTest, ReadingWhatNobodyWroteIsAnError) {
  Tensor t = g_.builder().Alloc({4}, DType::f32);
  EXPECT_EQ(Refused(ErrorCode::not_ready, {in(t)}),
            "task 0 'work' (kernel work): argument 0 (f32[4]) is read, but no submitted task has "
            "written it; write it first, or give alloc a fill value");
  Predicate on{y_.select(0, 0), Compare::equal, 0};
  Refused(ErrorCode::mismatch, {in(y_)}, {.when = &on});
  Submit({out(t)});
  Submit({in(t)});
}

// Errors.

// The same region twice fills it once.
TEST_F(BuilderTest, ARegionWrittenTwiceByOneTaskCountsOnce) {
  Tensor t = g_.builder().Alloc({100}, DType::f32);
  Tensor first = t.slice(0, 0, 50), second = t.slice(0, 50, 100);
  Submit({out(first), out(first)});
  Refused(ErrorCode::not_ready, {in(second)});
  Submit({out(second)});
  Submit({in(second)});
  EXPECT_FALSE(g_.builder().buffer(detail::TensorAccess::Buffer(t)).is(Buffer::kHasGaps));
}

// A task that may be skipped, or that reads what it writes, fills no gap.
TEST_F(BuilderTest, WhatMayKeepOldBytesFillsNoGap) {
  Tensor t = g_.builder().Alloc({100}, DType::f32);
  Tensor flag = g_.Data<int32_t>({1});
  Predicate when = precast::when(flag, {0}, Compare::equal, 1);
  Submit({out(t.slice(0, 0, 50))});
  Submit({out(t)}, {.when = &when});
  Submit({inout(t)});
  const Buffer& buffer = g_.builder().buffer(detail::TensorAccess::Buffer(t));
  EXPECT_TRUE(buffer.is(Buffer::kHasGaps));
  EXPECT_TRUE(buffer.is(Buffer::kKeepsOldBytes));
}

TEST_F(BuilderTest, RefusesBadArguments) {
  Submit({inout(x_)});
  float host[4];
  EXPECT_EQ(Refused(ErrorCode::invalid_argument, {in(Tensor())}),
            "task 1 'work' (kernel work): argument 0: a tensor that names nothing");
  Refused(ErrorCode::invalid_argument, {in(y_), in(Tensor::host(host, {4}))});
  TestGraph other;
  Tensor foreign = detail::TensorAccess::Rebase(x_, Tensor::Kind::run, 0, 0, 99, 0);
  Refused(ErrorCode::stale, {in(foreign)});
  Refused(ErrorCode::invalid_argument, {inout(x_)}, {.blocks = 0});
  Tensor read_only = g_.builder().MakeTensor(y_, detail::TensorAccess::Buffer(y_), 0, true);
  Refused(ErrorCode::mismatch, {in(x_), inout(read_only)});
  Submit({in(read_only)});
}

TEST_F(BuilderTest, RefusesPartsThatOverlapWhenOneIsWritten) {
  Tensor top = x_.view({0, 0}, {5, 8}), bottom = x_.view({4, 0}, {4, 8});
  EXPECT_EQ(Refused(ErrorCode::invalid_argument, {in(top), inout(y_), out(bottom)}),
            "task 0 'work' (kernel work): tensors 0 and 2 overlap (bytes 0 … 159 and 128 … 255 of "
            "one buffer), and one of them is written; only the same region may be passed twice");
  Submit({in(top), in(bottom)});
  // So many that they are sorted first.
  std::vector<Arg> rows;
  for (int64_t i = 0; i < 64; ++i) rows.push_back(out(x_.select(0, i / 8).select(0, i % 8)));
  Submit(rows);
  rows.push_back(in(x_.select(1, 7)));
  Refused(ErrorCode::invalid_argument, rows);
  rows.back() = in(x_.select(0, 7).select(0, 7));
  Submit(rows);
}

TEST_F(BuilderTest, RefusesBadPredicates) {
  Tensor flags = g_.Data<int32_t>({4});
  Predicate two{flags.view({0}, {2}), Compare::equal, 1};
  Refused(ErrorCode::out_of_range, {inout(x_)}, {.when = &two});
  Predicate real{y_.select(0, 1), Compare::equal, 1};
  Refused(ErrorCode::mismatch, {inout(x_)}, {.when = &real});
  Predicate unwritten{g_.builder().Alloc({}, DType::i32), Compare::equal, 1};
  Refused(ErrorCode::not_ready, {inout(x_)}, {.when = &unwritten});
}

TEST_F(BuilderTest, RefusesTooManyArguments) {
  std::vector<Arg> args(65'536, Arg(1));
  Refused(ErrorCode::invalid_argument, args);
  args.pop_back();
  abi::TaskId id = Submit(args);
  EXPECT_EQ(g_.Task(id)->scalars, 65'535u);
  Submit({inout(x_)});
  Validate(g_.Seal().span());
}

// The image.

TEST_F(BuilderTest, TheArenaMayMoveAtAnyTime) {
  TestGraph g;
  Tensor x = g.Data<float>({64});
  uint32_t kernel = g.Kernel(work);
  for (uint32_t i = 0; i < 5'000; ++i) {
    g.Submit(kernel, {inout(x.select(0, i % 64)), i, 2.5f}, {.name = i % 2 == 0 ? "even" : "odd"});
  }
  EXPECT_GT(g.growths(), 5);
  TestImage image = g.Seal();
  Validate(image.span());
  const abi::Task* task = abi::TaskAt(image.data(), abi::kFirstTask + 2 * 4'321);
  EXPECT_EQ(task->number, 4'321u);
  EXPECT_EQ(abi::Scalars(task)[0].bits, 4'321u);
  EXPECT_EQ(abi::Arguments(task)[0].offset, 4 * (4'321u % 64));
}

TEST_F(BuilderTest, NamesAndLayoutsAreStoredOnce) {
  std::string name = "softmax";
  for (int i = 0; i < 10; ++i) Submit({inout(x_.select(0, i % 8))}, {.name = name});
  Submit({inout(x_)}, {.name = "soft"});
  abi::TaskId unnamed = Submit({inout(x_)});
  TestImage image = g_.Seal();
  EXPECT_EQ(image.header()->names.count, 2u);
  EXPECT_EQ(std::string(abi::At<char>(image.data(), image.header()->name_bytes),
                        image.header()->name_bytes.count),
            "softmaxsoft");
  EXPECT_EQ(image.header()->layouts.count, 3u);  // none, a row, the matrix
  EXPECT_EQ(abi::TaskAt(image.data(), unnamed)->name, 0u);
  EXPECT_EQ(g_.builder().Describe(abi::kFirstTask), "task 0 'softmax' (kernel work)");
  EXPECT_EQ(g_.builder().Describe(unnamed), "task 11 'work' (kernel work)");
}

TEST_F(BuilderTest, MixedTasksCountTheirBlocksForEachKernel) {
  abi::Mix mix{{g_.Kernel(cube_work), g_.Kernel(work)}, 2};
  abi::TaskId id = g_.Submit(mix, {inout(x_)}, {.blocks = 5});
  g_.Submit(abi::kNoKernel, {}, {.blocks = 3});
  Submit({in(x_)}, {.blocks = 2});
  EXPECT_EQ(g_.Task(id)->flags, abi::kTaskMixed);
  EXPECT_EQ(g_.builder().statistics().blocks, 12u);
  EXPECT_EQ(EdgesNow(), (Edges{{0, 2}}));
}

TEST_F(BuilderTest, ATaskOfThreeTensorsTakesLittle) {
  constexpr uint64_t kTasks = 1'000;
  TestGraph g;
  Tensor a = g.Data<float>({32, 8}), b = g.Data<float>({32, 8}), c = g.Data<float>({32, 8});
  for (uint64_t i = 0; i < kTasks; ++i) {
    int64_t row = static_cast<int64_t>(i % 32);
    g.Submit(g.Kernel(work), {in(a.select(0, row)), in(b.select(0, row)), inout(c.select(0, row))});
  }
  EXPECT_LE(g.Seal().size() / kTasks, 176u);
}

TEST_F(BuilderTest, SealedBytesIsAnUpperBound) {
  for (int i = 0; i < 30; ++i) Submit({in(x_), inout(y_)}, {.name = "n"});
  uint64_t bound = g_.builder().SealedBytes();
  uint64_t sealed = g_.Seal().size();
  EXPECT_LE(sealed, bound);
  EXPECT_GT(sealed + 1'024, bound);
}

TEST_F(BuilderTest, BeginStartsAnew) {
  Submit({inout(x_)}, {.name = "old"});
  TestGraph fresh;
  TestImage empty = fresh.Seal();
  ImageMemory memory;
  TestImage bytes(1 << 16);
  memory.data = bytes.data();
  memory.capacity = bytes.size();
  g_.builder().Begin(&memory, 8, 1 << 20);
  std::vector<abi::Slot> slots(1);
  uint64_t size = g_.builder().Seal(slots);
  EXPECT_EQ(size, empty.size());
  EXPECT_EQ(g_.builder().statistics().tasks, 0u);
  EXPECT_FALSE(g_.builder().IsTask(abi::kFirstTask));
}

// Queries.

TEST_F(BuilderTest, FindsWhoTouchesWhat) {
  EXPECT_EQ(g_.builder().FindWriter(x_), 0u);
  abi::TaskId writer = Submit({out(x_.select(0, 3))});
  abi::TaskId reader = Submit({in(x_.select(0, 5))});
  EXPECT_EQ(g_.builder().FindWriter(x_), writer);
  EXPECT_EQ(g_.builder().FindWriter(x_.select(0, 5)), 0u);
  EXPECT_EQ(g_.builder().FindAccess(x_.select(0, 5)), reader);
  EXPECT_EQ(g_.builder().FindAccess(x_.select(0, 6)), 0u);
  EXPECT_TRUE(g_.builder().IsTask(reader));
  EXPECT_FALSE(g_.builder().IsTask(reader + 2));
}

}  // namespace
}  // namespace precast::graph
