// vector_add: z = (x + y) + y. Two tasks and a tensor between them; the order follows from it.
#include "common/golden.h"
#include "common/random.h"
#include "common/sizes.h"

#include <precast/precast.h>

#include <memory>
#include <vector>

using namespace precast;

namespace {

KernelCost AddCost(const CostContext& c) { return {c.bytes(), c.size(2)}; }

PRECAST_KERNEL(add, Core::vector, AddCost)(const KernelContext& k) {
  auto a = k.tensor<const float>(0), b = k.tensor<const float>(1);
  auto c = k.tensor<float>(2);
  for (int64_t i = k.block_begin(c.size()); i < k.block_end(c.size()); ++i) c[i] = a[i] + b[i];
}

void VectorAdd(Orchestrator& o, const Args& args) {
  Tensor sum = o.alloc(args.tensor(0).shape(), DType::f32);
  o.submit(add, {in(args.tensor(0)), in(args.tensor(1)), out(sum)}, {.blocks = 8});
  o.submit(add, {in(sum), in(args.tensor(1)), out(args.tensor(2))}, {.blocks = 8});
}

class VectorAddCase : public CaseRun {
 public:
  explicit VectorAddCase(size_t n) : x_(n), y_(n), z_(n) {
    examples::Random random(1);
    random.Fill(x_);
    random.Fill(y_);
  }

  std::vector<Arg> Args(int /*round*/) override { return {in(x_), in(y_), out(z_)}; }

  // Both sums are below 4, where rounding a float changes it by at most 2^-23.
  GoldenResult Check() override {
    examples::Golden golden;
    for (size_t i = 0; i < z_.size(); ++i) {
      double expected = static_cast<double>(x_[i]) + 2 * static_cast<double>(y_[i]);
      golden.Expect("z", static_cast<int64_t>(i), z_[i], expected, 2 * 0x1p-23);
    }
    return golden.result();
  }

 private:
  std::vector<float> x_, y_, z_;
};

// The sum of two vectors of this size fills the graph heap that a worker has by default.
constexpr int64_t kMaxSize = int64_t{64} << 20;

Case MakeCase(const char* name, const char* summary, int64_t standard) {
  return {name, summary, [standard](const CaseContext& context) {
            int64_t n = examples::SizeOr(context.params, "n", standard, kMaxSize);
            return std::make_unique<VectorAddCase>(static_cast<size_t>(n));
          }};
}

}  // namespace

PRECAST_PROGRAM(vector_add) {
  return {.name = "vector_add",
          .summary = "z = (x + y) + y: the first program",
          .orchestration = VectorAdd,
          .signature = {{Direction::in, DType::f32, 1, "x"},
                        {Direction::in, DType::f32, 1, "y"},
                        {Direction::out, DType::f32, 1, "z"}},
          .kernels = {add},
          .cases = {MakeCase("default", "1 Mi elements", 1 << 20),
                    MakeCase("small", "1000 elements", 1000)},
          .params = {examples::SizeParam("n", "number of elements, at most 64 Mi")}};
}
