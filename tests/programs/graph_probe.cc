// A program with one of each kind of task, and some with the same name, for the tests of the
// commands that look at runs. With `tasks`, as many more in a row.
#include <precast/precast.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

using namespace precast;

namespace {

std::atomic<int32_t> calls{0};

PRECAST_KERNEL(add_one, Core::vector)(const KernelContext& k) {
  auto x = k.tensor<float>(0);
  for (int64_t i = k.block_begin(x.size()); i < k.block_end(x.size()); ++i) x[i] += 1;
}

PRECAST_KERNEL(copy, Core::cube)(const KernelContext& k) {
  auto x = k.tensor<const float>(0);
  auto y = k.tensor<float>(1);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i];
}

// Breaks the contract: what it writes depends on how often it ran in this process.
PRECAST_KERNEL(count_calls, Core::vector)(const KernelContext& k) {
  auto count = k.tensor<int32_t>(0);
  count[0] = ++calls;
  for (int64_t i = 1; i < count.size(); ++i) count[i] = 0;
}

PRECAST_KERNEL(both_parts, Core::vector)(const KernelContext& k) { k.tensor<float>(0)[1] = 20; }
PRECAST_KERNEL(both_cube, Core::cube)(const KernelContext& k) { k.tensor<float>(0)[0] = 10; }

void Body(Orchestrator& o, const Args& args) {
  o.submit(add_one, {inout(args.tensor(0))}, {.name = "inside"});
}

void Build(Orchestrator& o, const Args& args) {
  Tensor x = args.tensor(0), y = args.tensor(1);
  Tensor count = o.alloc({4}, DType::i32);
  Tensor pair = o.alloc({2}, DType::f32);
  Task first = o.submit(add_one, {inout(x)}, {.blocks = 4, .name = "first"});  // 0
  o.submit(count_calls, {out(count)}, {.name = "count"});                      // 1
  o.submit(add_one, {inout(x)}, {.name = "skipped", .when = when(count, {3}, Compare::greater, 5)});
  o.submit(kNoKernel, {}, {.name = "barrier", .after = {first}});                    // 3
  o.submit_graph("body", Body, {inout(x)});                                          // 4
  o.submit_graph("body", Body, {inout(x)});                                          // 5
  o.submit(copy, {in(x), out(y)}, {.name = "last"});                                 // 6
  o.submit(MixedKernel{both_cube, both_parts, {}}, {out(pair)}, {.name = "mixed"});  // 7
  for (uint32_t i = 0; i < args.scalar<uint32_t>(0); ++i) o.submit(add_one, {inout(x)});
}

class Probe : public CaseRun {
 public:
  explicit Probe(const CaseContext& context)
      : tasks_(static_cast<uint32_t>(context.params.Integer("tasks", 0, 1'000'000))),
        x_(16),
        y_(16) {}
  std::vector<Arg> Args(int /*round*/) override { return {inout(x_), out(y_), tasks_}; }
  bool WantsRound(int round, int /*asked*/) override { return round == 0; }
  GoldenResult Check() override { return {true, 0, ""}; }

 private:
  uint32_t tasks_;
  std::vector<float> x_, y_;
};

}  // namespace

PRECAST_PROGRAM(graph_probe) {
  return {.name = "graph_probe",
          .summary = "has one of each kind of task",
          .orchestration = Build,
          .signature = {{Direction::inout, DType::f32, 1, "x"},
                        {Direction::out, DType::f32, 1, "y"},
                        {Direction::scalar, DType::u32, 0, "tasks"}},
          .kernels = {add_one, copy, count_calls, both_parts, both_cube},
          .cases = {{"default", "16 elements",
                     [](const CaseContext& context) -> std::unique_ptr<CaseRun> {
                       return std::make_unique<Probe>(context);
                     }}},
          .params = {{"tasks", "0", "how many more"}}};
}
