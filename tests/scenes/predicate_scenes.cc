// Tasks that run only if an element compares true with a constant.
#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

#include <array>
#include <limits>

namespace precast::scenes {
namespace {

constexpr std::array kCompares{Compare::equal,      Compare::not_equal, Compare::less,
                               Compare::less_equal, Compare::greater,   Compare::greater_equal};

/// Like `put`, given the same tensor twice.
PRECAST_KERNEL(put_first, Core::vector)(const KernelContext& k) {
  auto target = k.tensor<int64_t>(0);
  for (int64_t i = 0; i < target.size(); ++i) target[i] = k.scalar<int64_t>(0) + i;
}

/// target[0] = 1 of every type
template <Element T>
void SetOne(const KernelContext& k) {
  k.tensor<T>(0)[0] = static_cast<T>(1);
}
template <Element T>
constexpr Kernel kSetOne{"set_one", Core::vector, &SetOne<T>};

/// Each comparison with the values 4, 5 and 6 against the constant 5.
Scene Compares() {
  return {.name = "predicate_compares",
          .buffers = {In({3}, DType::i64, [](int64_t i) { return static_cast<double>(4 + i); }),
                      InOut({6, 3})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t c = 0; c < 6; ++c) {
                  for (int64_t i = 0; i < 3; ++i) {
                    Predicate predicate =
                        when(args.tensor(0), {i}, kCompares[static_cast<size_t>(c)], 5);
                    o.submit(bump, {inout(args.tensor(1).view({c, i}, {1, 1})), int64_t{1}},
                             {.when = predicate});
                  }
                }
              },
          .expect =
              [](Memory& m) {
                const char* runs =
                    "010"
                    "101"
                    "100"
                    "110"
                    "001"
                    "011";
                for (size_t i = 0; i < 18; ++i) {
                  if (runs[i] == '1') m[1][i] = Join(m[1][i], 1);
                }
              },
          .edges = 0};
}

/// Conditions on every integer type and bool, with constants that the type cannot hold too.
Scene Types() {
  static constexpr std::array kTypes{DType::boolean, DType::i8,  DType::u8,  DType::i16, DType::u16,
                                     DType::i32,     DType::u32, DType::i64, DType::u64};
  Scene scene{.name = "predicate_types", .buffers = {InOut({9, 5})}};
  for (DType dtype : kTypes) scene.buffers.push_back(In({2}, dtype, [](int64_t i) { return i; }));
  scene.build = [](Orchestrator& o, const Args& args) {
    for (int64_t t = 0; t < 9; ++t) {
      const Tensor& x = args.tensor(static_cast<size_t>(t + 1));  // 0, 1
      const Predicate predicates[] = {
          when(x, {0}, Compare::equal, 0), when(x, {1}, Compare::equal, 0),
          when(x, {1}, Compare::less, 1000), when(x, {0}, Compare::greater, -1),
          when(x, {1}, Compare::equal, 257)};
      for (int64_t i = 0; i < 5; ++i) {
        o.submit(bump, {inout(args.tensor(0).view({t, i}, {1, 1})), t}, {.when = predicates[i]});
      }
    }
  };
  scene.expect = [](Memory& m) {
    for (size_t i = 0; i < 45; ++i) {
      bool runs = i % 5 == 0 || i % 5 == 2 || i % 5 == 3;
      if (runs) m[0][i] = Join(m[0][i], static_cast<int64_t>(i / 5));
    }
  };
  return scene;
}

/// Values at the ends of their types: no sign is lost, nothing wraps.
Scene Extremes() {
  return {.name = "predicate_extremes",
          .buffers = {In({1}, DType::i8, [](int64_t) { return -128.0; }),
                      In({1}, DType::u64, [](int64_t) { return 0x1p63; }),
                      In({1}, DType::i64, [](int64_t) { return -0x1p63; }), InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
                const Predicate predicates[] = {when(args.tensor(0), {0}, Compare::equal, -128),
                                                when(args.tensor(1), {0}, Compare::greater, 1),
                                                when(args.tensor(1), {0}, Compare::equal, kLowest),
                                                when(args.tensor(2), {0}, Compare::equal, kLowest)};
                for (int64_t i = 0; i < 4; ++i) {
                  o.submit(bump, {inout(args.tensor(3).slice(0, i, i + 1)), int64_t{1}},
                           {.when = predicates[i]});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t i : {0, 1, 3}) m[3][i] = Join(m[3][i], 1);
              }};
}

/// The condition is read when the task is ready, not when it is submitted.
Scene FromTask() {
  return {.name = "predicate_from_task",
          .buffers = {InOut({4}), InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor flags = o.alloc({3}, DType::i64);
                o.submit(slow_put, {out(flags), int64_t{0}});  // 0, 1, 2
                Predicate yes = when(flags, {1}, Compare::equal, 1);
                Predicate no = when(flags, {0}, Compare::equal, 1);
                o.submit(bump, {inout(args.tensor(0)), int64_t{1}}, {.when = yes});
                o.submit(bump, {inout(args.tensor(1)), int64_t{1}}, {.when = no});
                o.submit(bump, {inout(args.tensor(1)), int64_t{2}},
                         {.when = when(flags.slice(0, 2, 3), {0}, Compare::greater, 1)});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 4; ++i) {
                  m[0][i] = Join(m[0][i], 1);
                  m[1][i] = Join(m[1][i], 2);
                }
              }};
}

