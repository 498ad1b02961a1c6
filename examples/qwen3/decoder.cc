#include "qwen3/decoder.h"

#include "qwen3/kernels.h"

#include <algorithm>

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
    const Tensor& norm = Weight(argument::output_norm);
    Tensor x = o_.alloc(norm.shape(), DType::f32);
    Tensor turn = o_.alloc(Weight(LayerWeight(0, argument::attn_q_norm)).shape(), DType::f32);
    o_.submit(embed, {in(Weight(argument::token_embd)), out(x), token_});
    o_.submit(rotation, {out(turn), base_, position_});
    size_t layers = (args_.tensors() - argument::weights - argument::layers) / argument::per_layer;
    for (size_t layer = 0; layer < layers; ++layer) Layer(layer, x, turn);
    if (!wants_logits_) return;
    Tensor h = o_.alloc(x.shape(), DType::f32);
    const Tensor& output = Weight(argument::output);
    o_.submit(rms_norm, {in(x), in(norm), out(h), eps_});
    o_.submit(mat_vec, {in(h), in(output), out(args_.tensor(argument::logits))},
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

  void Layer(size_t layer, const Tensor& x, const Tensor& turn) {
    auto scope = o_.scope();
    auto weight = [&](argument::Layer which) -> const Tensor& {
      return Weight(LayerWeight(layer, which));
    };
    Attention(static_cast<int64_t>(layer), weight, x, turn);
    FeedForward(weight, x);
  }

  template <typename Weights>
  void Attention(int64_t layer, const Weights& weight, const Tensor& x, const Tensor& turn) {
    const Tensor &wq = weight(argument::attn_q), &wk = weight(argument::attn_k);
    const Tensor &wv = weight(argument::attn_v), &output = weight(argument::attn_output);
    int64_t head_dim = turn.size(), query = wq.shape(0), kv = wk.shape(0);
    int64_t heads = query / head_dim;
    Tensor keys = args_.tensor(argument::keys).select(0, layer);
    Tensor values = args_.tensor(argument::values).select(0, layer);
    auto row = [&](const Tensor& cache) {
      return cache.select(0, physical_page_).select(0, position_ % kPage);
    };

    Tensor h = o_.alloc(x.shape(), DType::f32);
    Tensor q_raw = o_.alloc({query}, DType::f32), q = o_.alloc({query}, DType::f32);
    Tensor k_raw = o_.alloc({kv}, DType::f32);
    o_.submit(rms_norm, {in(x), in(weight(argument::attn_norm)), out(h), eps_});
    o_.submit(mat_vec, {in(h), in(wq), out(q_raw), in(wk), out(k_raw), in(wv), out(row(values))},
              {.blocks = Blocks(wq.size() + wk.size() + wv.size()), .name = "qkv"});
    o_.submit(norm_rotate, {in(turn), in(q_raw), in(weight(argument::attn_q_norm)), out(q),
                            in(k_raw), in(weight(argument::attn_k_norm)), out(row(keys)), eps_});

    int64_t length = position_ + 1, chunks = (length + kChunk - 1) / kChunk;
    Tensor parts = o_.alloc({chunks, heads, head_dim + 2}, DType::f32);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      int64_t first = chunk * kChunk, count = std::min(kChunk, length - first);
      o_.submit(attend_chunk, {in(q), in(keys), in(values), in(args_.tensor(argument::table)),
                               out(parts.select(0, chunk)), static_cast<int32_t>(first),
                               static_cast<int32_t>(count), static_cast<int32_t>(head_dim)});
    }
    Tensor attended = o_.alloc({query}, DType::f32);
    o_.submit(attend_merge, {in(parts), out(attended)});
    o_.submit(mat_vec_add, {in(attended), in(output), inout(x)},
              {.blocks = Blocks(output.size()), .name = "attn_output"});
  }

  template <typename Weights>
  void FeedForward(const Weights& weight, const Tensor& x) {
    const Tensor &gate = weight(argument::ffn_gate), &up = weight(argument::ffn_up);
    const Tensor& down = weight(argument::ffn_down);
    Tensor h = o_.alloc(x.shape(), DType::f32), mixed = o_.alloc({gate.shape(0)}, DType::f32);
    o_.submit(rms_norm, {in(x), in(weight(argument::ffn_norm)), out(h), eps_});
    o_.submit(gated_mat_vec, {in(h), in(gate), in(up), out(mixed)},
              {.blocks = Blocks(gate.size() + up.size())});
    o_.submit(mat_vec_add, {in(mixed), in(down), inout(x)},
              {.blocks = Blocks(down.size()), .name = "down"});
  }

  Orchestrator& o_;
  const Args& args_;
  int32_t token_;
  bool wants_logits_;
  float eps_;
  float base_;
  int32_t position_ = 0;
  int64_t physical_page_ = 0;
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
