// paged_attention: attention of one new token per sequence over a paged KV cache.
//
// The keys and values of a sequence lie in blocks of a pool; its row of `block_table` says which,
// in order, and `context_lens` how many tokens there are. The orchestration reads both to submit
// four tasks for each block, as on an Ascend chip: a cube kernel for Q K^T, a vector kernel for the
// block's softmax, a cube kernel for P V, and a vector kernel that joins the block's sums with
// those of the blocks before it (online softmax). Tasks of different sequences are independent.
//
// Both tables may be host memory or stay on the device between runs. Given a list of free blocks, a
// run first makes room for one more token of every sequence, as a decoding step does.
#include "common/matmul.h"
#include "common/simd.h"
#include "paged_attention/paged_attention_case.h"

#include <precast/precast.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

using namespace precast;

namespace {

using examples::Exp;
using examples::Floats;
using examples::Load;
using examples::Product;
using examples::Simd;
using examples::Store;

constexpr int64_t kTokensAtOnce = 32;  // that are converted: with heads of 128, what L1 holds

constexpr int64_t kAhead = 8;  // tokens between a conversion and the fetch from memory

struct ConvertBody {
  template <size_t N>
  PRECAST_INLINE static void Run(const bf16* source, int64_t n, float* target) {
    for (int64_t i = 0; i < n; ++i) target[i] = static_cast<float>(source[i]);
  }
};

/// Tokens `first` to `first + count` as floats, one row after the other; valid until the next call.
const float* ConvertTokens(TensorView<const bf16> tokens, int64_t first, int64_t count) {
  thread_local std::vector<float> rows;
  int64_t dim = tokens.shape(1);
  rows.resize(static_cast<size_t>(count * dim));
  for (int64_t t = 0; t < count; ++t) {
    const bf16* row = &tokens(first + t, 0);
    // Blocks lie in any order, so the processor doesn't know which bytes come next.
    const bf16* coming = row + kAhead * tokens.stride(0);
    for (int64_t i = 0; i < dim; i += 32) __builtin_prefetch(coming + i);
    Simd<ConvertBody>(row, dim, rows.data() + t * dim);
  }
  return rows.data();
}

Product::Matrix<const float> Matrix(const float* data, int64_t stride) {
  return {data, static_cast<size_t>(stride)};
}

void Multiply(Product::Matrix<const float> a, Product::Matrix<const float> b,
              Product::Matrix<float> c, int64_t m, int64_t n, int64_t k, bool add) {
  Simd<Product>(a, b, c, static_cast<size_t>(m), static_cast<size_t>(n), static_cast<size_t>(k),
                add);
}

// Costs. Every byte of the tensors is moved once; what is counted is on their elements.
KernelCost ScoresCost(const CostContext& c) { return {c.bytes(), 2 * c.size(2) * c.shape(0, 1)}; }
/// Scale, maximum, difference, exponential, sum.
KernelCost SoftmaxCost(const CostContext& c) { return {c.bytes(), 5 * c.size(0)}; }
KernelCost ValuesCost(const CostContext& c) { return {c.bytes(), 2 * c.size(0) * c.shape(1, 1)}; }
KernelCost CopyCost(const CostContext& c) { return {c.bytes(), 0}; }
/// Two products and a sum for each output, and eight operations for the factors of a head.
KernelCost JoinCost(const CostContext& c) { return {c.bytes(), 3 * c.size(2) + 8 * c.size(0)}; }
KernelCost NormaliseCost(const CostContext& c) { return {c.bytes(), c.size(2)}; }

/// scores[head, token] = query[head] . key[token]
PRECAST_KERNEL(scores_of_block, Core::cube, ScoresCost)(const KernelContext& k) {
  auto query = k.tensor<const bf16>(0), keys = k.tensor<const bf16>(1);
  auto scores = k.tensor<float>(2);
  int64_t heads = query.shape(0), dim = query.shape(1), tokens = keys.shape(0);
  // keys * queries^T, so that the heads of a token share a vector, and nothing is left to be summed
  // across one. Heads are filled up to whole vectors.
  int64_t columns = (heads + 15) / 16 * 16;
  thread_local std::vector<float> queries, products;
  queries.assign(static_cast<size_t>(dim * columns), 0);
  products.resize(static_cast<size_t>(kTokensAtOnce * columns));
  for (int64_t h = 0; h < heads; ++h) {
    const bf16* row = &query(h, 0);
    float* column = queries.data() + h;
    for (int64_t d = 0; d < dim; ++d) column[d * columns] = static_cast<float>(row[d]);
  }
  for (int64_t first = 0; first < tokens; first += kTokensAtOnce) {
    int64_t count = std::min(kTokensAtOnce, tokens - first);
    Multiply(Matrix(ConvertTokens(keys, first, count), dim), Matrix(queries.data(), columns),
             {products.data(), static_cast<size_t>(columns)}, count, columns, dim, false);
    for (int64_t h = 0; h < heads; ++h) {
      float* score = &scores(h, first);
      for (int64_t t = 0; t < count; ++t) score[t] = products.data()[t * columns + h];
    }
  }
}

struct SoftmaxBody {
  struct Totals {
    float top, sum;
  };
  template <size_t N>
  PRECAST_INLINE static float Largest(const float* score, size_t n) {
    if (n < N) return *std::max_element(score, score + n);
    Floats<N> tops = Load<N>(score + n - N);
    for (size_t i = 0; i + N <= n; i += N) {
      Floats<N> value = Load<N>(score + i);
      tops = tops > value ? tops : value;
    }
    float top = tops[0];
    for (size_t lane = 1; lane < N; ++lane) top = std::max(top, tops[lane]);
    return top;
  }
  /// weight = exp(scale score - top)
  template <size_t N>
  PRECAST_INLINE static Totals Run(const float* score, size_t n, float scale, float* weight) {
    float top = Largest<N>(score, n) * scale;
    Floats<N> sums = {};
    size_t i = 0;
    for (; i + N <= n; i += N) {
      Floats<N> value = Exp<N>(Load<N>(score + i) * scale - top);
      Store<N>(weight + i, value);
      sums += value;
    }
    float sum = 0;
    for (size_t lane = 0; lane < N; ++lane) sum += sums[lane];
    if (i < n) {
      float last[N] = {};
      std::copy_n(score + i, n - i, last);
      Store<N>(last, Exp<N>(Load<N>(last) * scale - top));
      std::copy_n(last, n - i, weight + i);
      for (size_t lane = 0; lane < n - i; ++lane) sum += last[lane];
    }
    return {top, sum};
  }
};

/// weights = exp(scale scores - top), with each head's maximum `top` and the sum of its weights.
PRECAST_KERNEL(softmax_of_block, Core::vector, SoftmaxCost)(const KernelContext& k) {
  auto scores = k.tensor<const float>(0);
  auto weights = k.tensor<float>(1), top = k.tensor<float>(2), sum = k.tensor<float>(3);
  float scale = k.scalar<float>(0);
  for (int64_t h = 0; h < scores.shape(0); ++h) {
    SoftmaxBody::Totals totals = Simd<SoftmaxBody>(
        &scores(h, 0), static_cast<size_t>(scores.shape(1)), scale, &weights(h, 0));
    top(h) = totals.top;
    sum(h) = totals.sum;
  }
}

/// outputs[head] = the sum over tokens of weights[head, token] value[token]
PRECAST_KERNEL(values_of_block, Core::cube, ValuesCost)(const KernelContext& k) {
  auto weights = k.tensor<const float>(0);
  auto values = k.tensor<const bf16>(1);
  auto outputs = k.tensor<float>(2);
  int64_t heads = outputs.shape(0), dim = outputs.shape(1), tokens = values.shape(0);
  for (int64_t first = 0; first < tokens; first += kTokensAtOnce) {
    int64_t count = std::min(kTokensAtOnce, tokens - first);
    Multiply(Matrix(&weights(0, first), weights.stride(0)),
             Matrix(ConvertTokens(values, first, count), dim),
             {&outputs(0, 0), static_cast<size_t>(outputs.stride(0))}, heads, dim, count,
             first > 0);
  }
}

/// The first block's maxima, sums and outputs become the sequence's.
PRECAST_KERNEL(first_block, Core::vector, CopyCost)(const KernelContext& k) {
  for (size_t i = 0; i < 3; ++i) {
    auto source = k.tensor<const float>(i);
    std::copy_n(source.data(), source.size(), k.tensor<float>(i + 3).data());
  }
}

struct JoinBody {
  /// target = target * old_factor + source * new_factor
  template <size_t N>
  PRECAST_INLINE static void Run(float* target, float old_factor, const float* source,
                                 float new_factor, int64_t n) {
    for (int64_t i = 0; i < n; ++i) target[i] = target[i] * old_factor + source[i] * new_factor;
  }
};

/// Joins a further block's with the sequence's: both are scaled to the greater of their maxima.
PRECAST_KERNEL(next_block, Core::vector, JoinCost)(const KernelContext& k) {
  auto top = k.tensor<const float>(0), sum = k.tensor<const float>(1);
  auto output = k.tensor<const float>(2);
  auto all_top = k.tensor<float>(3), all_sum = k.tensor<float>(4), all_output = k.tensor<float>(5);
  for (int64_t h = 0; h < top.size(); ++h) {
    float highest = std::max(all_top[h], top[h]);
    float old_factor = std::exp(all_top[h] - highest), new_factor = std::exp(top[h] - highest);
    all_top[h] = highest;
    all_sum[h] = all_sum[h] * old_factor + sum[h] * new_factor;
    Simd<JoinBody>(&all_output(h, 0), old_factor, &output(h, 0), new_factor, output.shape(1));
  }
}

PRECAST_KERNEL(normalise, Core::vector, NormaliseCost)(const KernelContext& k) {
  auto sum = k.tensor<const float>(0), sums = k.tensor<const float>(1);
  auto output = k.tensor<float>(2);
  for (int64_t h = 0; h < sum.size(); ++h) {
    for (int64_t d = 0; d < output.shape(1); ++d) output(h, d) = sums(h, d) / sum[h];
  }
}

/// What a sequence without tokens attends to.
PRECAST_KERNEL(zero, Core::vector, CopyCost)(const KernelContext& k) {
  auto output = k.tensor<float>(0);
  std::fill_n(output.data(), output.size(), 0.0f);
}

enum : size_t { kQuery, kKeys, kValues, kBlockTable, kContextLens, kOutput, kFreeBlocks };

/// Makes every sequence a token longer. Where its last block is full it takes one from the list of
/// free blocks, whose element 0 counts those taken.
void Grow(Orchestrator& o, const Args& args) {
  const Tensor &table = args.tensor(kBlockTable), &lens = args.tensor(kContextLens);
  const Tensor& free_blocks = args.tensor(kFreeBlocks);
  int64_t block = args.tensor(kKeys).shape(1);
  for (int64_t b = 0; b < lens.size(); ++b) {
    int32_t context = o.get_tensor_data<int32_t>(lens, {b});
    if (context % block == 0) {
      int32_t next = o.get_tensor_data<int32_t>(free_blocks, {0}) + 1;
      if (next >= free_blocks.size() || context / block >= table.shape(1)) {
        o.report_fatal(4, fmt::format("no block for token {} of sequence {}", context, b));
      }
      o.set_tensor_data(table, {b, context / block},
                        o.get_tensor_data<int32_t>(free_blocks, {next}));
      o.set_tensor_data(free_blocks, {0}, next);
    }
    o.set_tensor_data(lens, {b}, context + 1);
  }
}

/// Where the blocks of a sequence lie, read with one access an element, a row or the whole table.
class Tables {
 public:
  Tables(Orchestrator& o, const Args& args)
      : o_(o),
        table_(args.tensor(kBlockTable)),
        lens_(args.tensor(kContextLens)),
        reads_(static_cast<examples::Reads>(args.scalar<int32_t>(1))),
        block_(args.tensor(kKeys).shape(1)),
        pool_(args.tensor(kKeys).shape(0)) {
    if (reads_ == examples::Reads::element) return;
    all_lens_.resize(static_cast<size_t>(lens_.size()));
    o_.get_tensor_data(lens_, all_lens_);
    if (reads_ != examples::Reads::table) return;
    all_.resize(static_cast<size_t>(table_.size()));
    o_.get_tensor_data(table_, all_);
  }

