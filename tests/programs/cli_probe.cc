// A program that does what its parameter `mode` says, for the tests of the command.
#include <precast/precast.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace precast;

namespace {

PRECAST_KERNEL(set_or_throw, Core::vector)(const KernelContext& k) {
  if (k.scalar<bool>(0)) throw std::runtime_error("the kernel gave up");
  auto x = k.tensor<int32_t>(0);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) x[i] = 7;
}

void Build(Orchestrator& o, const Args& args) {
  o.submit(set_or_throw, {out(args.tensor(0)), args.scalar<bool>(0)}, {.name = "the only task"});
}

class Probe : public CaseRun {
 public:
  explicit Probe(const CaseContext& context) : mode_(context.params.Text("mode")), x_(16) {
    if (mode_ == "make") throw std::runtime_error("no case today");
    if (mode_ == "number") throw 7;
  }

  std::vector<Arg> Args(int /*round*/) override {
    if (mode_ == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(900));
    return {out(x_), mode_ == "kernel"};
  }

  GoldenResult Check() override {
    if (mode_ == "golden") return {false, 2.5, "x[3] is 7, expected 9.5"};
    return {x_ == std::vector<int32_t>(16, 7), 0, ""};
  }

 private:
  std::string mode_;
  std::vector<int32_t> x_;
};

}  // namespace

PRECAST_PROGRAM(cli_probe) {
  return {.name = "cli_probe",
          .summary = "does what its mode says",
          .orchestration = Build,
          .signature = {{Direction::out, DType::i32, 1, "x"},
                        {Direction::scalar, DType::boolean, 0, "fail"}},
          .kernels = {set_or_throw},
          .cases = {{"default", "16 elements",
                     [](const CaseContext& context) -> std::unique_ptr<CaseRun> {
                       if (context.params.Text("mode") == "null") return nullptr;
                       return std::make_unique<Probe>(context);
                     }}},
          .params = {{"mode", "pass", "pass, golden, kernel, make, number, null or slow"},
                     {",odd", "", "a name that only --set can give"}}};
}
