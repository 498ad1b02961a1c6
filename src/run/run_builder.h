// RunBuilder: what stands behind an Orchestrator. It joins the graph builder, the arguments of the
// run, host access to their bytes, and the definition store (the recorder: graph_recorder.cc).
//
// Used by the phases of a run (run_state.cc). One is kept with each run context and reused, so that
// a warm run finds its tables at their size. The body of a graph is built by another one, which the
// first owns; its arguments are the boundary, and reads go to the outer one and become guards.
//
// Threads: the thread of the orchestration.
#pragma once

#include "device/device_memory.h"
#include "device/driver.h"
#include "device/host_trace.h"
#include "graph/builder.h"
#include "graph/validator.h"
#include "run/definition_store.h"
#include "run/host_access.h"
#include "run/host_arguments.h"
#include "run/kernel_registry.h"

#include <precast/orchestrator.h>
#include <precast/program.h>
#include <precast/worker.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace precast::detail {

/// What runs need of their worker's device.
struct RunDevice {
  device::Driver* driver = nullptr;
  device::DeviceMemory* memory = nullptr;
  run::KernelRegistry* kernels = nullptr;
  run::DefinitionStore* definitions = nullptr;
  std::atomic<uint32_t>* next_serial = nullptr;  ///< of runs and of recordings
};

/// What a run did with recorded graphs.
struct GraphFigures {
  uint64_t recorded = 0;  ///< bodies called
  uint64_t shared = 0;    ///< of those, ones whose definition was there already
  uint64_t reused = 0;    ///< definitions of earlier runs that this one submitted
  uint64_t variants = 0;  ///< of the families that it submitted
  uint64_t replays = 0;   ///< submissions
  uint64_t blocks = 0;    ///< of all instances
};

class RunBuilder {
 public:
  explicit RunBuilder(const RunDevice& device) : RunBuilder(device, nullptr) {}
  RunBuilder(const RunBuilder&) = delete;
  RunBuilder& operator=(const RunBuilder&) = delete;

  /// Builds a graph and a body for nobody, so that the first run finds tables that have their size
  /// and code and memory that are not touched for the first time (3 µs a page, 60 pages). Before
  /// any run.
  void WarmUp();
  /// Whether the builder, from the next Begin on, keeps a log beside the image.
  void Inspect(bool inspected);
  /// Validates and claims the arguments of a run. `program` restricts the kernels; may be null.
  void Begin(graph::ImageMemory* image, uint32_t serial, uint64_t heap_budget, ArgList args,
             const Program* program, HostViewPolicy host_views = HostViewPolicy::cache,
             bool verify_replays = false);
  /// Where the next orchestration records its graphs; null: nowhere.
  void set_trace(device::HostTrace* trace) { trace_ = trace; }
  /// Calls the orchestration. Whatever it throws comes out as an Error.
  void Orchestrate(const Orchestration& orchestration);
  /// The same for a program that is one recorded graph; `args` are those of Begin.
  void OrchestrateReplayable(const Program& program, ArgList args);
  /// Lets go of what Begin and imports claimed. Idempotent.
  void Release();

  graph::Builder& graph() { return graph_; }
  run::HostArguments& host() { return host_; }
  run::HostAccess& access() { return access_; }
  const GraphFigures& graph_figures() const { return figures_; }
  std::vector<std::string>& warnings() { return warnings_; }

  // For who looks at a graph.
  const graph::BuildLog* log() const { return log_.get(); }  ///< null unless inspected
  /// By their numbers in the image.
  std::span<run::Definition* const> definitions() const { return definitions_; }
  const run::KernelRegistry& kernels() const { return *device_.kernels; }
  const Program* program() const { return program_; }
  /// Which tensor argument of the run a buffer is, the first where several share it; -1: none.
  int ArgumentOf(uint32_t buffer) const;

  /// Has the definitions that the image names uploaded, and tells it where they are. Gives the
  /// bytes copied.
  uint64_t UploadDefinitions(device::PinnedArena& arena);
  /// Validates the image that this builder has sealed, together with the definitions it names.
  void CheckImage(std::span<const char> image, graph::ImageKind kind) const;

  // For Orchestrator and Scope.
  Task Submit(const Kernel& kernel, ArgList args, const SubmitOptions& options);
  Task Submit(const MixedKernel& kernel, ArgList args, const SubmitOptions& options);
  Task SubmitGraph(GraphKey key, const GraphBody& body, std::string_view params, ArgList args,
                   const GraphOptions& options);
  Tensor Alloc(const Shape& shape, DType dtype);
  Tensor Alloc(const Shape& shape, DType dtype, double fill);
  uint32_t OpenScope();
  void CloseScope(uint32_t depth);
  void Get(const Tensor& tensor, std::span<const int64_t> index, DType dtype, void* values,
           int64_t count);
  void Set(const Tensor& tensor, std::span<const int64_t> index, DType dtype, const void* values,
           int64_t count);
  [[noreturn]] void ReportFatal(int code, std::string_view message);

