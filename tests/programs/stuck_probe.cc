// A program whose kernel returns when its caller says so, which may be after the worker has ended.
#include <precast/precast.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace precast;

namespace {

/// Sets the state behind scalar 0 to 1, waits for 2, sets it to 3.
PRECAST_KERNEL(stuck, Core::vector)(const KernelContext& k) {
  auto& state = *reinterpret_cast<std::atomic<int>*>(k.scalar<uint64_t>(0));
  auto x = k.tensor<int32_t>(0);
  state = 1;
  while (state != 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  x[0] = 3;
  state = 3;
}

void Build(Orchestrator& o, const Args& args) {
  o.submit(stuck, {inout(args.tensor(0)), args.scalar<uint64_t>(0)});
}

}  // namespace

PRECAST_PROGRAM(stuck_probe) {
  return {.name = "stuck_probe",
          .summary = "hangs until it is let go",
          .orchestration = Build,
          .signature = {{Direction::inout, DType::i32, 1, "x"},
                        {Direction::scalar, DType::u64, 0, "state"}},
          .kernels = {stuck}};
}
