// What a run can be given, and how its orchestration looks into it.
#include "scenes/scene_kernels.h"
#include "scenes/scenes.h"

#include <algorithm>
#include <vector>

namespace precast::scenes {
namespace {

/// Host arguments may share memory as long as all of them are only read.
Scene OverlappingReadOnly() {
  return {.name = "overlapping_read_only_host_arguments",
          .buffers = {In({16}), Out({10}), Out({10}), Out({16})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (size_t i = 0; i < 3; ++i) {
                  o.submit(copy, {in(args.tensor(i)), out(args.tensor(3 + i))});
                }
              },
          .expect =
              [](Memory& m) {
                std::ranges::copy(m[0].first(10), m[1].begin());
                std::ranges::copy(m[0].subspan(6), m[2].begin());
                std::ranges::copy(m[0], m[3].begin());
              },
          .args = [](const std::vector<Tensor>& t) -> std::vector<Arg> {
            return {in(t[0].slice(0, 0, 10)),
                    in(t[0].slice(0, 6, 16)),
                    in(t[0]),
                    out(t[1]),
                    out(t[2]),
                    out(t[3])};
          }};
}

Scene SameHostArgumentTwice() {
  return {.name = "same_host_argument_twice",
          .buffers = {In({4}), Out({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(join, {in(args.tensor(0)), in(args.tensor(1)), out(args.tensor(2))});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 4; ++i) m[1][i] = Join(m[0][i], m[0][i]);
              },
          .args = [](const std::vector<Tensor>& t) -> std::vector<Arg> {
            return {in(t[0]), in(t[0]), out(t[1])};
          }};
}

/// Parts of one buffer that touch but do not overlap: one is read, one written.
Scene AdjacentParts() {
  return {
      .name = "adjacent_parts_of_a_host_buffer",
      .buffers = {InOut({24})},
      .build =
          [](Orchestrator& o, const Args& args) {
            o.submit(slow_fold, {in(args.tensor(0)), inout(args.tensor(1))});
            o.submit(copy, {in(args.tensor(1)), out(args.tensor(2))});
          },
      .expect =
          [](Memory& m) {
            for (size_t i = 0; i < 8; ++i) {
              m[0][8 + i] = Join(m[0][8 + i], m[0][i]);
              m[0][16 + i] = m[0][8 + i];
            }
          },
      .args = [](const std::vector<Tensor>& t) -> std::vector<Arg> {
        return {in(t[0].slice(0, 0, 8)), inout(t[0].slice(0, 8, 16)), out(t[0].slice(0, 16, 24))};
      }};
}

/// Host views with strides: what lies between their elements is not touched.
Scene StridedHostArguments() {
  return {.name = "strided_host_arguments",
          .buffers = {In({4, 6}), InOut({48}), InOut({6, 6})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(copy, {in(args.tensor(0)), out(args.tensor(1))});
                o.submit(bump, {inout(args.tensor(2)), int64_t{1}});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 24; ++i) m[1][2 * i + 1] = m[0][i % 4 * 6 + i / 4];
                for (size_t i = 0; i < 36; ++i) {
                  size_t row = i / 6, column = i % 6;
                  bool inside = row >= 1 && row < 5 && column >= 2 && column < 4;
                  if (inside) m[2][i] = Join(m[2][i], 1);
                }
              },
          .args = [](const std::vector<Tensor>& t) -> std::vector<Arg> {
            return {in(t[0].transpose(0, 1)), out(t[1].slice(0, 1, 48, 2)),
                    inout(t[2].view({1, 2}, {4, 2}))};
          }};
}

Scene DeviceArguments() {
  return {.name = "device_arguments",
          .buffers = {OnDevice(In({50})), OnDevice(InOut({50})), OnDevice(Out({50})), In({50}),
                      Out({50})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_fold, {in(args.tensor(0)), inout(args.tensor(1))}, {.blocks = 3});
                o.submit(join, {in(args.tensor(1)), in(args.tensor(3)), out(args.tensor(2))});
                o.submit(copy, {in(args.tensor(2)), out(args.tensor(4))});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 50; ++i) {
                  m[1][i] = Join(m[1][i], m[0][i]);
                  m[2][i] = m[4][i] = Join(m[1][i], m[3][i]);
                }
              }};
}

/// Views of one allocation: all of them are the same memory, and order follows from that.
Scene DeviceViews() {
  return {.name = "overlapping_device_arguments",
          .buffers = {OnDevice(InOut({6, 8}))},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.submit(slow_bump, {inout(args.tensor(0)), int64_t{1}});
                o.submit(slow_bump, {inout(args.tensor(1)), int64_t{2}});
                o.submit(copy, {in(args.tensor(2)), out(args.tensor(0).select(0, 0))});
              },
          .expect =
              [](Memory& m) {
                for (int64_t& x : m[0]) x = Join(x, 1);
                for (size_t i = 0; i < 6; ++i) m[0][8 * i + 3] = Join(m[0][8 * i + 3], 2);
                for (size_t i = 0; i < 8; ++i) m[0][i] = m[0][40 + i];
              },
          .args = [](const std::vector<Tensor>& t) -> std::vector<Arg> {
            return {inout(t[0]), inout(t[0].select(1, 3)), in(t[0].select(0, 5))};
          }};
}

