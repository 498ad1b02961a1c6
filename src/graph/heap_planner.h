// HeapPlanner: where in the graph heap does a tensor that the run creates live?
//
// The builder asks for bytes when the first task names a created tensor, and tells when its scope
// ended. Nothing is allocated: the planner hands out offsets below a budget.
//
//   HeapPlanner::Placement p = heap.Place(buffer, bytes, precedes);
//   for (BufferId dead : p.after) map.ForEachLive(dead, edge);   // write-after-read
//   if (p.reused) map.Claim(buffer, task);
//   …
//   heap.Retire(buffer);                                         // its scope ended
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/region_map.h"

namespace precast::graph {

class HeapPlanner {
 public:
  /// Every offset and size is a multiple of this.
  static constexpr uint64_t kAlignment = 256;

  struct Placement {
    uint64_t offset;
    /// Bytes of dead tensors are used again: pass the task to RegionMap::Claim.
    bool reused;
    /// The dead buffers whose users the task has to wait for. Valid until the next call.
    std::span<const BufferId> after;
  };

  explicit HeapPlanner(uint64_t budget = 0) { Clear(budget); }

  /// Forgets everything; keeps capacity.
  void Clear(uint64_t budget);

  /// Places `bytes` bytes for `buffer`. `precedes(dead)` says whether all users of the dead buffer
  /// already precede the task that names `buffer` now; it is asked a few times at most.
  /// Throws `Error{out_of_memory}` and changes nothing when `bytes` cannot fit.
  template <typename Precedes>
  Placement Place(BufferId buffer, uint64_t bytes, Precedes&& precedes);

  /// The scope of `buffer` ended: its bytes may be used again. Does nothing for a buffer that was
  /// never placed. Requires: not retired before.
  void Retire(BufferId buffer);

  uint64_t budget() const;
  /// Bytes of tensors whose scope is open.
  uint64_t live_bytes() const;
  /// How much of the heap the run needs.
  uint64_t peak_bytes() const;
  /// Sum of the bytes that were placed over dead tensors.
  uint64_t reused_bytes() const;
};

}  // namespace precast::graph
