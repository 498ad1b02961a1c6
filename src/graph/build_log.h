// BuildLog: what a builder knows of its tasks and an image does not keep: which buffer each
// argument names (in the graph heap, one place is several buffers', one after another), what was
// said with `after`, and scopes.
//
// A builder fills one only when asked to (Builder::set_log), for people who look at a graph: with
// it src/view/ tells why an edge is there. Nothing that executes reads it.
//
// Threads: one at a time.
#pragma once

#include "abi/image.h"
#include "graph/buffer.h"

#include <precast/argument.h>

#include <cstdint>
#include <vector>

namespace precast::graph {

struct BuildLog {
  struct Access {
    uint64_t begin;  ///< in the buffer
    uint32_t buffer;
    uint32_t layout;
    Direction direction;
  };
  struct Task {
    uint32_t accesses;  ///< its first one; the others follow, a predicate's operand last
    uint32_t after;     ///< the first of its entries of `after`
    uint32_t scope;     ///< the innermost one that was open
    bool predicate;     ///< the last access is a predicate's operand
  };
  struct BufferRecord {
    Buffer::Kind kind;
    bool placed;  ///< some task named it
    uint32_t slot;
    uint64_t base;  ///< in the slot
    uint64_t bytes;
    /// Who comes before all other users: the first one of bytes that were another buffer's, or the
    /// graph task whose scratch this is. 0: nobody.
    abi::TaskId claim;
  };

  std::vector<Access> accesses;
  std::vector<abi::TaskId> after;
  std::vector<Task> tasks;  ///< by number
  std::vector<uint32_t>
      outer_scope;     ///< of each scope, the one around it; the outermost is its own
  uint32_t scope = 0;  ///< the innermost open one
  std::vector<BufferRecord> buffers;  ///< complete once the image is sealed

  void OpenScope() {
    outer_scope.push_back(outer_scope.empty() ? 0 : scope);
    scope = static_cast<uint32_t>(outer_scope.size() - 1);
  }
  void CloseScope() { scope = outer_scope[scope]; }
};

}  // namespace precast::graph
