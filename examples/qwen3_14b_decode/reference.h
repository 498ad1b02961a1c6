// The same step in plain loops: one sequence after the other, float32, whole matrices, all tokens
// of a sequence in a row. It shares sizes and contents with the orchestration, and no code.
//
// Threads: one at a time.
#pragma once

#include "qwen3_14b_decode/model.h"

#include <cstdint>
#include <vector>

namespace precast::qwen3_14b {

struct Expected {
  std::vector<float> logits;        // [batch, vocab]
  std::vector<float> keys, values;  // of the new tokens: [layers, batch, kv_heads * dim]
};

Expected Reference(const Sizes& sizes);

}  // namespace precast::qwen3_14b
