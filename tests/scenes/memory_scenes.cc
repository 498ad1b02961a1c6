// Tensors that a run creates: fills, scopes, and the heap that holds them.
#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

#include <cmath>
#include <limits>
#include <vector>

namespace precast::scenes {
namespace {

constexpr int64_t kLarge = 8192;  // i64: 64 KiB
constexpr Bytes kSmallHeap = Bytes{1} << 20;

/// target[i] = source[i], of every type
template <Element T>
void CopyOf(const KernelContext& k) {
  auto source = k.tensor<const T>(0);
  auto target = k.tensor<T>(1);
  for (int64_t i = k.block_begin(target.size()); i < k.block_end(target.size()); ++i) {
    target[i] = source[i];
  }
}
template <Element T>
constexpr Kernel kCopyOf{"copy_of", Core::vector, &CopyOf<T>};

Scene Fill() {
  Scene scene{.name = "alloc_with_fill"};
  ForEachElementType([&]<typename T>() { scene.buffers.push_back(Out({3, 5}, kDTypeOf<T>)); });
  scene.build = [](Orchestrator& o, const Args& args) {
    size_t i = 0;
    ForEachElementType([&]<typename T>() {
      Tensor filled = o.alloc({3, 5}, kDTypeOf<T>, kDTypeOf<T> == DType::boolean ? 1 : 100);
      o.submit(kCopyOf<T>, {in(filled), out(args.tensor(i++))}, {.blocks = 2});
    });
  };
  scene.expect = [](Memory& m) {
    size_t i = 0;
    ForEachElementType([&]<typename T>() {
      for (T& x : m.as<T>(i))
        StoreElement(kDTypeOf<T>, kDTypeOf<T> == DType::boolean ? 1 : 100, &x);
      ++i;
    });
  };
  return scene;
}

/// Fills that are not whole numbers, not finite, or negative; and a zero fill.
Scene OddFills() {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kFills[] = {-kInfinity, 0.5, -2.25, 0.0, 0x1p100};
  return {.name = "alloc_with_odd_fills",
          .buffers = {Out({5, 4}, DType::f32), Out({5, 4}, DType::f64), Out({4}, DType::i8)},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 5; ++i) {
                  double fill = kFills[static_cast<size_t>(i)];
                  o.submit(kCopyOf<float>,
                           {in(o.alloc({4}, DType::f32, fill)), out(args.tensor(0).select(0, i))});
                  o.submit(kCopyOf<double>,
                           {in(o.alloc({4}, DType::f64, fill)), out(args.tensor(1).select(0, i))});
                }
                o.submit(kCopyOf<int8_t>, {in(o.alloc({4}, DType::i8, -128)), out(args.tensor(2))});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 20; ++i) {
                  m.as<float>(0)[i] = static_cast<float>(kFills[i / 4]);
                  m.as<double>(1)[i] = kFills[i / 4];
                }
                for (int8_t& x : m.as<int8_t>(2)) x = -128;
              }};
}

