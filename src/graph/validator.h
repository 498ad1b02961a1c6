// Validator: is this a well-formed image?
//
// Called before an image is executed in builds with PRECAST_VALIDATE, for images that come from
// outside, and by tests. The scheduler trusts what passes: every id, index and offset points at
// what it should, every argument and every place that a graph task binds lies inside its slot, and
// the counts of producers and consumers match the edges, so each task becomes ready once and the
// run ends. docs/image-format.md has the
// rules.
//
// Not checked: addresses of slots and definitions (they mean something only to the device), whether
// what a graph task binds, and its scratch, is what the definition needs (that is another image),
// values of scalars and constants, reserved words, bytes of names, and whether the edges suffice
// for program order.
//
// Threads: a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace precast::graph {

struct ValidateOptions {
  /// Kernel indices must be below this.
  uint32_t kernels = std::numeric_limits<uint32_t>::max();
};

/// Throws `Error{bad_file}` that names the section and the index of the first record that is wrong.
/// Reads nothing outside of `image`, which must be 8-byte aligned, and uses at most an eighth of
/// its size in memory.
void Validate(std::span<const std::byte> image, const ValidateOptions& options = {});

}  // namespace precast::graph
