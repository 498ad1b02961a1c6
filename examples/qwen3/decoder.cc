#include "qwen3/decoder.h"

#include "qwen3/kernels.h"

#include <algorithm>
#include <vector>

namespace precast::qwen3 {

namespace {

constexpr uint32_t kCubeCores = 24;  // of a chip

/// Blocks for matrices of this many weights: none so small that dividing it costs more than it
/// gains, and one for each cube core, or more where that would make them so large that cores end
/// apart.
uint32_t Blocks(int64_t weights) {
  constexpr int64_t kSmallest = int64_t{1} << 17, kLargest = int64_t{1} << 20;
  int64_t blocks = std::clamp<int64_t>(weights / kSmallest, 1, kCubeCores);
  return static_cast<uint32_t>(std::max(blocks, weights / kLargest));
}

/// One step of the decoder: what all layers share.
class Step {
 public:
  Step(Orchestrator& o, const Args& args)
      : o_(o),
        args_(args),
        token_(args.scalar<int32_t>(0)),
        wants_logits_(args.scalar<int32_t>(1) != 0),
        eps_(args.scalar<float>(2)),
        base_(args.scalar<float>(3)) {}

  void Run() {
    position_ = GrowCache();
    size_t layers = (args_.tensors() - argument::weights - argument::layers) / argument::per_layer;
    auto first = [this](argument::Layer which) -> const Tensor& {
      return Weight(LayerWeight(0, which));
    };
    auto numbers = [this](int64_t n) { return o_.alloc({n}, DType::f32); };
    int64_t width = Weight(argument::output_norm).size();
    int64_t head_dim = first(argument::attn_q_norm).size();
    int64_t query = first(argument::attn_q).shape(0), chunks = position_ / kChunk + 1;
    x_ = numbers(width);
    h_ = numbers(width);
    turn_ = numbers(head_dim);
    q_raw_ = numbers(query);
    q_ = numbers(query);
    k_raw_ = numbers(first(argument::attn_k).shape(0));
    parts_ = o_.alloc({chunks, query / head_dim, head_dim + 2}, DType::f32);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) part_.push_back(parts_.select(0, chunk));
    attended_ = numbers(query);
    mixed_ = numbers(first(argument::ffn_gate).shape(0));

    o_.submit(embed, {in(Weight(argument::token_embd)), out(x_), token_});
    o_.submit(rotation, {out(turn_), base_, position_});
    for (size_t layer = 0; layer < layers; ++layer) {
      auto weight = [this, layer](argument::Layer which) -> const Tensor& {
        return Weight(LayerWeight(layer, which));
      };
      Attention(static_cast<int64_t>(layer), weight);
      FeedForward(weight);
    }
    if (!wants_logits_) return;
    const Tensor& output = Weight(argument::output);
    o_.submit(rms_norm, {in(x_), in(Weight(argument::output_norm)), out(h_), eps_});
    o_.submit(mat_vec, {in(h_), in(output), out(args_.tensor(argument::logits))},
              {.blocks = Blocks(output.size()), .name = "logits"});
  }

 private:
  const Tensor& Weight(size_t i) const { return args_.tensor(argument::weights + i); }
  static size_t LayerWeight(size_t layer, argument::Layer which) {
    return argument::layers + layer * argument::per_layer + which;
  }

  /// Makes room for one more token; gives its position.
  int32_t GrowCache() {
    const Tensor& lengths = args_.tensor(argument::lengths);
    const Tensor& table = args_.tensor(argument::table);
    int32_t position = o_.get_tensor_data<int32_t>(lengths, {0});
    int64_t page = position / kPage;
    if (page >= table.shape(0)) {
      o_.report_fatal(1, "the cache is full");
    }
    if (position % kPage == 0) {
      int32_t physical = o_.get_tensor_data<int32_t>(args_.tensor(argument::order), {page});
      o_.set_tensor_data<int32_t>(table, {page}, physical);
    }
    physical_page_ = o_.get_tensor_data<int32_t>(table, {page});
    o_.set_tensor_data<int32_t>(lengths, {0}, position + 1);
    return position;
  }

