#include "paged_attention/paged_attention_case.h"

#include "common/allocations.h"
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
  std::vector<int64_t> contexts;  // tokens of each sequence, in the end
  bool child_memory = false;      // block table and context lengths stay on the device
  int64_t growth = 0;             // tokens that rounds add to each sequence, one a round
};

int64_t BlocksFor(int64_t tokens, int64_t block) { return (tokens + block - 1) / block; }

enum Pool : uint64_t { kKeyPool = 1, kValuePool = 2 };

class PagedAttentionCase : public CaseRun {
 public:
  PagedAttentionCase(const CaseContext& context, Sizes sizes, Reads reads)
      : worker_(context.worker), allocations_(worker_), s_(std::move(sizes)), reads_(reads) {
    Random random(3);
    query_.resize(static_cast<size_t>(Batch() * s_.heads * s_.dim));
    random.Fill(query_, 8);  // scores of several units, so that some tokens weigh more than others
    output_.resize(query_.size());
    AssignBlocks(random);
    keys_ = MakePool(kKeyPool);
    values_ = MakePool(kValuePool);
    if (s_.child_memory) PlaceTables();
  }

  bool WantsRound(int round, int asked) override {
    if (s_.growth == 0) return CaseRun::WantsRound(round, asked);
    return round < s_.growth && (asked == 0 || round < asked);
  }

  std::vector<Arg> Args(int /*round*/) override {
    Shape shape{Batch(), s_.heads, s_.dim};
    Tensor table = Tensor::host(table_.data(), {Batch(), Columns()});
    std::vector<Arg> args = {in(Tensor::host(query_.data(), shape)),
                             in(keys_),
                             in(values_),
                             s_.child_memory ? inout(table_on_device_) : inout(table),
                             s_.child_memory ? inout(lens_on_device_) : inout(context_lens_),
                             out(Tensor::host(output_.data(), shape)),
                             Scale(),
                             static_cast<int32_t>(reads_)};
    if (s_.growth > 0) args.push_back(inout(free_blocks_));
    return args;
  }

  void After(int round, const RunReport& /*report*/) override { grown_ = round + 1; }

  GoldenResult Check() override {
    Golden golden;
    if (s_.child_memory) CheckTables(&golden);
    for (int64_t b = 0; b < Batch(); ++b) CheckSequence(b, &golden);
    return golden.result();
  }

 private:
  int64_t Batch() const { return static_cast<int64_t>(s_.contexts.size()); }
  int64_t Columns() const { return s_.model_len / s_.block; }
  /// Tokens of a sequence after the rounds so far.
  int64_t Context(int64_t sequence) const {
    int64_t context = s_.contexts[static_cast<size_t>(sequence)];
    return s_.growth == 0 ? context : context - s_.growth + grown_;
  }
  int64_t TokenValues() const { return s_.kv_heads * s_.dim; }
  float Scale() const { return 1 / std::sqrt(static_cast<float>(s_.dim)); }

  /// Gives every sequence its blocks, in shuffled order.
  void AssignBlocks(Random& random) {
    int64_t used = 0;
    for (int64_t tokens : s_.contexts) used += BlocksFor(tokens, s_.block);
    std::vector<int32_t> order = random.Permutation(static_cast<size_t>(used + s_.spare));
    tokens_in_block_.assign(order.size(), 0);
    table_.assign(static_cast<size_t>(Batch() * Columns()), -1);  // -1: no block
    size_t next = 0;
    for (int64_t b = 0; b < Batch(); ++b) {
      int64_t tokens = s_.contexts[static_cast<size_t>(b)];
      context_lens_.push_back(static_cast<int32_t>(tokens));
      for (int64_t i = 0; i < BlocksFor(tokens, s_.block); ++i, ++next) {
        table_[static_cast<size_t>(b * Columns() + i)] = order[next];
        tokens_in_block_[static_cast<size_t>(order[next])] =
            std::min(s_.block, tokens - i * s_.block);
      }
    }
  }

  /// The block table when sequences have `Context` tokens.
  std::vector<int32_t> TableNow() const {
    std::vector<int32_t> table = table_;
    for (int64_t b = 0; b < Batch(); ++b) {
      int64_t blocks = BlocksFor(Context(b), s_.block);
      std::fill(table.begin() + b * Columns() + blocks, table.begin() + (b + 1) * Columns(), -1);
    }
    return table;
  }

  std::vector<int32_t> LensNow() const {
    std::vector<int32_t> lens;
    for (int64_t b = 0; b < Batch(); ++b) lens.push_back(static_cast<int32_t>(Context(b)));
    return lens;
  }

  void PlaceTables() {
    table_on_device_ = allocations_.Add({Batch(), Columns()}, DType::i32);
    worker_.copy_to(table_on_device_, TableNow());
    lens_on_device_ = allocations_.Add({Batch()}, DType::i32);
    worker_.copy_to(lens_on_device_, LensNow());
    if (s_.growth == 0) return;
    std::vector<int32_t> blocks{0};  // how many were taken, then each in the order of its need
    for (int64_t round = 0; round < s_.growth; ++round) {
      for (int64_t b = 0; b < Batch(); ++b) {
        int64_t context = Context(b) + round;
        if (context % s_.block != 0) continue;
        blocks.push_back(table_[static_cast<size_t>(b * Columns() + context / s_.block)]);
      }
    }
    free_blocks_ = allocations_.Add({static_cast<int64_t>(blocks.size())}, DType::i32);
    worker_.copy_to(free_blocks_, blocks);
  }

