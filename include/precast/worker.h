// Worker: one device, its memory, and the runs on it.
//
//   Worker worker({.platform = "a2a3sim"});
//   RunReport report = worker.run(vector_add, {in(x), in(y), out(z)});
//
// Threads: every call may be made from any thread. Runs execute in the order of launch; the
// orchestration of one overlaps the execution of the one before. Orchestrations may use the worker
// that runs them, too; kernels may not start, wait for or copy anything on theirs: that would wait
// for themselves, and is `invalid_argument`. Several workers in one process share nothing. A worker
// must outlive its handles' use; destroying it waits for runs in flight. In the child of a fork,
// the parent's workers and handles may only be destroyed, which does nothing; all else is
// `unsupported`. Workers that the child makes are its own.
#pragma once

#include <precast/argument.h>
#include <precast/orchestrator.h>
#include <precast/program.h>
#include <precast/report.h>
#include <precast/trace.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace precast {

/// A number of bytes.
using Bytes = uint64_t;

/// How get_tensor_data and set_tensor_data reach child memory; results are the same.
enum class HostViewPolicy : uint8_t {
  cache,    ///< through host views that stay until their allocation is freed
  rebuild,  ///< through host views that each run establishes and drops
  copy,     ///< with one device copy per access
};

/// How what a run tells the device travels there; results are the same.
enum class UploadMode : uint8_t {
  one,             ///< all of it in one copy
  per_submission,  ///< each submission of a recorded graph in memory and a copy of its own, before
                   ///< that one: what `one` saves
};

struct WorkerOptions {
  std::string platform = "cpu";   ///< "cpu", "a2a3sim", "a2a3sim:host_page=64k", "a5sim"
  int threads = 0;                ///< that execute kernels; 0: one per processor; at most 256
  Bytes heap = Bytes{256} << 20;  ///< graph heap: device memory for the tensors of one run
  /// Time that one block of a kernel may take; zero: no limit. With a limit kernels run only on
  /// the worker's own threads, so that one that never returns can be given up.
  std::chrono::milliseconds kernel_timeout{0};
  HostViewPolicy host_views = HostViewPolicy::cache;
  /// Bytes of child memory mapped at a time: past it, views that no run uses are dropped, and a
  /// larger allocation is accessed by copies.
  Bytes host_view_budget = Bytes{1} << 30;
  /// Recordings of graphs that are kept, by bytes and by number: past either, the least recently
  /// used go that no run uses. What went is recorded again when it is submitted.
  Bytes definition_budget = Bytes{256} << 20;
  uint64_t max_definitions = 4096;
  /// Recordings of one graph, past which a run that adds another warns.
  uint64_t variant_limit = 64;
  UploadMode upload = UploadMode::one;
  Trace* trace = nullptr;  ///< where runs record what happens when; it outlives the worker
  /// Of messages on standard error: "trace", "debug", "info", "warn", "error" or "off".
  std::string log_level = "warn";
};

/// What a single run changes of the worker's options, and how it is checked.
struct RunOptions {
  std::optional<int> threads;
  std::optional<Bytes> heap;
  std::optional<std::chrono::milliseconds> kernel_timeout;
  std::optional<HostViewPolicy> host_views;
  /// Record each graph again when it is replayed, and fail the run when the recording differs: its
  /// body then depends on more than its arguments. Always on in builds with checks.
  bool verify_replays = false;
  std::optional<UploadMode> upload;
  Trace* trace = nullptr;        ///< as WorkerOptions::trace; null: the worker's
  bool skip_device_run = false;  ///< build and send, but execute nothing and copy nothing back
  bool measure_kernels = false;  ///< fill RunReport::in_kernels_us
  bool oracle = false;           ///< run tasks one by one in submission order, on one thread
  bool reverse_blocks = false;   ///< oracle only: blocks of a task from last to first
  /// Oracle only: fill `out` tensors with a pattern first; elements that a kernel leaves unwritten
  /// fail the run.
  bool poison_outputs = false;
};

/// What a driver call costs on a platform's modelled clock.
struct ModelledCost {
  std::string call;
  double floor_us = 0, page_us = 0, huge_page_us = 0, mib_us = 0;
  std::string assumed;  ///< which of these are assumed, not measured: "", "all", "per byte"
};

struct WorkerProperties {
  std::string platform;
  int cube_cores = 0;
  int vector_cores = 0;
  int threads = 0;          ///< that execute kernels here
  bool host_views = false;  ///< device memory can be mapped into the host
  Bytes host_page_bytes = 0;
  Bytes memory_bytes = 0;           ///< device memory in all
  Bytes memory_in_use = 0;          ///< allocated
  Bytes memory_committed = 0;       ///< backed by physical memory of this machine
  std::vector<ModelledCost> costs;  ///< empty where no clock is modelled
  ChipRates rates;                  ///< zero where no timeline is modelled
};

