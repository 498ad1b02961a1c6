// Buffer: what the region map and the builder remember of a piece of memory, in one cache line,
// because each tensor argument of each task touches it.
#pragma once

#include "graph/box_table.h"

#include <cstdint>

namespace precast::graph {

/// Numbers a buffer of the run or body under construction: 0, 1, 2, … since Clear.
using BufferId = uint32_t;

struct alignas(64) Buffer {
  enum class Kind : uint8_t { host, device, created, boundary };  // boundary: of a graph's body
  enum State : uint8_t {
    kHasGaps = 1,        // some of it may hold no value: empty at first, not yet written
    kKeepsOldBytes = 2,  // what tasks leave unwritten shows what was there before
    kModified = 4,       // some task may write some of it
    kUnplaced = 8,       // created: has no place in the heap yet
    kEnded = 16,         // created: its scope has ended
    kHasWindow = 32,     // the host has read it and may again without asking
  };

  // Of the region map.
  LiveRegion first;
  uint64_t bytes;
  uint32_t grid;  // of the other live regions; 0: none yet
  uint32_t rare;  // number of a Rare; 0: one with zeros
  // Of the builder.
  uint64_t base;  // where it begins in its slot
  uint32_t slot;
  Kind kind;
  uint8_t state;
  uint16_t mark;  // lowest bits of the id of the task that named it last

  bool is(State bit) const { return (state & bit) != 0; }
  void set(State bit) { state |= bit; }
  void clear(State bit) { state &= static_cast<uint8_t>(~bit); }
};
static_assert(sizeof(Buffer) == 64);

/// What few buffers have.
struct Rare {
  abi::TaskId claim = 0;       // see RegionMap::Claim
  uint32_t unordered = 0;      // where the region map keeps what Unordered recorded
  uint64_t written_bytes = 0;  // by writes that met no earlier access
  uint64_t unused_bytes = 0;   // that no tensor has
};

}  // namespace precast::graph
