#include "worker/signature.h"

#include <precast/error.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace precast::detail {

namespace {

std::string Describe(const Arg& arg) {
  if (arg.is_scalar()) return fmt::format("a scalar {}", Name(arg.dtype()));
  return fmt::format("'{}' {} of rank {}", Name(arg.direction()), Name(arg.dtype()),
                     arg.tensor().rank());
}

std::string Describe(const ArgSpec& spec) {
  if (spec.direction == Direction::scalar) return fmt::format("a scalar {}", Name(spec.dtype));
  if (spec.rank == ArgSpec::kAnyRank) {
    return fmt::format("'{}' {} of any rank", Name(spec.direction), Name(spec.dtype));
  }
  return fmt::format("'{}' {} of rank {}", Name(spec.direction), Name(spec.dtype), spec.rank);
}

bool Matches(const ArgSpec& spec, const Arg& arg) {
  if (arg.direction() != spec.direction) return false;
  if (spec.dtype != DType::none && arg.dtype() != spec.dtype) return false;
  return arg.is_scalar() || spec.rank == ArgSpec::kAnyRank || arg.tensor().rank() == spec.rank;
}

/// Each of `parts` has a name of its own.
template <typename Parts>
void CheckNames(const Program& program, std::string_view what, const Parts& parts) {
  std::set<std::string_view> names;
  for (const auto& part : parts) {
    if (part.name.empty()) {
      Fail(ErrorCode::invalid_argument, "program '{}' has a {} without a name", program.name, what);
    }
    if (!names.insert(part.name).second) {
      Fail(ErrorCode::invalid_argument, "program '{}' has two of the {} '{}'", program.name, what,
           part.name);
    }
  }
}

}  // namespace

void CheckProgram(const Program& program) {
  if (program.name.empty()) Fail(ErrorCode::invalid_argument, "a program without a name");
  if (!program.orchestration) {
    Fail(ErrorCode::invalid_argument, "program '{}' has no orchestration", program.name);
  }
  if (program.variadic && program.signature.empty()) {
    Fail(ErrorCode::invalid_argument, "program '{}' is variadic but its signature is empty",
         program.name);
  }
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name == nullptr || kernel.function == nullptr) {
      Fail(ErrorCode::invalid_argument, "program '{}': kernel '{}' has no function", program.name,
           kernel.name == nullptr ? "" : kernel.name);
    }
    if (kernel.core > Core::vector) {
      Fail(ErrorCode::invalid_argument,
           "program '{}': kernel '{}' is for cores of kind {} (0, cube, and 1, vector, allowed)",
           program.name, kernel.name, static_cast<int>(kernel.core));
    }
  }
  for (const ArgSpec& spec : program.signature) {
    if (spec.direction >= Direction::no_dep || spec.rank < ArgSpec::kAnyRank ||
        spec.rank > kMaxRank) {
      Fail(ErrorCode::invalid_argument,
           "program '{}': argument '{}' is '{}' of rank {} (in, out, inout or scalar, rank 0 … {} "
           "allowed)",
           program.name, spec.name, Name(spec.direction), spec.rank, kMaxRank);
    }
    if (spec.dtype != DType::none && SizeOf(spec.dtype) == 0) {
      Fail(ErrorCode::invalid_argument, "program '{}': argument '{}' has the unknown dtype {}",
           program.name, spec.name, static_cast<int>(spec.dtype));
    }
  }
}

void CheckDescriptor(const Program& program) {
  CheckProgram(program);
  CheckNames(program, "case", program.cases);
  CheckNames(program, "parameter", program.params);
  for (const Case& kase : program.cases) {
    if (!kase.make) {
      Fail(ErrorCode::invalid_argument, "program '{}': case '{}' has no function that makes it",
           program.name, kase.name);
    }
  }
}

void CheckSignature(const Program& program, ArgList args) {
  size_t fixed = program.signature.size() - (program.variadic ? 1 : 0);
  if (args.size() < fixed || (!program.variadic && args.size() > fixed)) {
    Fail(ErrorCode::mismatch, "program '{}' takes {}{} arguments, {} were passed", program.name,
         program.variadic ? "at least " : "", fixed, args.size());
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const ArgSpec& spec = program.signature[std::min(i, program.signature.size() - 1)];
    if (!Matches(spec, args[i])) {
      Fail(ErrorCode::mismatch, "program '{}': argument {} '{}' must be {}, {} was passed",
           program.name, i, spec.name, Describe(spec), Describe(args[i]));
    }
  }
}

void CheckTimeout(std::chrono::nanoseconds timeout) {
  if (timeout.count() < 0) {
    Fail(ErrorCode::invalid_argument, "a kernel timeout of {} ms (0, no limit, or more allowed)",
         std::chrono::duration<double, std::milli>(timeout).count());
  }
}

void CheckThreads(int threads) {
  constexpr int kMaxThreads = 256;
  if (threads < 1 || threads > kMaxThreads) {
    Fail(ErrorCode::invalid_argument, "{} threads (1 … {} allowed)", threads, kMaxThreads);
  }
}

}  // namespace precast::detail
