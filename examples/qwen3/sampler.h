// Choosing the next token from the logits.
//
// The choice depends on nothing but the logits, the options and the number of choices made before:
// the random numbers come from std::mt19937_64, which the C++ standard fixes, and are converted
// here, not by a std::…_distribution, which it does not.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace precast::qwen3 {

struct SamplerOptions {
  double temperature = 0;  ///< 0: always the most likely token; else logits are divided by it
  double top_p = 1;        ///< keep the fewest likely tokens whose probabilities reach this sum
  uint64_t seed = 0;       ///< of the random numbers; unused at temperature 0
};

class Sampler {
 public:
  /// Throws `invalid_argument` unless the temperature is in 0..100 and top_p in (0, 1].
  explicit Sampler(const SamplerOptions& options);

  /// The index of the chosen logit. At temperature 0 the largest one, of equal ones the first;
  /// else one random number decides among the tokens that top_p keeps, after the temperature was
  /// applied. A logit of -infinity is never chosen. Throws `invalid_argument` for no logits, a NaN,
  /// +infinity, or nothing but -infinity.
  int32_t Sample(std::span<const float> logits);

 private:
  using Choice = std::pair<double, int32_t>;  // weight, token

  int32_t Draw(std::span<const Choice> choices, double total);
  double Uniform();

  SamplerOptions options_;
  std::mt19937_64 random_;
  std::vector<Choice> choices_;  // kept for its capacity
};

}  // namespace precast::qwen3
