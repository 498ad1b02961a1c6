#include <precast/argument.h>

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace precast {
namespace {

TEST(Argument, DirectionNames) {
  EXPECT_EQ(Name(Direction::scalar), "scalar");
  EXPECT_EQ(Name(Direction::in), "in");
  EXPECT_EQ(Name(Direction::out), "out");
  EXPECT_EQ(Name(Direction::inout), "inout");
  EXPECT_EQ(Name(Direction::no_dep), "no_dep");
}

TEST(Argument, ScalarsKeepTheirBytes) {
  Arg minus_one = int16_t{-1};
  EXPECT_TRUE(minus_one.is_scalar());
  EXPECT_EQ(minus_one.dtype(), DType::i16);
  EXPECT_EQ(minus_one.bits(), 0xffffu) << "zero-extended";
  Arg one = 1.0;
  EXPECT_EQ(one.dtype(), DType::f64);
  EXPECT_EQ(one.bits(), 0x3ff0000000000000u);
  Arg half = f16(0.5f);
  EXPECT_EQ(half.dtype(), DType::f16);
  EXPECT_EQ(half.bits(), 0x3800u);
  Arg yes = true;
  EXPECT_EQ(yes.dtype(), DType::boolean);
  EXPECT_EQ(yes.bits(), 1u);
}

TEST(Argument, ContainersBecomeHostTensorsOfRankOne) {
  std::vector<float> values(7);
  const std::array<int32_t, 3> constants{};
  EXPECT_EQ(out(values).direction(), Direction::out);
  EXPECT_EQ(out(values).tensor().shape(), Shape({7}));
  EXPECT_EQ(out(values).tensor().kind(), Tensor::Kind::host);
  EXPECT_EQ(in(constants).dtype(), DType::i32);
  std::span<float> part = std::span(values).subspan(2, 3);
  EXPECT_EQ(inout(part).tensor().size(), 3);
}

TEST(Argument, AnEmptyContainerIsAnError) {
  std::vector<float> empty;
  EXPECT_THROW(in(empty), Error);
}

TEST(Argument, ACopyHoldsItsOwnTensor) {
  std::vector<float> values(6);
  std::vector<Arg> args;
  {
    Tensor tensor = Tensor::host(values.data(), {2, 3});
    args.push_back(in(tensor));
    args.push_back(4);
    args.push_back(no_dep(tensor.select(0, 1)));
    tensor = Tensor();
  }
  std::vector<Arg> copy = args;
  copy[1] = copy[0];
  EXPECT_EQ(copy[0].tensor().ToString(), "f32[2, 3]");
  EXPECT_EQ(copy[1].tensor().ToString(), "f32[2, 3]");
  EXPECT_EQ(copy[1].direction(), Direction::in);
  EXPECT_EQ(copy[2].tensor().ToString(), "f32[3]");
  copy[0] = Arg(2.5f);
  EXPECT_TRUE(copy[0].is_scalar());

  ArgList list(args);
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(list[1].bits(), 4u);
}

}  // namespace
}  // namespace precast
