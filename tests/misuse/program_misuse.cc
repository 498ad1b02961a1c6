// What a program must be, compiled in or in a shared library.
#include "misuse/misuse.h"

#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace precast::misuse {
namespace {

using ArgVector = std::vector<Arg>;

void BumpFirst(Orchestrator& o, const Args& args) {
  o.submit(bump, {inout(args.tensor(0)), int64_t{1}});
}

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

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The bytes of a good program's library, except that it says it was built for interface `abi`.
std::string LibraryBuiltFor(uint32_t abi) {
  const std::string path = PRECAST_TEST_PROGRAMS_DIR "/cli_probe.so";
  std::string bytes = ReadFile(path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  if (library == nullptr) return {};
  const void* symbol = dlsym(library, "precast_program_abi");
  Dl_info info{};
  EXPECT_NE(dladdr(symbol, &info), 0);
  auto address = static_cast<uint64_t>(static_cast<const char*>(symbol) -
                                       static_cast<const char*>(info.dli_fbase));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
        address >= segment.p_vaddr + segment.p_filesz) {
      continue;
    }
    std::memcpy(bytes.data() + segment.p_offset + (address - segment.p_vaddr), &abi, sizeof(abi));
  }
  dlclose(library);
  return bytes;
}

}  // namespace

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
         std::string whole = ReadFile(SomeLibrary());
         worker.load(TemporaryFile(whole.substr(0, whole.size() / 2)).path());
       }},
      {"variadic_program_without_a_signature_that_was_not_loaded",
       ErrorCode::invalid_argument,
       {"bumper", "variadic", "empty"},
       [](Worker& worker) {
         Program program = BumpProgram();
         program.signature.clear();
         program.variadic = true;
         std::vector<int64_t> x(8);
         worker.run(program, {inout(x)});
       }},
      {"program_without_an_orchestration_that_was_not_loaded",
       ErrorCode::invalid_argument,
       {"bumper", "no orchestration"},
       [](Worker& worker) {
         Program program = BumpProgram();
         program.signature.clear();
         program.orchestration = nullptr;
         worker.submit(program, {});
       }},
      {"library_that_is_a_folder",
       ErrorCode::bad_file,
       {"/tmp"},
       [](Worker& worker) { worker.load("/tmp"); }},
      {"library_of_another_interface",
       ErrorCode::bad_file,
       {"precast-misuse", std::to_string(kProgramAbi + 41), std::to_string(kProgramAbi)},
       [](Worker& worker) {
         worker.load(TemporaryFile(LibraryBuiltFor(kProgramAbi + 41)).path());
       }},
      {"library_without_a_descriptor",
       ErrorCode::bad_file,
       {"precast_program"},
       [](Worker& worker) { worker.load(SomeLibrary()); }},
  };
}

}  // namespace precast::misuse
