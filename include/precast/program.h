// Program: an orchestration with its kernels, signature and cases, as the `precast` command and
// `Worker::load` take it. Either compiled in, or a shared library made by `precast_add_program`:
//
//   PRECAST_PROGRAM(vector_add) {
//     return {.name = "vector_add",
//             .summary = "z = x + 2 y",
//             .orchestration = Build,
//             .signature = {{Direction::in, DType::f32, 1, "x"}, …},
//             .kernels = {add},
//             .cases = {{"default", "1 Mi elements", MakeCase}}};
//   }
#pragma once

#include <precast/argument.h>
#include <precast/kernel.h>
#include <precast/orchestrator.h>
#include <precast/report.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace precast {

class Worker;
struct RunOptions;

/// Changes whenever the layout of what this header declares changes. `Worker::load` refuses a
/// shared library that was built with another.
inline constexpr uint32_t kProgramAbi = 4;

/// What one argument of a program must be.
struct ArgSpec {
  Direction direction = Direction::in;  ///< `scalar` for a scalar
  DType dtype = DType::f32;             ///< `none` takes every dtype
  int rank = 1;                         ///< of a tensor; kAnyRank takes every rank
  std::string name;
  static constexpr int kAnyRank = -1;
};

/// A parameter that users set with `--set name=value`, or as an option of its own: `--name value`.
/// The command refuses a program whose parameter has the name of one of its own options, such as
/// `rounds` or `platform`.
struct ParamSpec {
  std::string name;
  std::string default_value;
  std::string help;
};

/// Values of a program's parameters, by name.
class Params {
 public:
  Params() = default;
  /// Every parameter at its default.
  explicit Params(const std::vector<ParamSpec>& specs);

  /// Throws `Error{not_found}` that lists the names there are.
  void Set(std::string_view name, std::string value);
  const std::string& Text(std::string_view name) const;
  /// The value as a number in [low, high]. Throws `Error{usage}` with the value found and allowed.
  int64_t Integer(std::string_view name, int64_t low, int64_t high) const;
  double Number(std::string_view name, double low, double high) const;

 private:
  struct Value {
    std::string name, text;
  };
  std::vector<Value> values_;
};

/// The outcome of comparing results with an independent reference.
struct GoldenResult {
  bool pass = false;
  double max_abs_err = 0;
  std::string detail = {};  ///< the first difference, or why there was nothing to compare
  bool skipped = false;     ///< there was nothing to compare
};

/// One prepared case of a program on one worker: it makes the inputs, says what each run gets, and
/// checks the results. The command calls, for round = 0, 1, …: `Args`, then the run, then `After`;
/// then `Check` once, unless the user skipped it.
class CaseRun {
 public:
  virtual ~CaseRun() = default;
  /// Arguments of this round's run. Results of earlier rounds are reset here where that matters.
  virtual std::vector<Arg> Args(int round) = 0;
  /// How many rounds to run when the user asked for `asked` (0: not said). Called before each
  /// round.
  virtual bool WantsRound(int round, int asked) { return round < (asked > 0 ? asked : 1); }
  /// What the runs of this case need beyond what the user asked for.
  virtual void Adjust(RunOptions& /*options*/) const {}
  virtual void After(int /*round*/, const RunReport& /*report*/) {}
  virtual GoldenResult Check() = 0;
  /// Text that the case produced so far, for jobs that produce text; null when there is none.
  virtual const std::string* Text() const { return nullptr; }
  /// Lines for the end of the command's output, e.g. tokens per second.
  virtual std::string Summary() const { return {}; }
  /// The same for the JSON document: further keys with their values.
  virtual std::vector<std::pair<std::string, std::string>> Facts() const { return {}; }
};

/// What a case is made with.
struct CaseContext {
  Worker& worker;
  const Params& params;
  bool golden = true;   ///< `Check` will be called
  bool execute = true;  ///< false: runs are built and sent only, and no result ever changes
  /// Where a job may show text while it is made; may be empty.
  std::function<void(std::string_view)> stream = {};
};

struct Case {
  std::string name;
  std::string summary;
  std::function<std::unique_ptr<CaseRun>(const CaseContext&)> make;
};

struct Program {
  std::string name;
  std::string summary;
  Orchestration orchestration;
  std::vector<ArgSpec> signature;
  bool variadic = false;  ///< the last entry of `signature` may occur any number of times
  std::vector<Kernel> kernels;
  std::vector<Case> cases;  ///< the first one is the default
  std::vector<ParamSpec> params = {};
  /// Whole runs are replayed: the orchestration is treated like the body of a recorded graph
  /// (precast/graph.h) whose boundary are the run's arguments. While nothing that it looked at has
  /// changed, the next run submits one task. The orchestration must then be a function of its
  /// arguments alone, and the program must have been loaded by the worker and live as long.
  bool replayable = false;
};

}  // namespace precast

/// Defines a program; the body returns a `precast::Program`. In a module built by
/// `precast_add_program` it is also what the module exports, one program per module.
#ifdef PRECAST_PROGRAM_MODULE
#define PRECAST_PROGRAM(id)                                                                       \
  static ::precast::Program precast_make_program_##id();                                          \
  extern "C" __attribute__((visibility("default"))) const uint32_t precast_program_abi =          \
      ::precast::kProgramAbi;                                                                     \
  extern "C" __attribute__((visibility("default"))) const ::precast::Program& precast_program() { \
    static const ::precast::Program program = precast_make_program_##id();                        \
    return program;                                                                               \
  }                                                                                               \
  static ::precast::Program precast_make_program_##id()
#else
#define PRECAST_PROGRAM(id)                                                \
  static ::precast::Program precast_make_program_##id();                   \
  const ::precast::Program& precast_program_##id() {                       \
    static const ::precast::Program program = precast_make_program_##id(); \
    return program;                                                        \
  }                                                                        \
  static ::precast::Program precast_make_program_##id()
#endif
