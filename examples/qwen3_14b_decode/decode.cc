#include "qwen3_14b_decode/decode.h"

#include "qwen3_14b_decode/kernels.h"

#include <precast/precast.h>

#include <algorithm>

namespace precast::qwen3_14b {

namespace {

// Blocks of a task. Tiles of the feed-forward have four times the weights of the others. All in
// all a layer has 477 blocks with 40 query and 8 KV heads, and a step of 40 layers 19,208.
constexpr uint32_t kWideBlocks = 4;  // tiles of gate, up and down
constexpr uint32_t kRowBlocks = 8;   // what works on whole rows of the hidden state
constexpr uint32_t kHeadBlocks = 2;  // what works on one KV head and its query heads
constexpr uint32_t kLogitBlocks = 64;
constexpr uint32_t kTopParts = 24;

/// Submits kernels, or one that does nothing in the place of each.
class Submitter {
 public:
  Submitter(Orchestrator& o, bool empty) : o_(o), empty_(empty) {}

  void operator()(const Kernel& kernel, ArgList args, uint32_t blocks = 1,
                  std::string_view name = {}) {
    SubmitOptions options{.blocks = blocks, .name = name};
    if (empty_ && name.empty()) options.name = kernel.name;
    o_.submit(empty_ ? (kernel.core == Core::cube ? empty_cube : empty_vector) : kernel, args,
              options);
  }

 private:
  Orchestrator& o_;
  bool empty_;
};

/// What a layer gets: its weights and pools, then what it shares with the others.
namespace boundary {
enum : size_t { x = argument::per_layer, block_table, lengths, slots, cosine, sine, tensors };
static_assert(tensors == 26);
}  // namespace boundary

/// The body of the recorded graph: 277 tasks for 40 query and 8 KV heads.
class Layer {
 public:
  Layer(Orchestrator& o, const Args& args, bool empty)
      : o_(o), args_(args), submit_(o, empty), x_(args.tensor(boundary::x)) {}

  void Submit() {
    Tensor attended = Attention();
    for (int64_t tile = 0; tile < kHiddenTiles; ++tile) {
      ProjectTile(project_add, argument::o, tile, kHiddenTiles, attended, inout(Columns(x_, tile)),
                  1, "o");
    }
    FeedForward();
  }

 private:
  const Tensor& Own(size_t which) const { return args_.tensor(which); }
  static Tensor Part(const Tensor& tensor, int axis, int64_t part, int64_t parts) {
    int64_t size = tensor.shape(axis) / parts;
    return tensor.slice(axis, part * size, (part + 1) * size);
  }
  static Tensor Columns(const Tensor& x, int64_t tile) { return Part(x, 1, tile, kHiddenTiles); }

  void ProjectTile(const Kernel& kernel, size_t matrix, int64_t tile, int64_t tiles,
                   const Tensor& from, const Arg& to, uint32_t blocks, std::string_view name) {
    submit_(kernel,
            {in(Part(Own(matrix), 0, tile, tiles)), in(Part(Own(matrix + 1), 0, tile, tiles)),
             in(from), to},
            blocks, name);
  }

  Tensor Norm(size_t weight) {
    Tensor h = o_.alloc(x_.shape(), DType::f32);
    submit_(rms_norm, {in(x_), in(Own(weight)), out(h), args_.bound_scalar<float>(0)}, kRowBlocks);
    return h;
  }

  /// Gives [batch, heads * dim].
  Tensor Attention() {
    const Tensor &pool = args_.tensor(argument::keys), &slots = args_.tensor(boundary::slots);
    const Tensor &cosine = args_.tensor(boundary::cosine), &sine = args_.tensor(boundary::sine);
    int64_t batch = x_.shape(0), kv_heads = pool.shape(2), dim = pool.shape(3);
    int64_t heads = Own(argument::q).shape(0) / dim, group = heads / kv_heads;
    BoundScalar<float> eps = args_.bound_scalar<float>(0);

    Tensor h = Norm(argument::attn_norm);
    Tensor q = o_.alloc({batch, heads, dim}, DType::f32);
    Tensor k = o_.alloc({batch, kv_heads, dim}, DType::f32);
    Tensor v = o_.alloc({batch, kv_heads, dim}, DType::f32);
    auto project_heads = [&](size_t matrix, const Tensor& to, std::string_view name) {
      for (int64_t head = 0; head < to.shape(1); ++head) {
        ProjectTile(project, matrix, head, to.shape(1), h, out(to.select(1, head)), 1, name);
      }
    };
    project_heads(argument::q, q, "q");
    project_heads(argument::k, k, "k");
    project_heads(argument::v, v, "v");

    Tensor rotated = o_.alloc({batch, heads, dim}, DType::f32);
    Tensor attended = o_.alloc({batch, heads, dim}, DType::f32);
    for (int64_t head = 0; head < kv_heads; ++head) {
      auto own = [&](const Tensor& all) { return Part(all, 1, head, kv_heads); };
      Tensor keys = pool.select(2, head);
      Tensor values = args_.tensor(argument::values).select(2, head);
      submit_(norm_rotate,
              {in(own(q)), in(Own(argument::q_norm)), in(cosine), in(sine), out(own(rotated)), eps},
              kHeadBlocks);
      submit_(store_keys,
              {in(k.select(1, head)), in(Own(argument::k_norm)), in(cosine), in(sine), in(slots),
               inout(keys), eps},
              kHeadBlocks);
      submit_(store_values, {in(v.select(1, head)), in(slots), inout(values)});
      Attend(own(rotated), keys, values, group, own(attended));
    }
    return attended.reshape({batch, heads * dim});
  }

