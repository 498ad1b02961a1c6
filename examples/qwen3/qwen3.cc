// qwen3: text from a language model of the Qwen3 architecture, token by token, each token one run.
#include "qwen3/decoder.h"
#include "qwen3/device_model.h"
#include "qwen3/gguf.h"
#include "qwen3/kernels.h"
#include "qwen3/reference.h"
#include "qwen3/sampler.h"
#include "qwen3/tokenizer.h"
#include "qwen3/utf8.h"

#include <precast/precast.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace precast::qwen3 {

namespace {

constexpr int64_t kDefaultContext = 4096;  // of models whose own context is longer

/// The model that ships with the command: ../share/precast/qwen3/ from where the command lies.
std::string ShippedModel() {
  std::error_code error;
  std::filesystem::path command = std::filesystem::read_symlink("/proc/self/exe", error);
  return (command.parent_path().parent_path() / "share/precast/qwen3/shakespeare.gguf").string();
}

int64_t ContextOf(const Params& params, const GgufFile& file) {
  int64_t limit = ReadConfig(file).context;
  int64_t context = params.Integer("context", 0, limit);
  return context == 0 ? std::min(limit, kDefaultContext) : context;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle), values.end());
  return values[middle];
}

/// One generation: the prompt's tokens, then one new token a round.
class Generation : public CaseRun {
 public:
  explicit Generation(const CaseContext& context)
      : file_(GgufFile::Open(ModelPath(context.params))),
        tokenizer_(file_),
        model_(context.worker, file_, ContextOf(context.params, file_)),
        sampler_({.temperature = context.params.Number("temperature", 0, 100),
                  .top_p = context.params.Number("top-p", 1e-9, 1),
                  .seed = static_cast<uint64_t>(
                      context.params.Integer("seed", 0, std::numeric_limits<int64_t>::max()))}),
        wanted_(context.params.Integer("tokens", 1, std::numeric_limits<int32_t>::max())),
        golden_(context.golden),
        execute_(context.execute),
        show_(context.stream) {
    if (tokenizer_.size() != model_.config().vocab) {
      Fail(ErrorCode::bad_file, "{}: {} tokens in the vocabulary, {} rows in token_embd.weight",
           file_.name(), tokenizer_.size(), model_.config().vocab);
    }
    // A model has to be given something: an empty prompt is the beginning of a line.
    std::string prompt = context.params.Text("prompt");
    if (prompt.empty()) prompt = "\n";
    tokens_ = tokenizer_.Encode(prompt);
    prompt_ = tokens_.size();
    if (static_cast<int64_t>(prompt_) >= model_.context()) {
      Fail(ErrorCode::out_of_range,
           "the prompt has {} tokens and the context holds {}: at most {} leave room for an answer",
           prompt_, model_.context(), model_.context() - 1);
    }
    logits_.resize(static_cast<size_t>(model_.config().vocab));
    if (execute_) Show(prompt);
  }

  void Adjust(RunOptions& options) const override { options.measure_kernels = true; }

  bool WantsRound(int round, int asked) override {
    stopped_ = WhyStop(round, asked);
    if (!stopped_.empty()) Show(stream_.Finish());
    return stopped_.empty();
  }

  std::vector<Arg> Args(int round) override {
    size_t i = static_cast<size_t>(round);
    return model_.StepArguments(tokens_[i], i + 1 >= prompt_, logits_);
  }

  void After(int round, const RunReport& report) override {
    size_t position = static_cast<size_t>(round);
    if (position + 1 < prompt_) return;
    if (!execute_) {
      tokens_.push_back(tokens_.back());  // any token: the host's part is the same
      return;
    }
    if (golden_) logits_of_.push_back(logits_);
    int32_t token = sampler_.Sample(logits_);
    token_us_.push_back(report.total_us);
    kernel_us_.push_back(report.in_kernels_us);
    ended_ = tokenizer_.IsEnd(token);
    if (ended_) return;
    tokens_.push_back(token);
    std::string_view bytes = tokenizer_.Bytes(token);
    bytes_ += bytes;
    text_ = ReplaceInvalidUtf8(bytes_);
    Show(stream_.Push(bytes));
  }

