// A program that goes wrong in the way that its parameter `mode` names, for tests of the command.
#include <precast/precast.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace precast;

namespace {

enum class Mode : int32_t { fine, hang, overflow, wild, stop };
constexpr const char* kModes[] = {"fine", "hang", "overflow", "wild", "stop"};

/// More frames than any stack holds.
[[gnu::noinline]] uint64_t Deeper(const volatile uint64_t* below, uint64_t depth) {
  if (depth == 0) return 0;
  volatile uint64_t frame[64];
  for (auto& word : frame) word = *below + 1;
  return Deeper(frame, depth - 1) + frame[0];
}

volatile uintptr_t nowhere = 64;

[[noreturn]] void SleepForever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

PRECAST_KERNEL(misbehave, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<uint64_t>(0);
  switch (static_cast<Mode>(k.scalar<int32_t>(0))) {
    case Mode::hang:
      SleepForever();
    case Mode::overflow:
      x[0] = Deeper(x.data(), uint64_t{1} << 40);
      break;
    case Mode::wild:
      *reinterpret_cast<volatile char*>(uintptr_t{nowhere}) = 1;
      break;
    default:
      break;
  }
  for (int64_t i = 0; i < x.size(); ++i) x[i] += 1;
}

void Build(Orchestrator& o, const Args& args) {
  if (args.scalar<int32_t>(0) == static_cast<int32_t>(Mode::stop)) SleepForever();
  for (int i = 0; i < 8; ++i) {
    o.submit(misbehave, {inout(args.tensor(0)), i == 5 ? args.scalar<int32_t>(0) : 0},
             {.name = "step"});
  }
}

/// Does what `mode` says in its round `after`, and is fine before.
class Faulty : public CaseRun {
 public:
  explicit Faulty(const CaseContext& context)
      : after_(context.params.Integer("after", 0, 1'000'000)),
        ready_(context.params.Text("ready")),
        x_(16) {
    std::string mode = context.params.Text("mode");
    for (int32_t i = 0; i < 5; ++i) {
      if (kModes[i] == mode) mode_ = i;
    }
  }
  std::vector<Arg> Args(int round) override {
    ++rounds_;
    if (round == after_ && !ready_.empty()) std::ofstream(ready_) << "now\n";
    return {inout(x_), round < after_ ? 0 : mode_};
  }
  GoldenResult Check() override { return {x_ == std::vector<uint64_t>(16, 8 * rounds_), 0, ""}; }

 private:
  int64_t after_;
  std::string ready_;
  int32_t mode_ = 0;
  uint64_t rounds_ = 0;
  std::vector<uint64_t> x_;
};

}  // namespace

PRECAST_PROGRAM(fault_probe) {
  return {.name = "fault_probe",
          .summary = "goes wrong as its mode says",
          .orchestration = Build,
          .signature = {{Direction::inout, DType::u64, 1, "x"},
                        {Direction::scalar, DType::i32, 0, "mode"}},
          .kernels = {misbehave},
          .cases = {{"default", "16 elements",
                     [](const CaseContext& context) -> std::unique_ptr<CaseRun> {
                       return std::make_unique<Faulty>(context);
                     }}},
          .params = {{"mode", "fine", "fine, hang, overflow, wild or stop"},
                     {"after", "3", "rounds before that are fine"},
                     {"ready", "", "a file to make when they are over"}}};
}
