#include "run/graph_signature.h"

#include "base/tensor_access.h"

#include <gtest/gtest.h>

#include <vector>

namespace precast::run {
namespace {

Tensor InBuffer(uint32_t buffer, const Shape& shape, DType dtype = DType::f32) {
  return detail::TensorAccess::Make(Tensor::Kind::run, shape, dtype, buffer, 1, 0);
}

bool Matches(const GraphSignature& signature, ArgList args) {
  graph::LayoutTable layouts;
  std::vector<graph::Access> tensors;
  std::vector<const Arg*> scalars;
  bool apart = true;
  for (const Arg& arg : args) {
    if (arg.is_scalar()) {
      scalars.push_back(&arg);
      continue;
    }
    uint32_t buffer = detail::TensorAccess::Buffer(arg.tensor());
    for (const graph::Access& other : tensors) apart = apart && other.buffer != buffer;
    tensors.push_back({detail::TensorAccess::Offset(arg.tensor()), buffer,
                       layouts.Intern(arg.tensor()), arg.direction(), arg.direction(), false,
                       false});
  }
  graph::Arguments arguments{tensors, scalars, apart};
  std::vector<uint32_t> known;
  bool first = signature.Matches(arguments, layouts, &known);
  EXPECT_EQ(signature.Matches(arguments, layouts, &known), first);
  arguments.apart = false;  // to look at their places is the same, only slower
  EXPECT_EQ(signature.Matches(arguments, layouts, &known), first);
  return first;
}

TEST(GraphSignatureTest, TensorsApartHaveSlotsOfTheirOwn) {
  Tensor a = InBuffer(1, {100});
  GraphSignature s({in(a.slice(0, 50, 60)), out(a.slice(0, 0, 10)), 1.0f, in(InBuffer(0, {4}))});
  EXPECT_EQ(s.tensors(), 3u);
  EXPECT_EQ(s.scalars(), 1u);
  ASSERT_EQ(s.slots().size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(s.place(i).offset, 0u);
  EXPECT_EQ(s.slots()[s.place(0).slot].bytes, 40u);
  EXPECT_EQ(s.slots()[s.place(2).slot].bytes, 16u);
}

TEST(GraphSignatureTest, TensorsThatOverlapShareOne) {
  Tensor a = InBuffer(0, {100});
  GraphSignature s({in(a.slice(0, 5, 20)), inout(a.slice(0, 0, 10)), in(a.slice(0, 18, 30)),
                    in(a.slice(0, 30, 40))});
  ASSERT_EQ(s.slots().size(), 2u);
  EXPECT_EQ(s.place(1), (GraphSignature::Place{0, 0}));
  EXPECT_EQ(s.place(0), (GraphSignature::Place{0, 20}));
  EXPECT_EQ(s.place(2), (GraphSignature::Place{0, 72}));
  EXPECT_EQ(s.slots()[0].bytes, 120u);
  EXPECT_EQ(s.slots()[0].first_tensor, 1u);
  EXPECT_EQ(s.place(3), (GraphSignature::Place{1, 0}));
}

TEST(GraphSignatureTest, MatchesTheSameViewsAnywhere) {
  Tensor a = InBuffer(0, {100}), b = InBuffer(1, {100});
  GraphSignature s({in(a.slice(0, 0, 10)), out(b.slice(0, 0, 20)), 3});
  EXPECT_TRUE(Matches(s, {in(a.slice(0, 40, 50)), out(b.slice(0, 7, 27)), 9}));
  EXPECT_TRUE(Matches(s, {in(b.slice(0, 40, 50)), out(b.slice(0, 7, 27)), 9}));  // another order
  EXPECT_TRUE(Matches(s, {in(b.slice(0, 0, 10)), out(b.slice(0, 10, 30)), 9}));  // side by side
}

// Equal but for the order in memory: the same signature, so the same graph.
TEST(GraphSignatureTest, SlotsAreNumberedByArgument) {
  Tensor a = InBuffer(0, {100}), b = InBuffer(1, {100});
  EXPECT_EQ(GraphSignature({in(a), out(b.slice(0, 0, 9))}).slots()[1].bytes, 36u);
  EXPECT_EQ(GraphSignature({in(b), out(a.slice(0, 0, 9))}).slots()[1].bytes, 36u);
  EXPECT_EQ(GraphSignature({in(b), out(a)}).place(0), (GraphSignature::Place{0, 0}));
  EXPECT_EQ(GraphSignature({in(b), out(a)}).place(1), (GraphSignature::Place{1, 0}));
}

TEST(GraphSignatureTest, TellsWhatDiffers) {
  Tensor a = InBuffer(0, {100}), b = InBuffer(1, {100});
  Tensor square = InBuffer(2, {10, 10});
  GraphSignature s({in(a.slice(0, 0, 10)), out(b.slice(0, 0, 10)), 3});
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 0, 10)), out(b.slice(0, 0, 10))}));        // number
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 0, 10)), out(b.slice(0, 0, 10)), 3.0f}));  // type
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 0, 11)), out(b.slice(0, 0, 10)), 3}));     // shape
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 0, 20, 2)), out(b.slice(0, 0, 10)), 3}));  // strides
  EXPECT_FALSE(Matches(s, {inout(a.slice(0, 0, 10)), out(b.slice(0, 0, 10)), 3}));  // direction
  EXPECT_FALSE(Matches(s, {in(square.select(0, 1).reshape({10, 1})), out(b.slice(0, 0, 10)), 3}));
  EXPECT_FALSE(Matches(s, {in(InBuffer(0, {10}, DType::i32)), out(b.slice(0, 0, 10)), 3}));
  // A body numbers tensors and scalars apart, so how they are mixed in the list is no difference.
  EXPECT_TRUE(Matches(s, {3, in(a.slice(0, 0, 10)), out(b.slice(0, 0, 10))}));
  EXPECT_FALSE(Matches(s, {out(b.slice(0, 0, 10)), in(a.slice(0, 0, 10)), 3}));
  EXPECT_FALSE(Matches(s, {in(b.slice(0, 5, 15)), out(b.slice(0, 0, 10)), 3}));  // overlap
  EXPECT_FALSE(Matches(s, {in(b.slice(0, 0, 10)), out(b.slice(0, 5, 15)), 3}));
}

TEST(GraphSignatureTest, WhereOverlappingTensorsLieMatters) {
  Tensor a = InBuffer(0, {100});
  GraphSignature s({in(a.slice(0, 0, 10)), inout(a.slice(0, 5, 15))});
  EXPECT_TRUE(Matches(s, {in(a.slice(0, 50, 60)), inout(a.slice(0, 55, 65))}));
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 50, 60)), inout(a.slice(0, 54, 64))}));
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 55, 65)), inout(a.slice(0, 50, 60))}));
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 50, 60)), inout(a.slice(0, 60, 70))}));
  Tensor b = InBuffer(1, {100});
  EXPECT_FALSE(Matches(s, {in(a.slice(0, 50, 60)), inout(b.slice(0, 55, 65))}));
}

TEST(GraphSignatureTest, ManyTensors) {
  Tensor a = InBuffer(0, {1000});
  std::vector<Arg> args, moved;
  for (int64_t i = 0; i < 200; ++i) {
    args.push_back(in(a.slice(0, i, i + 1)));
    moved.push_back(in(a.slice(0, 999 - i, 1000 - i)));
  }
  GraphSignature s(args);
  EXPECT_EQ(s.slots().size(), 200u);
  EXPECT_TRUE(Matches(s, args));
  EXPECT_TRUE(Matches(s, moved));
}

}  // namespace
}  // namespace precast::run
