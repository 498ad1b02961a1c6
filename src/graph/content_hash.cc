#include "graph/content_hash.h"

#include "abi/image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace precast::graph {

uint64_t ContentHash(std::span<const std::byte> image) {
  constexpr size_t kBegin = offsetof(abi::Header, content_hash);
  constexpr uint64_t kZero = 0;
  constexpr size_t kEnd = kBegin + sizeof(kZero);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, image.data(), kBegin);
  XXH3_64bits_update(&state, &kZero, sizeof(kZero));
  XXH3_64bits_update(&state, image.data() + kEnd, image.size() - kEnd);
  return XXH3_64bits_digest(&state);
}

}  // namespace precast::graph
