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

/// What a layer gets: its weights, then these.
namespace boundary {
enum : size_t { x = argument::per_layer, turn, table, keys, values };
}  // namespace boundary

/// A layer, recorded once for each number of chunks and submitted for each layer and token. What
/// differs between tokens is bound: the position.
class Layer {
 public:
  Layer(Orchestrator& o, const Args& args, int64_t chunks)
      : o_(o),
        args_(args),
        chunks_(chunks),
        eps_(args.bound_scalar<float>(0)),
        position_(args.bound_scalar<int32_t>(1)),
        x_(args.tensor(boundary::x)),
        h_(Numbers(x_.size())) {}

  void Submit() {
    Attention();
    FeedForward();
  }

 private:
  const Tensor& Weight(argument::Layer which) const { return args_.tensor(which); }
  Tensor Numbers(int64_t n) { return o_.alloc({n}, DType::f32); }

  void Attention() {
    const Tensor &wq = Weight(argument::attn_q), &wk = Weight(argument::attn_k);
    const Tensor &wv = Weight(argument::attn_v), &output = Weight(argument::attn_output);
    const Tensor &turn = args_.tensor(boundary::turn), &table = args_.tensor(boundary::table);
    const Tensor &keys = args_.tensor(boundary::keys), &values = args_.tensor(boundary::values);
    int64_t query = wq.shape(0), head_dim = turn.size();
    Tensor q_raw = Numbers(query), q = Numbers(query), attended = Numbers(query);
    Tensor k = Numbers(wk.shape(0)), v = Numbers(wv.shape(0));
    Tensor parts = o_.alloc({chunks_, query / head_dim, head_dim + 2}, DType::f32);
    o_.submit(rms_norm, {in(x_), in(Weight(argument::attn_norm)), out(h_), eps_});
    o_.submit(mat_vec, {in(h_), in(wq), out(q_raw), in(wk), out(k), in(wv), out(v)},
              {.blocks = Blocks(wq.size() + wk.size() + wv.size()), .name = "qkv"});
    o_.submit(norm_rotate, {in(turn), in(q_raw), in(Weight(argument::attn_q_norm)), out(q), in(k),
                            in(Weight(argument::attn_k_norm)), in(v), in(table), inout(keys),
                            inout(values), eps_, position_});
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      o_.submit(attend_chunk,
                {in(q), in(keys), in(values), in(table), out(parts.select(0, chunk)),
                 static_cast<int32_t>(chunk * kChunk), static_cast<int32_t>(kChunk),
                 static_cast<int32_t>(head_dim), position_},
                {.blocks = AttentionBlocks(query, query / head_dim)});
    }
    o_.submit(attend_merge, {in(parts), out(attended)});
    o_.submit(mat_vec_add, {in(attended), in(output), inout(x_)},
              {.blocks = Blocks(output.size()), .name = "attn_output"});
  }

  void FeedForward() {
    const Tensor &gate = Weight(argument::ffn_gate), &up = Weight(argument::ffn_up);
    const Tensor& down = Weight(argument::ffn_down);
    Tensor mixed = Numbers(gate.shape(0));
    o_.submit(rms_norm, {in(x_), in(Weight(argument::ffn_norm)), out(h_), eps_});
    o_.submit(gated_mat_vec, {in(h_), in(gate), in(up), out(mixed)},
              {.blocks = Blocks(gate.size() + up.size())});
    o_.submit(mat_vec_add, {in(mixed), in(down), inout(x_)},
              {.blocks = Blocks(down.size()), .name = "down"});
  }

  /// Blocks for a chunk: heads, or groups of them that are worth a block.
  static uint32_t AttentionBlocks(int64_t query, int64_t heads) {
    constexpr int64_t kSmallest = int64_t{1} << 14;
    return static_cast<uint32_t>(std::clamp<int64_t>(kChunk * query / kSmallest, 1, heads));
  }

  Orchestrator& o_;
  const Args& args_;
  int64_t chunks_;
  BoundScalar<float> eps_;
  BoundScalar<int32_t> position_;
  const Tensor& x_;
  Tensor h_;
};

void SubmitLayer(Orchestrator& o, const Args& args, int64_t chunks) {
  Layer(o, args, chunks).Submit();
}

/// One step of the decoder: what all layers share.
class Step {
 public:
  Step(Orchestrator& o, const Args& args) : o_(o), args_(args) {}

  void Run() {
    int32_t position = GrowCache();
    auto eps = args_.scalar<float>(2);
    const Tensor &norm = Weight(argument::output_norm), &output = Weight(argument::output);
    Tensor x = o_.alloc(norm.shape(), DType::f32);
    Tensor turn =
        o_.alloc(Weight(size_t{argument::layers} + argument::attn_q_norm).shape(), DType::f32);
    o_.submit(embed, {in(Weight(argument::token_embd)), out(x), args_.scalar<int32_t>(0)});
    o_.submit(rotation, {out(turn), args_.scalar<float>(3), position});
    SubmitLayers(x, turn, eps, position);
    if (args_.scalar<int32_t>(1) == 0) return;  // nobody wants the logits
    Tensor h = o_.alloc(norm.shape(), DType::f32);
    o_.submit(rms_norm, {in(x), in(norm), out(h), eps});
    o_.submit(mat_vec, {in(h), in(output), out(args_.tensor(argument::logits))},
              {.blocks = Blocks(output.size()), .name = "logits"});
  }

 private:
  const Tensor& Weight(size_t i) const { return args_.tensor(argument::weights + i); }

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
    o_.set_tensor_data<int32_t>(lengths, {0}, position + 1);
    return position;
  }

  void SubmitLayers(const Tensor& x, const Tensor& turn, float eps, int32_t position) {
    const Tensor &keys = args_.tensor(argument::keys), &values = args_.tensor(argument::values);
    for (int64_t layer = 0; layer < keys.shape(0); ++layer) {
      size_t first = argument::layers + static_cast<size_t>(layer) * argument::per_layer;
      auto weight = [&](argument::Layer which) { return in(Weight(first + which)); };
      o_.submit_graph(
          "layer", SubmitLayer,
          {weight(argument::attn_norm), weight(argument::attn_q), weight(argument::attn_k),
           weight(argument::attn_v), weight(argument::attn_q_norm), weight(argument::attn_k_norm),
           weight(argument::attn_output), weight(argument::ffn_norm), weight(argument::ffn_gate),
           weight(argument::ffn_up), weight(argument::ffn_down), inout(x), in(turn),
           in(args_.tensor(argument::table)), inout(keys.select(0, layer)),
           inout(values.select(0, layer)), eps, position},
          position / kChunk + 1);
    }
  }

  Orchestrator& o_;
  const Args& args_;
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
