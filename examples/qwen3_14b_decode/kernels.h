// The kernels of a decoder layer of Qwen3-14B, for one new token of each of `batch` sequences.
//
// Activations are f32, weights and the KV cache bf16. A projection is a matrix W [rows, cols] and a
// scale for each of its rows: y[b, r] = scale[r] * (W[r] . x[b]). Tensors and scalars are listed in
// order. "New" is the last of a sequence's `lengths` tokens; its position is its length - 1.
#pragma once

#include "qwen3_14b_decode/costs.h"

#include <precast/kernel.h>

namespace precast::qwen3_14b {

// Before the layers.

/// table [vocab, n], tokens [batch], out x [batch, n]. Blocks share the sequences.
void Embed(const KernelContext& k);
/// cosines and sines [positions, half], lengths [batch], out cosine and sine [batch, half]: the
/// rows of the new tokens. Blocks share the sequences.
void RopeRows(const KernelContext& k);
/// block_table [batch, columns], lengths [batch], out slots [batch]; block (i32). Where in the pool
/// the new tokens go: number of the block times tokens of a block, plus place inside it.
void NewSlots(const KernelContext& k);

// In a layer.

/// x [batch, n], weight [n], out y [batch, n]; eps (f32). y = x / rms(x) * weight. Blocks share the
/// sequences.
void RmsNorm(const KernelContext& k);
/// W [rows, cols], scale [rows], x [batch, cols], out y [batch, rows]. Blocks share the rows.
void Project(const KernelContext& k);
/// The same, added to what y (inout) holds.
void ProjectAdd(const KernelContext& k);
/// q [batch, heads, dim], weight [dim], cosine and sine [batch, half], out y like q; eps (f32).
/// Each head: RMS norm, then rotation of the pairs (i, i + half). Blocks share the sequences.
void NormRotate(const KernelContext& k);
/// k [batch, dim], weight [dim], cosine and sine [batch, half], slots [batch],
/// inout keys [pool, block, dim]; eps (f32). The same for one KV head, into the pool.
void StoreKeys(const KernelContext& k);
/// v [batch, dim], slots [batch], inout values [pool, block, dim].
void StoreValues(const KernelContext& k);
/// q [batch, heads, dim], keys [pool, block, dim], blocks [batch, columns], lengths [batch],
/// out scores [batch, heads, columns * block]; first (i32): position where `blocks` begin.
/// Scaled products, -infinity past the end of a sequence. Blocks share the sequences.
void Scores(const KernelContext& k);
/// scores, out weights like it, out top and sum [batch, heads]. weights = exp(scores - top).
void Softmax(const KernelContext& k);
/// weights [batch, heads, columns * block], values [pool, block, dim], blocks [batch, columns],
/// lengths [batch], out sums [batch, heads, dim]; first (i32).
void WeightedValues(const KernelContext& k);
/// top and sum [splits, batch, heads], sums [splits, batch, heads, dim],
/// out attended [batch, heads, dim]. Blocks share the sequences.
void Merge(const KernelContext& k);
/// gate and up [batch, n], out y [batch, n]. y = gate * sigmoid(gate) * up.
void SwiGlu(const KernelContext& k);

// After the layers.

/// logits [batch, vocab], out value and index [batch, parts]: the largest logit of each part of the
/// vocabulary. Requires: as many blocks as parts.
void TopOfPart(const KernelContext& k);
/// value and index [batch, parts], out token [batch]. Blocks share the sequences.
void Top(const KernelContext& k);

/// Stand in for all of the above where only the graph counts.
void Nothing(const KernelContext& k);

inline constexpr Kernel embed{"embed", Core::vector, &Embed, "", cost::Embed};
inline constexpr Kernel rope_rows{"rope_rows", Core::vector, &RopeRows, "", cost::RopeRows};
inline constexpr Kernel new_slots{"new_slots", Core::vector, &NewSlots, "", cost::NewSlots};
inline constexpr Kernel rms_norm{"rms_norm", Core::vector, &RmsNorm, "", cost::RmsNorm};
inline constexpr Kernel project{"project", Core::cube, &Project, "", cost::Project};
inline constexpr Kernel project_add{"project_add", Core::cube, &ProjectAdd, "", cost::Project};
inline constexpr Kernel norm_rotate{"norm_rotate", Core::vector, &NormRotate, "", cost::NormRotate};
inline constexpr Kernel store_keys{"store_keys", Core::vector, &StoreKeys, "", cost::StoreKeys};
inline constexpr Kernel store_values{"store_values", Core::vector, &StoreValues, "",
                                     cost::StoreValues};
inline constexpr Kernel scores{"scores", Core::cube, &Scores, "", cost::Scores};
inline constexpr Kernel softmax{"softmax", Core::vector, &Softmax, "", cost::Softmax};
inline constexpr Kernel weighted_values{"weighted_values", Core::cube, &WeightedValues, "",
                                        cost::WeightedValues};
inline constexpr Kernel merge{"merge", Core::vector, &Merge, "", cost::Merge};
inline constexpr Kernel swiglu{"swiglu", Core::vector, &SwiGlu, "", cost::SwiGlu};
inline constexpr Kernel top_of_part{"top_of_part", Core::vector, &TopOfPart, "", cost::TopOfPart};
inline constexpr Kernel top{"top", Core::vector, &Top, "", cost::Top};
inline constexpr Kernel empty_cube{"empty_cube", Core::cube, &Nothing, "", cost::Nothing};
inline constexpr Kernel empty_vector{"empty_vector", Core::vector, &Nothing, "", cost::Nothing};

}  // namespace precast::qwen3_14b
