// The hash that an image carries when it is kept: a definition in the store, or one in a file.
//
// Threads: a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace precast::graph {

/// XXH3 of all bytes of an image, with 0 in Header::content_hash. Requires: a header's worth of
/// bytes. Believes nothing in them.
uint64_t ContentHash(std::span<const std::byte> image);

}  // namespace precast::graph