  int64_t ContextOf(int64_t sequence) {
    int64_t context = reads_ == examples::Reads::element
                          ? o_.get_tensor_data<int32_t>(lens_, {sequence})
                          : all_lens_[static_cast<size_t>(sequence)];
    if (context < 0 || context > table_.shape(1) * block_) {
      o_.report_fatal(1, fmt::format("context_lens[{}] is {}; allowed: 0 to {}", sequence, context,
                                     table_.shape(1) * block_));
    }
    return context;
  }

  /// The first `count` blocks of a sequence; valid until the next call.
  std::span<const int32_t> BlocksOf(int64_t sequence, int64_t count) {
    auto begin = static_cast<size_t>(sequence * table_.shape(1)), size = static_cast<size_t>(count);
    if (reads_ == examples::Reads::table)
      return Checked(sequence, std::span(all_).subspan(begin, size));
    row_.resize(size);
    if (reads_ == examples::Reads::row) {
      o_.get_tensor_data(table_.select(0, sequence).slice(0, 0, count), row_);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        row_[static_cast<size_t>(i)] = o_.get_tensor_data<int32_t>(table_, {sequence, i});
      }
    }
    return Checked(sequence, row_);
  }

 private:
  std::span<const int32_t> Checked(int64_t sequence, std::span<const int32_t> blocks) {
    for (int32_t block : blocks) {
      if (block < 0 || block >= pool_) {
        o_.report_fatal(2, fmt::format("block_table[{}] names block {}; allowed: 0 to {}", sequence,
                                       block, pool_ - 1));
      }
    }
    return blocks;
  }

