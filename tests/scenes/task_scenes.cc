// Kinds and options of tasks: dependency-only and mixed tasks, `after`, `no_dep`, names, blocks.
#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

#include <string>

namespace precast::scenes {
namespace {

/// Every element becomes 1000 times the block that wrote it, plus the number of blocks.
PRECAST_KERNEL(mark_blocks, Core::vector)(const KernelContext& k) {
  auto target = k.tensor<int64_t>(0);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = int64_t{k.block()} * 1000 + k.blocks();
  }
}

/// One element for each block: what the block was told about itself.
PRECAST_KERNEL(describe_block, Core::cube)(const KernelContext& k) {
  auto target = k.tensor<int64_t>(0);
  target(k.block(), 0) = k.block();
  target(k.block(), 1) = static_cast<int64_t>(k.tensors() * 100 + k.scalars());
  target(k.block(), 2) = static_cast<int64_t>(k.task_name().size());
}

// The three kernels of a mixed task. Tensor 0 is read by all; each writes one of the others.
PRECAST_KERNEL(mixed_cube, Core::cube)(const KernelContext& k) {
  auto source = k.tensor<const int64_t>(0);
  auto target = k.tensor<int64_t>(1);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = source[i] * 2;
  }
}
PRECAST_KERNEL(mixed_vector, Core::vector)(const KernelContext& k) {
  auto source = k.tensor<const int64_t>(0);
  auto target = k.tensor<int64_t>(2 + k.sub_block());
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = Join(source[i], k.sub_block());
  }
}

/// `after` alone orders these: no_dep makes no edge.
Scene After() {
  return {.name = "after",
          .buffers = {InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Arg target = no_dep(args.tensor(0));
                Task first = o.submit(slow_bump, {target, int64_t{1}});
                Task second = o.submit(slow_bump, {target, int64_t{2}}, {.after = first});
                o.submit(bump, {target, int64_t{3}}, {.after = {first, second}});
              },
          .expect =
              [](Memory& m) {
                for (int64_t& x : m[0]) x = Join(Join(Join(x, 1), 2), 3);
              },
          .edges = 3};
}

Scene AfterMany() {
  return {.name = "after_many",
          .buffers = {InOut({100}), Out({1})},
          .build =
              [](Orchestrator& o, const Args& args) {
                std::vector<Task> tasks;
                for (int64_t i = 0; i < 100; ++i) {
                  tasks.push_back(o.submit(i % 25 == 0 ? slow_bump : bump,
                                           {no_dep(args.tensor(0).slice(0, i, i + 1)), i}));
                }
                tasks.push_back(tasks.front());  // named twice, one edge
                o.submit(digest, {no_dep(args.tensor(0)), out(args.tensor(1))}, {.after = tasks});
              },
          .expect =
              [](Memory& m) {
                m[1][0] = 0;
                for (size_t i = 0; i < 100; ++i) {
                  m[0][i] = Join(m[0][i], static_cast<int64_t>(i));
                  m[1][0] = Join(m[1][0], m[0][i]);
                }
              },
          .edges = 100};
}

Scene DependencyOnly() {
  return {
      .name = "dependency_only",
      .buffers = {InOut({10}), Out({10})},
      .build =
          [](Orchestrator& o, const Args& args) {
            std::vector<Task> tasks;
            for (int64_t i = 0; i < 10; ++i) {
              tasks.push_back(o.submit(slow_bump, {no_dep(args.tensor(0).slice(0, i, i + 1)), i}));
            }
            Task barrier = o.submit(kNoKernel, {}, {.name = "barrier", .after = tasks});
            for (int64_t i = 0; i < 10; ++i) {
              o.submit(copy,
                       {no_dep(args.tensor(0).slice(0, 9 - i, 10 - i)),
                        out(args.tensor(1).slice(0, i, i + 1))},
                       {.after = barrier});
            }
          },
      .expect =
          [](Memory& m) {
            for (size_t i = 0; i < 10; ++i) {
              m[0][i] = Join(m[0][i], static_cast<int64_t>(i));
              m[1][9 - i] = m[0][i];
            }
          },
      .tasks = 21,
      .edges = 20};
}

/// A dependency-only task takes part in the order of the tensors it names.
Scene DependencyOnTensors() {
  return {.name = "dependency_only_on_tensors",
          .buffers = {InOut({4}), InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_bump, {inout(args.tensor(0)), int64_t{1}});
                o.submit(kNoKernel, {in(args.tensor(0)), inout(args.tensor(1))});
                o.submit(fold, {no_dep(args.tensor(0)), inout(args.tensor(1))});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 4; ++i) {
                  m[0][i] = Join(m[0][i], 1);
                  m[1][i] = Join(m[1][i], m[0][i]);
                }
              },
          .edges = 2};
}

Scene NoDepMakesNoEdges() {
  return {.name = "no_dep_makes_no_edges",
          .buffers = {InOut({12})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 4; ++i) {
                  o.submit(bump, {no_dep(args.tensor(0).slice(0, i, 12, 4)), i});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 12; ++i)
                  m[0][i] = Join(m[0][i], static_cast<int64_t>(i % 4));
              },
          .edges = 0};
}

