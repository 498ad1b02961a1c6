#include "paged_attention/paged_attention_case.h"

#include "common/golden.h"
#include "common/random.h"
#include "common/sizes.h"

#include <precast/precast.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

namespace precast::examples {
namespace {

struct Sizes {
  int64_t heads, kv_heads, dim, block, model_len;
  int64_t spare;                  // blocks of the pool that no sequence owns
  std::vector<int64_t> contexts;  // tokens of each sequence
};

int64_t BlocksFor(int64_t tokens, int64_t block) { return (tokens + block - 1) / block; }

enum Pool : uint64_t { kKeyPool = 1, kValuePool = 2 };

class PagedAttentionCase : public CaseRun {
 public:
  PagedAttentionCase(const CaseContext& context, Sizes sizes, Reads reads)
      : worker_(context.worker), s_(std::move(sizes)), reads_(reads) {
    Random random(3);
    query_.resize(static_cast<size_t>(Batch() * s_.heads * s_.dim));
    random.Fill(query_, 8);  // scores of several units, so that some tokens weigh more than others
    output_.resize(query_.size());
    AssignBlocks(random);
    keys_ = MakePool(kKeyPool);
    values_ = MakePool(kValuePool);
  }
  ~PagedAttentionCase() override {
    worker_.free(keys_);
    worker_.free(values_);
  }

  std::vector<Arg> Args(int /*round*/) override {
    Shape shape{Batch(), s_.heads, s_.dim};
    return {in(Tensor::host(query_.data(), shape)),
            in(keys_),
            in(values_),
            in(Tensor::host(table_.data(), {Batch(), s_.model_len / s_.block})),
            in(context_lens_),
            out(Tensor::host(output_.data(), shape)),
            Scale(),
            static_cast<int32_t>(reads_)};
  }

  GoldenResult Check() override {
    Golden golden;
    for (int64_t b = 0; b < Batch(); ++b) CheckSequence(b, &golden);
    return golden.result();
  }

 private:
  int64_t Batch() const { return static_cast<int64_t>(s_.contexts.size()); }
  int64_t TokenValues() const { return s_.kv_heads * s_.dim; }
  float Scale() const { return 1 / std::sqrt(static_cast<float>(s_.dim)); }

  /// Gives every sequence its blocks, in shuffled order.
  void AssignBlocks(Random& random) {
    int64_t columns = s_.model_len / s_.block, used = 0;
    for (int64_t tokens : s_.contexts) used += BlocksFor(tokens, s_.block);
    std::vector<int32_t> order = random.Permutation(static_cast<size_t>(used + s_.spare));
    tokens_in_block_.assign(order.size(), 0);
    table_.assign(static_cast<size_t>(Batch() * columns), -1);  // -1: no block
    size_t next = 0;
    for (int64_t b = 0; b < Batch(); ++b) {
      int64_t tokens = s_.contexts[static_cast<size_t>(b)];
      context_lens_.push_back(static_cast<int32_t>(tokens));
      for (int64_t i = 0; i < BlocksFor(tokens, s_.block); ++i, ++next) {
        table_[static_cast<size_t>(b * columns + i)] = order[next];
        tokens_in_block_[static_cast<size_t>(order[next])] =
            std::min(s_.block, tokens - i * s_.block);
      }
    }
  }

  /// The contents of one block. What no sequence owns is NaN: a kernel that reads it is found out.
  void FillBlock(Pool pool, int64_t block, std::span<bf16> values) const {
    auto owned = static_cast<size_t>(tokens_in_block_[static_cast<size_t>(block)] * TokenValues());
    Random(pool << 32 | static_cast<uint64_t>(block)).Fill(values.first(owned), 1);
    std::ranges::fill(values.subspan(owned), bf16(std::numeric_limits<float>::quiet_NaN()));
  }

  Tensor MakePool(Pool pool) const {
    auto blocks = static_cast<int64_t>(tokens_in_block_.size());
    Tensor tensor = worker_.malloc({blocks, s_.block, s_.kv_heads, s_.dim}, DType::bf16);
    std::vector<bf16> values(static_cast<size_t>(s_.block * TokenValues()));
    for (int64_t block = 0; block < blocks; ++block) {
      FillBlock(pool, block, values);
      worker_.copy_to(tensor.select(0, block), values);
    }
    return tensor;
  }

  /// All tokens of a sequence, one after the other, as f32 and without paging.
  std::vector<float> Gather(Pool pool, int64_t sequence) const {
    std::vector<bf16> block(static_cast<size_t>(s_.block * TokenValues()));
    int64_t tokens = s_.contexts[static_cast<size_t>(sequence)];
    std::vector<float> all(block.size() * static_cast<size_t>(BlocksFor(tokens, s_.block)));
    const int32_t* row = table_.data() + sequence * (s_.model_len / s_.block);
    for (int64_t i = 0; i < BlocksFor(tokens, s_.block); ++i) {
      FillBlock(pool, row[i], block);
      std::ranges::transform(block, all.begin() + i * std::ssize(block),
                             [](bf16 value) { return static_cast<float>(value); });
    }
    all.resize(static_cast<size_t>(tokens * TokenValues()));
    return all;
  }