  template <typename Weights>
  void Attention(int64_t layer, const Weights& weight) {
    const Tensor &wq = weight(argument::attn_q), &wk = weight(argument::attn_k);
    const Tensor &wv = weight(argument::attn_v), &output = weight(argument::attn_output);
    Tensor keys = args_.tensor(argument::keys).select(0, layer);
    Tensor values = args_.tensor(argument::values).select(0, layer);
    auto row = [&](const Tensor& cache) {
      return cache.select(0, physical_page_).select(0, position_ % kPage);
    };
    o_.submit(rms_norm, {in(x_), in(weight(argument::attn_norm)), out(h_), eps_});
    o_.submit(mat_vec, {in(h_), in(wq), out(q_raw_), in(wk), out(k_raw_), in(wv), out(row(values))},
              {.blocks = Blocks(wq.size() + wk.size() + wv.size()), .name = "qkv"});
    o_.submit(norm_rotate, {in(turn_), in(q_raw_), in(weight(argument::attn_q_norm)), out(q_),
                            in(k_raw_), in(weight(argument::attn_k_norm)), out(row(keys)), eps_});
    int64_t length = position_ + 1, first = 0;
    for (const Tensor& part : part_) {
      int64_t count = std::min(kChunk, length - first);
      o_.submit(attend_chunk,
                {in(q_), in(keys), in(values), in(args_.tensor(argument::table)), out(part),
                 static_cast<int32_t>(first), static_cast<int32_t>(count),
                 static_cast<int32_t>(turn_.size())},
                {.blocks = AttentionBlocks(count)});
      first += kChunk;
    }
    o_.submit(attend_merge, {in(parts_), out(attended_)});
    o_.submit(mat_vec_add, {in(attended_), in(output), inout(x_)},
              {.blocks = Blocks(output.size()), .name = "attn_output"});
  }

  template <typename Weights>
  void FeedForward(const Weights& weight) {
    const Tensor &gate = weight(argument::ffn_gate), &up = weight(argument::ffn_up);
    const Tensor& down = weight(argument::ffn_down);
    o_.submit(rms_norm, {in(x_), in(weight(argument::ffn_norm)), out(h_), eps_});
    o_.submit(gated_mat_vec, {in(h_), in(gate), in(up), out(mixed_)},
              {.blocks = Blocks(gate.size() + up.size())});
    o_.submit(mat_vec_add, {in(mixed_), in(down), inout(x_)},
              {.blocks = Blocks(down.size()), .name = "down"});
  }

  /// Blocks for a chunk: heads, or groups of them that are worth a block.
  uint32_t AttentionBlocks(int64_t count) const {
    constexpr int64_t kSmallest = int64_t{1} << 14;
    return static_cast<uint32_t>(
        std::clamp<int64_t>(count * q_.size() / kSmallest, 1, parts_.shape(1)));
  }

  Orchestrator& o_;
  const Args& args_;
  int32_t token_;
  bool wants_logits_;
  float eps_;
  float base_;
  int32_t position_ = 0;
  int64_t physical_page_ = 0;
  // What a layer leaves to the next one, and what each of them uses: one layer follows the other,
  // so all of them use the same.
  Tensor x_, h_, turn_, q_raw_, q_, k_raw_, parts_, attended_, mixed_;
  std::vector<Tensor> part_;  // of each chunk
};

}  // namespace

void Decode(Orchestrator& o, const Args& args) { Step(o, args).Run(); }

std::vector<ArgSpec> DecodeSignature() {
  return {{Direction::scalar, DType::i32, 0, "token"},
          {Direction::scalar, DType::i32, 0, "wants_logits"},
          {Direction::scalar, DType::f32, 0, "eps"},
          {Direction::scalar, DType::f32, 0, "rope_base"},
          {Direction::out, DType::f32, 1, "logits"},
          {Direction::inout, DType::i32, 1, "lengths"},
          {Direction::inout, DType::i32, 1, "table"},
          {Direction::in, DType::i32, 1, "order"},
          {Direction::inout, DType::f32, 4, "keys"},
          {Direction::inout, DType::f32, 4, "values"},
          {Direction::in, DType::none, ArgSpec::kAnyRank, "weights"}};
}

}  // namespace precast::qwen3
