// What does the inference of order cost per access? The region map alone: no image, no edges
// stored.
//
//   region_map_bench --benchmark_filter=tiles
//
// ns_per_access is the figure to look at; a wavefront task makes three accesses, so that its cost
// per task is three times the figure. Each iteration is a whole run after Clear, with warm
// capacity.

#include "graph/heap_planner.h"
#include "graph/region_map.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace precast::graph {
namespace {

using abi::TaskId;

abi::Layout Contiguous(uint32_t elements) {
  abi::Layout layout{};
  layout.shape[0] = elements;
  layout.strides[0] = 1;
  layout.rank = 1;
  layout.contiguous = 1;
  layout.element_bytes = 4;
  layout.elements = elements;
  layout.extent = uint64_t{elements} * 4;
  return layout;
}

abi::Layout Matrix(uint32_t rows, uint32_t columns, uint32_t pitch) {
  abi::Layout layout{};
  layout.shape[0] = rows;
  layout.shape[1] = columns;
  layout.strides[0] = pitch;
  layout.strides[1] = 1;
  layout.rank = 2;
  layout.element_bytes = 4;
  layout.elements = uint64_t{rows} * columns;
  layout.extent = (uint64_t{rows - 1} * pitch + columns) * 4;
  return layout;
}

// Counts edges the way a builder would use them, without storing them.
struct Count {
  uint64_t* edges;
  void operator()(TaskId producer) const { *edges += producer != 0; }
};

void Report(benchmark::State& state, uint64_t accesses, uint64_t edges) {
  state.counters["ns_per_access"] =
      benchmark::Counter(static_cast<double>(accesses) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["edges"] = static_cast<double>(edges) / static_cast<double>(state.iterations());
}

// Buffers that are written whole, then read whole, each by one task.
void WholeBuffers(benchmark::State& state) {
  auto n = static_cast<uint32_t>(state.range(0));
  abi::Layout whole = Contiguous(1024);
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  for (auto _ : state) {
    map.Clear();
    TaskId task = 1;
    for (uint32_t i = 0; i < n; ++i, task += 2) {
      BufferId buffer = map.AddBuffer(4096);
      map.Write(buffer, {0, 1, &whole}, task, Count{&edges});
      map.Read(buffer, {0, 1, &whole}, task + 1, Count{&edges});
    }
    accesses += n * 2;
  }
  Report(state, accesses, edges);
}
BENCHMARK(WholeBuffers)->Name("whole buffers")->Arg(10'000)->Arg(1'000'000);

// One buffer, always the same region: reads and writes in turns.
void ExactRepeat(benchmark::State& state) {
  abi::Layout whole = Contiguous(1024);
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  map.AddBuffer(4096);
  TaskId task = 1;
  for (auto _ : state) {
    map.Write(0, {0, 1, &whole}, task, Count{&edges});
    map.Read(0, {0, 1, &whole}, task + 1, Count{&edges});
    map.Read(0, {0, 1, &whole}, task + 2, Count{&edges});
    task += 3;
    accesses += 3;
  }
  Report(state, accesses, edges);
}
BENCHMARK(ExactRepeat)->Name("exact repeat");

// Many readers between two writes.
void Readers(benchmark::State& state) {
  auto n = static_cast<uint32_t>(state.range(0));
  abi::Layout whole = Contiguous(1024);
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  for (auto _ : state) {
    map.Clear();
    map.AddBuffer(4096);
    map.Write(0, {0, 1, &whole}, 1, Count{&edges});
    for (TaskId task = 2; task < n + 2; ++task) map.Read(0, {0, 1, &whole}, task, Count{&edges});
    map.Write(0, {0, 1, &whole}, n + 2, Count{&edges});
    accesses += n;
  }
  Report(state, accesses, edges);
}
BENCHMARK(Readers)->Name("readers of one region")->Arg(100'000);

constexpr uint32_t kTile = 64;  // elements a side

// side × side tiles of one buffer.
struct Tiles {
  explicit Tiles(uint32_t tiles_a_side)
      : side(tiles_a_side), pitch(side * kTile), layout(Matrix(kTile, kTile, pitch)) {}
  uint64_t bytes() const { return uint64_t{pitch} * pitch * 4; }
  Region At(uint32_t row, uint32_t column) const {
    return {(uint64_t{row} * kTile * pitch + column * kTile) * 4, 1, &layout};
  }
  uint32_t side;
  uint32_t pitch;
  abi::Layout layout;
};

// Each tile is updated after its neighbours above and to the left were read.
template <typename Order>
void Wavefront(benchmark::State& state, Order order) {
  Tiles tiles(static_cast<uint32_t>(state.range(0)));
  std::vector<uint32_t> tile_of(tiles.side * tiles.side);
  order(tile_of);
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  for (auto _ : state) {
    map.Clear();
    map.AddBuffer(tiles.bytes());
    TaskId task = 1;
    for (uint32_t tile : tile_of) {
      uint32_t row = tile / tiles.side, column = tile % tiles.side;
      if (row > 0) map.Read(0, tiles.At(row - 1, column), task, Count{&edges});
      if (column > 0) map.Read(0, tiles.At(row, column - 1), task, Count{&edges});
      map.Write(0, tiles.At(row, column), task, Count{&edges});
      ++task;
    }
    accesses += tile_of.size() * 3;
  }
  Report(state, accesses, edges);
}
void TilesRowByRow(benchmark::State& state) {
  Wavefront(state, [](std::vector<uint32_t>& order) { std::iota(order.begin(), order.end(), 0u); });
}
void TilesColumnByColumn(benchmark::State& state) {
  auto side = static_cast<uint32_t>(state.range(0));
  Wavefront(state, [side](std::vector<uint32_t>& order) {
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i % side * side + i / side;
  });
}
void TilesAtRandom(benchmark::State& state) {
  Wavefront(state, [](std::vector<uint32_t>& order) {
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
  });
}
BENCHMARK(TilesRowByRow)->Name("tiles, row by row")->Arg(10)->Arg(100)->Arg(316)->Arg(1000);
BENCHMARK(TilesColumnByColumn)->Name("tiles, column by column")->Arg(100)->Arg(1000);
BENCHMARK(TilesAtRandom)->Name("tiles at random")->Arg(100)->Arg(316)->Arg(1000);

// The same after a task that wrote the whole buffer, and before one that reads it.
void TilesBetweenWhole(benchmark::State& state) {
  Tiles tiles(static_cast<uint32_t>(state.range(0)));
  abi::Layout whole = Contiguous(tiles.pitch);
  whole.shape[0] = tiles.pitch;
  whole.extent = tiles.bytes();
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  for (auto _ : state) {
    map.Clear();
    map.AddBuffer(tiles.bytes());
    TaskId task = 1;
    map.Write(0, {0, 2, &whole}, task++, Count{&edges});
    for (uint32_t row = 0; row < tiles.side; ++row) {
      for (uint32_t column = 0; column < tiles.side; ++column) {
        if (row > 0) map.Read(0, tiles.At(row - 1, column), task, Count{&edges});
        if (column > 0) map.Read(0, tiles.At(row, column - 1), task, Count{&edges});
        map.Write(0, tiles.At(row, column), task++, Count{&edges});
      }
    }
    map.Read(0, {0, 2, &whole}, task, Count{&edges});
    accesses += uint64_t{tiles.side} * tiles.side * 3;
  }
  Report(state, accesses, edges);
}
BENCHMARK(TilesBetweenWhole)->Name("tiles between whole accesses")->Arg(100)->Arg(1000);

// One read (ns_per_access: per edge) of the whole buffer after each tile was written.
void WholeAfterTiles(benchmark::State& state) {
  Tiles tiles(static_cast<uint32_t>(state.range(0)));
  abi::Layout whole = Contiguous(tiles.pitch);
  whole.extent = tiles.bytes();
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  map.AddBuffer(tiles.bytes());
  TaskId task = 1;
  for (uint32_t row = 0; row < tiles.side; ++row) {
    for (uint32_t column = 0; column < tiles.side; ++column) {
      map.Write(0, tiles.At(row, column), task++, Count{&edges});
    }
  }
  edges = 0;
  for (auto _ : state) {
    map.Read(0, {0, 2, &whole}, task++, Count{&edges});
    accesses += uint64_t{tiles.side} * tiles.side;
  }
  Report(state, accesses, edges);
}
BENCHMARK(WholeAfterTiles)->Name("edges of a whole read")->Arg(100)->Arg(1000);

// Contiguous blocks of one buffer: written, then read, in order or at random.
void Blocks(benchmark::State& state) {
  auto n = static_cast<uint32_t>(state.range(0));
  abi::Layout block = Contiguous(1000);
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  if (state.range(1) != 0) std::shuffle(order.begin(), order.end(), std::mt19937(1));
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  for (auto _ : state) {
    map.Clear();
    map.AddBuffer(uint64_t{n} * 4000);
    TaskId task = 1;
    for (uint32_t i : order) map.Write(0, {i * uint64_t{4000}, 1, &block}, task++, Count{&edges});
    for (uint32_t i : order) map.Read(0, {i * uint64_t{4000}, 1, &block}, task++, Count{&edges});
    accesses += n * 2;
  }
  Report(state, accesses, edges);
}
BENCHMARK(Blocks)
    ->Name("blocks (count / shuffled)")
    ->Args({3, 0})
    ->Args({10'000, 0})
    ->Args({1'000'000, 0})
    ->Args({100'000, 1});

// Ranges that overlap their neighbours: windows of 3 blocks, moved by one.
void Windows(benchmark::State& state) {
  auto n = static_cast<uint32_t>(state.range(0));
  abi::Layout window = Contiguous(3000), block = Contiguous(1000);
  RegionMap map;
  uint64_t edges = 0, accesses = 0;
  for (auto _ : state) {
    map.Clear();
    map.AddBuffer(uint64_t{n + 2} * 4000);
    TaskId task = 1;
    for (uint64_t i = 0; i < n; ++i) {
      map.Write(0, {(i + 1) * 4000, 1, &block}, task++, Count{&edges});
    }
    for (uint64_t i = 0; i < n; ++i) {
      map.Read(0, {i * 4000, 2, &window}, task++, Count{&edges});
    }
    for (uint64_t i = 0; i < n; ++i) {
      map.Write(0, {(i + 1) * 4000, 1, &block}, task++, Count{&edges});
    }
    accesses += n * 3;
  }
  Report(state, accesses, edges);
}
BENCHMARK(Windows)->Name("windows over blocks")->Arg(100)->Arg(100'000);

// The heap planner: tensors placed in fresh bytes; in a loop whose body is a scope, where the dead
// tensors' users precede (reuse 1) or the heap is too small (reuse 2).
void Heap(benchmark::State& state) {
  constexpr uint32_t kTensors = 10'000, kOfScope = 4;
  constexpr uint64_t kTensorBytes = 4096;
  auto reuse = state.range(0);
  HeapPlanner heap;
  uint64_t placed = 0;
  for (auto _ : state) {
    heap.Clear(reuse == 2 ? kTensorBytes * kOfScope * 10 : kTensorBytes * kTensors);
    for (BufferId i = 0; i < kTensors; ++i) {
      benchmark::DoNotOptimize(heap.Place(i, kTensorBytes, [&](BufferId) { return reuse == 1; }));
      if (reuse != 0 && i % kOfScope == kOfScope - 1) {
        for (BufferId dead = i + 1 - kOfScope; dead <= i; ++dead) heap.Retire(dead);
      }
    }
    placed += kTensors;
  }
  Report(state, placed, 0);
}
BENCHMARK(Heap)->Name("heap, per tensor (reuse)")->Arg(0)->Arg(1)->Arg(2);

}  // namespace
}  // namespace precast::graph

BENCHMARK_MAIN();
