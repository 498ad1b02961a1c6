// What is submitted, and when it is no longer valid.
#include "misuse/misuse.h"

#include <limits>
#include <optional>

namespace precast::misuse {
namespace {

PRECAST_KERNEL(only_on_a5, Core::vector, "a5sim")(const KernelContext&) {}
PRECAST_KERNEL(a_cube, Core::cube)(const KernelContext&) {}
PRECAST_KERNEL(a_vector, Core::vector)(const KernelContext&) {}

/// `act` gets the orchestrator and the one argument, i64[8].
template <typename Act>
std::function<void(Worker&)> Submitting(Act act) {
  return Building([act](Orchestrator& o, const Args& args) { act(o, args.tensor(0)); });
}

/// Keeps something from a first run and uses it in a second.
template <typename Keep, typename Use>
std::function<void(Worker&)> AcrossRuns(Keep keep, Use use) {
  return [keep, use](Worker& worker) {
    std::optional<decltype(keep(std::declval<Orchestrator&>(), Tensor()))> kept;
    std::vector<int64_t> x(8);
    worker.run([&](Orchestrator& o, const Args& args) { kept = keep(o, args.tensor(0)); },
               {inout(x)});
    worker.run([&](Orchestrator& o, const Args& args) { use(o, args.tensor(0), *kept); },
               {inout(x)});
  };
}

template <typename T>
auto AllocOf(DType dtype, T value) {
  return Submitting(
      [=](Orchestrator& o, const Tensor&) { o.alloc({4}, dtype, static_cast<double>(value)); });
}

constexpr int64_t kMegabyte = 1 << 17;  // of i64

}  // namespace

std::vector<Misuse> TaskMisuse() {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return {
      {"block_count_0",
       ErrorCode::invalid_argument,
       {"'careful'", "bump", "block count 0", "1"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(bump, {inout(x), int64_t{1}}, {.blocks = 0, .name = "careful"});
       })},
      {"kernel_that_the_platform_lacks",
       ErrorCode::not_found,
       {"only_on_a5", "a5sim"},
       Submitting([](Orchestrator& o, const Tensor& x) { o.submit(only_on_a5, {inout(x)}); })},
      {"kernel_without_a_function",
       ErrorCode::invalid_argument,
       {"hollow", "function"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(Kernel{"hollow", Core::vector, nullptr, ""}, {inout(x)});
       })},
      {"kernel_that_is_empty",
       ErrorCode::invalid_argument,
       {"function"},
       Submitting([](Orchestrator& o, const Tensor& x) { o.submit(Kernel{}, {inout(x)}); })},
      {"mixed_task_without_a_cube",
       ErrorCode::mismatch,
       {"a_vector", "cube", "vector"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(MixedKernel{a_vector, a_vector}, {inout(x)});
       })},
      {"mixed_task_with_two_cubes",
       ErrorCode::mismatch,
       {"a_cube", "vector"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(MixedKernel{a_cube, a_vector, a_cube}, {inout(x)});
       })},
      {"mixed_task_without_a_vector",
       ErrorCode::mismatch,
       {"vector"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(MixedKernel{a_cube, Kernel{}}, {inout(x)});
       })},
      {"mixed_task_of_a_dependency",
       ErrorCode::invalid_argument,
       {"kernel 1", "dependency", "function"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(MixedKernel{a_cube, kNoKernel}, {inout(x)});
       })},
      {"tensor_that_names_nothing",
       ErrorCode::invalid_argument,
       {"argument 1", "copy", "nothing"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(copy, {in(x), out(Tensor())});
       })},
      {"host_tensor_that_is_no_argument",
       ErrorCode::invalid_argument,
       {"argument 1", "copy", "i64[8]", "host"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         int64_t values[8];
         o.submit(copy, {in(x), out(Tensor::host(values, {8}))});
       })},
      {"no_dep_of_what_the_run_only_reads",
       ErrorCode::mismatch,
       {"argument 1", "copy", "'in'", "'no_dep'"},
       [](Worker& worker) {
         std::vector<int64_t> x(8), y(8);
         worker.run(
             [](Orchestrator& o, const Args& args) {
               o.submit(copy, {in(args.tensor(0)), no_dep(args.tensor(0))});
             },
             {in(x), inout(y)});
       }},
      {"overlapping_tensors_of_one_task",
       ErrorCode::invalid_argument,
       {"copy", "tensors 0 and 1", "overlap"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(copy, {in(x.slice(0, 0, 5)), out(x.slice(0, 3, 8))});
       })},
      {"transposed_tensor_of_one_task",
       ErrorCode::invalid_argument,
       {"copy", "overlap"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Tensor square = x.slice(0, 0, 4).reshape({2, 2});
         o.submit(copy, {in(square), out(square.transpose(0, 1))});
       })},
      {"created_tensor_that_no_task_wrote",
       ErrorCode::not_ready,
       {"argument 0", "copy", "i64[8]", "fill"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(copy, {in(o.alloc({8}, DType::i64)), out(x)});
       })},
      {"inout_of_a_created_tensor_that_no_task_wrote",
       ErrorCode::not_ready,
       {"argument 0", "bump"},
       Submitting([](Orchestrator& o, const Tensor&) {
         o.submit(bump, {inout(o.alloc({8}, DType::i64)), int64_t{1}});
       })},
      {"part_of_a_created_tensor_that_no_task_wrote",
       ErrorCode::not_ready,
       {"argument 0", "copy"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Tensor t = o.alloc({16}, DType::i64);
         o.submit(put, {out(t.slice(0, 0, 8)), int64_t{1}});
         o.submit(copy, {in(t.slice(0, 8, 16)), out(x)});
       })},
      {"part_of_a_created_tensor_in_reused_memory",
       ErrorCode::not_ready,
       {"argument 0", "copy"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         worker.run(
             [](Orchestrator& o, const Args& args) {
               {
                 auto scope = o.scope();
                 Tensor dead = o.alloc({16}, DType::i64, 1);
                 o.submit(copy, {in(dead.slice(0, 0, 8)), out(args.tensor(0))});
               }
               Tensor t = o.alloc({16}, DType::i64);
               o.submit(put, {out(t.slice(0, 0, 8)), int64_t{1}});
               o.submit(copy, {in(t.slice(0, 8, 16)), out(args.tensor(0))});
             },
             {inout(x)}, {.heap = 256});
       }},
      {"predicate_on_a_float",
       ErrorCode::mismatch,
       {"bump", "predicate", "f32", "bool"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Tensor flag = o.alloc({}, DType::f32, 1);
         o.submit(bump, {inout(x), int64_t{1}}, {.when = when(flag, {}, Compare::equal, 1)});
       })},
      {"predicate_out_of_range",
       ErrorCode::out_of_range,
       {"8", "0 to 7"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(bump, {inout(x), int64_t{1}}, {.when = when(x, {8}, Compare::equal, 1)});
       })},
      {"predicate_of_the_wrong_rank",
       ErrorCode::out_of_range,
       {"2", "rank 1"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(bump, {inout(x), int64_t{1}}, {.when = when(x, {1, 1}, Compare::equal, 1)});
       })},
      {"predicate_on_several_elements",
       ErrorCode::out_of_range,
       {"bump", "8", "exactly 1"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Predicate predicate{x, Compare::equal, 1};
         o.submit(bump, {inout(x), int64_t{1}}, {.when = predicate});
       })},
      {"predicate_that_no_task_wrote",
       ErrorCode::not_ready,
       {"bump", "predicate"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Tensor flag = o.alloc({}, DType::i32);
         o.submit(bump, {inout(x), int64_t{1}}, {.when = when(flag, {}, Compare::equal, 1)});
       })},
      {"predicated_output_that_no_task_wrote",
       ErrorCode::not_ready,
       {"put", "argument 0", "predicate"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(put, {out(o.alloc({8}, DType::i64)), int64_t{1}},
                  {.when = when(x, {0}, Compare::equal, 1)});
       })},
      {"after_a_task_that_is_none",
       ErrorCode::stale,
       {"after"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         o.submit(bump, {inout(x), int64_t{1}}, {.after = Task()});
       })},
      {"after_a_task_of_an_earlier_run",
       ErrorCode::stale,
       {"after", "run"},
       AcrossRuns(
           [](Orchestrator& o, const Tensor& x) {
             return o.submit(bump, {inout(x), int64_t{1}});
           },
           [](Orchestrator& o, const Tensor& x, const Task& task) {
             o.submit(bump, {inout(x), int64_t{1}}, {.after = task});
           })},
      {"fill_too_large", ErrorCode::out_of_range, {"300", "u8", "255"}, AllocOf(DType::u8, 300)},
      {"fill_beyond_f16", ErrorCode::out_of_range, {"70000", "f16"}, AllocOf(DType::f16, 70000)},
      {"fill_beyond_bf16", ErrorCode::out_of_range, {"bf16"}, AllocOf(DType::bf16, 1e39)},
      {"fill_beyond_f32", ErrorCode::out_of_range, {"1e+300", "f32"}, AllocOf(DType::f32, 1e300)},
      {"fill_negative", ErrorCode::out_of_range, {"-1", "u32"}, AllocOf(DType::u32, -1)},
      {"fill_not_whole", ErrorCode::out_of_range, {"0.5", "i32"}, AllocOf(DType::i32, 0.5)},
      {"fill_not_a_number", ErrorCode::out_of_range, {"nan", "i64"}, AllocOf(DType::i64, kNan)},
      {"fill_not_bool", ErrorCode::out_of_range, {"2", "bool"}, AllocOf(DType::boolean, 2)},
      {"alloc_without_a_dtype",
       ErrorCode::invalid_argument,
       {"none"},
       Submitting([](Orchestrator& o, const Tensor&) { o.alloc({4}, DType::none); })},
      {"tensor_larger_than_the_heap",
       ErrorCode::out_of_memory,
       {"8388608", "1048576"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         worker.run(
             [](Orchestrator& o, const Args&) {
               o.submit(put, {out(o.alloc({8 * kMegabyte}, DType::i64)), int64_t{1}});
             },
             {inout(x)}, {.heap = Bytes{1} << 20});
       }},
      {"live_tensors_larger_than_the_heap",
       ErrorCode::out_of_memory,
       {"1048576", "4194304"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         worker.run(
             [](Orchestrator& o, const Args&) {
               for (int i = 0; i < 5; ++i) {
                 o.submit(put, {out(o.alloc({kMegabyte}, DType::i64)), int64_t{1}});
               }
             },
             {inout(x)}, {.heap = Bytes{4} << 20});
       }},
      {"heap_larger_than_the_device",
       ErrorCode::out_of_memory,
       {"asked", "in use", "available"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         worker.run(
             [](Orchestrator& o, const Args&) {
               o.submit(put, {out(o.alloc({1 << 20, 1 << 17}, DType::i64)), int64_t{1}});
             },
             {inout(x)}, {.heap = Bytes{1} << 50});
       }},
  };
}