/// A filled tensor is written like any other.
Scene FillThenWrite() {
  return {.name = "alloc_with_fill_then_write",
          .buffers = {In({8}), Out({8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor t = o.alloc({8}, DType::i64, 7);
                o.submit(slow_fold, {in(args.tensor(0).slice(0, 0, 4)), inout(t.slice(0, 2, 6))});
                o.submit(bump, {inout(t), int64_t{1}});
                o.submit(copy, {in(t), out(args.tensor(1))});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 8; ++i) {
                  int64_t value = i < 2 || i >= 6 ? 7 : Join(7, m[0][i - 2]);
                  m[1][i] = Join(value, 1);
                }
              }};
}

Scene NestedScopes() {
  return {.name = "nested_scopes",
          .buffers = {InOut({16})},
          .build =
              [](Orchestrator& o, const Args& args) {
                const Tensor& x = args.tensor(0);
                Tensor outer = o.alloc({16}, DType::i64);
                o.submit(slow_copy, {in(x), out(outer)});
                for (int64_t i = 0; i < 5; ++i) {
                  auto scope = o.scope();
                  Tensor middle = o.alloc({16}, DType::i64);
                  o.submit(copy, {in(outer), out(middle)});
                  for (int64_t j = 0; j < 3; ++j) {
                    auto inner_scope = o.scope();
                    Tensor inner = o.alloc({16}, DType::i64);
                    o.submit(slow_put, {out(inner), i * 10 + j});
                    o.submit(fold, {in(inner), inout(middle)});
                  }
                  o.submit(fold, {in(middle), inout(outer)});
                }
                o.submit(copy, {in(outer), out(x)});
              },
          .expect =
              [](Memory& m) {
                for (size_t n = 0; n < 16; ++n) {
                  int64_t outer = m[0][n];
                  for (int64_t i = 0; i < 5; ++i) {
                    int64_t middle = outer;
                    for (int64_t j = 0; j < 3; ++j) {
                      middle = Join(middle, i * 10 + j + static_cast<int64_t>(n));
                    }
                    outer = Join(outer, middle);
                  }
                  m[0][n] = outer;
                }
              }};
}

/// A chain through 200 temporaries of 64 KiB in a heap of 1 MiB: each is dead when the next one is
/// needed, and its last user precedes that task anyway.
Scene HeapChain() {
  return {.name = "heap_chain",
          .buffers = {InOut({kLarge})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 200; ++i) {
                  auto scope = o.scope();
                  Tensor t = o.alloc({kLarge}, DType::i64);
                  o.submit(copy, {in(args.tensor(0)), out(t)}, {.blocks = 2});
                  o.submit(fold, {in(t), inout(args.tensor(0))}, {.blocks = 2});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t& x : m[0]) {
                  for (int i = 0; i < 200; ++i) x = Join(x, x);
                }
              },
          .options = {.heap = kSmallHeap}};
}

/// 100 independent pieces of work with temporaries of 64 KiB each in a heap of 1 MiB: bytes can
/// only be reused by making later pieces wait for earlier ones.
Scene HeapPastBudget() {
  return {.name = "heap_past_budget",
          .buffers = {Out({100})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 100; ++i) {
                  auto scope = o.scope();
                  Tensor a = o.alloc({kLarge}, DType::i64), b = o.alloc({kLarge}, DType::i64);
                  o.submit(i % 10 == 0 ? slow_put : put, {out(a), i});
                  o.submit(copy, {in(a), out(b)});
                  o.submit(digest, {in(b), out(args.tensor(0).slice(0, i, i + 1))});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 100; ++i) {
                  int64_t& value = m[0][static_cast<size_t>(i)];
                  value = 0;
                  for (int64_t n = 0; n < kLarge; ++n) value = Join(value, i + n);
                }
              },
          .options = {.heap = kSmallHeap}};
}

/// A heap that holds one tensor at a time, which is written in parts: each part waits for those who
/// used the bytes before, not only the first.
Scene HeapReusedInParts() {
  constexpr int64_t kParts = 8, kPart = kLarge / kParts;
  return {.name = "heap_reused_in_parts",
          .buffers = {Out({30})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 30; ++i) {
                  auto scope = o.scope();
                  Tensor t = o.alloc({kLarge}, DType::i64);
                  for (int64_t part = 0; part < kParts; ++part) {
                    Tensor target = t.slice(0, part * kPart, (part + 1) * kPart);
                    o.submit(part == 3 ? slow_put : put, {out(target), i * part});
                  }
                  o.submit(slow_digest, {in(t), out(args.tensor(0).slice(0, i, i + 1))});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 30; ++i) {
                  int64_t& value = m[0][static_cast<size_t>(i)];
                  value = 0;
                  for (int64_t n = 0; n < kLarge; ++n) {
                    value = Join(value, i * (n / kPart) + n % kPart);
                  }
                }
              },
          .options = {.heap = kLarge * 8}};
}

