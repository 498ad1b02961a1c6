#include "base/tensor_access.h"

#include <precast/tensor.h>

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace precast {
namespace {

using detail::TensorAccess;

// What `call` throws: its code must be `code`, and its message must hold every part.
void ExpectError(ErrorCode code, const std::vector<std::string>& parts,
                 const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one with \"" << parts.front() << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << error.message();
    for (const std::string& part : parts) {
      EXPECT_NE(error.message().find(part), std::string::npos)
          << "\"" << part << "\" is not in: " << error.message();
    }
  }
}

class TensorTest : public ::testing::Test {
 protected:
  TensorTest() : values(24) { std::iota(values.begin(), values.end(), 0); }
  Tensor Cube() { return Tensor::host(values.data(), {2, 3, 4}); }
  // Values of the elements that a tensor of `values` names, in row-major order.
  std::vector<int> Read(const Tensor& t) {
    std::vector<int> result;
    for (int64_t i = 0; i < t.size(); ++i) {
      int64_t rest = i, offset = 0;
      for (int axis = t.rank() - 1; axis >= 0; --axis) {
        offset += rest % t.shape(axis) * t.stride(axis);
        rest /= t.shape(axis);
      }
      result.push_back(reinterpret_cast<int32_t*>(TensorAccess::HostData(t))[offset]);
    }
    return result;
  }
  std::vector<int32_t> values;
};

TEST(ShapeTest, HoldsExtents) {
  Shape shape{2, 3, 4294967295};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[2], 4294967295);
  EXPECT_EQ(shape.size(), 6 * int64_t{4294967295});
  EXPECT_EQ(shape.ToString(), "[2, 3, 4294967295]");
  EXPECT_EQ(Shape{}.rank(), 0);
  EXPECT_EQ(Shape{}.size(), 1);
  EXPECT_EQ(Shape{}.ToString(), "[]");
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
  ExpectError(ErrorCode::out_of_range, {"axis 3", "0 to 2"}, [&] { shape[3]; });
  ExpectError(ErrorCode::out_of_range, {"axis -1"}, [&] { shape[-1]; });
  ExpectError(ErrorCode::out_of_range, {"axis 0", "no axes"}, [] { Shape{}[0]; });
}

TEST(ShapeTest, RefusesBadExtents) {
  ExpectError(ErrorCode::out_of_range, {"extent 1", "[4, 0]", "is 0", "1 to 4294967295"}, [] {
    Shape{4, 0};
  });
  ExpectError(ErrorCode::out_of_range, {"extent 0", "is -3"}, [] { Shape{-3}; });
  ExpectError(ErrorCode::out_of_range, {"is 4294967296"}, [] { Shape{4294967296}; });
  ExpectError(ErrorCode::out_of_range, {"rank 6", "0 to 5"}, [] { Shape{1, 1, 1, 1, 1, 1}; });
}

TEST(ShapeTest, RefusesProductsThatOverflow) {
  EXPECT_EQ((Shape{4294967295, 2147483648}).size(), 9223372034707292160);
  ExpectError(ErrorCode::out_of_range, {"9.22e+18", "at most 9223372036854775807"}, [] {
    Shape{4294967295, 2147483649};
  });
  ExpectError(ErrorCode::out_of_range, {"elements"}, [] {
    Shape{4294967295, 4294967295, 4294967295, 4294967295, 4294967295};
  });
}

TEST_F(TensorTest, HostTensorsAreRowMajor) {
  Tensor t = Cube();
  EXPECT_EQ(t.kind(), Tensor::Kind::host);
  EXPECT_EQ(t.dtype(), DType::i32);
  EXPECT_EQ(t.rank(), 3);
  EXPECT_EQ(t.shape(), Shape({2, 3, 4}));
  EXPECT_EQ(t.stride(0), 12);
  EXPECT_EQ(t.stride(1), 4);
  EXPECT_EQ(t.stride(2), 1);
  EXPECT_EQ(t.size(), 24);
  EXPECT_EQ(t.extent_bytes(), 96u);
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.ToString(), "i32[2, 3, 4]");
  Tensor scalar = Tensor::host(values.data(), {});
  EXPECT_EQ(scalar.size(), 1);
  EXPECT_EQ(scalar.extent_bytes(), 4u);
  EXPECT_EQ(scalar.ToString(), "i32[]");
}