  /// Attention of the query heads of one KV head, in parts of the context that are merged.
  void Attend(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t group,
              const Tensor& attended) {
    const Tensor& table = args_.tensor(boundary::block_table);
    const Tensor& lengths = args_.tensor(boundary::lengths);
    int64_t batch = q.shape(0), dim = q.shape(2);
    int64_t positions = table.shape(1) / kSplits * keys.shape(1);  // of a split
    Tensor tops = o_.alloc({kSplits, batch, group}, DType::f32);
    Tensor totals = o_.alloc({kSplits, batch, group}, DType::f32);
    Tensor sums = o_.alloc({kSplits, batch, group, dim}, DType::f32);
    for (int64_t split = 0; split < kSplits; ++split) {
      Tensor blocks = Part(table, 1, split, kSplits);
      auto first = static_cast<int32_t>(split * positions);
      Tensor score = o_.alloc({batch, group, positions}, DType::f32);
      Tensor weight = o_.alloc({batch, group, positions}, DType::f32);
      submit_(scores, {in(q), in(keys), in(blocks), in(lengths), out(score), first});
      submit_(softmax,
              {in(score), out(weight), out(tops.select(0, split)), out(totals.select(0, split))});
      submit_(weighted_values,
              {in(weight), in(values), in(blocks), in(lengths), out(sums.select(0, split)), first});
    }
    submit_(merge, {in(tops), in(totals), in(sums), out(attended)}, kHeadBlocks);
  }

  void FeedForward() {
    Tensor h = Norm(argument::ffn_norm);
    Shape wide{x_.shape(0), Own(argument::gate).shape(0)};
    Tensor gate = o_.alloc(wide, DType::f32), up = o_.alloc(wide, DType::f32);
    Tensor mixed = o_.alloc(wide, DType::f32);
    for (int64_t tile = 0; tile < kFfnTiles; ++tile) {
      auto own = [&](const Tensor& all) { return Part(all, 1, tile, kFfnTiles); };
      ProjectTile(project, argument::gate, tile, kFfnTiles, h, out(own(gate)), kWideBlocks, "gate");
      ProjectTile(project, argument::up, tile, kFfnTiles, h, out(own(up)), kWideBlocks, "up");
      submit_(swiglu, {in(own(gate)), in(own(up)), out(own(mixed))});
    }
    for (int64_t tile = 0; tile < kHiddenTiles; ++tile) {
      ProjectTile(project_add, argument::down, tile, kHiddenTiles, mixed, inout(Columns(x_, tile)),
                  kWideBlocks, "down");
    }
  }

