#include "workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

namespace precast::bench {

namespace {

constexpr uint32_t kLayerTasks = 1'000;
constexpr uint32_t kLayers = 10;  // of `wide`, and of `layered` below 10,000 tasks

constexpr std::array<std::string_view, 7> kNames = {"independent", "chain", "tree", "wavefront",
                                                    "layered",     "wide",  "tiles"};

class Maker {
 public:
  Maker(std::string_view name, uint32_t tasks) {
    w_.name = name;
    w_.tasks = tasks;
    w_.first.reserve(tasks + 1);
    w_.first_producer.reserve(tasks + 1);
    w_.first.push_back(0);
    w_.first_producer.push_back(0);
  }

  void Reads(uint32_t tensor) { w_.reads.push_back(tensor); }
  void ReadsTask(uint32_t producer) {
    w_.reads.push_back(producer + kExternal);
    After(producer);
  }
  void After(uint32_t producer) {
    auto begin = w_.producers.begin() + w_.first_producer.back();
    if (std::find(begin, w_.producers.end(), producer) == w_.producers.end()) {
      w_.producers.push_back(producer);
    }
  }
  void EndTask() {
    w_.first.push_back(static_cast<uint32_t>(w_.reads.size()));
    w_.first_producer.push_back(static_cast<uint32_t>(w_.producers.size()));
  }

  Workload& workload() { return w_; }
  Workload Finish() { return std::move(w_); }

 private:
  Workload w_;
};

uint32_t SideOf(uint32_t tasks) { return static_cast<uint32_t>(std::lround(std::sqrt(tasks))); }

Workload Tree(uint32_t tasks) {
  Maker make("tree", tasks);
  // A heap read backwards: node k has the children 2k + 1 and 2k + 2; task i is node n - 1 - i.
  for (uint32_t i = 0; i < tasks; ++i) {
    uint64_t node = tasks - 1 - i;
    for (uint64_t child : {2 * node + 1, 2 * node + 2}) {
      if (child < tasks) {
        make.ReadsTask(static_cast<uint32_t>(tasks - 1 - child));
      } else {
        make.Reads(static_cast<uint32_t>(child & 1));
      }
    }
    make.EndTask();
  }
  return make.Finish();
}

Workload Wavefront(uint32_t tasks) {
  uint32_t side = SideOf(tasks);
  Maker make("wavefront", side * side);
  for (uint32_t row = 0; row < side; ++row) {
    for (uint32_t column = 0; column < side; ++column) {
      if (row > 0) make.ReadsTask((row - 1) * side + column);
      if (column > 0) make.ReadsTask(row * side + column - 1);
      if (row == 0) make.Reads(0);
      if (column == 0) make.Reads(1);
      make.EndTask();
    }
  }
  return make.Finish();
}

Workload Layered(std::string_view name, uint32_t tasks, uint32_t width) {
  Maker make(name, tasks);
  width = std::max(width, 1u);
  std::mt19937 random(1);
  for (uint32_t i = 0; i < tasks; ++i) {
    uint32_t layer = i / width;
    if (layer == 0) {
      make.Reads(0);
      make.Reads(1);
    } else {
      uint32_t begin = (layer - 1) * width;
      for (uint32_t reads = 2 + random() % 3; reads > 0; --reads) {
        make.ReadsTask(begin + random() % width);
      }
    }
    make.EndTask();
  }
  return make.Finish();
}

Workload Tiles(uint32_t tasks, bool random_order) {
  uint32_t side = SideOf(tasks), count = side * side;
  std::vector<uint32_t> order(count), position(count);
  std::iota(order.begin(), order.end(), 0);
  if (random_order) std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (uint32_t i = 0; i < count; ++i) position[order[i]] = i;
  Maker make(random_order ? "tiles_random" : "tiles", count);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t row = order[i] / side, column = order[i] % side;
    // Two neighbours that both exist are ordered by submission, whichever reads the other.
    auto neighbour = [&](bool exists, uint32_t cell) {
      if (exists && position[cell] < i) make.After(position[cell]);
    };
    neighbour(row > 0, order[i] - side);
    neighbour(column > 0, order[i] - 1);
    neighbour(row + 1 < side, order[i] + side);
    neighbour(column + 1 < side, order[i] + 1);
    make.Reads(row > 0 ? kExternal + order[i] - side : 0);
    make.Reads(column > 0 ? kExternal + order[i] - 1 : 1);
    make.EndTask();
  }
  make.workload().side = side;
  make.workload().cell = std::move(order);
  return make.Finish();
}

}  // namespace

std::span<const std::string_view> WorkloadNames() { return kNames; }

Workload MakeWorkload(std::string_view name, uint32_t tasks, bool random_order) {
  if (name == "tree") return Tree(tasks);
  if (name == "wavefront") return Wavefront(tasks);
  if (name == "layered") return Layered(name, tasks, std::min(tasks / kLayers, kLayerTasks));
  if (name == "wide") return Layered(name, tasks, tasks / kLayers);
  if (name == "tiles") return Tiles(tasks, random_order);
  Maker make(name, tasks);
  for (uint32_t i = 0; i < tasks; ++i) {
    if (name == "chain" && i > 0) {
      make.ReadsTask(i - 1);
    } else {
      make.Reads(0);
    }
    make.Reads(1);
    make.EndTask();
  }
  return make.Finish();
}

}  // namespace precast::bench