  /// The contents of one block. What no sequence owns is NaN: a kernel that reads it is found out.
  void FillBlock(Pool pool, int64_t block, std::span<bf16> values) const {
    auto owned = static_cast<size_t>(tokens_in_block_[static_cast<size_t>(block)] * TokenValues());
    Random(pool << 32 | static_cast<uint64_t>(block)).Fill(values.first(owned), 1);
    std::ranges::fill(values.subspan(owned), bf16(std::numeric_limits<float>::quiet_NaN()));
  }

  Tensor MakePool(Pool pool) {
    auto blocks = static_cast<int64_t>(tokens_in_block_.size());
    Tensor tensor = allocations_.Add({blocks, s_.block, s_.kv_heads, s_.dim}, DType::bf16);
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
    int64_t tokens = Context(sequence);
    std::vector<float> all(block.size() * static_cast<size_t>(BlocksFor(tokens, s_.block)));
    const int32_t* row = table_.data() + sequence * Columns();
    for (int64_t i = 0; i < BlocksFor(tokens, s_.block); ++i) {
      FillBlock(pool, row[i], block);
      std::ranges::transform(block, all.begin() + i * std::ssize(block),
                             [](bf16 value) { return static_cast<float>(value); });
    }
    all.resize(static_cast<size_t>(tokens * TokenValues()));
    return all;
  }

  void CheckTables(Golden* golden) const {
    std::vector<int32_t> table(table_.size()), lens(context_lens_.size());
    worker_.copy_from(table, table_on_device_);
    worker_.copy_from(lens, lens_on_device_);
    std::vector<int32_t> expected_table = TableNow(), expected_lens = LensNow();
    for (size_t i = 0; i < table.size(); ++i) {
      golden->Expect("block_table", static_cast<int64_t>(i), table[i], expected_table[i], 0);
    }
    for (size_t i = 0; i < lens.size(); ++i) {
      golden->Expect("context_lens", static_cast<int64_t>(i), lens[i], expected_lens[i], 0);
    }
  }

  // The reference takes the textbook's two passes over all tokens of a sequence, in float32.
  // Against it, the online form rounds in another order: a score (up to 15, from terms that add up
  // to about 25) moves by some 1e-6, and so does, relatively, each weight in the average of values
  // below 1 that the output is. Ten times that is allowed.
  static constexpr double kTolerance = 1e-5;

  void CheckSequence(int64_t sequence, Golden* golden) const {
    std::vector<float> keys = Gather(kKeyPool, sequence), values = Gather(kValuePool, sequence);
    auto tokens = static_cast<size_t>(Context(sequence));
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
  Allocations allocations_;
  Sizes s_;
  Reads reads_;
  std::vector<bf16> query_;
  std::vector<float> output_;
  std::vector<int32_t> table_, context_lens_;
  std::vector<int64_t> tokens_in_block_;
  Tensor keys_, values_;
  Tensor table_on_device_, lens_on_device_, free_blocks_;
  int64_t grown_ = 0;  // tokens that rounds have added to each sequence
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
  std::vector<int64_t> full(256, 8100);
  return {MakeCase("small1", "1 sequence of 16 tokens, 16 heads of 16, blocks of 16",
                   {16, 1, 16, 16, 256, 3, {16}}),
          MakeCase("small2", "1 sequence of 64 tokens, 16 heads of 16, blocks of 16",
                   {16, 1, 16, 16, 256, 3, {64}}),
          MakeCase("ragged", "8 sequences of 0 to 256 tokens, 8 heads of 32, 2 KV heads",
                   {8, 2, 32, 16, 256, 5, ragged}),
          MakeCase("Case1", "256 sequences of 8100 tokens, 16 heads of 128, blocks of 128",
                   {16, 1, 128, 128, 32768, 0, full}),
          MakeCase("Case2", "64 sequences of 8150 tokens, 64 heads of 128, blocks of 64",
                   {64, 1, 128, 64, 32768, 0, std::vector<int64_t>(64, 8150)}),
          MakeCase("small1_child_memory", "small1 with its tables on the device",
                   {16, 1, 16, 16, 256, 3, {16}, true}),
          MakeCase("Case1_child_memory", "Case1 with its tables on the device",
                   {16, 1, 128, 128, 32768, 0, full, true}),
          MakeCase("grow_child_memory", "3 sequences that rounds lengthen by 20 tokens in all",
                   {16, 1, 16, 16, 256, 3, {36, 25, 50}, true, 20})};
}

std::vector<ParamSpec> PagedAttentionParams() {
  return {SizeParam("batch", "number of sequences"),
          {"reads", "row", "what one read of the block table gets: element, row or table"}};
}

}  // namespace precast::examples