  // The reference takes the textbook's two passes over all tokens of a sequence, in float32.
  // Against it, the online form rounds in another order: a score (up to 15, from terms that add up
  // to about 25) moves by some 1e-6, and so does, relatively, each weight in the average of values
  // below 1 that the output is. Ten times that is allowed.
  static constexpr double kTolerance = 1e-5;

  void CheckSequence(int64_t sequence, Golden* golden) const {
    std::vector<float> keys = Gather(kKeyPool, sequence), values = Gather(kValuePool, sequence);
    auto tokens = static_cast<size_t>(s_.contexts[static_cast<size_t>(sequence)]);
    auto heads = static_cast<size_t>(s_.heads), dim = static_cast<size_t>(s_.dim);
    auto kv_heads = static_cast<size_t>(s_.kv_heads), group = heads / kv_heads;
    size_t first = static_cast<size_t>(sequence) * heads * dim;
    std::vector<float> query(heads * dim), weights(heads * tokens), expected(heads * dim);
    std::ranges::transform(std::span(query_).subspan(first, heads * dim), query.begin(),
                           [&](bf16 value) { return static_cast<float>(value) * Scale(); });
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t h = 0; h < heads; ++h) {
        const float* key = &keys[(t * kv_heads + h / group) * dim];
        weights[h * tokens + t] = Inner(&query[h * dim], key, dim);
      }
    }
    std::vector<double> sums(heads);
    for (size_t h = 0; h < heads && tokens > 0; ++h) {
      std::span<float> row = std::span(weights).subspan(h * tokens, tokens);
      float top = *std::ranges::max_element(row);
      for (float& weight : row) sums[h] += weight = std::exp(weight - top);
    }
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t h = 0; h < heads; ++h) {
        const float* value = &values[(t * kv_heads + h / group) * dim];
        float weight = weights[h * tokens + t], *sum = &expected[h * dim];
        for (size_t d = 0; d < dim; ++d) sum[d] += weight * value[d];
      }
    }
    for (size_t i = 0; i < heads * dim; ++i) {
      double reference = tokens == 0 ? 0 : expected[i] / sums[i / dim];
      golden->Expect("output", static_cast<int64_t>(first + i), output_[first + i], reference,
                     tokens == 0 ? 0 : kTolerance);
    }
  }

  /// Eight partial sums: quick enough for 4 billion products, in another order than the kernel's.
  /// Requires: n is a multiple of 8.
  static float Inner(const float* a, const float* b, size_t n) {
    float sum[8] = {};
    for (size_t i = 0; i < n; i += 8) {
      for (size_t lane = 0; lane < 8; ++lane) sum[lane] += a[i + lane] * b[i + lane];
    }
    return std::accumulate(std::begin(sum), std::end(sum), 0.0f);
  }

  Worker& worker_;
  Sizes s_;
  Reads reads_;
  std::vector<bf16> query_;
  std::vector<float> output_;
  std::vector<int32_t> table_, context_lens_;
  std::vector<int64_t> tokens_in_block_;
  Tensor keys_, values_;
};

Reads ParseReads(const std::string& text) {
  if (text == "element") return Reads::element;
  if (text == "row") return Reads::row;
  if (text == "table") return Reads::table;
  Fail(ErrorCode::usage, "reads is \"{}\"; allowed: element, row, table", text);
}

Case MakeCase(const char* name, const char* summary, const Sizes& standard) {
  return {name, summary, [standard](const CaseContext& context) {
            Sizes sizes = standard;
            auto batch = static_cast<int64_t>(sizes.contexts.size());
            batch = SizeOr(context.params, "batch", batch, 1 << 16);
            for (size_t i = 0; sizes.contexts.size() < static_cast<size_t>(batch); ++i) {
              sizes.contexts.push_back(sizes.contexts[i]);
            }
            sizes.contexts.resize(static_cast<size_t>(batch));
            return std::make_unique<PagedAttentionCase>(context, std::move(sizes),
                                                        ParseReads(context.params.Text("reads")));
          }};
}

}  // namespace

std::vector<Case> PagedAttentionCases() {
  std::vector<int64_t> ragged{37, 0, 64, 1, 256, 100, 16, 129};
  return {MakeCase("small1", "1 sequence of 16 tokens, 16 heads of 16, blocks of 16",
                   {16, 1, 16, 16, 256, 3, {16}}),
          MakeCase("small2", "1 sequence of 64 tokens, 16 heads of 16, blocks of 16",
                   {16, 1, 16, 16, 256, 3, {64}}),
          MakeCase("ragged", "8 sequences of 0 to 256 tokens, 8 heads of 32, 2 KV heads",
                   {8, 2, 32, 16, 256, 5, ragged}),
          MakeCase("Case1", "256 sequences of 8100 tokens, 16 heads of 128, blocks of 128",
                   {16, 1, 128, 128, 32768, 0, std::vector<int64_t>(256, 8100)}),
          MakeCase("Case2", "64 sequences of 8150 tokens, 64 heads of 128, blocks of 64",
                   {64, 1, 128, 64, 32768, 0, std::vector<int64_t>(64, 8150)})};
}

std::vector<ParamSpec> PagedAttentionParams() {
  return {SizeParam("batch", "number of sequences"),
          {"reads", "row", "how the orchestration reads the block table: element, row or table"}};
}

}  // namespace precast::examples
