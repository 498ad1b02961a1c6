#include "qwen3/device_model.h"

#include "qwen3/decoder.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace precast::qwen3 {

namespace {

/// How a tensor of the file lies on the device: Q8_0 rows as bytes, all else as its own type.
std::pair<Shape, DType> DeviceForm(const GgufTensor& tensor) {
  std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  switch (tensor.type) {
    case GgufType::f32:
      return {Shape(shape), DType::f32};
    case GgufType::f16:
      return {Shape(shape), DType::f16};
    case GgufType::bf16:
      return {Shape(shape), DType::bf16};
    case GgufType::q8_0:
      break;
  }
  shape.back() = static_cast<int64_t>(tensor.row_bytes());
  return {Shape(shape), DType::u8};
}

}  // namespace

DeviceModel::DeviceModel(Worker& worker, const GgufFile& file, int64_t context)
    : worker_(worker), config_(ReadConfig(file)), context_(context), allocations_(worker) {
  Weights weights = FindWeights(file, config_);
  weights_.push_back(Upload(*weights.token_embd));
  weights_.push_back(Upload(*weights.output_norm));
  weights_.push_back(config_.tied_output ? weights_[argument::token_embd]
                                         : Upload(*weights.output));
  for (const LayerWeights& layer : weights.layers) {
    // In the order of argument::Layer.
    for (const GgufTensor* tensor :
         {layer.attn_norm, layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_q_norm,
          layer.attn_k_norm, layer.attn_output, layer.ffn_norm, layer.ffn_gate, layer.ffn_up,
          layer.ffn_down}) {
      weights_.push_back(Upload(*tensor));
    }
  }
  int64_t pages = (context + kPage - 1) / kPage;
  lengths_ = allocations_.Add({1}, DType::i32);
  table_ = allocations_.Add({pages}, DType::i32);
  order_ = allocations_.Add({pages}, DType::i32);
  Shape cache{config_.layers, pages, kPage, config_.kv_width()};
  keys_ = allocations_.Add(cache, DType::f32);
  values_ = allocations_.Add(cache, DType::f32);
  Reset();
}

Tensor DeviceModel::Upload(const GgufTensor& tensor) {
  auto [shape, dtype] = DeviceForm(tensor);
  Tensor device = allocations_.Add(shape, dtype);
  worker_.copy_to(device, tensor.data.data(), tensor.data.size());
  return device;
}

void DeviceModel::Reset() {
  size_t pages = static_cast<size_t>(table_.size());
  worker_.copy_to(lengths_, std::array<int32_t, 1>{0});
  worker_.copy_to(table_, std::vector<int32_t>(pages, -1));
  // Pages are given out in an order that is not the logical one, as in a server that has run for a
  // while: every other page first, from the back.
  std::vector<int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  std::stable_partition(order.begin(), order.end(), [](int32_t page) { return page % 2 == 1; });
  worker_.copy_to(order_, order);
}

std::vector<Arg> DeviceModel::StepArguments(int32_t token, bool wants_logits,
                                            std::vector<float>& logits) const {
  std::vector<Arg> args = {token,        wants_logits ? 1 : 0, config_.rms_eps, config_.rope_base,
                           out(logits),  inout(lengths_),      inout(table_),   in(order_),
                           inout(keys_), inout(values_)};
  for (const Tensor& weight : weights_) args.push_back(in(weight));
  return args;
}

}  // namespace precast::qwen3
