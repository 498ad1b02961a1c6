#include "qwen3_14b_decode/decode_case.h"

#include "common/allocations.h"
#include "common/golden.h"
#include "qwen3_14b_decode/decode.h"
#include "qwen3_14b_decode/model.h"
#include "qwen3_14b_decode/reference.h"

#include <precast/precast.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace precast::qwen3_14b {

namespace {

bool IsEmpty(const Params& params) {
  const std::string& kernels = params.Text("kernels");
  if (kernels != "real" && kernels != "empty") {
    Fail(ErrorCode::usage, "kernels is \"{}\"; allowed: real, empty", kernels);
  }
  return kernels == "empty";
}

bool IsFull(const CaseContext& context) {
  const std::string& scale = context.params.Text("scale");
  if (scale != "auto" && scale != "full" && scale != "small") {
    Fail(ErrorCode::usage, "scale is \"{}\"; allowed: auto, full, small", scale);
  }
  bool computes = context.execute && !IsEmpty(context.params);
  return scale == "full" || (scale == "auto" && !computes);
}

class DecodeCase : public CaseRun {
 public:
  explicit DecodeCase(const CaseContext& context)
      : worker_(context.worker),
        full_(IsFull(context)),
        empty_(IsEmpty(context.params)),
        s_(full_ ? FullSizes() : SmallSizes()),
        allocations_(worker_),
        tokens_(Tokens(s_)),
        next_(tokens_.size(), -1) {
    if (full_ && !empty_ && context.execute) {
      Fail(ErrorCode::usage,
           "scale=full is not for execution: its weights are {} of memory that nothing fills. Say "
           "--skip-device-run, or --set kernels=empty, or --set scale=small",
           Gigabytes(static_cast<int64_t>(kLayers) * WeightBytes()));
    }
    MakeTables();
    MakeModel();
    MakeLayers();
  }

  std::vector<Arg> Args(int /*round*/) override {
    std::vector<Arg> args = {in(tokens_),       in(lengths_), in(table_),       in(cosines_),
                             in(sines_),        in(embd_),    in(output_norm_), in(output_),
                             in(output_scale_), out(next_),   out(logits_)};
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (const Tensor& weight : weights_[layer % weights_.size()]) args.push_back(in(weight));
      for (const Tensor& pool : pools_[layer]) args.push_back(inout(pool));
    }
    args.push_back(kEps);
    args.push_back(empty_ ? 1 : 0);
    return args;
  }

  GoldenResult Check() override {
    if (empty_) return {.detail = "kernels=empty compute nothing", .skipped = true};
    Expected expected = Reference(s_);
    examples::Golden golden;
    CheckLogits(expected, &golden);
    CheckPools("keys", argument::keys, expected.keys, &golden);
    CheckPools("values", argument::values, expected.values, &golden);
    return golden.result();
  }

  std::string Summary() const override {
    std::string text = full_ ? "real sizes (scale=full)" : "small sizes (scale=small)";
    if (weights_.size() < kLayers) {
      text += fmt::format("; device memory holds the weights of {} layers, which the {} share",
                          weights_.size(), kLayers);
    }
    return text;
  }

 private:
  static std::string Gigabytes(int64_t bytes) {
    return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
  }
  /// Of a layer, without its pools.
  int64_t WeightBytes() const {
    int64_t bytes = 0;
    for (size_t which = 0; which < argument::keys; ++which) {
      auto [shape, dtype] = LayerForm(s_, which);
      bytes += shape.size() * static_cast<int64_t>(SizeOf(dtype));
    }
    return bytes;
  }

  template <typename T>
  Tensor Place(const Shape& shape, const std::vector<T>& values) {
    Tensor tensor = allocations_.Add(shape, kDTypeOf<T>);
    worker_.copy_to(tensor, values);
    return tensor;
  }

  void MakeTables() {
    lengths_ = Place({s_.batch()}, s_.lengths);
    table_ = Place({s_.batch(), s_.columns}, BlockTable(s_));
    cosines_ = Place({s_.positions(), s_.dim / 2}, RopeTable(s_, false));
    sines_ = Place({s_.positions(), s_.dim / 2}, RopeTable(s_, true));
  }

  // What the full scale does not fill has no memory behind it on a simulated device.
  void MakeModel() {
    Shape matrix{s_.vocab, s_.hidden};
    embd_ = allocations_.Add(matrix, DType::bf16);
    output_norm_ = allocations_.Add({s_.hidden}, DType::bf16);
    output_ = allocations_.Add(matrix, DType::bf16);
    output_scale_ = allocations_.Add({s_.vocab}, DType::f32);
    logits_ = allocations_.Add({s_.batch(), s_.vocab}, DType::f32);
    if (full_) return;
    worker_.copy_to(embd_, ModelValues(s_, argument::token_embd));
    worker_.copy_to(output_norm_, ModelValues(s_, argument::output_norm));
    worker_.copy_to(output_, ModelValues(s_, argument::output));
    worker_.copy_to(output_scale_, OutputScales(s_));
    worker_.memset(logits_, 0);
  }

