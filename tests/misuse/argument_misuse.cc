// What a run is given, and what a program or a shared library must be.
#include "misuse/misuse.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <unistd.h>

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

Program BumpProgram() {
  return {.name = "bumper",
          .orchestration = BumpFirst,
          .signature = {{Direction::inout, DType::i64, 1, "values"},
                        {Direction::in, DType::f32, 2, "weights"},
                        {Direction::scalar, DType::i32, 0, "count"}},
          .kernels = {bump}};
}

/// Runs the program with arguments made from 8 i64 and 4 f32 values.
template <typename MakeArgs>
std::function<void(Worker&)> Program3(MakeArgs make_args) {
  return [make_args](Worker& worker) {
    Program program = BumpProgram();
    worker.load(program);
    std::vector<int64_t> x(8);
    std::vector<float> w(4);
    worker.run(program, make_args(Tensor::host(x.data(), {8}), Tensor::host(w.data(), {2, 2})));
  };
}

Misuse KernelOfAnotherProgram() {
  return {"kernel_of_another_program",
          ErrorCode::not_found,
          {"copy", "bumper", "bump"},
          [](Worker& worker) {
            Program program = BumpProgram();
            program.orchestration = [](Orchestrator& o, const Args& args) {
              o.submit(copy, {in(args.tensor(0)), out(o.alloc({8}, DType::i64))});
            };
            program.signature.resize(1);
            worker.load(program);
            std::vector<int64_t> x(8);
            worker.run(program, {inout(x)});
          }};
}

/// A file with these bytes, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    char name[] = "/tmp/precast-misuse-XXXXXX.so";
    int file = mkstemps(name, 3);
    EXPECT_GE(file, 0);
    EXPECT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(file);
    path_ = name;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The file of some shared library that is certainly there.
std::string SomeLibrary() {
  Dl_info info{};
  EXPECT_NE(dladdr(reinterpret_cast<void*>(&std::getenv), &info), 0);
  return info.dli_fname;
}

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

std::vector<Misuse> ProgramMisuse() {
  return {
      {"program_with_too_few_arguments",
       ErrorCode::mismatch,
       {"bumper", "3", "2"},
       Program3([](const Tensor& x, const Tensor& w) {
         return ArgVector{inout(x), in(w)};
       })},
      {"program_with_too_many_arguments",
       ErrorCode::mismatch,
       {"bumper", "3", "4"},
       Program3([](const Tensor& x, const Tensor& w) {
         return ArgVector{inout(x), in(w), int32_t{1}, int32_t{2}};
       })},
      {"program_with_a_wrong_dtype",
       ErrorCode::mismatch,
       {"bumper", "weights", "f32", "i64"},
       Program3([](const Tensor& x, const Tensor& w) {
         (void)w;
         return ArgVector{inout(x), in(x.reshape({2, 4})), int32_t{1}};
       })},
      {"program_with_a_wrong_rank",
       ErrorCode::mismatch,
       {"bumper", "weights", "rank 2", "rank 1"},
       Program3([](const Tensor& x, const Tensor& w) {
         return ArgVector{inout(x), in(w.reshape({4})), int32_t{1}};
       })},
      {"program_with_a_wrong_direction",
       ErrorCode::mismatch,
       {"bumper", "values", "inout", "'in'"},
       Program3([](const Tensor& x, const Tensor& w) {
         return ArgVector{in(x), in(w), int32_t{1}};
       })},
      {"program_with_a_wrong_scalar",
       ErrorCode::mismatch,
       {"bumper", "count", "i32", "i64"},
       Program3([](const Tensor& x, const Tensor& w) {
         return ArgVector{inout(x), in(w), int64_t{1}};
       })},
      {"program_with_a_tensor_for_a_scalar",
       ErrorCode::mismatch,
       {"bumper", "count", "scalar", "in"},
       Program3([](const Tensor& x, const Tensor& w) {
         return ArgVector{inout(x), in(w), in(w)};
       })},
      KernelOfAnotherProgram(),
      {"program_without_an_orchestration",
       ErrorCode::invalid_argument,
       {"bumper", "orchestration"},
       [](Worker& worker) {
         Program program = BumpProgram();
         program.orchestration = {};
         worker.load(program);
       }},
      {"library_that_is_not_there",
       ErrorCode::not_found,
       {"/nowhere/at/all.so"},
       [](Worker& worker) { worker.load("/nowhere/at/all.so"); }},
      {"library_that_is_text",
       ErrorCode::bad_file,
       {"precast-misuse"},
       [](Worker& worker) { worker.load(TemporaryFile("this is no library\n").path()); }},
      {"library_that_is_empty",
       ErrorCode::bad_file,
       {"precast-misuse"},
       [](Worker& worker) { worker.load(TemporaryFile("").path()); }},
      {"library_that_is_truncated",
       ErrorCode::bad_file,
       {"precast-misuse"},
       [](Worker& worker) {
         std::ifstream whole(SomeLibrary(), std::ios::binary);
         std::string bytes(5000, '\0');
         whole.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
         worker.load(TemporaryFile(bytes).path());
       }},
      {"library_that_is_a_folder",
       ErrorCode::bad_file,
       {"/tmp"},
       [](Worker& worker) { worker.load("/tmp"); }},
      {"library_without_a_descriptor",
       ErrorCode::bad_file,
       {"precast_program"},
       [](Worker& worker) { worker.load(SomeLibrary()); }},
  };
}

}  // namespace precast::misuse