TEST_F(TensorTest, RefusesNullAndTooManyBytes) {
  ExpectError(ErrorCode::invalid_argument, {"f32[3]", "null"},
              [] { Tensor::host(static_cast<float*>(nullptr), {3}); });
  ExpectError(ErrorCode::out_of_range, {"i32[2147483648, 2147483648]", "1.84e+19 bytes"}, [&] {
    Tensor::host(values.data(), {2147483648, 2147483648});
  });
  ExpectError(ErrorCode::invalid_argument, {"'none'"},
              [] { TensorAccess::Make(Tensor::Kind::run, {3}, DType::none, 0, 0, 0); });
}

TEST_F(TensorTest, RefusesStridesBeyond32Bits) {
  ExpectError(ErrorCode::out_of_range,
              {"i32[2, 65536, 65536]", "axis 0", "4294967296", "at most 4294967295"}, [&] {
                Tensor::host(values.data(), {2, 65536, 65536});
              });
  // An axis of one element needs no stride.
  Tensor one = Tensor::host(values.data(), {1, 65536, 65536});
  EXPECT_TRUE(one.is_contiguous());
  EXPECT_EQ(one.extent_bytes(), uint64_t{4} << 32);
  EXPECT_EQ(one.select(0, 0).shape(), Shape({65536, 65536}));
  EXPECT_EQ(one.view({0, 1, 0}, {1, 1, 65536}).size(), 65536);

  Tensor wide = Tensor::host(values.data(), {2, 65536, 32768});
  ExpectError(ErrorCode::out_of_range, {"step 2", "axis 0", "4294967296"}, [&] {
    Tensor::host(values.data(), {3, 65536, 32768}).slice(0, 0, 3, 2);
  });
  EXPECT_EQ(wide.slice(0, 0, 2, 2).shape(0), 1);
  EXPECT_EQ(wide.slice(0, 0, 2, INT64_MAX).shape(0), 1);
  Tensor flat = Tensor::host(values.data(), {65536, 131072});
  ExpectError(ErrorCode::out_of_range, {"u8[2, 65536, 65536]", "4294967296"}, [&] {
    auto* bytes = reinterpret_cast<uint8_t*>(values.data());
    (void)Tensor::host(bytes, {65536, 131072}).reshape({2, 65536, 65536});
  });
  EXPECT_EQ(flat.transpose(0, 1).stride(1), 131072);
}

TEST_F(TensorTest, ADefaultTensorNamesNothing) {
  Tensor none;
  EXPECT_EQ(none.kind(), Tensor::Kind::none);
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.extent_bytes(), 0u);
  EXPECT_EQ(none.ToString(), "none");
  auto names_nothing = [](const std::function<void()>& call) {
    ExpectError(ErrorCode::invalid_argument, {"names nothing"}, call);
  };
  names_nothing([&] { none.view({}, {}); });
  names_nothing([&] { none.slice(0, 0, 1); });
  names_nothing([&] { none.select(0, 0); });
  names_nothing([&] { none.transpose(0, 0); });
  names_nothing([&] { none.permute({}); });
  names_nothing([&] { none.reshape({}); });
}

TEST_F(TensorTest, View) {
  Tensor t = Cube().view({1, 1, 2}, {1, 2, 2});
  EXPECT_EQ(Read(t), (std::vector{18, 19, 22, 23}));
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_EQ(t.extent_bytes(), 24u) << "from 18 to 23";
  EXPECT_EQ(t.ToString(), "i32[1, 2, 2] with strides [12, 4, 1]");
  EXPECT_EQ(Read(t.view({0, 1, 0}, {1, 1, 2})), (std::vector{22, 23})) << "a view of a view";
  EXPECT_TRUE(Cube().view({1, 0, 0}, {1, 3, 4}).is_contiguous());
  EXPECT_EQ(Read(Tensor::host(values.data(), {}).view({}, {})), (std::vector{0}));
}