  Orchestrator& o_;
  const Tensor &table_, &lens_;
  examples::Reads reads_;
  int64_t block_, pool_;
  std::vector<int32_t> all_, all_lens_, row_;
};

/// Attention of the heads in `query` over the first `context` tokens of `blocks`.
void Attend(Orchestrator& o, const Tensor& query, const Tensor& keys, const Tensor& values,
            std::span<const int32_t> blocks, int64_t context, float scale, const Tensor& output) {
  int64_t heads = query.shape(0), dim = query.shape(1), block = keys.shape(1);
  auto sequence_scope = o.scope();
  Tensor all_top = o.alloc({heads}, DType::f32), all_sum = o.alloc({heads}, DType::f32);
  Tensor all_output = o.alloc({heads, dim}, DType::f32);
  for (size_t i = 0; i < blocks.size(); ++i) {
    int64_t tokens = std::min(block, context - static_cast<int64_t>(i) * block);
    Tensor key = keys.select(0, blocks[i]).slice(0, 0, tokens);
    Tensor value = values.select(0, blocks[i]).slice(0, 0, tokens);
    auto block_scope = o.scope();
    Tensor scores = o.alloc({heads, tokens}, DType::f32);
    Tensor weights = o.alloc({heads, tokens}, DType::f32);
    Tensor top = o.alloc({heads}, DType::f32), sum = o.alloc({heads}, DType::f32);
    Tensor sums = o.alloc({heads, dim}, DType::f32);
    o.submit(scores_of_block, {in(query), in(key), out(scores)});
    o.submit(softmax_of_block, {in(scores), out(weights), out(top), out(sum), scale});
    o.submit(values_of_block, {in(weights), in(value), out(sums)});
    if (i == 0) {
      o.submit(first_block,
               {in(top), in(sum), in(sums), out(all_top), out(all_sum), out(all_output)});
    } else {
      o.submit(next_block,
               {in(top), in(sum), in(sums), inout(all_top), inout(all_sum), inout(all_output)});
    }
  }
  o.submit(normalise, {in(all_sum), in(all_output), out(output)});
}

