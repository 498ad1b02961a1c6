#include "qwen3/sampler.h"

#include <precast/error.h>

#include <algorithm>
#include <cmath>

namespace precast::qwen3 {

namespace {

constexpr double kMaxTemperature = 100;

/// The index of the largest logit, of equal ones the first.
size_t CheckedArgmax(std::span<const float> logits) {
  if (logits.empty()) Fail(ErrorCode::invalid_argument, "no logits to choose from");
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) {
      Fail(ErrorCode::invalid_argument, "logit {} of {} is {}; allowed: numbers and -inf", i,
           logits.size(), logits[i]);
    }
    if (logits[i] > logits[best]) best = i;
  }
  if (logits[best] == -INFINITY) {
    Fail(ErrorCode::invalid_argument, "all {} logits are -inf; needed: one number at least",
         logits.size());
  }
  return best;
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {
  // Negated, so that a NaN is refused too.
  if (!(options.temperature >= 0 && options.temperature <= kMaxTemperature)) {
    Fail(ErrorCode::invalid_argument, "the temperature is {}; allowed: 0 to {}",
         options.temperature, kMaxTemperature);
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    Fail(ErrorCode::invalid_argument, "top-p is {}; allowed: above 0, up to 1", options.top_p);
  }
}

int32_t Sampler::Sample(std::span<const float> logits) {
  const size_t best = CheckedArgmax(logits);
  if (options_.temperature == 0) return static_cast<int32_t>(best);

  const double max = logits[best];
  double total = 0;
  choices_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp((logits[i] - max) / options_.temperature);
    if (weight == 0) continue;
    choices_.emplace_back(weight, static_cast<int32_t>(i));
    total += weight;
  }
  if (options_.top_p == 1) return Draw(choices_, total);

  // Take the most likely ones off a heap until they are enough; they gather at its end.
  auto less_likely = [](const Choice& a, const Choice& b) {
    return a.first < b.first || (a.first == b.first && a.second > b.second);
  };
  std::make_heap(choices_.begin(), choices_.end(), less_likely);
  auto kept = choices_.end();
  double sum = 0;
  while (kept != choices_.begin() && (kept == choices_.end() || sum < options_.top_p * total)) {
    std::pop_heap(choices_.begin(), kept, less_likely);
    sum += (--kept)->first;
  }
  return Draw({kept, choices_.end()}, sum);
}

/// Requires: the weights' sum is `total`, but for rounding, and above 0.
int32_t Sampler::Draw(std::span<const Choice> choices, double total) {
  double rest = Uniform() * total;
  for (const auto& [weight, token] : choices) {
    if (rest < weight) return token;
    rest -= weight;
  }
  return choices.back().second;
}

/// A number in [0, 1): the upper 53 bits of the generator's next output.
double Sampler::Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

}  // namespace precast::qwen3
