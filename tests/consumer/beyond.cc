// A kernel that writes one element too many, in a program that is built with CHECK_BOUNDS.
#include <precast/precast.h>

using namespace precast;

PRECAST_KERNEL(write_beyond, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<float>(0);
  for (int64_t i = 0; i <= x.size(); ++i) x[i] = 1;
}

void orchestrate(Orchestrator& o, const Args& args) {
  o.submit(write_beyond, {out(args.tensor(0))});
}

PRECAST_PROGRAM(beyond) {
  return {.name = "beyond",
          .summary = "writes beyond the end",
          .orchestration = orchestrate,
          .signature = {{Direction::out, DType::f32, 1, "x"}},
          .kernels = {write_beyond},
          .cases = {}};
}
