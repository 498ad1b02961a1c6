// RunBuilder: what stands behind an Orchestrator. It joins the graph builder, the arguments of the
// run, and host access to their bytes.
//
// Used by the phases of a run (run_state.cc). One is kept with each run context and reused, so that
// a warm run finds its tables at their size.
//
// Threads: the thread of the orchestration.
#pragma once

#include "device/device_memory.h"
#include "device/driver.h"
#include "graph/builder.h"
#include "run/host_access.h"
#include "run/host_arguments.h"
#include "run/kernel_registry.h"

#include <precast/orchestrator.h>
#include <precast/program.h>
#include <precast/worker.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace precast::detail {

/// What runs need of their worker's device.
struct RunDevice {
  device::Driver* driver = nullptr;
  device::DeviceMemory* memory = nullptr;
  run::KernelRegistry* kernels = nullptr;
};

class RunBuilder {
 public:
  explicit RunBuilder(const RunDevice& device);

  /// Validates and claims the arguments of a run. `program` restricts the kernels; may be null.
  void Begin(graph::ImageMemory* image, uint32_t serial, uint64_t heap_budget, ArgList args,
             const Program* program, HostViewPolicy host_views = HostViewPolicy::cache);
  /// Calls the orchestration. Whatever it throws comes out as an Error.
  void Orchestrate(const Orchestration& orchestration);
  /// Lets go of what Begin and imports claimed. Idempotent.
  void Release();

  graph::Builder& graph() { return graph_; }
  run::HostArguments& host() { return host_; }
  run::HostAccess& access() { return access_; }

  // For Orchestrator and Scope.
  Task Submit(const Kernel& kernel, ArgList args, const SubmitOptions& options);
  Task Submit(const MixedKernel& kernel, ArgList args, const SubmitOptions& options);
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
    if (!open_) [[unlikely]]
      FailClosed();
  }
  [[noreturn]] static void FailClosed();
  void ImportArguments(ArgList args);
  uint32_t KernelIndex(const Kernel& kernel) {
    const CachedKernel& cached = CacheFor(kernel);
    bool hit = cached.serial == graph_.serial() && cached.function == kernel.function &&
               cached.name == kernel.name;
    return hit ? cached.index : FindKernel(kernel);
  }
  uint32_t FindKernel(const Kernel& kernel);
  Task Append(graph::TaskSpec& spec, ArgList args, const SubmitOptions& options);
  Task AppendWithOptions(graph::TaskSpec& spec, ArgList args, const SubmitOptions& options);

  RunDevice device_;
  graph::Builder graph_;
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
};

}  // namespace precast::detail
