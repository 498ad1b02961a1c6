// Workload: a task graph, described by what its tasks read and write, for every contender alike.
//
// Each task writes one tensor of its own and reads some (two; `layered` and `wide`: two to four):
// tensors that earlier tasks wrote, or the two that exist from the start. A contender that infers
// order gets these reads and writes; one that wants edges gets `producers`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace precast::bench {

/// Tensors 0 and 1 exist from the start; task i writes tensor i + kExternal.
inline constexpr uint32_t kExternal = 2;

struct Workload {
  std::string name;
  uint32_t tasks = 0;
  /// The reads of task i are reads[first[i]] … reads[first[i + 1] - 1].
  std::vector<uint32_t> first;
  std::vector<uint32_t> reads;
  /// The same as edges: the tasks that task i waits for.
  std::vector<uint32_t> first_producer;
  std::vector<uint32_t> producers;
  /// `tiles`: task i writes tile (row, column) of one buffer of side × side tiles, and reads the
  /// tiles above and to the left, or the margin. 0: each task has a buffer of its own.
  uint32_t side = 0;
  std::vector<uint32_t> cell;  // tiles: row * side + column of task i

  std::span<const uint32_t> ReadsOf(uint32_t task) const {
    return {reads.data() + first[task], first[task + 1] - first[task]};
  }
  std::span<const uint32_t> ProducersOf(uint32_t task) const {
    return {producers.data() + first_producer[task],
            first_producer[task + 1] - first_producer[task]};
  }
  size_t edges() const { return producers.size(); }
};

/// independent: reads the external tensors only. chain: reads the task before. tree: a reduction,
/// leaves first. wavefront: a square grid, reads the tasks above and to the left. layered: layers
/// of 1,000 tasks (ten layers below 10,000 tasks), each reads 2 to 4 (mean 3) random tasks of the
/// layer before. wide: the same in ten layers of any width. tiles: the wavefront over the tiles of
/// one buffer; `random_order` submits them in random order, in which the order of two neighbours is
/// that of submission.
std::span<const std::string_view> WorkloadNames();
Workload MakeWorkload(std::string_view name, uint32_t tasks, bool random_order);

}  // namespace precast::bench