  Orchestrator& o_;
  const Args& args_;
  Submitter submit_;
  const Tensor& x_;
};

void Check(Orchestrator& o, const Args& args) {
  auto first = [&](size_t which) -> const Tensor& { return args.tensor(LayerTensor(0, which)); };
  const Tensor& pool = first(argument::keys);
  auto expect = [&](bool holds, std::string_view what) {
    if (!holds) o.report_fatal(1, what);
  };
  expect(first(argument::q).shape(0) % (pool.shape(2) * pool.shape(3)) == 0,
         "query heads are not a multiple of KV heads");
  expect(first(argument::o).shape(0) % kHiddenTiles == 0, "hidden is not a multiple of 20");
  expect(first(argument::gate).shape(0) % kFfnTiles == 0,
         "the width of the feed-forward is not a multiple of 17");
  expect(args.tensor(argument::block_table).shape(1) % kSplits == 0,
         "columns of the block table are not a multiple of 4");
}

}  // namespace

void SubmitLayer(Orchestrator& o, const Args& args, bool empty) { Layer(o, args, empty).Submit(); }

void Decode(Orchestrator& o, const Args& args) {
  Check(o, args);
  auto given = [&](size_t which) -> const Tensor& { return args.tensor(which); };
  const Tensor &lengths = given(argument::lengths), &table = given(argument::block_table);
  const Tensor& pool = given(LayerTensor(0, argument::keys));
  int64_t batch = lengths.shape(0), hidden = given(argument::token_embd).shape(1);
  int64_t half = pool.shape(3) / 2;
  auto eps = args.scalar<float>(0);
  bool empty = args.scalar<int32_t>(1) != 0;
  Submitter submit(o, empty);

  Tensor x = o.alloc({batch, hidden}, DType::f32);
  Tensor cosine = o.alloc({batch, half}, DType::f32), sine = o.alloc({batch, half}, DType::f32);
  Tensor slots = o.alloc({batch}, DType::i32);
  submit(embed, {in(given(argument::token_embd)), in(given(argument::tokens)), out(x)}, kRowBlocks);
  submit(rope_rows,
         {in(given(argument::cosines)), in(given(argument::sines)), in(lengths), out(cosine),
          out(sine)},
         kRowBlocks);
  submit(new_slots, {in(table), in(lengths), out(slots), static_cast<int32_t>(pool.shape(1))},
         kRowBlocks);

  for (size_t layer = 0; layer < kLayers; ++layer) {
    auto own = [&](size_t which) -> const Tensor& { return given(LayerTensor(layer, which)); };
    o.submit_graph("layer", SubmitLayer,
                   {in(own(argument::attn_norm)),
                    in(own(argument::q)),
                    in(own(argument::q_scale)),
                    in(own(argument::k)),
                    in(own(argument::k_scale)),
                    in(own(argument::v)),
                    in(own(argument::v_scale)),
                    in(own(argument::q_norm)),
                    in(own(argument::k_norm)),
                    in(own(argument::o)),
                    in(own(argument::o_scale)),
                    in(own(argument::ffn_norm)),
                    in(own(argument::gate)),
                    in(own(argument::gate_scale)),
                    in(own(argument::up)),
                    in(own(argument::up_scale)),
                    in(own(argument::down)),
                    in(own(argument::down_scale)),
                    inout(own(argument::keys)),
                    inout(own(argument::values)),
                    inout(x),
                    in(table),
                    in(lengths),
                    in(slots),
                    in(cosine),
                    in(sine),
                    eps},
                   empty);
  }

  const Tensor &logits = given(argument::logits), &output = given(argument::output);
  Tensor h = o.alloc({batch, hidden}, DType::f32);
  Tensor value = o.alloc({batch, kTopParts}, DType::f32);
  Tensor index = o.alloc({batch, kTopParts}, DType::i32);
  submit(rms_norm, {in(x), in(given(argument::output_norm)), out(h), eps}, kRowBlocks);
  submit(project, {in(output), in(given(argument::output_scale)), in(h), out(logits)}, kLogitBlocks,
         "logits");
  submit(top_of_part, {in(logits), out(value), out(index)}, kTopParts);
  submit(top, {in(value), in(index), out(given(argument::next))}, kRowBlocks);
}

std::vector<ArgSpec> DecodeSignature() {
  std::vector<ArgSpec> signature = {
      {Direction::in, DType::i32, 1, "tokens"},       {Direction::in, DType::i32, 1, "lengths"},
      {Direction::in, DType::i32, 2, "block_table"},  {Direction::in, DType::f32, 2, "cosines"},
      {Direction::in, DType::f32, 2, "sines"},        {Direction::in, DType::bf16, 2, "token_embd"},
      {Direction::in, DType::bf16, 1, "output_norm"}, {Direction::in, DType::bf16, 2, "output"},
      {Direction::in, DType::f32, 1, "output_scale"}, {Direction::out, DType::i32, 1, "next"},
      {Direction::out, DType::f32, 2, "logits"}};
  struct Own {
    const char* name;
    bool scaled;  // a matrix, which its scales follow
  };
  constexpr Own kWeights[] = {{"attn_norm", false}, {"q", true},         {"k", true},
                              {"v", true},          {"q_norm", false},   {"k_norm", false},
                              {"o", true},          {"ffn_norm", false}, {"gate", true},
                              {"up", true},         {"down", true}};
  for (size_t layer = 0; layer < kLayers; ++layer) {
    auto add = [&](Direction direction, DType dtype, int rank, std::string_view name) {
      signature.push_back({direction, dtype, rank, fmt::format("layers.{}.{}", layer, name)});
    };
    for (const Own& own : kWeights) {
      add(Direction::in, DType::bf16, own.scaled ? 2 : 1, own.name);
      if (own.scaled) add(Direction::in, DType::f32, 1, fmt::format("{}_scale", own.name));
    }
    for (const char* pool : {"keys", "values"}) add(Direction::inout, DType::bf16, 4, pool);
  }
  signature.push_back({Direction::scalar, DType::f32, 0, "eps"});
  signature.push_back({Direction::scalar, DType::i32, 0, "empty"});
  return signature;
}

}  // namespace precast::qwen3_14b
