// y += a * x, as a program that `precast run` and `Worker::load` open.

#include <precast/precast.h>

#include <cstdint>

using namespace precast;

PRECAST_KERNEL(axpy, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<const float>(0);
  auto y = k.tensor<float>(1);
  float a = k.scalar<float>(0);
  for (int64_t i = k.block_begin(y.size()); i < k.block_end(y.size()); ++i) y[i] += a * x[i];
}

void orchestrate(Orchestrator& o, const Args& args) {
  o.submit(axpy, {in(args.tensor(0)), inout(args.tensor(1)), args.scalar<float>(0)}, {.blocks = 4});
}

PRECAST_PROGRAM(saxpy) {
  return {.name = "saxpy",
          .summary = "y += a * x",
          .orchestration = orchestrate,
          .signature = {{Direction::in, DType::f32, 1, "x"},
                        {Direction::inout, DType::f32, 1, "y"},
                        {Direction::scalar, DType::f32, 0, "a"}},
          .kernels = {axpy},
          .cases = {}};
}