TEST_F(TensorTest, ViewsStayInside) {
  Tensor t = Cube();
  ExpectError(ErrorCode::out_of_range,
              {"i32[2, 3, 4]", "axis 1", "2 elements from index 2", "0 to 2"}, [&] {
                t.view({0, 2, 0}, {1, 2, 1});
              });
  ExpectError(ErrorCode::out_of_range, {"axis 0", "index -1"}, [&] {
    t.view({-1, 0, 0}, {1, 1, 1});
  });
  ExpectError(ErrorCode::out_of_range, {"axis 2", "index 9223372036854775807"}, [&] {
    t.view({0, 0, INT64_MAX}, {1, 1, 1});
  });
  ExpectError(ErrorCode::out_of_range, {"axis 2", "5 elements"}, [&] {
    t.view({0, 0, 0}, {1, 1, 5});
  });
  ExpectError(ErrorCode::out_of_range, {"begin has 2", "both need 3"}, [&] {
    t.view({0, 0}, {1, 1, 1});
  });
  ExpectError(ErrorCode::out_of_range, {"[1, 1] has 2"}, [&] { t.view({0, 0, 0}, {1, 1}); });
}

TEST_F(TensorTest, Slice) {
  EXPECT_EQ(Read(Cube().slice(2, 1, 4, 2).slice(1, 2, 3)), (std::vector{9, 11, 21, 23}));
  Tensor odd = Tensor::host(values.data(), {24}).slice(0, 1, 24, 5);
  EXPECT_EQ(Read(odd), (std::vector{1, 6, 11, 16, 21}));
  EXPECT_EQ(Read(odd.slice(0, 0, 5, 3)), (std::vector{1, 16}));
  EXPECT_EQ(odd.extent_bytes(), 84u);
  Tensor t = Cube();
  ExpectError(ErrorCode::out_of_range, {"1 to 5 along axis 2", "0 to 4"},
              [&] { t.slice(2, 1, 5); });
  ExpectError(ErrorCode::out_of_range, {"-1 to 2"}, [&] { t.slice(2, -1, 2); });
  ExpectError(ErrorCode::out_of_range, {"2 to 2", "no elements"}, [&] { t.slice(2, 2, 2); });
  ExpectError(ErrorCode::out_of_range, {"3 to 1", "no elements"}, [&] { t.slice(2, 3, 1); });
  ExpectError(ErrorCode::out_of_range, {"step 0", "at least 1"}, [&] { t.slice(2, 0, 4, 0); });
  ExpectError(ErrorCode::out_of_range, {"step -1"}, [&] { t.slice(2, 0, 4, -1); });
  ExpectError(ErrorCode::out_of_range, {"axis 3", "0 to 2"}, [&] { t.slice(3, 0, 1); });
}