Scene MixedTask(bool two_vectors) {
  return {.name = two_vectors ? "mixed_cube_and_two_vectors" : "mixed_cube_and_one_vector",
          .buffers = {In({30}), Out({30}), Out({30}), Out({30})},
          .build =
              [two_vectors](Orchestrator& o, const Args& args) {
                MixedKernel mixed{mixed_cube, mixed_vector};
                if (two_vectors) mixed.vector1 = mixed_vector;
                Tensor source = o.alloc({30}, DType::i64);
                o.submit(slow_copy, {in(args.tensor(0)), out(source)});
                if (two_vectors) {
                  o.submit(
                      mixed,
                      {in(source), out(args.tensor(1)), out(args.tensor(2)), out(args.tensor(3))},
                      {.blocks = 7});
                } else {
                  o.submit(mixed, {in(source), out(args.tensor(1)), out(args.tensor(2))},
                           {.blocks = 7});
                  o.submit(put, {out(args.tensor(3)), int64_t{0}});
                }
                o.submit(fold, {in(args.tensor(1)), inout(args.tensor(2))});
              },
          .expect =
              [two_vectors](Memory& m) {
                for (size_t i = 0; i < 30; ++i) {
                  m[1][i] = m[0][i] * 2;
                  m[2][i] = Join(Join(m[0][i], 0), m[1][i]);
                  m[3][i] = two_vectors ? Join(m[0][i], 1) : static_cast<int64_t>(i);
                }
              }};
}

Scene BlockCounts() {
  static constexpr uint32_t kCounts[] = {1, 2, 3, 7, 8, 64, 999, 1000};
  return {.name = "blocks_1_to_1000",
          .buffers = {Out({8, 1000})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 8; ++i) {
                  o.submit(mark_blocks, {out(args.tensor(0).select(0, i))}, {.blocks = kCounts[i]});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 8; ++i) {
                  int64_t blocks = kCounts[i], whole = 1000 / blocks, larger = 1000 % blocks;
                  size_t at = i * 1000;
                  for (int64_t block = 0; block < blocks; ++block) {
                    for (int64_t n = whole + (block < larger ? 1 : 0); n > 0; --n) {
                      m[0][at++] = block * 1000 + blocks;
                    }
                  }
                }
              },
          .tasks = 8,
          .edges = 0};
}

Scene MoreBlocksThanElements() {
  return {.name = "more_blocks_than_elements",
          .buffers = {Out({10}), Out({10})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(mark_blocks, {out(args.tensor(0))}, {.blocks = 1000});
                o.submit(copy, {in(args.tensor(0)), out(args.tensor(1))}, {.blocks = 300});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 10; ++i) {
                  m[0][i] = m[1][i] = static_cast<int64_t>(i) * 1000 + 1000;
                }
              }};
}

/// Blocks of consecutive tasks wait for all blocks of the task before.
Scene BlockedChain() {
  return {.name = "blocked_chain",
          .buffers = {InOut({64})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor other = o.alloc({64}, DType::i64);
                for (int64_t i = 0; i < 10; ++i) {
                  o.submit(i % 2 == 0 ? slow_bump : bump, {inout(args.tensor(0)), i},
                           {.blocks = static_cast<uint32_t>(3 + i)});
                  Tensor reversed = args.tensor(0).reshape({8, 8}).transpose(0, 1);
                  o.submit(copy, {in(reversed), out(other.reshape({8, 8}))}, {.blocks = 5});
                  o.submit(copy, {in(other), out(args.tensor(0))}, {.blocks = 4});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 10; ++i) {
                  std::vector<int64_t> old(m[0].begin(), m[0].end());
                  for (size_t j = 0; j < 64; ++j) m[0][j] = Join(old[j % 8 * 8 + j / 8], i);
                }
              }};
}

Scene WhatABlockKnows() {
  return {.name = "what_a_block_knows",
          .buffers = {Out({5, 3}), In({2})},
          .build =
              [](Orchestrator& o, const Args& args) {
                std::string name(23, 'x');
                o.submit(describe_block,
                         {out(args.tensor(0)), 1.5f, in(args.tensor(1)), uint8_t{3}, true},
                         {.blocks = 5, .name = name});
                name.assign(23, 'y');  // the run has its own copy
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 5; ++i) {
                  m[0][3 * i] = static_cast<int64_t>(i);
                  m[0][3 * i + 1] = 203;
                  m[0][3 * i + 2] = 23;
                }
              }};
}

}  // namespace

std::vector<Scene> TaskScenes() {
  return {After(),
          AfterMany(),
          DependencyOnly(),
          DependencyOnTensors(),
          NoDepMakesNoEdges(),
          MixedTask(true),
          MixedTask(false),
          BlockCounts(),
          MoreBlocksThanElements(),
          BlockedChain(),
          WhatABlockKnows()};
}

}  // namespace precast::scenes
