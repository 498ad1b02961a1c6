// What orchestrations do: looking at bytes too late, throwing, ending wrongly.
#include "misuse/misuse.h"

#include <memory>
#include <stdexcept>
#include <vector>

namespace precast::misuse {
namespace {

template <typename Act>
std::function<void(Worker&)> Doing(Act act) {
  return Building([act](Orchestrator& o, const Args& args) { act(o, args.tensor(0)); });
}

int64_t Get(Orchestrator& o, const Tensor& tensor, std::initializer_list<int64_t> index) {
  return o.get_tensor_data<int64_t>(tensor, index);
}

void Bump(Orchestrator& o, const Tensor& tensor, std::string_view name = {}) {
  o.submit(bump, {inout(tensor), int64_t{1}}, {.name = name});
}

/// The same on child memory.
template <typename Act>
std::function<void(Worker&)> DoingOnDevice(Act act) {
  return [act](Worker& worker) {
    DeviceTensor t(worker, {8});
    worker.memset(*t, 0);
    worker.run([&](Orchestrator& o, const Args& args) { act(o, args.tensor(0)); }, {inout(*t)});
  };
}

struct Mute : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

}  // namespace

std::vector<Misuse> HostAccessMisuse() {
  return {
      {"get_of_what_a_task_writes",
       ErrorCode::not_ready,
       {"get_tensor_data", "task 1 'writer'", "bump", "3"},
       Doing([](Orchestrator& o, const Tensor& x) {
         o.submit(kNoKernel, {in(x)});
         Bump(o, x, "writer");
         Get(o, x, {3});
       })},
      {"get_of_a_device_tensor_that_a_task_writes",
       ErrorCode::not_ready,
       {"get_tensor_data", "writer"},
       DoingOnDevice([](Orchestrator& o, const Tensor& x) {
         Bump(o, x, "writer");
         Get(o, x, {3});
       })},
      {"set_of_what_a_task_writes",
       ErrorCode::not_ready,
       {"set_tensor_data", "task 0 'writer'"},
       Doing([](Orchestrator& o, const Tensor& x) {
         Bump(o, x.slice(0, 2, 4), "writer");
         o.set_tensor_data<int64_t>(x, {3}, 1);
       })},
      {"set_of_what_a_task_reads",
       ErrorCode::not_ready,
       {"set_tensor_data", "task 0 'reader'"},
       Doing([](Orchestrator& o, const Tensor& x) {
         o.submit(copy, {in(x), out(o.alloc({8}, DType::i64))}, {.name = "reader"});
         o.set_tensor_data<int64_t>(x, {3}, 1);
       })},
      {"set_of_what_a_task_names_as_no_dep",
       ErrorCode::not_ready,
       {"set_tensor_data", "'loose'"},
       Doing([](Orchestrator& o, const Tensor& x) {
         o.submit(bump, {no_dep(x), int64_t{1}}, {.name = "loose"});
         o.set_tensor_data<int64_t>(x, {3}, 1);
       })},
      {"get_of_what_a_task_names_as_no_dep",
       ErrorCode::not_ready,
       {"get_tensor_data", "'loose'"},
       Doing([](Orchestrator& o, const Tensor& x) {
         o.submit(bump, {no_dep(x), int64_t{1}}, {.name = "loose"});
         Get(o, x, {3});
       })},
      {"get_of_a_created_tensor",
       ErrorCode::not_ready,
       {"get_tensor_data", "i64"},
       Doing([](Orchestrator& o, const Tensor&) { Get(o, o.alloc({8}, DType::i64, 1), {3}); })},
      {"set_of_a_created_tensor",
       ErrorCode::not_ready,
       {"set_tensor_data", "fill"},
       Doing([](Orchestrator& o, const Tensor&) {
         o.set_tensor_data<int64_t>(o.alloc({8}, DType::i64), {3}, 1);
       })},
      {"get_as_another_type",
       ErrorCode::mismatch,
       {"get_tensor_data", "i64[8]", "i32"},
       Doing([](Orchestrator& o, const Tensor& x) { o.get_tensor_data<int32_t>(x, {3}); })},
      {"get_outside",
       ErrorCode::out_of_range,
       {"get_tensor_data", "8", "i64[8]", "7"},
       Doing([](Orchestrator& o, const Tensor& x) { Get(o, x, {8}); })},
      {"set_outside",
       ErrorCode::out_of_range,
       {"set_tensor_data", "-1", "i64[8]", "7"},
       Doing([](Orchestrator& o, const Tensor& x) { o.set_tensor_data<int64_t>(x, {-1}, 0); })},
      {"get_with_a_wrong_number_of_indices",
       ErrorCode::out_of_range,
       {"2", "i64[8]", "rank 1"},
       Doing([](Orchestrator& o, const Tensor& x) {
         Get(o, x, {1, 1});
       })},
      {"get_without_an_index",
       ErrorCode::out_of_range,
       {"0", "i64[8]"},
       Doing([](Orchestrator& o, const Tensor& x) { Get(o, x, {}); })},
      {"get_of_a_wrong_number_of_values",
       ErrorCode::out_of_range,
       {"7", "i64[8]"},
       Doing([](Orchestrator& o, const Tensor& x) {
         std::vector<int64_t> values(7);
         o.get_tensor_data(x, std::span(values));
       })},
      {"get_of_a_strided_range",
       ErrorCode::out_of_range,
       {"i64[4]", "contiguous"},
       Doing([](Orchestrator& o, const Tensor& x) {
         std::vector<int64_t> values(4);
         o.get_tensor_data(x.slice(0, 0, 8, 2), std::span(values));
       })},
      {"get_of_an_out_argument",
       ErrorCode::not_ready,
       {"out", "inout"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         worker.run([](Orchestrator& o, const Args& args) { Get(o, args.tensor(0), {0}); },
                    {out(x)});
       }},
      {"get_of_a_host_tensor_that_is_no_argument",
       ErrorCode::invalid_argument,
       {"host"},
       Doing([](Orchestrator& o, const Tensor&) {
         int64_t value = 0;
         Get(o, Tensor::host(&value, {}), {});
       })},
  };
}

std::vector<Misuse> OrchestrationMisuse() {
  return {
      {"orchestration_that_throws",
       ErrorCode::orchestration,
       {"sunk cost 17"},
       Doing([](Orchestrator& o, const Tensor& x) {
         Bump(o, x);
         throw std::runtime_error("sunk cost 17");
       })},
      {"orchestration_that_throws_an_error",
       ErrorCode::bad_file,
       {"a page is missing"},
       Doing([](Orchestrator& o, const Tensor& x) {
         Bump(o, x);
         Fail(ErrorCode::bad_file, "a page is missing");
       })},
      {"orchestration_that_throws_a_number",
       ErrorCode::orchestration,
       {"std::exception"},
       Doing([](Orchestrator&, const Tensor&) { throw 42; })},
      {"orchestration_that_throws_without_a_message",
       ErrorCode::orchestration,
       {"no message"},
       Doing([](Orchestrator&, const Tensor&) { throw Mute(); })},
      {"orchestration_that_reports_a_usage_error",
       ErrorCode::orchestration,
       {"your fault"},
       Doing([](Orchestrator&, const Tensor&) { Fail(ErrorCode::usage, "your fault"); })},
      // Scopes may end in any order while an exception passes: it is what the caller hears of.
      {"orchestration_that_throws_past_scopes",
       ErrorCode::bad_file,
       {"the true reason"},
       Doing([](Orchestrator& o, const Tensor&) {
         std::vector<std::unique_ptr<Scope>> scopes;
         for (int i = 0; i < 2; ++i) scopes.emplace_back(new Scope(o.scope()));
         Fail(ErrorCode::bad_file, "the true reason");
       })},
      {"report_fatal",
       ErrorCode::fatal,
       {"31", "the well is dry"},
       Doing([](Orchestrator& o, const Tensor& x) {
         Bump(o, x);
         o.report_fatal(31, "the well is dry");
       })},
      {"report_fatal_that_is_caught",
       ErrorCode::fatal,
       {"32", "no way back"},
       Doing([](Orchestrator& o, const Tensor& x) {
         try {
           o.report_fatal(32, "no way back");
         } catch (...) {
         }
         Bump(o, x);
       })},
      {"orchestration_that_submits_nothing",
       ErrorCode::orchestration,
       {"no task", "1"},
       Doing([](Orchestrator&, const Tensor&) {})},
      {"submit_after_the_orchestration_returned",
       ErrorCode::stale,
       {"after the orchestration had returned"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         Orchestrator* kept = nullptr;
         Tensor tensor;
         worker.run(
             [&](Orchestrator& o, const Args& args) {
               Bump(o, tensor = args.tensor(0));
               kept = &o;
             },
             {inout(x)});
         Bump(*kept, tensor);
       }},
      {"alloc_after_the_orchestration_returned",
       ErrorCode::stale,
       {"after the orchestration had returned"},
       [](Worker& worker) {
         std::vector<int64_t> x(8);
         Orchestrator* kept = nullptr;
         worker.run(
             [&](Orchestrator& o, const Args& args) {
               Bump(o, args.tensor(0));
               kept = &o;
             },
             {inout(x)});
         kept->alloc({4}, DType::i64);
       }},
      {"scopes_that_end_in_the_wrong_order",
       ErrorCode::orchestration,
       {"scope"},
       Doing([](Orchestrator& o, const Tensor& x) {
         std::unique_ptr<Scope> outer(new Scope(o.scope())), inner(new Scope(o.scope()));
         Bump(o, x);
         outer.reset();
         inner.reset();
       })},
      {"scope_that_does_not_end",
       ErrorCode::orchestration,
       {"scope", "open"},
       Doing([](Orchestrator& o, const Tensor& x) {
         alignas(Scope) static char memory[sizeof(Scope)];
         new (memory) Scope(o.scope());
         Bump(o, x);
       })},
      {"failure_after_child_memory_was_set",
       ErrorCode::fatal,
       {"too late", "set_tensor_data", "bytes 16 … 31", "child memory"},
       DoingOnDevice([](Orchestrator& o, const Tensor& x) {
         o.set_tensor_data<int64_t>(x, {2}, 5);
         o.set_tensor_data<int64_t>(x, {3}, 5);
         o.report_fatal(1, "too late");
       })},
      // What failed before stays failed, what was right stays submitted: the run itself succeeds,
      // so the error is thrown by hand.
      {"error_that_the_orchestration_catches",
       ErrorCode::invalid_argument,
       {"block count 0"},
       [](Worker& worker) {
         std::vector<int64_t> x{0, 1, 2, 3, 4, 5, 6, 7};
         std::exception_ptr caught;
         worker.run(
             [&](Orchestrator& o, const Args& args) {
               Bump(o, args.tensor(0));
               try {
                 o.submit(bump, {inout(args.tensor(0)), int64_t{5}}, {.blocks = 0});
               } catch (...) {
                 caught = std::current_exception();
               }
               Bump(o, args.tensor(0));
             },
             {inout(x)});
         EXPECT_EQ(x[4], scenes::Join(scenes::Join(4, 1), 1));
         if (caught) std::rethrow_exception(caught);
       }},
  };
}

}  // namespace precast::misuse
