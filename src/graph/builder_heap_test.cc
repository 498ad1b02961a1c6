// What the builder makes of the graph heap: bytes that are used again, and the edges that this
// takes. Where the bytes lie is tested with the heap planner.
#include "graph/builder.h"
#include "graph/validator.h"
#include "support/test_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace precast::graph {
namespace {

using test::TestGraph;
using test::TestImage;

PRECAST_KERNEL(work, Core::vector)(const KernelContext&) {}

/// Whether there is an edge between two tasks of a graph whose tasks take two units each and have
/// few consumers.
bool HasEdge(const TestImage& image, uint32_t from, uint32_t to) {
  const abi::Task* task = abi::TaskAt(image.data(), abi::kFirstTask + 2 * from);
  EXPECT_EQ(task->number, from);
  const uint32_t* end = task->consumer + std::min(task->consumers, abi::kInlineConsumers);
  return std::find(task->consumer, end, abi::kFirstTask + 2 * to) != end;
}

TEST(BuilderHeapTest, BytesWhoseUsersPrecedeAreUsedAgain) {
  TestGraph g;
  Tensor x = g.Data<float>({8});
  uint32_t kernel = g.Kernel(work);
  for (int round = 0; round < 20; ++round) {
    uint32_t scope = g.builder().OpenScope();
    Tensor t = g.builder().Alloc({1000}, DType::f32);
    g.Submit(kernel, {inout(x), out(t)});
    g.Submit(kernel, {in(t), inout(x)});
    g.builder().CloseScope(scope);
  }
  EXPECT_LT(g.builder().heap().peak_bytes(), 3 * 4096u);
  EXPECT_GT(g.builder().heap().reused_bytes(), 0u);
  EXPECT_EQ(g.builder().heap_edges(), 0u);
  Validate(g.Seal().span());
}

TEST(BuilderHeapTest, PastTheBudgetDeadBytesAreReusedWithEdges) {
  TestGraph g(4096);
  uint32_t kernel = g.Kernel(work);
  for (int round = 0; round < 4; ++round) {
    uint32_t scope = g.builder().OpenScope();
    Tensor t = g.builder().Alloc({1024}, DType::f32);
    g.Submit(kernel, {out(t)});
    g.Submit(kernel, {in(t)});
    g.Submit(kernel, {in(t)});
    g.builder().CloseScope(scope);
  }
  TestImage image = g.Seal();
  Validate(image.span());
  for (uint32_t first = 3; first < 12; first += 3) {
    EXPECT_TRUE(HasEdge(image, first - 2, first));
    EXPECT_TRUE(HasEdge(image, first - 1, first));
  }
  EXPECT_EQ(g.builder().heap_edges(), 6u);
  EXPECT_LE(g.builder().heap().peak_bytes(), 4096u);
}

// The bytes of a dead tensor go to one that only `no_dep` names: each of its users comes after the
// dead tensor's, although they make no edges among themselves.
TEST(BuilderHeapTest, UnorderedUsersOfReusedBytesComeAfterTheDeadTensorsUsers) {
  TestGraph g(4096);
  uint32_t kernel = g.Kernel(work);
  uint32_t scope = g.builder().OpenScope();
  Tensor dead = g.builder().Alloc({1024}, DType::f32);
  g.Submit(kernel, {out(dead)});
  g.Submit(kernel, {in(dead)});
  g.builder().CloseScope(scope);
  Tensor t = g.builder().Alloc({1024}, DType::f32);
  for (int64_t i = 0; i < 4; ++i) g.Submit(kernel, {no_dep(t.slice(0, i * 256, i * 256 + 256))});
  TestImage image = g.Seal();
  Validate(image.span());
  EXPECT_TRUE(HasEdge(image, 1, 2));
  for (uint32_t later = 3; later < 6; ++later) EXPECT_TRUE(HasEdge(image, 2, later));
}

TEST(BuilderHeapTest, AHugeBudgetCannotOverflow) {
  TestGraph g(~uint64_t{0});
  uint32_t kernel = g.Kernel(work);
  Tensor a = g.builder().Alloc({int64_t{1} << 31, int64_t{1} << 30}, DType::u8);
  Tensor b = g.builder().Alloc({int64_t{1} << 31, int64_t{1} << 30}, DType::u8);
  Tensor c = g.builder().Alloc({int64_t{1} << 31, int64_t{1} << 30}, DType::u8);
  g.Submit(kernel, {out(a)});
  g.Submit(kernel, {out(b)});
  EXPECT_LT(g.builder().heap().peak_bytes(), uint64_t{1} << 63);
  EXPECT_THROW(g.Submit(kernel, {out(c)}), Error);
}

// B1: one that ran out of memory ends the graph.
TEST(BuilderHeapTest, ALiveSetThatCannotFitEndsTheGraph) {
  TestGraph g(4096);
  uint32_t kernel = g.Kernel(work);
  Tensor a = g.builder().Alloc({1024}, DType::f32), b = g.builder().Alloc({1}, DType::f32);
  g.Submit(kernel, {out(a)});
  std::string messages[3];
  for (std::string& message : messages) {
    try {
      g.Submit(kernel, {&message == &messages[2] ? in(a) : out(b)});
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      message = error.message();
    }
  }
  EXPECT_NE(messages[0], "");
  EXPECT_EQ(messages[1], messages[0]);
  EXPECT_EQ(messages[2], messages[0]);
  EXPECT_EQ(g.builder().statistics().tasks, 1u);
}

}  // namespace
}  // namespace precast::graph
