// Writes a model of Qwen3-0.6B's shape with random weights, 1.2 GB: to measure `precast run qwen3`
// where memory is the limit. The text it writes means nothing.
//
//   random_qwen3 model.gguf && precast run qwen3 --model model.gguf --golden skip
#include "qwen3/random_model.h"

#include <fmt/core.h>

#include <exception>
#include <fstream>

int main(int argc, char** argv) {
  using namespace precast::qwen3;
  if (argc != 2) {
    fmt::print(stderr, "usage: random_qwen3 FILE\n");
    return 2;
  }
  try {
    std::ofstream file(argv[1], std::ios::binary);
    WriteRandomModel({.config = Qwen3SmallestConfig(), .type = GgufType::bf16}, file);
  } catch (const std::exception& error) {
    fmt::print(stderr, "random_qwen3: {}: {}\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