/// Sizes from 8 bytes to half the heap, dying in another order than they were made.
Scene HeapMixedSizes() {
  return {.name = "heap_mixed_sizes",
          .buffers = {Out({60})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor total = o.alloc({60}, DType::i64, 0);
                for (int64_t i = 0; i < 60; ++i) {
                  auto scope = o.scope();
                  int64_t n = int64_t{1} << (i * 7 % 17);  // to 512 KiB
                  Tensor a = o.alloc({n}, DType::i64);
                  Tensor b = o.alloc({1 + i}, DType::i64);
                  o.submit(put, {out(a), i}, {.blocks = 3});
                  o.submit(put, {out(b), i * i});
                  Tensor digests = o.alloc({2}, DType::i64);
                  o.submit(digest, {in(a), out(digests.slice(0, 0, 1))});
                  o.submit(digest, {in(b), out(digests.slice(0, 1, 2))});
                  o.submit(digest, {in(digests), out(total.slice(0, i, i + 1))});
                }
                o.submit(copy, {in(total), out(args.tensor(0))});
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 60; ++i) {
                  int64_t a = 0, b = 0;
                  for (int64_t n = 0; n < int64_t{1} << (i * 7 % 17); ++n) a = Join(a, i + n);
                  for (int64_t n = 0; n <= i; ++n) b = Join(b, i * i + n);
                  m[0][static_cast<size_t>(i)] = Join(Join(0, a), b);
                }
              },
          .options = {.heap = kSmallHeap}};
}

/// `no_dep` orders nothing, but keeps the bytes of what it names alive.
Scene NoDepKeepsAlive() {
  return {.name = "no_dep_keeps_heap_bytes",
          .buffers = {Out({40})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 40; ++i) {
                  auto scope = o.scope();
                  Tensor a = o.alloc({kLarge}, DType::i64);
                  Task written = o.submit(put, {out(a), i});
                  Task waits = o.submit(kNoKernel, {}, {.after = written});
                  o.submit(digest, {no_dep(a), out(args.tensor(0).slice(0, i, i + 1))},
                           {.after = waits});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 40; ++i) {
                  int64_t& value = m[0][static_cast<size_t>(i)];
                  value = 0;
                  for (int64_t n = 0; n < kLarge; ++n) value = Join(value, i + n);
                }
              },
          .options = {.heap = kSmallHeap}};
}

/// A created tensor through every kind of view.
Scene CreatedViews() {
  return {.name = "views_of_created_tensors",
          .buffers = {Out({3, 4, 2}), Out({4}), Out({12})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor t = o.alloc({24}, DType::i64);
                Tensor box = t.reshape({2, 3, 4});
                o.submit(slow_put, {out(t), int64_t{0}});
                o.submit(bump, {inout(box.view({1, 0, 1}, {1, 3, 2})), int64_t{1}});
                o.submit(copy, {in(box.permute({1, 2, 0})), out(args.tensor(0))});
                o.submit(copy, {in(box.select(1, 2).select(0, 1)), out(args.tensor(1))});
                o.submit(copy, {in(t.slice(0, 1, 24, 2)), out(args.tensor(2))});
              },
          .expect =
              [](Memory& m) {
                int64_t t[24];
                for (int64_t i = 0; i < 24; ++i) {
                  bool bumped = i >= 12 && i % 4 >= 1 && i % 4 <= 2;
                  t[i] = bumped ? Join(i, 1) : i;
                }
                for (size_t i = 0; i < 24; ++i) m[0][i] = t[i % 2 * 12 + i / 8 * 4 + i / 2 % 4];
                for (size_t i = 0; i < 4; ++i) m[1][i] = t[12 + 8 + i];
                for (size_t i = 0; i < 12; ++i) m[2][i] = t[2 * i + 1];
              }};
}

}  // namespace

std::vector<Scene> MemoryScenes() {
  return {
      Fill(),           OddFills(),          FillThenWrite(),  NestedScopes(),    HeapChain(),
      HeapPastBudget(), HeapReusedInParts(), HeapMixedSizes(), NoDepKeepsAlive(), CreatedViews()};
}

}  // namespace precast::scenes
