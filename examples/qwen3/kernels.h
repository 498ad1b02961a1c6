// The kernels of a Qwen3 decoder, for one token at a time.
//
// Numbers are float32 throughout; only weights have other types, and are converted as they are
// read. A matrix W of shape [rows, cols] maps `cols` numbers to `rows`; its tensor is f32, f16 or
// bf16 of that shape, or u8 [rows, bytes of a row] for Q8_0. Tensors and scalars are listed in
// order.
#pragma once

#include "qwen3/costs.h"

#include <precast/kernel.h>

#include <cstdint>

namespace precast::qwen3 {

/// W [vocab, n], out x [n]; token (i32). x = row `token` of W.
void Embed(const KernelContext& k);
/// x [n], weight [n], out y [n]; eps (f32). y = x / rms(x) * weight.
void RmsNorm(const KernelContext& k);
/// x, then pairs W, out y. y = W x for each. Blocks share the rows of all.
void MatVec(const KernelContext& k);
/// x, W, inout y. y += W x. Blocks share the rows.
void MatVecAdd(const KernelContext& k);
/// x, gate matrix G, up matrix U, out y. y = g * sigmoid(g) * (U x), where g = G x. Blocks share
/// the rows.
void GatedMatVec(const KernelContext& k);
/// out rotation [head_dim]: cosines, then sines, of the angles by which the pairs
/// (i, i + head_dim / 2) turn; base (f32), position (i32).
void Rotation(const KernelContext& k);
/// rotation, q [heads * head_dim], weight [head_dim], out y like q, k [kv_heads * head_dim],
/// weight [head_dim], v like k, table [pages], inout keys and values
/// [pages, page, kv_heads * head_dim]; eps (f32), position (i32).
/// Each head of q and k: RMS norm, then rotary embedding. What k becomes, and v as it is, go to
/// their row of the cache.
void NormRotate(const KernelContext& k);
/// q [heads * head_dim], keys and values [pages, page, kv_heads * head_dim], table [pages],
/// out part [heads, head_dim + 2]; first, size, head_dim and last (all i32).
/// Attention of q over `size` positions from `first` on, but none after `last`; found through the
/// table. A part holds for
/// each head the weighted sum of values, the largest score, and the sum of weights. Blocks share
/// the heads.
void AttendChunk(const KernelContext& k);
/// parts [chunks, heads, head_dim + 2], out y [heads * head_dim]. Blocks share the heads.
void AttendMerge(const KernelContext& k);

inline constexpr Kernel embed{"embed", Core::vector, &Embed, "", cost::Embed};
inline constexpr Kernel rms_norm{"rms_norm", Core::vector, &RmsNorm, "", cost::RmsNorm};
inline constexpr Kernel mat_vec{"mat_vec", Core::cube, &MatVec, "", cost::MatVec};
inline constexpr Kernel mat_vec_add{"mat_vec_add", Core::cube, &MatVecAdd, "", cost::MatVecAdd};
inline constexpr Kernel gated_mat_vec{"gated_mat_vec", Core::cube, &GatedMatVec, "",
                                      cost::GatedMatVec};
inline constexpr Kernel rotation{"rotation", Core::vector, &Rotation, "", cost::Rotation};
inline constexpr Kernel norm_rotate{"norm_rotate", Core::vector, &NormRotate, "", cost::NormRotate};
inline constexpr Kernel attend_chunk{"attend_chunk", Core::vector, &AttendChunk, "",
                                     cost::AttendChunk};
inline constexpr Kernel attend_merge{"attend_merge", Core::vector, &AttendMerge, "",
                                     cost::AttendMerge};

}  // namespace precast::qwen3