std::vector<Misuse> LifetimeMisuse() {
  auto created = [](Orchestrator& o, const Tensor& x) {
    Tensor t = o.alloc({8}, DType::i64);
    o.submit(copy, {in(x), out(t)});
    return t;
  };
  auto argument = [](Orchestrator& o, const Tensor& x) {
    o.submit(bump, {inout(x), int64_t{1}});
    return x;
  };
  auto reads = [](Orchestrator& o, const Tensor& x, const Tensor& old) {
    o.submit(copy, {in(old), out(x)}, {.name = "late"});
  };
  return {
      {"created_tensor_after_its_scope",
       ErrorCode::stale,
       {"copy", "argument 0", "i64[8]", "after its scope"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Tensor t;
         {
           auto scope = o.scope();
           t = o.alloc({8}, DType::i64);
           o.submit(copy, {in(x), out(t)});
         }
         o.submit(copy, {in(t), out(x)});
       })},
      {"view_of_a_created_tensor_after_its_scope",
       ErrorCode::stale,
       {"after its scope"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Tensor t;
         {
           auto outer = o.scope();
           {
             auto inner = o.scope();
             t = o.alloc({8}, DType::i64, 1);
           }
           o.submit(copy, {in(t.slice(0, 0, 4)), out(x.slice(0, 0, 4))});
         }
       })},
      {"predicate_after_its_scope",
       ErrorCode::stale,
       {"bump", "predicate", "after its scope"},
       Submitting([](Orchestrator& o, const Tensor& x) {
         Tensor flag;
         {
           auto scope = o.scope();
           flag = o.alloc({}, DType::i32, 1);
         }
         o.submit(bump, {inout(x), int64_t{1}}, {.when = when(flag, {}, Compare::equal, 1)});
       })},
      {"created_tensor_after_its_run",
       ErrorCode::stale,
       {"late", "argument 0", "another run"},
       AcrossRuns(created, reads)},
      {"argument_after_its_run",
       ErrorCode::stale,
       {"late", "argument 0", "another run"},
       AcrossRuns(argument, reads)},
      {"tensor_of_another_workers_run",
       ErrorCode::stale,
       {"copy", "another run"},
       [](Worker& worker) {
         Worker other;
         std::vector<int64_t> x(8), y(8);
         other.run(
             [&](Orchestrator& o, const Args& args) {
               Tensor t = o.alloc({8}, DType::i64);
               o.submit(copy, {in(args.tensor(0)), out(t)});
               worker.run(
                   [&](Orchestrator& inner, const Args& inner_args) {
                     inner.submit(copy, {in(t), out(inner_args.tensor(0))});
                   },
                   {inout(y)});
             },
             {inout(x)});
       }},
      {"device_tensor_of_another_worker_as_argument",
       ErrorCode::mismatch,
       {"another worker", "i64[8]"},
       [](Worker& worker) {
         Worker other;
         DeviceTensor t(other, {8});
         worker.run(
             [](Orchestrator& o, const Args& args) {
               o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
             },
             {inout(*t)});
       }},
      {"device_tensor_of_another_worker_in_a_task",
       ErrorCode::mismatch,
       {"another worker", "i64[8]"},
       [](Worker& worker) {
         Worker other;
         DeviceTensor t(other, {8});
         std::vector<int64_t> x(8);
         worker.run(
             [&](Orchestrator& o, const Args& args) {
               o.submit(copy, {in(*t), out(args.tensor(0))});
             },
             {inout(x)});
       }},
      {"freed_device_tensor_as_argument",
       ErrorCode::stale,
       {"freed", "i64[8]"},
       [](Worker& worker) {
         Tensor t = worker.malloc({8}, DType::i64);
         worker.free(t);
         worker.run(
             [](Orchestrator& o, const Args& args) {
               o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
             },
             {inout(t)});
       }},
      {"freed_device_tensor_in_a_task",
       ErrorCode::stale,
       {"freed", "i64[8]"},
       [](Worker& worker) {
         Tensor t = worker.malloc({8}, DType::i64);
         worker.free(t);
         std::vector<int64_t> x(8);
         worker.run(
             [&](Orchestrator& o, const Args& args) {
               o.submit(copy, {in(t), out(args.tensor(0))});
             },
             {inout(x)});
       }},
  };
}

}  // namespace precast::misuse