  // The same tokens through plain loops: logits within 1e-4 of the largest, and greedy choices
  // equal.
  GoldenResult Check() override {
    constexpr double kTolerance = 1e-4;
    if (logits_of_.empty()) {
      return {.detail = fmt::format("no token was generated: the prompt alone has {}",
                                    Plural(prompt_, "token")),
              .skipped = true};
    }
    GoldenResult result{.pass = true};
    Reference reference(file_);
    for (size_t i = 0; i + 1 < prompt_ + logits_of_.size(); ++i) {
      std::span<const float> expected = reference.Forward(tokens_[i]);
      if (i + 1 < prompt_) continue;
      const std::vector<float>& found = logits_of_[i + 1 - prompt_];
      double largest = 0;
      for (float value : expected) largest = std::max<double>(largest, std::abs(value));
      for (size_t t = 0; t < found.size(); ++t) {
        double error = std::abs(static_cast<double>(found[t]) - expected[t]);
        result.max_abs_err = std::max(result.max_abs_err, error);
        if (!(error <= kTolerance * largest) && result.pass) {
          result.pass = false;
          result.detail =
              fmt::format("logit {} after token {} is {}, expected {} with a tolerance of {:.3g}",
                          t, i, found[t], expected[t], kTolerance * largest);
        }
      }
    }
    return result;
  }

  const std::string* Text() const override { return execute_ ? &text_ : nullptr; }

  std::string Summary() const override {
    if (!execute_) return "nothing was executed, so there is no text";
    std::string lines;
    if (stopped_ == "context") {
      lines = fmt::format("stopped after {} of {} tokens: the context of {} is full\n", Generated(),
                          wanted_, model_.context());
    }
    lines += fmt::format("{} of prompt, {} generated", Plural(prompt_, "token"), Generated());
    if (token_us_.empty()) return lines;
    double total = Median(token_us_);
    lines += fmt::format(", {:.0f} tokens/s\ntime per generated token, median: {:.1f} us",
                         1e6 * static_cast<double>(token_us_.size()) / Sum(token_us_), total);
    if (std::ranges::all_of(kernel_us_, [](double us) { return us > 0; })) {
      double inside = Median(kernel_us_);
      lines +=
          fmt::format(" = {:.1f} us inside kernels + {:.1f} us outside", inside, total - inside);
    }
    return lines;
  }

  std::vector<std::pair<std::string, std::string>> Facts() const override {
    if (!execute_) return {};
    return {{"stopped", stopped_}};
  }

 private:
  static std::string ModelPath(const Params& params) {
    const std::string& path = params.Text("model");
    return path.empty() ? ShippedModel() : path;
  }
  static double Sum(const std::vector<double>& values) {
    double sum = 0;
    for (double value : values) sum += value;
    return sum;
  }
  static std::string Plural(size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  }
  /// What ends the generation before this round; empty if nothing does.
  std::string WhyStop(int round, int asked) const {
    if (ended_) return "end";
    if (Generated() >= wanted_) return "tokens";
    if (asked > 0 && round >= asked) return "rounds";
    if (round >= model_.context()) return "context";
    return {};
  }
  int64_t Generated() const { return static_cast<int64_t>(tokens_.size() - prompt_); }
  void Show(std::string_view text) {
    if (show_ && !text.empty()) show_(text);
  }

  GgufFile file_;
  Tokenizer tokenizer_;
  DeviceModel model_;
  Sampler sampler_;
  int64_t wanted_;
  bool golden_;
  bool execute_;
  std::function<void(std::string_view)> show_;

  std::vector<int32_t> tokens_;  // of the prompt, then the generated ones
  size_t prompt_ = 0;            // number of tokens in it
  bool ended_ = false;           // the model gave its end token
  std::string stopped_;          // why there are no more rounds
  std::vector<float> logits_;
  std::vector<std::vector<float>> logits_of_;  // of each generated token, when they are checked
  Utf8Stream stream_;
  std::string bytes_, text_;  // generated
  std::vector<double> token_us_, kernel_us_;
};

}  // namespace

}  // namespace precast::qwen3

PRECAST_PROGRAM(qwen3) {
  using namespace precast;
  using namespace precast::qwen3;
  return {
      .name = "qwen3",
      .summary = "writes text with a language model of the Qwen3 architecture (GGUF)",
      .orchestration = Decode,
      .signature = DecodeSignature(),
      .variadic = true,
      .kernels = {embed, rms_norm, mat_vec, mat_vec_add, gated_mat_vec, rotation, norm_rotate,
                  attend_chunk, attend_merge},
      .cases = {{"default", "continues a prompt",
                 [](const CaseContext& context) { return std::make_unique<Generation>(context); }}},
      .params = {{"model", "", "a GGUF file; by default the small model that ships with Precast"},
                 {"prompt", "ROMEO:", "the text to continue; when empty, a new line"},
                 {"tokens", "200", "how many to generate; --rounds counts those of the prompt too"},
                 {"temperature", "0.8", "0: always the most likely token"},
                 {"top-p", "0.95", "draw from the likeliest tokens that reach this probability"},
                 {"seed", "1", "of the random numbers"},
                 {"context", "0",
                  "tokens the cache holds; 0: what the model allows, at most 4096"}},
  };
}