TEST_F(TensorTest, Select) {
  EXPECT_EQ(Read(Cube().select(1, 2)), (std::vector{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(Cube().select(1, 2).ToString(), "i32[2, 4] with strides [12, 1]");
  EXPECT_EQ(Read(Cube().select(0, 1).select(0, 1).select(0, 3)), (std::vector{19}));
  Tensor t = Cube();
  ExpectError(ErrorCode::out_of_range, {"index 3 along axis 1", "0 to 2"}, [&] { t.select(1, 3); });
  ExpectError(ErrorCode::out_of_range, {"index -1"}, [&] { t.select(1, -1); });
  ExpectError(ErrorCode::out_of_range, {"axis 7"}, [&] { t.select(7, 0); });
  ExpectError(ErrorCode::out_of_range, {"no axes"},
              [&] { Tensor::host(values.data(), {}).select(0, 0); });
}

TEST_F(TensorTest, TransposeAndPermute) {
  Tensor t = Tensor::host(values.data(), {2, 3});
  EXPECT_EQ(Read(t.transpose(0, 1)), (std::vector{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(t.transpose(1, 1).is_contiguous());
  EXPECT_EQ(t.transpose(0, 1).extent_bytes(), t.extent_bytes());
  Tensor cube = Cube();
  Tensor turned = cube.permute({2, 0, 1});
  EXPECT_EQ(turned.shape(), Shape({4, 2, 3}));
  EXPECT_EQ(turned.stride(0), 1);
  EXPECT_EQ(Read(turned.select(0, 1)), (std::vector{1, 5, 9, 13, 17, 21}));
  ExpectError(ErrorCode::out_of_range, {"axis 3"}, [&] { cube.transpose(0, 3); });
  ExpectError(ErrorCode::out_of_range, {"2 axes", "needs 3"}, [&] { cube.permute({0, 1}); });
  ExpectError(ErrorCode::out_of_range, {"axis 3", "0 to 2"}, [&] { cube.permute({0, 1, 3}); });
  ExpectError(ErrorCode::invalid_argument, {"axis 1 occurs twice", "[1, 0, 1]"}, [&] {
    cube.permute({1, 0, 1});
  });
}

TEST_F(TensorTest, Reshape) {
  EXPECT_EQ(Cube().reshape({6, 4}).select(0, 5).ToString(), "i32[4]");
  EXPECT_EQ(Read(Cube().reshape({4, 6}).select(1, 0)), (std::vector{0, 6, 12, 18}));
  EXPECT_EQ(Cube().view({1, 0, 0}, {1, 3, 4}).reshape({12}).rank(), 1);
  EXPECT_EQ(Tensor::host(values.data(), {1, 1}).reshape({}).rank(), 0);
  EXPECT_EQ(Tensor::host(values.data(), {}).reshape({1, 1, 1, 1, 1}).rank(), 5);
  Tensor t = Cube();
  ExpectError(ErrorCode::out_of_range, {"i32[2, 3, 4] to [5, 5]", "25 elements", "needs 24"}, [&] {
    t.reshape({5, 5});
  });
  ExpectError(ErrorCode::invalid_argument, {"not contiguous", "with strides [4, 12, 1]"},
              [&] { t.transpose(0, 1).reshape({24}); });
}

TEST_F(TensorTest, ViewsForgetTheLayoutTheyNoLongerHave) {
  Tensor t = TensorAccess::Make(Tensor::Kind::run, {4, 4}, DType::f32, 3, 9, 2);
  TensorAccess::SetLayout(t, 7);
  EXPECT_EQ(TensorAccess::Layout(t.view({0, 0}, {4, 4})), 7u);
  EXPECT_EQ(TensorAccess::Layout(t.view({0, 0}, {2, 4})), 0u);
  EXPECT_EQ(TensorAccess::Layout(t.slice(0, 0, 4, 2)), 0u);
  EXPECT_EQ(TensorAccess::Layout(t.select(0, 0)), 0u);
  EXPECT_EQ(TensorAccess::Layout(t.transpose(0, 1)), 0u);
  EXPECT_EQ(TensorAccess::Layout(t.permute({1, 0})), 0u);
  EXPECT_EQ(TensorAccess::Layout(t.reshape({16})), 0u);
  Tensor row = t.select(0, 3);
  EXPECT_EQ(TensorAccess::Offset(row), 48u);
  EXPECT_EQ(TensorAccess::Buffer(row), 3u);
  EXPECT_EQ(TensorAccess::Generation(row), 9u);
  EXPECT_EQ(TensorAccess::Owner(row), 2u);
}

TEST_F(TensorTest, EveryDTypeCountsItsBytes) {
  auto* data = values.data();
  EXPECT_EQ(Tensor::host(reinterpret_cast<bool*>(data), {3}).extent_bytes(), 3u);
  EXPECT_EQ(Tensor::host(reinterpret_cast<uint16_t*>(data), {3}).extent_bytes(), 6u);
  EXPECT_EQ(Tensor::host(reinterpret_cast<bf16*>(data), {3}).extent_bytes(), 6u);
  EXPECT_EQ(Tensor::host(reinterpret_cast<const float*>(data), {3}).extent_bytes(), 12u);
  EXPECT_EQ(Tensor::host(reinterpret_cast<double*>(data), {3}).extent_bytes(), 24u);
}

}  // namespace
}  // namespace precast
