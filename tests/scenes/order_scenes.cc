// What order follows from the tensors of tasks, and what does not.
#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

#include <algorithm>
#include <numeric>

namespace precast::scenes {
namespace {

void CopyAll(std::span<int64_t> source, std::span<int64_t> target) {
  std::ranges::copy(source, target.begin());
}
void PutAll(std::span<int64_t> target, int64_t first) {
  std::iota(target.begin(), target.end(), first);
}
void BumpAll(std::span<int64_t> target, int64_t value) {
  for (int64_t& element : target) element = Join(element, value);
}
/// Bumps a box of a matrix.
void BumpBox(std::span<int64_t> matrix, size_t columns, size_t row, size_t column, size_t rows,
             size_t width, int64_t value) {
  for (size_t i = row; i < row + rows; ++i)
    BumpAll(matrix.subspan(i * columns + column, width), value);
}

Scene ReadAfterWrite() {
  return {.name = "read_after_write",
          .buffers = {In({8}), Out({8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor t = o.alloc({8}, DType::i64);
                o.submit(slow_copy, {in(args.tensor(0)), out(t)});
                o.submit(copy, {in(t), out(args.tensor(1))});
              },
          .expect = [](Memory& m) { CopyAll(m[0], m[1]); },
          .tasks = 2,
          .edges = 1};
}

Scene WriteAfterRead() {
  return {.name = "write_after_read",
          .buffers = {InOut({8}), Out({8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_copy, {in(args.tensor(0)), out(args.tensor(1))});
                o.submit(put, {out(args.tensor(0)), int64_t{100}});
              },
          .expect =
              [](Memory& m) {
                CopyAll(m[0], m[1]);
                PutAll(m[0], 100);
              },
          .edges = 1};
}

Scene WriteAfterWrite() {
  return {.name = "write_after_write",
          .buffers = {Out({8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_put, {out(args.tensor(0)), int64_t{1}});
                o.submit(put, {out(args.tensor(0)), int64_t{50}});
              },
          .expect = [](Memory& m) { PutAll(m[0], 50); },
          .edges = 1};
}

Scene OverlappingRanges() {
  return {.name = "overlapping_ranges",
          .buffers = {InOut({16})},
          .build =
              [](Orchestrator& o, const Args& args) {
                auto range = [&](int64_t begin, int64_t end) {
                  return args.tensor(0).slice(0, begin, end);
                };
                o.submit(slow_bump, {inout(range(0, 10)), int64_t{5}});
                o.submit(slow_bump, {inout(range(9, 16)), int64_t{6}});
                o.submit(slow_copy, {in(range(0, 4)), out(range(12, 16))});
                o.submit(bump, {inout(range(2, 3)), int64_t{7}});
                o.submit(bump, {inout(range(0, 16)), int64_t{8}});
              },
          .expect =
              [](Memory& m) {
                BumpAll(m[0].subspan(0, 10), 5);
                BumpAll(m[0].subspan(9), 6);
                CopyAll(m[0].first(4), m[0].subspan(12));
                BumpAll(m[0].subspan(2, 1), 7);
                BumpAll(m[0], 8);
              }};
}

Scene OverlappingBoxes() {
  return {.name = "overlapping_boxes",
          .buffers = {InOut({8, 8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                const Tensor& x = args.tensor(0);
                o.submit(slow_bump, {inout(x.view({0, 0}, {5, 5})), int64_t{1}});
                o.submit(slow_bump, {inout(x.view({4, 4}, {4, 4})), int64_t{2}});
                o.submit(slow_bump, {inout(x.view({0, 4}, {8, 1})), int64_t{3}});
                o.submit(bump, {inout(x.view({3, 0}, {2, 8})), int64_t{4}});
              },
          .expect =
              [](Memory& m) {
                BumpBox(m[0], 8, 0, 0, 5, 5, 1);
                BumpBox(m[0], 8, 4, 4, 4, 4, 2);
                BumpBox(m[0], 8, 0, 4, 8, 1, 3);
                BumpBox(m[0], 8, 3, 0, 2, 8, 4);
              }};
}

Scene DisjointTiles() {
  return {.name = "disjoint_tiles",
          .buffers = {InOut({8, 8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 16; ++i) {
                  Tensor tile = args.tensor(0).view({i / 4 * 2, i % 4 * 2}, {2, 2});
                  o.submit(bump, {inout(tile), i});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 16; ++i) {
                  BumpBox(m[0], 8, i / 4 * 2, i % 4 * 2, 2, 2, static_cast<int64_t>(i));
                }
              },
          .tasks = 16,
          .edges = 0};
}

Scene InterleavedSlices() {
  return {.name = "interleaved_slices",
          .buffers = {InOut({20})},
          .build =
              [](Orchestrator& o, const Args& args) {
                const Tensor& x = args.tensor(0);
                o.submit(slow_bump, {inout(x.slice(0, 0, 20, 2)), int64_t{1}});
                o.submit(slow_bump, {inout(x.slice(0, 1, 20, 2)), int64_t{2}});
                o.submit(bump, {inout(x), int64_t{3}});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 20; ++i) BumpAll(m[0].subspan(i, 1), i % 2 == 0 ? 1 : 2);
                BumpAll(m[0], 3);
              },
          .edges = 2};
}

Scene SlicesWithOtherSteps() {
  return {.name = "slices_with_other_steps",
          .buffers = {InOut({30})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t step = 1; step <= 6; ++step) {
                  o.submit(slow_bump, {inout(args.tensor(0).slice(0, step - 1, 30, step)), step});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t step = 1; step <= 6; ++step) {
                  for (size_t i = step - 1; i < 30; i += step) {
                    BumpAll(m[0].subspan(i, 1), static_cast<int64_t>(step));
                  }
                }
              }};
}

Scene Transposed() {
  return {.name = "transposed",
          .buffers = {Out({4, 6}), Out({6, 4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_put, {out(args.tensor(0).transpose(0, 1)), int64_t{0}});
                o.submit(bump, {inout(args.tensor(0).view({1, 2}, {2, 3})), int64_t{9}});
                o.submit(copy, {in(args.tensor(0).transpose(0, 1)), out(args.tensor(1))});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 24; ++i) m[0][i] = static_cast<int64_t>(i % 6 * 4 + i / 6);
                BumpBox(m[0], 6, 1, 2, 2, 3, 9);
                for (size_t i = 0; i < 24; ++i) m[1][i] = m[0][i % 4 * 6 + i / 4];
              }};
}

Scene RowsAndColumns() {
  return {.name = "rows_and_columns",
          .buffers = {InOut({5, 5})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 5; ++i) {
                  o.submit(slow_bump, {inout(args.tensor(0).select(0, i)), i});
                  o.submit(bump, {inout(args.tensor(0).select(1, i)), 10 + i});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 5; ++i) {
                  BumpBox(m[0], 5, i, 0, 1, 5, static_cast<int64_t>(i));
                  BumpBox(m[0], 5, 0, i, 5, 1, static_cast<int64_t>(10 + i));
                }
              }};
}

Scene InOutChain() {
  return {.name = "inout_chain",
          .buffers = {InOut({3})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 60; ++i) o.submit(bump, {inout(args.tensor(0)), i});
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 60; ++i) BumpAll(m[0], i);
              },
          .tasks = 60,
          .edges = 59};
}

Scene ReadersBetweenWriters() {
  return {.name = "readers_between_writers",
          .buffers = {InOut({2}), Out({20, 2}), Out({20, 2})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 20; ++i) {
                  o.submit(i == 7 ? slow_copy : copy,
                           {in(args.tensor(0)), out(args.tensor(1).select(0, i))});
                }
                o.submit(slow_put, {out(args.tensor(0)), int64_t{500}});
                for (int64_t i = 0; i < 20; ++i) {
                  o.submit(copy, {in(args.tensor(0)), out(args.tensor(2).select(0, i))});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 20; ++i) CopyAll(m[0], m[1].subspan(2 * i, 2));
                PutAll(m[0], 500);
                for (size_t i = 0; i < 20; ++i) CopyAll(m[0], m[2].subspan(2 * i, 2));
              },
          .tasks = 41,
          .edges = 40};
}

Scene CoveringWrite() {
  return {.name = "covering_write",
          .buffers = {Out({16}), Out({16})},
          .build =
              [](Orchestrator& o, const Args& args) {
                const Tensor& x = args.tensor(0);
                o.submit(slow_put, {out(x.slice(0, 0, 8)), int64_t{1}});
                o.submit(slow_put, {out(x.slice(0, 8, 16)), int64_t{2}});
                o.submit(put, {out(x), int64_t{3}});
                o.submit(copy, {in(x), out(args.tensor(1))});
              },
          .expect =
              [](Memory& m) {
                PutAll(m[0], 3);
                CopyAll(m[0], m[1]);
              },
          .edges = 3};
}

Scene SameRegionInAndOut() {
  return {.name = "same_region_in_and_out",
          .buffers = {InOut({8}), InOut({8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_fold, {in(args.tensor(0)), inout(args.tensor(0))});
                o.submit(fold, {in(args.tensor(0)), inout(args.tensor(1))});
                o.submit(copy, {in(args.tensor(1)), out(args.tensor(1))});
                o.submit(bump, {inout(args.tensor(1)), int64_t{2}});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 8; ++i) {
                  m[0][i] = Join(m[0][i], m[0][i]);
                  m[1][i] = Join(m[1][i], m[0][i]);
                }
                BumpAll(m[1], 2);
              },
          .edges = 3};
}

}  // namespace

std::vector<Scene> OrderScenes() {
  return {ReadAfterWrite(),   WriteAfterRead(),    WriteAfterWrite(),   OverlappingRanges(),
          OverlappingBoxes(), DisjointTiles(),     InterleavedSlices(), SlicesWithOtherSteps(),
          Transposed(),       RowsAndColumns(),    InOutChain(),        ReadersBetweenWriters(),
          CoveringWrite(),    SameRegionInAndOut()};
}

}  // namespace precast::scenes
