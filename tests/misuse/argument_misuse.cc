// What a run is given.
#include "misuse/misuse.h"

namespace precast::misuse {
namespace {

void BumpFirst(Orchestrator& o, const Args& args) {
  o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
}

/// Runs BumpFirst with arguments made from 8 host values and an allocation of 8.
template <typename MakeArgs>
std::function<void(Worker&)> Given(MakeArgs make_args) {
  return [make_args](Worker& worker) {
    std::vector<int64_t> x(8);
    DeviceTensor device(worker, {8});
    worker.run(BumpFirst, make_args(Tensor::host(x.data(), {8}), *device));
  };
}

using ArgVector = std::vector<Arg>;

}  // namespace

std::vector<Misuse> ArgumentMisuse() {
  return {
      {"argument_of_nothing",
       ErrorCode::invalid_argument,
       {"argument 1", "nothing"},
       Given([](const Tensor& x, const Tensor&) {
         return ArgVector{inout(x), in(Tensor())};
       })},
      {"argument_no_dep",
       ErrorCode::mismatch,
       {"argument 0", "no_dep", "inout"},
       Given([](const Tensor& x, const Tensor&) { return ArgVector{no_dep(x)}; })},
      {"arguments_overlap_and_one_is_written",
       ErrorCode::invalid_argument,
       {"arguments 0 and 1", "overlap", "inout"},
       Given([](const Tensor& x, const Tensor&) {
         return ArgVector{inout(x.slice(0, 0, 5)), in(x.slice(0, 4, 8))};
       })},
      {"arguments_are_the_same_and_one_is_written",
       ErrorCode::invalid_argument,
       {"arguments 0 and 1", "overlap", "out"},
       Given([](const Tensor& x, const Tensor&) {
         return ArgVector{in(x), out(x)};
       })},
      {"argument_of_another_run",
       ErrorCode::stale,
       {"argument 0", "another run"},
       [](Worker& worker) {
         Tensor stolen;
         std::vector<int64_t> x(8);
         worker.run(
             [&](Orchestrator& o, const Args& args) {
               stolen = args.tensor(0);
               BumpFirst(o, args);
             },
             {inout(x)});
         worker.run(BumpFirst, {inout(stolen)});
       }},
      {"argument_number_that_was_not_passed",
       ErrorCode::out_of_range,
       {"1"},
       Building([](Orchestrator& o, const Args& args) {
         o.submit(bump, {inout(args.tensor(1)), int64_t{1}});
       })},
      {"scalar_number_that_was_not_passed",
       ErrorCode::out_of_range,
       {"0"},
       Building([](Orchestrator&, const Args& args) { args.scalar<int64_t>(0); })},
      {"scalar_of_another_type",
       ErrorCode::mismatch,
       {"scalar argument 0", "f32", "f64"},
       [](Worker& worker) {
         worker.run([](Orchestrator&, const Args& args) { args.scalar<float>(0); }, {1.5});
       }},
      {"orchestration_that_is_empty",
       ErrorCode::invalid_argument,
       {"no orchestration"},
       [](Worker& worker) { worker.run(Orchestration(), {}); }},
      {"in_argument_is_written",
       ErrorCode::mismatch,
       {"'in' argument", "argument 0", "bump"},
       Given([](const Tensor& x, const Tensor&) { return ArgVector{in(x)}; })},
      {"device_in_argument_is_written",
       ErrorCode::mismatch,
       {"'in' argument", "argument 0", "bump"},
       Given([](const Tensor&, const Tensor& device) { return ArgVector{in(device)}; })},
      {"out_argument_is_read",
       ErrorCode::not_ready,
       {"argument 0", "bump", "inout"},
       Given([](const Tensor& x, const Tensor&) { return ArgVector{out(x)}; })},
  };
}

}  // namespace precast::misuse
