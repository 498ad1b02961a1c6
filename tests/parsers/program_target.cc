#include "cli/command_line.h"
#include "cli/job_report.h"
#include "cli/output.h"
#include "parsers/target.h"

#include <precast/error.h>
#include <precast/program.h>
#include <precast/worker.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace precast::test {
namespace {

void DoNothing(const KernelContext&) {}

/// A descriptor as a shared library may hand it over. `texts` keeps what its kernels point at.
Program ReadProgram(InputReader& input, std::deque<std::string>* texts) {
  auto text = [&]() -> const char* {
    return input.Below(4) == 0 ? nullptr : texts->emplace_back(input.Text()).c_str();
  };
  Program program;
  uint8_t parts = input.Byte();
  program.name = input.Text();
  program.summary = input.Text();
  program.variadic = (parts & 1) != 0;
  program.replayable = (parts & 2) != 0;
  for (size_t i = input.Below(4); i > 0; --i) {
    Kernel kernel;
    kernel.name = text();
    kernel.core = static_cast<Core>(input.Below(4));
    kernel.function = input.Below(4) == 0 ? nullptr : DoNothing;
    kernel.platforms = text();
    program.kernels.push_back(kernel);
  }
  for (size_t i = input.Below(5); i > 0; --i) {
    ArgSpec& spec = program.signature.emplace_back();
    spec.direction = static_cast<Direction>(input.Below(6));
    spec.dtype = static_cast<DType>(input.Below(20));
    spec.rank = static_cast<int>(input.Below(9)) - 2;
    spec.name = input.Text();
  }
  for (size_t i = input.Below(4); i > 0; --i) {
    Case& kase = program.cases.emplace_back();
    kase.name = input.Text();
    kase.summary = input.Text();
    if (input.Below(4) != 0) kase.make = [](const CaseContext&) { return nullptr; };
  }
  for (size_t i = input.Below(4); i > 0; --i) {
    program.params.push_back({input.Text(), input.Text(), input.Text()});
  }
  if ((parts & 4) == 0) {
    // By value: it has to stay right when the program is moved.
    program.orchestration = [kernels = program.kernels](Orchestrator& o, const Args& args) {
      for (size_t i = 0; i < args.tensors(); ++i) {
        for (const Kernel& kernel : kernels) o.submit(kernel, {inout(args.tensor(i))});
      }
      if (args.tensors() == 0) o.submit(kNoKernel, {});
    };
  }
  return program;
}

/// Arguments that may or may not fit a signature.
std::vector<Arg> ReadArguments(InputReader& input, const Program& program,
                               std::vector<double>* memory) {
  std::vector<Arg> args;
  size_t count = input.Below(2) == 0 ? program.signature.size() : input.Below(6);
  memory->assign(count * 64, 0);
  for (size_t i = 0; i < count; ++i) {
    ArgSpec spec = i < program.signature.size() ? program.signature[i] : ArgSpec{};
    if (input.Below(4) == 0) spec.direction = static_cast<Direction>(input.Below(5));
    if (input.Below(4) == 0) spec.rank = static_cast<int>(input.Below(6));
    if (input.Below(8) == 0) spec.dtype = static_cast<DType>(input.Below(20));
    if (spec.direction == Direction::scalar) {
      args.emplace_back(spec.dtype == DType::i32 ? Arg(int32_t{1}) : Arg(1.5f));
      continue;
    }
    double* data = memory->data() + i * 64;
    std::vector<int64_t> extents(static_cast<size_t>(std::max(spec.rank, 0)), 2);
    Shape shape{std::span<const int64_t>(extents)};
    Tensor tensor = spec.dtype == DType::u8 ? Tensor::host(reinterpret_cast<uint8_t*>(data), shape)
                    : spec.dtype == DType::i32
                        ? Tensor::host(reinterpret_cast<int32_t*>(data), shape)
                        : Tensor::host(reinterpret_cast<float*>(data), shape);
    args.push_back(spec.direction == Direction::out      ? out(tensor)
                   : spec.direction == Direction::inout  ? inout(tensor)
                   : spec.direction == Direction::no_dep ? no_dep(tensor)
                                                         : in(tensor));
  }
  return args;
}

/// What the command shows of a program.
void Show(const Program& program) {
  static std::FILE* nowhere = std::fopen("/dev/null", "w");
  cli::Output output(nowhere);
  const cli::Programs programs = {&program};
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"run", program.name, "--help"},
        {"run", program.name, "--case=" + (program.cases.empty() ? "" : program.cases[0].name)}}) {
    std::string help_line;
    int exit_code = 0;
    try {
      cli::Prepare(args, programs, output, &help_line, &exit_code);
    } catch (const Error&) {
      // Its name may look like an option, or a parameter be called like one.
    }
  }
  (void)cli::JsonDocument({program.name, program.summary, "cpu"},
                          Error(ErrorCode::internal, program.name));
}

}  // namespace

void FuzzProgram(Input bytes) {
  InputReader input(bytes);
  std::deque<std::string> texts;
  const Program program = ReadProgram(input, &texts);
  Worker worker({.platform = "cpu", .threads = 1, .heap = 1 << 16, .log_level = "off"});
  try {
    worker.load(program);
  } catch (const Error& error) {
    Require(error.code() == ErrorCode::invalid_argument, "a bad descriptor is an invalid argument");
    return;
  }
  Require(!program.name.empty() && program.orchestration, "what was loaded can be run");
  Show(program);
  std::vector<double> memory;
  for (int round = 0; round < 2; ++round) {
    std::vector<Arg> args = ReadArguments(input, program, &memory);
    try {
      worker.run(program, args);
    } catch (const Error& error) {
      Require(error.code() != ErrorCode::internal, "arguments are refused for a reason");
    }
  }
}

}  // namespace precast::test
