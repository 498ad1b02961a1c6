// qwen3_14b_decode: one decoding step of Qwen3-14B for a batch of sequences, from a layer that is
// recorded once and submitted forty times.
//
// Each layer is a recorded graph of 277 tasks (precast/graph.h): projections in tiles, rotary
// embedding, attention over a paged KV cache in four parts of the context for each KV head, SwiGLU,
// residuals. Its 26 boundary tensors are the layer's weights and its part of the KV pools, then
// what layers share: hidden state, block table, lengths, slots of the new tokens and rotations. A
// layer is one task of the run, which so has 47 for the host to submit and 11,087 to execute.
//
//   precast run qwen3_14b_decode                       a narrow model, executed and checked
//   precast run qwen3_14b_decode --skip-device-run     real sizes: what the host does
//   precast run qwen3_14b_decode --set kernels=empty   the same, and all tasks run, doing nothing
//
// The real sizes take some 36 GB of device memory, which is never touched: on a simulated chip it
// costs nothing. Where a platform has less, layers share weights. Both scales have the same tasks,
// so the definition, the host's work and the bytes sent are the same but for shapes.
#include "qwen3_14b_decode/decode.h"
#include "qwen3_14b_decode/decode_case.h"
#include "qwen3_14b_decode/kernels.h"

#include <precast/precast.h>

using namespace precast::qwen3_14b;

PRECAST_PROGRAM(qwen3_14b_decode) {
  return {.name = "qwen3_14b_decode",
          .summary = "a decoding step of Qwen3-14B: a layer recorded once, submitted forty times",
          .orchestration = Decode,
          .signature = DecodeSignature(),
          .kernels = {embed, rope_rows, new_slots, rms_norm, project, project_add, norm_rotate,
                      store_keys, store_values, scores, softmax, weighted_values, merge, swiglu,
                      top_of_part, top, empty_cube, empty_vector},
          .cases = DecodeCases(),
          .params = DecodeParams()};
}
