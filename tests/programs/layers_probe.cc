// A program of 40 replays of one recorded layer, in the shape of a decoder: 26 tensors on its
// boundary, and tasks before, after and between.
#include <precast/precast.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace precast;

namespace {

constexpr uint64_t kLayers = 40;
constexpr int64_t kWidth = 64;  // elements of a tensor
constexpr size_t kWeights = 25;

/// x[i] = 3 * x[i] + w[i] + scalar
PRECAST_KERNEL(blend, Core::vector)(const KernelContext& k) {
  auto w = k.tensor<const uint64_t>(0);
  auto x = k.tensor<uint64_t>(1);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) {
    x[i] = 3 * x[i] + w[i] + k.scalar<uint64_t>(0);
  }
}

/// Argument 0 is x, the others are weights.
void Layer(Orchestrator& o, const Args& args) {
  for (size_t w = 0; w < kWeights; ++w) {
    o.submit(blend,
             {in(args.tensor(w + 1)), inout(args.tensor(0)), args.bound_scalar<uint64_t>(0)});
  }
}

void Build(Orchestrator& o, const Args& args) {
  const Tensor& x = args.tensor(0);
  const Tensor& weights = args.tensor(1);
  o.submit(blend, {in(weights.select(0, 0)), inout(x), uint64_t{1}});
  for (uint64_t layer = 0; layer < kLayers; ++layer) {
    std::vector<Arg> boundary = {inout(x)};
    for (size_t w = 0; w < kWeights; ++w) {
      boundary.push_back(in(weights.select(0, static_cast<int64_t>(w))));
    }
    boundary.push_back(layer);
    o.submit_graph("layer", Layer, boundary);
  }
  o.submit(blend, {in(weights.select(0, 1)), inout(x), uint64_t{2}});
}

class Decode : public CaseRun {
 public:
  explicit Decode(const CaseContext& context) : worker_(context.worker) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = 7 * i + 1;
    weights_ = worker_.malloc({static_cast<int64_t>(kWeights), kWidth}, DType::u64);
    worker_.copy_to(weights_, values_);
  }
  ~Decode() override { worker_.free(weights_); }

  std::vector<Arg> Args(int /*round*/) override {
    x_.assign(kWidth, 5);
    return {inout(x_), in(weights_)};
  }

  GoldenResult Check() override {
    for (size_t i = 0; i < x_.size(); ++i) {
      uint64_t x = 3 * uint64_t{5} + values_[i] + 1;
      for (uint64_t layer = 0; layer < kLayers; ++layer) {
        for (size_t w = 0; w < kWeights; ++w) x = 3 * x + values_[w * kWidth + i] + layer;
      }
      x = 3 * x + values_[kWidth + i] + 2;
      if (x_[i] != x) return {false, 1, "x[" + std::to_string(i) + "] differs"};
    }
    return {true, 0, ""};
  }

 private:
  Worker& worker_;
  Tensor weights_;
  std::array<uint64_t, kWeights * kWidth> values_{};
  std::vector<uint64_t> x_;
};

}  // namespace

PRECAST_PROGRAM(layers_probe) {
  return {.name = "layers_probe",
          .summary = "submits one recorded layer 40 times",
          .orchestration = Build,
          .signature = {{Direction::inout, DType::u64, 1, "x"},
                        {Direction::in, DType::u64, 2, "weights"}},
          .kernels = {blend},
          .cases = {{"default", "64 elements wide", [](const CaseContext& context) {
                       return std::make_unique<Decode>(context);
                     }}}};
}