  Tensor MakeLayerTensor(size_t layer, size_t which) {
    auto [shape, dtype] = LayerForm(s_, which);
    Tensor tensor = allocations_.Add(shape, dtype);
    if (full_) return tensor;
    auto number = static_cast<int64_t>(layer);
    if (dtype == DType::f32) {
      worker_.copy_to(tensor, LayerScales(s_, number, which - 1));
    } else {
      worker_.copy_to(tensor, LayerValues(s_, number, which));
    }
    return tensor;
  }

  /// Weights for as many layers as fit; the full scale shares them if these are not all.
  void MakeLayers() {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      pools_.push_back(
          {MakeLayerTensor(layer, argument::keys), MakeLayerTensor(layer, argument::values)});
    }
    size_t layers = kLayers;
    if (full_) {
      WorkerProperties properties = worker_.properties();
      constexpr Bytes kForRuns = Bytes{1} << 30;
      Bytes taken = properties.memory_in_use + kForRuns;
      Bytes free = properties.memory_bytes - std::min(taken, properties.memory_bytes);
      layers = std::clamp<size_t>(free / static_cast<Bytes>(WeightBytes()), 1, kLayers);
    }
    for (size_t layer = 0; layer < layers; ++layer) {
      std::vector<Tensor>& weights = weights_.emplace_back();
      for (size_t which = 0; which < argument::keys; ++which) {
        weights.push_back(MakeLayerTensor(layer, which));
      }
    }
  }

  // Reference and kernels add float32 in another order. That alone moves a logit by about 1e-6 of
  // the largest; but keys and values are rounded to bf16, and where one lies close to the middle of
  // two, both round differently, by 2^-8 of it, in one of thousands of elements.
  static constexpr double kTolerance = 2e-3;

  void CheckLogits(const Expected& expected, examples::Golden* golden) const {
    std::vector<float> logits(expected.logits.size());
    worker_.copy_from(logits, logits_);
    double largest = 0;
    for (float value : expected.logits) largest = std::max<double>(largest, std::abs(value));
    for (size_t i = 0; i < logits.size(); ++i) {
      golden->Expect("logits", static_cast<int64_t>(i), logits[i], expected.logits[i],
                     kTolerance * largest);
    }
    // The likeliest token is that of the logits found, exactly.
    auto vocab = static_cast<ptrdiff_t>(s_.vocab);
    for (size_t b = 0; b < next_.size(); ++b) {
      auto row = logits.begin() + static_cast<ptrdiff_t>(b) * vocab;
      golden->Expect("next", static_cast<int64_t>(b), next_[b],
                     static_cast<double>(std::max_element(row, row + vocab) - row), 0);
    }
  }

  /// The new tokens are in their places, and everything else is as it was.
  void CheckPools(std::string_view name, size_t which, const std::vector<float>& added,
                  examples::Golden* golden) const {
    std::vector<int32_t> table = BlockTable(s_);
    auto row = static_cast<size_t>(s_.kv_heads * s_.dim);
    auto next = added.begin();
    for (size_t layer = 0; layer < kLayers; ++layer) {
      std::vector<bf16> before = LayerValues(s_, static_cast<int64_t>(layer), which);
      std::vector<bf16> found(before.size());
      worker_.copy_from(found, pools_[layer][which - argument::keys]);
      for (int64_t b = 0; b < s_.batch(); ++b) {
        int64_t position = s_.lengths[static_cast<size_t>(b)] - 1;
        int64_t block = table[static_cast<size_t>(b * s_.columns + position / s_.block)];
        auto place = static_cast<size_t>(block * s_.block + position % s_.block) * row;
        for (size_t i = place; i < place + row; ++i, ++next) {
          // A value of bf16 may round to either side.
          double tolerance = 0x1p-7 * std::max(1.0, std::abs(static_cast<double>(*next)));
          golden->Expect(name, static_cast<int64_t>(i), static_cast<float>(found[i]), *next,
                         tolerance);
          found[i] = before[i];
        }
      }
      size_t bytes = found.size() * sizeof(bf16);
      if (std::memcmp(found.data(), before.data(), bytes) != 0) {
        golden->Expect(fmt::format("bytes of {} that belong to other tokens", name), layer, 1, 0,
                       0);
      }
    }
  }

  Worker& worker_;
  bool full_, empty_;
  Sizes s_;
  examples::Allocations allocations_;
  std::vector<int32_t> tokens_, next_;
  Tensor lengths_, table_, cosines_, sines_;
  Tensor embd_, output_norm_, output_, output_scale_, logits_;
  std::vector<std::vector<Tensor>> weights_;
  std::vector<std::array<Tensor, 2>> pools_;
};

}  // namespace

std::vector<Case> DecodeCases() {
  return {{"default", "one token for each sequence of a batch",
           [](const CaseContext& context) { return std::make_unique<DecodeCase>(context); }}};
}

std::vector<ParamSpec> DecodeParams() {
  return {{"scale", "auto", "full, small (executed and checked), auto: small to compute"},
          {"kernels", "real", "empty: they do nothing, so that every scale can be executed"}};
}

}  // namespace precast::qwen3_14b