Scene GetDecidesGraph() {
  return {.name = "get_decides_the_graph",
          .buffers = {In({5}, DType::i32, [](int64_t i) { return static_cast<double>(i % 3); }),
                      InOut({4})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 5; ++i) {
                  auto repeats = o.get_tensor_data<int32_t>(args.tensor(0), {i});
                  for (int64_t j = 0; j < repeats; ++j) o.submit(bump, {inout(args.tensor(1)), i});
                  // A task that only reads the tensor does not stand in the way of reading on.
                  static constexpr Kernel kRead{"read", Core::vector, [](const KernelContext& k) {
                                                  (void)k.tensor<const int32_t>(0)[0];
                                                }};
                  o.submit(kRead, {in(args.tensor(0))});
                }
              },
          .expect =
              [](Memory& m) {
                for (int64_t i = 0; i < 5; ++i) {
                  for (int64_t j = 0; j < i % 3; ++j) {
                    for (int64_t& x : m[1]) x = Join(x, i);
                  }
                }
              },
          .tasks = 9};
}

Scene GetThroughViews() {
  return {.name = "get_through_views",
          .buffers = {In({4, 6}), Out({24})},
          .build =
              [](Orchestrator& o, const Args& args) {
                const Tensor& x = args.tensor(0);
                std::vector<int64_t> values, row(6), all(24);
                for (int64_t i = 0; i < 6; ++i) {
                  values.push_back(o.get_tensor_data<int64_t>(x.transpose(0, 1), {i, 2}));
                  values.push_back(
                      o.get_tensor_data<int64_t>(x.select(0, 1).slice(0, 1, 6, 2), {i / 2}));
                }
                o.get_tensor_data(x.select(0, 3), std::span(row));
                values.insert(values.end(), row.begin(), row.end());
                o.get_tensor_data(x, std::span(all));
                values.insert(values.end(), all.begin(), all.begin() + 6);
                for (int64_t i = 0; i < 24; ++i) {
                  o.submit(put, {out(args.tensor(1).slice(0, i, i + 1)),
                                 values[static_cast<size_t>(i)]});
                }
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 6; ++i) {
                  m[1][2 * i] = m[0][2 * 6 + i];
                  m[1][2 * i + 1] = m[0][6 + 1 + 2 * (i / 2)];
                  m[1][12 + i] = m[0][18 + i];
                  m[1][18 + i] = m[0][i];
                }
              }};
}

/// What is set is what tasks and later gets see; an `in` keeps its bytes for the caller.
Scene SetBeforeTasks() {
  return {.name = "set_before_tasks",
          .buffers = {In({6}), InOut({6}), InOut({2, 6}), Out({6})},
          .build =
              [](Orchestrator& o, const Args& args) {
                o.set_tensor_data<int64_t>(args.tensor(0), {2}, 1000);
                o.set_tensor_data<int64_t>(args.tensor(1), {4}, 2000);
                const int64_t row[] = {1, 2, 3, 4, 5, 6};
                o.set_tensor_data(args.tensor(2).select(0, 1), std::span<const int64_t>(row));
                int64_t sum = o.get_tensor_data<int64_t>(args.tensor(0), {2}) +
                              o.get_tensor_data<int64_t>(args.tensor(2), {1, 5});  // 1006
                o.submit(slow_bump, {inout(args.tensor(2)), sum});
                o.submit(fold, {in(args.tensor(0)), inout(args.tensor(1))});
                o.submit(join, {in(args.tensor(1)), in(args.tensor(2).select(0, 1)),
                                out(args.tensor(3))});
              },
          .expect =
              [](Memory& m) {
                m[1][4] = 2000;
                for (size_t i = 0; i < 6; ++i) {
                  m[2][6 + i] = static_cast<int64_t>(i + 1);
                  m[1][i] = Join(m[1][i], i == 2 ? 1000 : m[0][i]);
                }
                for (int64_t& x : m[2]) x = Join(x, 1006);
                for (size_t i = 0; i < 6; ++i) m[3][i] = Join(m[1][i], m[2][6 + i]);
              }};
}

/// An argument that no task touches, but the orchestration sets.
Scene SetOnly() {
  return {.name = "set_without_tasks",
          .buffers = {InOut({6}), Out({1})},
          .build =
              [](Orchestrator& o, const Args& args) {
                for (int64_t i = 0; i < 6; i += 2) {
                  o.set_tensor_data<int64_t>(args.tensor(0), {i}, -i);
                }
                o.submit(put, {out(args.tensor(1)), int64_t{3}});
              },
          .expect =
              [](Memory& m) {
                for (size_t i = 0; i < 6; i += 2) m[0][i] = -static_cast<int64_t>(i);
                m[1][0] = 3;
              }};
}

/// Enough arguments that no small table holds them.
Scene ManyArguments() {
  Scene scene{.name = "many_arguments"};
  for (int i = 0; i < 60; ++i)
    scene.buffers.push_back(i % 3 == 0 ? OnDevice(InOut({7})) : InOut({7}));
  scene.build = [](Orchestrator& o, const Args& args) {
    for (size_t i = 1; i < 60; ++i) {
      o.submit(i % 20 == 0 ? slow_fold : fold, {in(args.tensor(i - 1)), inout(args.tensor(i))});
    }
  };
  scene.expect = [](Memory& m) {
    for (size_t i = 1; i < 60; ++i) {
      for (size_t n = 0; n < 7; ++n) m[i][n] = Join(m[i][n], m[i - 1][n]);
    }
  };
  scene.edges = 58;
  return scene;
}

}  // namespace

std::vector<Scene> ArgumentScenes() {
  return {OverlappingReadOnly(), SameHostArgumentTwice(),
          AdjacentParts(),       StridedHostArguments(),
          DeviceArguments(),     DeviceViews(),
          GetDecidesGraph(),     GetThroughViews(),
          SetBeforeTasks(),      SetOnly(),
          ManyArguments()};
}

}  // namespace precast::scenes
