// Element types, scalars and ranks.
#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace precast::scenes {
namespace {

/// An ordinary value of a type that shows whether its bytes are kept: neither 0 nor symmetric.
template <Element T>
T Sample() {
  if constexpr (std::is_same_v<T, bool>)
    return true;
  else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
    return T(-1.625f);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(-0x1.23456789abcdep+3);
  else if constexpr (std::is_signed_v<T>)
    return static_cast<T>(std::numeric_limits<T>::min() + 2);
  else
    return static_cast<T>(std::numeric_limits<T>::max() - 2);
}

/// target[i] = source[i], then the scalar goes to the last element.
template <Element T>
void CopyAndMark(const KernelContext& k) {
  auto source = k.tensor<const T>(0);
  auto target = k.tensor<T>(1);
  int64_t n = target.size();
  for (int64_t i = k.block_begin(n); i < k.block_end(n); ++i) {
    target[i] = i == n - 1 ? k.scalar<T>(0) : source[i];
  }
}
template <Element T>
constexpr Kernel kCopyAndMark{"copy_and_mark", Core::vector, &CopyAndMark<T>};

/// Every type as a tensor element, through a strided view, and as a scalar of a task.
Scene AllTypes() {
  Scene scene{.name = "all_dtypes"};
  ForEachElementType([&]<typename T>() {
    scene.buffers.push_back(In({4, 6}, kDTypeOf<T>));
    scene.buffers.push_back(Out({6, 4}, kDTypeOf<T>));
  });
  scene.build = [](Orchestrator& o, const Args& args) {
    size_t i = 0;
    ForEachElementType([&]<typename T>() {
      Tensor t = o.alloc({6, 4}, kDTypeOf<T>);
      o.submit(kCopyAndMark<T>, {in(args.tensor(i).transpose(0, 1)), out(t), Sample<T>()},
               {.blocks = 3});
      o.submit(kCopyAndMark<T>, {in(t), out(args.tensor(i + 1)), Sample<T>()}, {.blocks = 2});
      i += 2;
    });
  };
  scene.expect = [](Memory& m) {
    size_t b = 0;
    ForEachElementType([&]<typename T>() {
      auto source = m.as<T>(b), target = m.as<T>(b + 1);
      for (size_t i = 0; i < 24; ++i) target[i] = source[i % 4 * 6 + i / 4];
      target[23] = Sample<T>();
      b += 2;
    });
  };
  return scene;
}

/// Scalars of every type as arguments of the run, mixed with tensors, passed on to tasks.
Scene RunScalars() {
  Scene scene{.name = "scalars_of_all_types"};
  ForEachElementType([&]<typename T>() { scene.buffers.push_back(InOut({1}, kDTypeOf<T>)); });
  scene.args = [](const std::vector<Tensor>& tensors) {
    std::vector<Arg> args;
    size_t i = 0;
    ForEachElementType([&]<typename T>() {
      args.emplace_back(Sample<T>());
      args.push_back(inout(tensors[i++]));
    });
    return args;
  };
  scene.build = [](Orchestrator& o, const Args& args) {
    size_t i = 0;
    ForEachElementType([&]<typename T>() {
      o.submit(kCopyAndMark<T>, {in(args.tensor(i)), inout(args.tensor(i)), args.scalar<T>(i)});
      ++i;
    });
  };
  scene.expect = [](Memory& m) {
    size_t i = 0;
    ForEachElementType([&]<typename T>() { m.as<T>(i++)[0] = Sample<T>(); });
  };
  return scene;
}

/// get and set of every type, by element and by range.
Scene GetAndSet() {
  Scene scene{.name = "get_and_set_of_all_types"};
  ForEachElementType([&]<typename T>() { scene.buffers.push_back(InOut({4}, kDTypeOf<T>)); });
  scene.build = [](Orchestrator& o, const Args& args) {
    size_t i = 0;
    ForEachElementType([&]<typename T>() {
      const Tensor& x = args.tensor(i++);
      T pair[2];
      o.get_tensor_data(x.slice(0, 0, 2), std::span<T>(pair));
      o.set_tensor_data(x.slice(0, 2, 4), std::span<const T>(pair));
      o.set_tensor_data(x, {0}, o.get_tensor_data<T>(x, {3}));
      o.set_tensor_data(x, {1}, Sample<T>());
    });
    o.submit(kNoKernel, {in(args.tensor(0))});
  };
  scene.expect = [](Memory& m) {
    size_t i = 0;
    ForEachElementType([&]<typename T>() {
      auto x = m.as<T>(i++);
      std::copy_n(x.begin(), 2, x.begin() + 2);
      x[0] = x[3];
      x[1] = Sample<T>();
    });
  };
  return scene;
}

/// Extremes of scalars: nothing is widened, narrowed or rounded on the way.
Scene ExtremeScalars() {
  return {
      .name = "extreme_scalars",
      .buffers = {Out({2}, DType::u64), Out({2}, DType::f64), Out({2}, DType::i8)},
      .build =
          [](Orchestrator& o, const Args& args) {
            o.submit(kCopyAndMark<uint64_t>, {in(o.alloc({2}, DType::u64, 0)), out(args.tensor(0)),
                                              std::numeric_limits<uint64_t>::max()});
            o.submit(kCopyAndMark<double>, {in(o.alloc({2}, DType::f64, -0.0)), out(args.tensor(1)),
                                            std::numeric_limits<double>::denorm_min()});
            o.submit(kCopyAndMark<int8_t>,
                     {in(o.alloc({2}, DType::i8, -1)), out(args.tensor(2)), int8_t{-128}});
          },
      .expect =
          [](Memory& m) {
            m.as<uint64_t>(0)[0] = 0;
            m.as<uint64_t>(0)[1] = std::numeric_limits<uint64_t>::max();
            m.as<double>(1)[0] = -0.0;
            m.as<double>(1)[1] = std::numeric_limits<double>::denorm_min();
            m.as<int8_t>(2)[0] = -1;
            m.as<int8_t>(2)[1] = -128;
          }};
}

/// A tensor of rank 0 has one element and no index.
Scene RankZero() {
  return {.name = "rank_0",
          .buffers = {In({}), InOut({}), Out({})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor t = o.alloc({}, DType::i64);
                auto value = o.get_tensor_data<int64_t>(args.tensor(0), {});
                o.set_tensor_data<int64_t>(args.tensor(1), {}, value + 40);
                o.submit(slow_put, {out(t), value});
                o.submit(fold, {in(t), inout(args.tensor(1))});
                o.submit(copy, {in(args.tensor(1)), out(args.tensor(2))});
              },
          .expect =
              [](Memory& m) {
                m[1][0] = Join(m[0][0] + 40, m[0][0]);
                m[2][0] = m[1][0];
              },
          .edges = 2};
}

/// target(a, b, c, d, e) = source(a, b, c, d, e) + 1, by index
PRECAST_KERNEL(add_one_5d, Core::vector)(const KernelContext& k) {
  auto source = k.tensor<const int64_t>(0);
  auto target = k.tensor<int64_t>(1);
  for (int64_t a = 0; a < target.shape(0); ++a)
    for (int64_t b = 0; b < target.shape(1); ++b)
      for (int64_t c = 0; c < target.shape(2); ++c)
        for (int64_t d = 0; d < target.shape(3); ++d)
          for (int64_t e = 0; e < target.shape(4); ++e) {
            target(a, b, c, d, e) = source(a, b, c, d, e) + 1;
          }
}

Scene RankFive() {
  return {.name = "rank_5",
          .buffers = {In({2, 3, 1, 4, 5}), Out({5, 1, 4, 2, 3}), Out({5})},
          .build =
              [](Orchestrator& o, const Args& args) {
                Tensor t = o.alloc({2, 3, 1, 4, 5}, DType::i64);
                o.submit(add_one_5d, {in(args.tensor(0)), out(t)});
                o.submit(bump, {inout(t.view({0, 1, 0, 2, 0}, {2, 2, 1, 1, 5})), int64_t{6}});
                o.submit(add_one_5d, {in(t.permute({4, 2, 3, 0, 1})), out(args.tensor(1))});
                o.submit(copy, {in(t.select(0, 1).select(0, 1).select(0, 0).select(0, 2)),
                                out(args.tensor(2))});
              },
          .expect =
              [](Memory& m) {
                int64_t t[120];
                for (size_t i = 0; i < 120; ++i) {
                  t[i] = m[0][i] + 1;
                  size_t b = i / 20 % 3, d = i / 5 % 4;
                  if (b >= 1 && d == 2) t[i] = Join(t[i], 6);
                }
                for (size_t i = 0; i < 120; ++i) {  // [e, c, d, a, b]
                  size_t e = i / 24, d = i / 6 % 4, a = i / 3 % 2, b = i % 3;
                  m[1][i] = t[a * 60 + b * 20 + d * 5 + e] + 1;
                }
                for (size_t e = 0; e < 5; ++e) m[2][e] = t[60 + 20 + 10 + e];
              }};
}

}  // namespace

std::vector<Scene> TypeScenes() {
  return {AllTypes(), RunScalars(), GetAndSet(), ExtremeScalars(), RankZero(), RankFive()};
}

}  // namespace precast::scenes