 private:
  void CheckOpen() const {
    if (!open_ || recording_) [[unlikely]]
      FailClosed();
  }
  [[noreturn]] void FailClosed() const;
  /// Who uses the orchestrator, in messages.
  const char* Caller() const;
  /// A device tensor in a body.
  [[noreturn]] void FailForeign(const Tensor& tensor) const;
  void SetOptions(graph::TaskSpec& spec, std::string_view name, TaskList after, PredicateRef when);
  void ImportArguments(ArgList args);
  uint32_t KernelIndex(const Kernel& kernel) {
    const CachedKernel& cached = CacheFor(kernel);
    bool hit = cached.serial == graph_.serial() && cached.function == kernel.function &&
               cached.name == kernel.name;
    return hit ? cached.index : FindKernel(kernel);
  }
  uint32_t FindKernel(const Kernel& kernel);
  Task Append(graph::TaskSpec& spec, ArgList args, const SubmitOptions& options);

  RunDevice device_;
  device::HostTrace* trace_ = nullptr;
  graph::Builder graph_;
  std::unique_ptr<graph::BuildLog> log_;
  run::HostArguments host_;
  Orchestrator orchestrator_;
  run::HostAccess access_;
  Args args_;
  const Program* program_ = nullptr;
  bool open_ = false;
  std::optional<Error> fatal_;  // reported, or a misuse that could not be thrown

  struct CachedKernel {
    KernelFunction function = nullptr;
    const char* name = "";
    uint32_t index = 0;
    uint32_t serial = 0;  // of the run in which the program was seen to have it
  };
  static constexpr size_t kCachedKernels = 64;
  CachedKernel& CacheFor(const Kernel& kernel) {
    return kernel_cache_[(reinterpret_cast<uintptr_t>(kernel.function) >> 4) % kCachedKernels];
  }
  CachedKernel kernel_cache_[kCachedKernels];
  std::vector<abi::TaskId> after_;

  // Recorded graphs (graph_recorder.cc). The body of one is built by a builder of its own, `body_`.
  struct Family {  // what this run uses of it, if it is claimed
    std::string key;
    run::Family* family = nullptr;
    bool claimed = false;
    std::vector<const run::Variant*> variants;
    uint32_t name = 0;                  // number in this image of the key as a name
    std::vector<uint32_t> definitions;  // number in this image of each variant's; kNoDefinition
    std::vector<std::vector<uint32_t>> layouts;  // of each variant: see GraphSignature::Matches
    size_t earlier = 0;                          // variants that earlier runs recorded
  };
  static constexpr uint32_t kNoDefinition = ~uint32_t{0};
  static constexpr size_t kMaxDepth = 64;

  RunBuilder(const RunDevice& device, RunBuilder* outer);
  void WarmUpGraph(graph::ImageMemory* image);
  Family& FamilyOf(GraphKey key, const GraphBody& body, std::string_view params);
  std::vector<Arg> ImportForGraph(GraphKey key, ArgList args);
  size_t FindVariant(Family& family, ArgList args, const graph::Arguments& arguments);
  bool Holds(const run::Variant& variant, ArgList args, const graph::Arguments& arguments);
  size_t Record(Family& family, GraphKey key, const GraphBody& body, ArgList args);
  void Verify(const run::Variant& variant, GraphKey key, const GraphBody& body, ArgList args);
  template <typename Use>
  void WithRecording(GraphKey key, const GraphBody& body, ArgList args, Use&& use);
  void BeginBody(std::string_view name, const run::GraphSignature& signature, ArgList args);
  void CheckBody() const;
  void ReadOuter(uint32_t buffer, uint64_t offset, DType dtype, void* values, int64_t count);
  void ReadBoundary(const Tensor& tensor, uint64_t offset, DType dtype, void* values,
                    int64_t count);
  void EndGraphs();

  RunBuilder* const outer_;  // of a body: the builder that records it
  std::unique_ptr<RunBuilder> body_;
  size_t depth_ = 0;
  std::string graph_name_;  // of the body under record here, for messages
  bool verify_replays_ = false;
  bool recording_ = false;           // a body of this builder's is called right now
  std::vector<Tensor> boundary_;     // of the outer builder, by number
  std::vector<Arg> whole_boundary_;  // of a replayable program
  std::vector<run::Guard> guards_;
  graph::ImageMemory body_image_;  // of the body that is recorded here, in body_memory_
  std::vector<uint64_t> body_memory_;
  // By Family::key. They stay from run to run, so that a warm one finds its tables, unless there
  // are too many.
  static constexpr size_t kKeptFamilies = 1024;
  std::unordered_map<std::string_view, std::unique_ptr<Family>> families_;
  std::vector<Family*> claimed_;
  std::vector<const run::Variant*> claiming_;  // scratch
  std::vector<run::Definition*> definitions_;  // by number in this image
  GraphFigures figures_;
  std::vector<std::string> warnings_;
  // The family submitted last, and its name in parts.
  Family* last_family_ = nullptr;
  const void* last_identity_[2] = {};
  GraphKey last_key_ = 0;  // its text is last_text_
  std::string last_text_, last_params_;
  std::string family_name_;  // scratch
};

}  // namespace precast::detail