void PagedAttention(Orchestrator& o, const Args& args) {
  const Tensor &query = args.tensor(kQuery), &keys = args.tensor(kKeys);
  const Tensor &values = args.tensor(kValues), &output = args.tensor(kOutput);
  int64_t heads = query.shape(1), dim = query.shape(2);
  int64_t block = keys.shape(1), kv_heads = keys.shape(2);
  if (dim != keys.shape(3) || heads % kv_heads != 0 || values.shape() != keys.shape() ||
      output.shape() != query.shape()) {
    o.report_fatal(
        3, fmt::format("query {}, keys {}, values {} and output {} do not fit together",
                       query.ToString(), keys.ToString(), values.ToString(), output.ToString()));
  }
  if (args.tensors() > kFreeBlocks) Grow(o, args);
  Tables tables(o, args);
  int64_t group = heads / kv_heads;  // query heads that share a KV head
  for (int64_t b = 0; b < query.shape(0); ++b) {
    int64_t context = tables.ContextOf(b);
    if (context == 0) {
      o.submit(zero, {out(output.select(0, b))});
      continue;
    }
    std::span<const int32_t> blocks = tables.BlocksOf(b, (context + block - 1) / block);
    for (int64_t h = 0; h < kv_heads; ++h) {
      Attend(o, query.select(0, b).view({h * group, 0}, {group, dim}), keys.select(2, h),
             values.select(2, h), blocks, context, args.scalar<float>(0),
             output.select(0, b).view({h * group, 0}, {group, dim}));
    }
  }
}

}  // namespace

PRECAST_PROGRAM(paged_attention) {
  return {.name = "paged_attention",
          .summary = "attention over a paged KV cache: the block table decides the graph",
          .orchestration = PagedAttention,
          .signature = {{Direction::in, DType::bf16, 3, "query"},   // batch, heads, dim
                        {Direction::in, DType::bf16, 4, "keys"},    // pool, block, kv heads, dim
                        {Direction::in, DType::bf16, 4, "values"},  // the same
                        {Direction::inout, DType::i32, 2, "block_table"},  // batch, blocks
                        {Direction::inout, DType::i32, 1, "context_lens"},
                        {Direction::out, DType::f32, 3, "output"},  // batch, heads, dim
                        {Direction::scalar, DType::f32, 0, "scale"},
                        {Direction::scalar, DType::i32, 0, "reads"},
                        {Direction::inout, DType::i32, 1, "free_blocks"}},
          .variadic = true,
          .kernels = {scores_of_block, softmax_of_block, values_of_block, first_block, next_block,
                      normalise, zero},
          .cases = examples::PagedAttentionCases(),
          .params = examples::PagedAttentionParams()};
}
