// Validator: is this a well-formed image?
//
// Called before an image is executed in builds with PRECAST_VALIDATE, for images that come from
// outside, and by tests. The scheduler trusts what passes: every id, index and offset points at
// what it should, every argument and every place that a graph task binds lies inside its slot, and
// the counts of producers and consumers match the edges, so each task becomes ready once and the
// run ends. docs/image-format.md has the rules.
//
// Not checked: addresses of slots and definitions (they mean something only to the device), how
// what a graph task binds is aligned, values of scalars and constants, reserved words, bytes of
// names, and whether the edges suffice for program order.
//
// Threads: a pure function.
#pragma once

#include "abi/image.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace precast::graph {

/// What an image is: that of a run, which has addresses and may be executed, or a definition, which
/// graph tasks make instances of.
enum class ImageKind : uint8_t { run, definition };

struct ValidateOptions {
  ImageKind kind = ImageKind::run;
  /// Kernel indices must be below this.
  uint32_t kernels = std::numeric_limits<uint32_t>::max();
  /// The image was kept: it must carry the hash of its content, and no address of a definition.
  bool stored = false;
  /// The definitions that the image names, by number, each of which has passed. What graph tasks
  /// bind, and their scratch, is compared with what these need. Empty: it is not.
  std::span<const abi::Header* const> definitions = {};
};

/// Throws `Error{bad_file}` that names the section and the index of the first record that is wrong.
/// Reads nothing outside of `image`, which must be 8-byte aligned, and uses at most an eighth of
/// its size in memory.
void Validate(std::span<const std::byte> image, const ValidateOptions& options = {});

}  // namespace precast::graph
