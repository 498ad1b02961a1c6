// Graphs of some 2000 tasks in the shapes that schedulers find hard.
#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

namespace precast::scenes {
namespace {

constexpr int64_t kTasks = 2000;

Tensor Cell(const Tensor& tensor, int64_t i) { return tensor.view({i}, {1}); }

Scene Chain() {
  return {.name = "chain_2000",
          .buffers = {InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < kTasks; ++i) o.submit(bump, {inout(args.tensor(0)), i});
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < kTasks; ++i) {
                  for (int64_t& x : m[0]) x = Join(x, i);
                }
              },
          .tasks = kTasks,
          .edges = kTasks - 1};
}

/// Cells 1024 … 2047 are leaves; each cell above is made of the two below it.
Scene Tree() {
  return {.name = "tree_2047",
          .buffers = {Out({1})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor cells = o.alloc({2048}, DType::i64);
                for (int64_t i = 1024; i < 2048; ++i) o.submit(put, {out(Cell(cells, i)), i});
                for (int64_t i = 1023; i >= 1; --i) {
                  Tensor target = i == 1 ? args.tensor(0) : Cell(cells, i);
                  o.submit(join, {in(Cell(cells, 2 * i)), in(Cell(cells, 2 * i + 1)), out(target)});
                }
              },
          .expect =
              [](Memory& m) {
                std::vector<int64_t> cells(2048);
                for (size_t i = 1024; i < 2048; ++i) cells[i] = static_cast<int64_t>(i);
                for (size_t i = 1023; i >= 1; --i) cells[i] = Join(cells[2 * i], cells[2 * i + 1]);
                m[0][0] = cells[1];
              },
          .tasks = 2047,
          .edges = 2046};
}

/// Each cell is made of the one above it and the one to its left.
Scene Wavefront() {
  constexpr int64_t kSide = 45;
  return {
      .name = "wavefront_2025",
      .buffers = {Out({kSide, kSide})},
      .build =
          [](Orchestrator& o, const Args& args) {
            auto cell = [&](int64_t i, int64_t j) { return args.tensor(0).view({i, j}, {1, 1}); };
            for (int64_t i = 0; i < kSide; ++i) {
              for (int64_t j = 0; j < kSide; ++j) {
                if (i == 0 || j == 0) {
                  o.submit(put, {out(cell(i, j)), i + j});
                } else {
                  o.submit(join, {in(cell(i - 1, j)), in(cell(i, j - 1)), out(cell(i, j))});
                }
              }
            }
          },
      .expect =
          [](Memory& m) {
            for (size_t i = 0; i < kSide; ++i) {
              for (size_t j = 0; j < kSide; ++j) {
                int64_t& cell = m[0][i * kSide + j];
                cell = i == 0 || j == 0 ? static_cast<int64_t>(i + j)
                                        : Join(m[0][(i - 1) * kSide + j], m[0][i * kSide + j - 1]);
              }
            }
          },
      .tasks = kSide * kSide,
      .edges = 2 * (kSide - 1) * (kSide - 1)};
}

/// One task, then many that read what it wrote, then one that reads what they wrote.
Scene Diamond() {
  constexpr int64_t kMiddle = kTasks - 2;
  return {.name = "diamond_2000",
          .buffers = {In({kMiddle}), Out({kMiddle}), Out({1})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor source = o.alloc({1}, DType::i64);
                o.submit(slow_put, {out(source), int64_t{77}});
                for (int64_t i = 0; i < kMiddle; ++i) {
                  o.submit(join,
                           {in(source), in(Cell(args.tensor(0), i)), out(Cell(args.tensor(1), i))});
                }
                o.submit(digest, {in(args.tensor(1)), out(args.tensor(2))});
              },
          .expect =
              [](Memory& m) {
                m[2][0] = 0;
                for (size_t i = 0; i < kMiddle; ++i) {
                  m[1][i] = Join(77, m[0][i]);
                  m[2][0] = Join(m[2][0], m[1][i]);
                }
              },
          .tasks = kTasks,
          .edges = 2 * kMiddle};
}

/// Layers of 50 tasks, each of which reads the whole layer before.
Scene Layers() {
  constexpr int64_t kWidth = 50, kDepth = 40;
  return {.name = "layers_50_by_40",
          .buffers = {InOut({kWidth})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t layer = 0; layer < kDepth; ++layer) {
                  Tensor next = o.alloc({kWidth}, DType::i64);
                  for (int64_t i = 0; i < kWidth; ++i) {
                    o.submit(digest, {in(args.tensor(0)), out(Cell(next, i))});
                    o.submit(bump, {inout(Cell(next, i)), i});
                  }
                  o.submit(copy, {in(next), out(args.tensor(0))});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t layer = 0; layer < kDepth; ++layer) {
                  int64_t value = 0;
                  for (int64_t x : m[0]) value = Join(value, x);
                  for (size_t i = 0; i < kWidth; ++i)
                    m[0][i] = Join(value, static_cast<int64_t>(i));
                }
              }};
}

}  // namespace

std::vector<Scene> ShapeScenes() { return {Chain(), Tree(), Wavefront(), Diamond(), Layers()}; }

}  // namespace precast::scenes