/// The operand counts as an `in`: who overwrites it later waits.
Scene WriteAfterPredicate() {
  return {.name = "predicate_write_after_read",
          .buffers = {InOut({1}), InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_bump, {inout(args.tensor(1)), int64_t{1}});
                o.submit(bump, {inout(args.tensor(1)), int64_t{2}},
                         {.when = when(args.tensor(0), {0}, Compare::equal, 1)});
                o.submit(put, {out(args.tensor(0)), int64_t{0}});
              },
          .expect =
              [](Memory& m) {
                for (int64_t& x : m[1]) x = Join(Join(x, 1), 2);
                m[0][0] = 0;
              },
          .edges = 2};
}

/// Skipped tasks keep the bytes of their outputs, `out` ones too, and let their consumers go on.
Scene SkippedChain() {
  return {.name = "predicate_skipped_chain",
          .buffers = {In({1}), InOut({4}), Out({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Predicate no = when(args.tensor(0), {0}, Compare::equal, 0);
                Tensor t = o.alloc({4}, DType::i64);
                o.submit(slow_put, {out(t), int64_t{30}});
                for (int64_t i = 0; i < 20; ++i) {
                  o.submit(put, {out(t), i}, {.blocks = 3, .when = no});
                  o.submit(fold, {in(t), inout(args.tensor(1))}, {.when = no});
                }
                o.submit(copy, {in(t), out(args.tensor(2))});
                o.submit(bump, {inout(args.tensor(1)), int64_t{4}});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 4; ++i) {
                  m[1][i] = Join(m[1][i], 4);
                  m[2][i] = static_cast<int64_t>(30 + i);
                }
              }};
}

/// A loop that stops itself: each step runs while the counter is below its limit.
Scene Countdown() {
  return {.name = "predicate_countdown",
          .buffers = {InOut({1}), InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                static constexpr Kernel kAddOne{
                    "add_one", Core::vector,
                    [](const KernelContext& k) { k.tensor<int64_t>(0)[0] += 1; }};
                for (int64_t i = 0; i < 30; ++i) {
                  Predicate below = when(args.tensor(0), {0}, Compare::less, 12);
                  o.submit(bump, {inout(args.tensor(1)), i}, {.when = below});
                  o.submit(kAddOne, {inout(args.tensor(0))}, {.when = below});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 30 && m[0][0] < 12; ++i, ++m[0][0]) {
                  for (int64_t& x : m[1]) x = Join(x, i);
                }
              }};
}

/// Flags that tasks of every type write.
Scene TypedFlags() {
  Scene scene{.name = "predicate_typed_flags", .buffers = {InOut({2})}};
  scene.build = [](Orchestrator& o, const Args& args) {
    ForEachElementType([&]<typename T>() {
      if constexpr (!IsFloat(kDTypeOf<T>)) {
        Tensor flag = o.alloc({}, kDTypeOf<T>);
        o.submit(kSetOne<T>, {out(flag)});
        o.submit(bump, {inout(args.tensor(0)), int64_t{1}},
                 {.when = when(flag, {}, Compare::equal, 1)});
        o.submit(bump, {inout(args.tensor(0)), int64_t{2}},
                 {.when = when(flag, {}, Compare::not_equal, 1)});
      }
    });
  };
  scene.expect = [](Memory& m) {
    for (int64_t& x : m[0]) {
      for (int i = 0; i < 9; ++i) x = Join(x, 1);
    }
  };
  return scene;
}

/// A dependency-only task and a mixed task with conditions.
Scene OtherTasks() {
  return {.name = "predicate_on_mixed_and_dependency_only",
          .buffers = {In({2}), InOut({4}), InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                static constexpr Kernel kCube{"bump_first", Core::cube, &kernels::Bump};
                static constexpr Kernel kVector{
                    "bump_second", Core::vector,
                    [](const KernelContext& k) { k.tensor<int64_t>(1)[0] += 5; }};
                Predicate no = when(args.tensor(0), {0}, Compare::greater, 1);
                Predicate yes = when(args.tensor(0), {1}, Compare::greater, 1);
                for (const Predicate& predicate : {no, yes}) {
                  o.submit(MixedKernel{kCube, kVector},
                           {inout(args.tensor(1)), inout(args.tensor(2)), int64_t{3}},
                           {.when = predicate});
                  o.submit(kNoKernel, {inout(args.tensor(1))}, {.when = predicate});
                }
                o.submit(bump, {inout(args.tensor(1)), int64_t{8}});
              },
          .expect =
              [](Memory& m) {
                for (int64_t& x : m[1]) x = Join(Join(x, 3), 8);
                m[2][0] += 5;
              }};
}

/// An `out` argument that one task fills in part, and a skipped one would have filled: the caller
/// keeps the rest. The same where one task names a part twice.
Scene SkippedFill() {
  return {.name = "predicate_skipped_fill",
          .buffers = {InOut({1}), Out({8}), Out({8}), Out({8})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Predicate no = when(args.tensor(0), {0}, Compare::equal, 77);
                o.submit(put, {out(args.tensor(1).slice(0, 0, 3)), int64_t{5}});
                o.submit(put, {out(args.tensor(1)), int64_t{6}}, {.when = no});
                o.submit(put, {out(args.tensor(2).slice(0, 0, 3)), int64_t{5}});
                o.submit(bump, {inout(args.tensor(2).slice(0, 0, 4)), int64_t{1}});
                Tensor half = args.tensor(3).slice(0, 0, 4);
                o.submit(put_first, {out(half), out(half), int64_t{9}});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 3; ++i) m[1][i] = m[2][i] = static_cast<int64_t>(5 + i);
                for (size_t i = 0; i < 4; ++i) m[2][i] = Join(m[2][i], 1);
                for (size_t i = 0; i < 4; ++i) m[3][i] = static_cast<int64_t>(9 + i);
              }};
}

}  // namespace

std::vector<Scene> PredicateScenes() {
  return {Compares(),     Types(),     Extremes(),   FromTask(),   WriteAfterPredicate(),
          SkippedChain(), Countdown(), TypedFlags(), OtherTasks(), SkippedFill()};
}

}  // namespace precast::scenes
