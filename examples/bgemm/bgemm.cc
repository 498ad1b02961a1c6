// bgemm: a batch of matrix products C[i] = A[i] B[i], tile by tile. Each tile of C is the sum of
// products along k: the first task writes it, the others add to it through `inout`, so they form
// a chain; the chains of different tiles are independent. Nothing says so but the tiles themselves.
#include "common/golden.h"
#include "common/matmul.h"
#include "common/random.h"
#include "common/sizes.h"

#include <precast/precast.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

using namespace precast;

namespace {

using examples::Product;
using examples::Simd;

/// The third tensor becomes the product of the others, or has it added.
void Multiply(const KernelContext& k, bool add) {
  auto a = k.tensor<const float>(0), b = k.tensor<const float>(1);
  auto c = k.tensor<float>(2);
  auto size = [](int64_t n) { return static_cast<size_t>(n); };
  Simd<Product>(Product::In{a.data(), size(a.stride(0))}, Product::In{b.data(), size(b.stride(0))},
                Product::Out{c.data(), size(c.stride(0))}, size(c.shape(0)), size(c.shape(1)),
                size(a.shape(1)), add);
}

/// Two operations for each element of the product and of the sums that lead to it.
KernelCost MultiplyCost(const CostContext& c) { return {c.bytes(), 2 * c.size(2) * c.shape(0, 1)}; }

PRECAST_KERNEL(multiply, Core::cube, MultiplyCost)(const KernelContext& k) { Multiply(k, false); }

PRECAST_KERNEL(multiply_add, Core::cube, MultiplyCost)(const KernelContext& k) {
  Multiply(k, true);
}

void Bgemm(Orchestrator& o, const Args& args) {
  const Tensor &a = args.tensor(0), &b = args.tensor(1), &c = args.tensor(2);
  int64_t tile = args.scalar<int64_t>(0);
  int64_t batch = c.shape(0), m = c.shape(1), n = c.shape(2), k = a.shape(2);
  if (a.shape() != Shape{batch, m, k} || b.shape() != Shape{batch, k, n} || tile < 1) {
    o.report_fatal(1, fmt::format("A {} times B {} does not give C {}, or tile {} is below 1",
                                  a.ToString(), b.ToString(), c.ToString(), tile));
  }
  for (int64_t x = 0; x < batch; ++x) {
    Tensor left = a.select(0, x), right = b.select(0, x), result = c.select(0, x);
    for (int64_t i = 0; i < m; i += tile) {
      for (int64_t j = 0; j < n; j += tile) {
        int64_t rows = std::min(tile, m - i), columns = std::min(tile, n - j);
        Tensor sum = result.view({i, j}, {rows, columns});
        for (int64_t p = 0; p < k; p += tile) {
          int64_t depth = std::min(tile, k - p);
          Tensor l = left.view({i, p}, {rows, depth}), r = right.view({p, j}, {depth, columns});
          if (p == 0) {
            o.submit(multiply, {in(l), in(r), out(sum)});
          } else {
            o.submit(multiply_add, {in(l), in(r), inout(sum)});
          }
        }
      }
    }
  }
}

struct Sizes {
  int64_t batch, m, n, k, tile;
};

class BgemmCase : public CaseRun {
 public:
  explicit BgemmCase(const Sizes& s)
      : s_(s),
        a_(static_cast<size_t>(s.batch * s.m * s.k)),
        b_(static_cast<size_t>(s.batch * s.k * s.n)),
        c_(static_cast<size_t>(s.batch * s.m * s.n)) {
    examples::Random random(2);
    random.Fill(a_);
    random.Fill(b_);
  }

  std::vector<Arg> Args(int /*round*/) override {
    return {in(Tensor::host(a_.data(), {s_.batch, s_.m, s_.k})),
            in(Tensor::host(b_.data(), {s_.batch, s_.k, s_.n})),
            out(Tensor::host(c_.data(), {s_.batch, s_.m, s_.n})), s_.tile};
  }

  // Each of the k products is rounded once and goes through at most k additions; each of these
  // roundings changes it by a factor of at most 1 + 2^-24.
  GoldenResult Check() override {
    examples::Golden golden;
    std::vector<double> sum(static_cast<size_t>(s_.n)), magnitude(sum.size());
    for (int64_t row = 0; row < s_.batch * s_.m; ++row) {
      std::fill(sum.begin(), sum.end(), 0);
      std::fill(magnitude.begin(), magnitude.end(), 0);
      const float* b = b_.data() + row / s_.m * s_.k * s_.n;
      for (int64_t p = 0; p < s_.k; ++p, b += s_.n) {
        double factor = a_[static_cast<size_t>(row * s_.k + p)];
        for (size_t j = 0; j < sum.size(); ++j) {
          sum[j] += factor * b[j];
          magnitude[j] += std::abs(factor * b[j]);
        }
      }
      for (size_t j = 0; j < sum.size(); ++j) {
        int64_t index = row * s_.n + static_cast<int64_t>(j);
        golden.Expect("c", index, c_[static_cast<size_t>(index)], sum[j],
                      static_cast<double>(s_.k + 1) * 0x1p-24 * magnitude[j]);
      }
    }
    return golden.result();
  }

 private:
  Sizes s_;
  std::vector<float> a_, b_, c_;
};

Case MakeCase(const char* name, const char* summary, const Sizes& standard) {
  return {name, summary, [standard](const CaseContext& context) {
            auto size = [&](const char* param, int64_t value) {
              return examples::SizeOr(context.params, param, value, 1 << 16);
            };
            return std::make_unique<BgemmCase>(
                Sizes{size("batch", standard.batch), size("m", standard.m), size("n", standard.n),
                      size("k", standard.k), size("tile", standard.tile)});
          }};
}

}  // namespace

PRECAST_PROGRAM(bgemm) {
  return {
      .name = "bgemm",
      .summary = "batched matrix product in tiles that accumulate through inout",
      .orchestration = Bgemm,
      .signature = {{Direction::in, DType::f32, 3, "a"},
                    {Direction::in, DType::f32, 3, "b"},
                    {Direction::out, DType::f32, 3, "c"},
                    {Direction::scalar, DType::i64, 0, "tile"}},
      .kernels = {multiply, multiply_add},
      .cases = {MakeCase("default", "4 products of 256 x 256, tiles of 64", {4, 256, 256, 256, 64}),
                MakeCase("small", "3 products of 50 x 45 by 45 x 37, tiles of 16",
                         {3, 50, 37, 45, 16})},
      .params = {examples::SizeParam("batch", "number of products"),
                 examples::SizeParam("m", "rows of A and C"),
                 examples::SizeParam("n", "columns of B and C"),
                 examples::SizeParam("k", "columns of A, rows of B"),
                 examples::SizeParam("tile", "rows and columns of a tile")}};
}
