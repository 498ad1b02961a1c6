// Misuse that needs no worker's memory: options, shapes, views, types, parameters.
#include "misuse/misuse.h"

#include <limits>

namespace precast::misuse {
namespace {

const Tensor& Matrix() {  // f32[3, 4]
  static float values[12];
  static const Tensor tensor = Tensor::host(values, {3, 4});
  return tensor;
}

TEST(OptionMisuse, UnknownPlatform) {
  ExpectError(ErrorCode::not_found, {"tpu", "cpu", "a2a3sim", "a5sim"},
              [] { Worker({.platform = "tpu"}); });
  ExpectError(ErrorCode::not_found, {"cpu", "a2a3sim", "a5sim"}, [] { Worker({.platform = ""}); });
  ExpectError(ErrorCode::not_found, {"a2a3sim2"}, [] { Worker({.platform = "a2a3sim2"}); });
}

TEST(OptionMisuse, UnknownPlatformOption) {
  ExpectError(ErrorCode::usage, {"a2a3sim", "colour", "host_page"},
              [] { Worker({.platform = "a2a3sim:colour=red"}); });
  ExpectError(ErrorCode::usage, {"a2a3sim", "host_page", "5k", "64k"},
              [] { Worker({.platform = "a2a3sim:host_page=5k"}); });
}

TEST(OptionMisuse, ThreadCount) {
  ExpectError(ErrorCode::invalid_argument, {"257", "256"}, [] { Worker({.threads = 257}); });
  ExpectError(ErrorCode::invalid_argument, {"-1", "256"}, [] { Worker({.threads = -1}); });
}

TEST(OptionMisuse, RunOptions) {
  Worker worker;
  std::vector<int64_t> x(4);
  auto run = [&](const RunOptions& options) {
    worker.run(
        [](Orchestrator& o, const Args& args) {
          o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
        },
        {inout(x)}, options);
  };
  ExpectError(ErrorCode::invalid_argument, {"257", "256"}, [&] { run({.threads = 257}); });
  ExpectError(ErrorCode::invalid_argument, {"-5", "256"}, [&] { run({.threads = -5}); });
  ExpectError(ErrorCode::invalid_argument, {"reverse_blocks", "oracle"},
              [&] { run({.reverse_blocks = true}); });
  ExpectError(ErrorCode::invalid_argument, {"poison_outputs", "oracle"},
              [&] { run({.poison_outputs = true}); });
  EXPECT_EQ(x, std::vector<int64_t>(4));
  run({});
  EXPECT_EQ(x, std::vector<int64_t>(4, 1));
}

TEST(OptionMisuse, EmptyHandle) {
  RunHandle handle;
  ExpectError(ErrorCode::invalid_argument, {"handle"}, [&] { handle.done(); });
  ExpectError(ErrorCode::invalid_argument, {"handle"}, [&] { handle.wait(); });
  ExpectError(ErrorCode::invalid_argument, {"handle"}, [&] { handle.result(); });
}

TEST(ShapeMisuse, Extents) {
  ExpectError(ErrorCode::out_of_range, {"0", "[3, 0]", "1 to 4294967295"}, [] { Shape{3, 0}; });
  ExpectError(ErrorCode::out_of_range, {"-2", "4294967295"}, [] { Shape{-2}; });
  ExpectError(ErrorCode::out_of_range, {"4294967296", "4294967295"},
              [] { Shape{int64_t{1} << 32}; });
  ExpectError(ErrorCode::out_of_range, {"rank 6", "0 to 5"}, [] { Shape{1, 1, 1, 1, 1, 1}; });
  ExpectError(ErrorCode::out_of_range, {"axis 2", "0 to 1"}, [] { Shape({3, 4})[2]; });
}

TEST(ShapeMisuse, ProductsOverflow) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  ExpectError(ErrorCode::out_of_range, {"4294967295", "9223372036854775807"}, [] {
    Shape{kMax, kMax, kMax};
  });
  float value = 0;
  ExpectError(ErrorCode::out_of_range, {"bytes", "9223372036854775807"}, [&] {
    Tensor::host(&value, {kMax, 1 << 30});
  });
}

TEST(ShapeMisuse, NullHostMemory) {
  float* nothing = nullptr;
  ExpectError(ErrorCode::invalid_argument, {"null", "f32[2]"}, [&] { Tensor::host(nothing, {2}); });
  std::vector<float> empty;
  EXPECT_THROW(in(empty), Error);
}

TEST(ViewMisuse, OutsideItsTensor) {
  ExpectError(ErrorCode::out_of_range, {"f32[3, 4]", "axis 1", "0 to 3"}, [] {
    Matrix().view({0, 2}, {3, 3});
  });
  ExpectError(ErrorCode::out_of_range, {"axis 0", "-1", "0 to 2"}, [] {
    Matrix().view({-1, 0}, {1, 1});
  });
  ExpectError(ErrorCode::out_of_range, {"1", "2"}, [] { Matrix().view({0}, {3, 4}); });
  ExpectError(ErrorCode::out_of_range, {"[2]", "2"}, [] { Matrix().view({0, 0}, {2}); });
  ExpectError(ErrorCode::out_of_range, {"5", "axis 1", "0 to 4"}, [] { Matrix().slice(1, 2, 5); });
  ExpectError(ErrorCode::out_of_range, {"step 0", "at least 1"},
              [] { Matrix().slice(1, 0, 4, 0); });
  ExpectError(ErrorCode::out_of_range, {"step -1", "at least 1"},
              [] { Matrix().slice(1, 3, 0, -1); });
  ExpectError(ErrorCode::out_of_range, {"2 to 2", "no elements"}, [] { Matrix().slice(0, 2, 2); });
  ExpectError(ErrorCode::out_of_range, {"axis 2", "0 to 1"}, [] { Matrix().slice(2, 0, 1); });
  ExpectError(ErrorCode::out_of_range, {"3", "axis 0", "0 to 2"}, [] { Matrix().select(0, 3); });
  ExpectError(ErrorCode::out_of_range, {"axis 7", "0 to 1"}, [] { Matrix().transpose(0, 7); });
}

TEST(ViewMisuse, PermuteAndReshape) {
  ExpectError(ErrorCode::out_of_range, {"1", "2"}, [] { Matrix().permute({0}); });
  ExpectError(ErrorCode::invalid_argument, {"axis 0", "twice"}, [] { Matrix().permute({0, 0}); });
  ExpectError(ErrorCode::out_of_range, {"axis 2", "0 to 1"}, [] { Matrix().permute({0, 2}); });
  ExpectError(ErrorCode::out_of_range, {"f32[3, 4]", "[5]", "12"}, [] { Matrix().reshape({5}); });
  ExpectError(ErrorCode::invalid_argument, {"not contiguous"},
              [] { Matrix().transpose(0, 1).reshape({12}); });
}

TEST(ViewMisuse, OfNothing) {
  Tensor none;
  ExpectError(ErrorCode::invalid_argument, {"nothing"}, [&] { none.view({}, {}); });
  ExpectError(ErrorCode::invalid_argument, {"nothing"}, [&] { none.slice(0, 0, 1); });
  ExpectError(ErrorCode::invalid_argument, {"nothing"}, [&] { none.select(0, 0); });
  ExpectError(ErrorCode::invalid_argument, {"nothing"}, [&] { none.transpose(0, 0); });
  ExpectError(ErrorCode::invalid_argument, {"nothing"}, [&] { none.reshape({}); });
}

TEST(TypeMisuse, Names) {
  EXPECT_EQ(ParseDType("bf16"), DType::bf16);
  ExpectError(ErrorCode::not_found, {"complex64", "bool", "bf16", "f64"},
              [] { ParseDType("complex64"); });
  for (const char* name : {"f8e4m3", "f8e5m2", "f4e2m1", "float8_e4m3fn"}) {
    ExpectError(ErrorCode::unsupported, {name, "not supported", "f16"}, [&] { ParseDType(name); });
  }
}

TEST(ParameterMisuse, NamesAndValues) {
  Params params({{"n", "100", "a size"}, {"rate", "0.5", "a rate"}});
  ExpectError(ErrorCode::not_found, {"m", "n", "rate"}, [&] { params.Set("m", "1"); });
  ExpectError(ErrorCode::not_found, {"m", "n", "rate"}, [&] { params.Text("m"); });
  params.Set("n", "many");
  ExpectError(ErrorCode::usage, {"n", "many", "1", "1000"}, [&] { params.Integer("n", 1, 1000); });
  params.Set("n", "1001");
  ExpectError(ErrorCode::usage, {"n", "1001", "1000"}, [&] { params.Integer("n", 1, 1000); });
  params.Set("n", "99999999999999999999");
  ExpectError(ErrorCode::usage, {"n", "99999999999999999999", "1000"},
              [&] { params.Integer("n", 1, 1000); });
  params.Set("n", "12 ");
  ExpectError(ErrorCode::usage, {"n", "12 "}, [&] { params.Integer("n", 1, 1000); });
  params.Set("rate", "nan");
  ExpectError(ErrorCode::usage, {"rate", "nan"}, [&] { params.Number("rate", 0, 1); });
}

}  // namespace
}  // namespace precast::misuse
