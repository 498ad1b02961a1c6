// The case of qwen3_14b_decode: a step of a model on a worker, in one of two scales.
#pragma once

#include <precast/program.h>

#include <vector>

namespace precast::qwen3_14b {

std::vector<Case> DecodeCases();
std::vector<ParamSpec> DecodeParams();

}  // namespace precast::qwen3_14b