namespace detail {
class RunState;
struct WorkerAccess;
class WorkerImpl;
}  // namespace detail

/// A launched run. Movable; destroying one waits for its run. It belongs to one thread at a time.
class RunHandle {
 public:
  RunHandle();  ///< holds no run
  RunHandle(RunHandle&&) noexcept;
  RunHandle& operator=(RunHandle&&) noexcept;
  ~RunHandle();

  /// Whether the run has ended, well or not. Results are in place once it says so.
  bool done();
  /// Waits; false when the time passed first.
  bool wait(std::chrono::nanoseconds timeout);
  void wait();
  /// Waits, then gives the report or throws what failed the run. May be called again.
  const RunReport& result();

 private:
  friend class Worker;
  explicit RunHandle(std::unique_ptr<detail::RunState> state);
  std::unique_ptr<detail::RunState> state_;
};

class Worker {
 public:
  explicit Worker(WorkerOptions options = {});
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Device memory that outlives runs ("child memory").

  /// A new allocation; its bytes are undefined. Errors: `out_of_memory` with bytes asked, in use
  /// and available.
  Tensor malloc(const Shape& shape, DType dtype);
  /// Frees a tensor that `malloc` returned. Anything else (an interior view, a second free, another
  /// worker's, one that a run in flight uses) is an error that says which.
  void free(const Tensor& tensor);
  /// Copies a contiguous device tensor from or to host memory of exactly its bytes. Waits for the
  /// unfinished runs that touch it.
  void copy_to(const Tensor& device, const void* source, Bytes bytes);
  void copy_from(void* target, const Tensor& device, Bytes bytes);
  template <HostBuffer C>
  void copy_to(const Tensor& device, const C& source) {
    copy_to(device, std::data(source), std::size(source) * sizeof(*std::data(source)));
  }
  template <HostBuffer C>
  void copy_from(C& target, const Tensor& device) {
    copy_from(std::data(target), device, std::size(target) * sizeof(*std::data(target)));
  }
  /// Sets every byte of a contiguous device tensor.
  void memset(const Tensor& device, uint8_t value);
  /// The device address of a tensor's first element. Opaque: the host must not dereference it.
  uint64_t address(const Tensor& device) const;
  /// The live allocation at a device address, as a tensor. The one way in for raw addresses.
  Tensor tensor_at(uint64_t address, const Shape& shape, DType dtype) const;

  // Programs.

  /// Checks a program, so that what is wrong with it shows before its first run, and gives it back.
  /// Runs of a program check it too, so this is optional, but for a replayable one: that must be
  /// loaded, and live as long as the worker.
  const Program& load(const Program& program);
  /// Opens a shared library that was built with `precast_add_program`, and checks its program. The
  /// reference is valid as long as the worker.
  const Program& load(const std::string& path);

  // Runs.

  /// Builds, sends and executes one run, and copies its results back. Throws what failed it; then
  /// no host argument has changed and the worker is ready for the next run. Only when copying the
  /// results back is what failed, some have: the message says which.
  RunReport run(const Orchestration& orchestration, ArgList args, const RunOptions& options = {});
  /// The same for a program: checks it, and `args` against its signature, first. Its orchestration
  /// may use only the program's own kernels.
  RunReport run(const Program& program, ArgList args, const RunOptions& options = {});

  /// Orchestrates on the calling thread and returns after launch. `in` buffers are free then; `out`
  /// and `inout` buffers must live, untouched, until `wait` or `result` returned or `done` was
  /// true.
  RunHandle submit(const Orchestration& orchestration, ArgList args,
                   const RunOptions& options = {});
  RunHandle submit(const Program& program, ArgList args, const RunOptions& options = {});

  WorkerProperties properties() const;

 private:
  friend struct detail::WorkerAccess;
  explicit Worker(std::unique_ptr<detail::WorkerImpl> impl);
  detail::WorkerImpl& impl() const;  ///< throws in another process than the worker's
  std::unique_ptr<detail::WorkerImpl> impl_;
};

/// A platform that a Worker can be made for.
struct PlatformInfo {
  std::string name;
  std::string summary;
  std::string options;          ///< what may follow the name, e.g. "host_page=4k|64k"; or empty
  WorkerProperties properties;  ///< of a worker with default options
};
std::vector<PlatformInfo> Platforms();

/// "0.1.0"
std::string_view Version();

}  // namespace precast
