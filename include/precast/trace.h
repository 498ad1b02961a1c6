// Trace: when everything in a run happened. Runs that are given one record into it; what they cost
// without one is not changed.
//
//   Trace trace;
//   worker.run(vector_add, {in(x), in(y), out(z)}, {.trace = &trace});
//   TraceFile("vector_add.json").Write(trace);  // ui.perfetto.dev and chrome://tracing open it
//
// A run that fails records as well, up to its failure. A Trace must outlive the runs that record
// into it, and may be shared by runs, threads and workers.
//
// Threads: runs may record at the same time; `runs` and `TraceFile::Write` need that none does.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace precast {

/// What happened in one run. Times are nanoseconds since its Trace was made; names are numbers of
/// entries of `names`.
struct RunTrace {
  static constexpr uint32_t kNone = ~uint32_t{0};

  /// What the host did. Events of one thread are disjoint, or one within the other.
  struct HostEvent {
    enum class Kind : uint8_t {
      phase,   ///< of the run, see Phase; one may come in several parts
      submit,  ///< a submission of a recorded graph
      record,  ///< a graph's body was called
      driver,  ///< a call of the device's driver
      failed,  ///< from the end of the last phase to the failure
    };
    int64_t begin_ns = 0, end_ns = 0;
    uint32_t name = 0;
    uint32_t thread = 0;  ///< of the host, numbered by the Trace; kNone: nobody waited meanwhile
    Kind kind = Kind::phase;
    uint64_t bytes = 0;        ///< that the call or phase was about
    uint64_t modelled_ps = 0;  ///< what it took on the platform's modelled clock
  };
  /// The run itself (number 0), and each recorded graph that the device instantiated.
  struct Instance {
    uint32_t task = kNone;        ///< the graph task that made it
    uint32_t name = 0;            ///< of that task
    uint32_t first_task = kNone;  ///< its tasks stand together in `tasks`, in submission order
    uint32_t tasks = 0;
    int64_t begin_ns = 0, end_ns = -1;  ///< end -1: it did not end, or that was dropped
  };
  struct Task {
    uint32_t instance = 0;
    uint32_t number = 0;  ///< in its instance's order of submission
    uint32_t name = 0;
    /// The block at whose end the task became ready, through tasks without blocks where there are
    /// such; kNone: it was ready from the start, or that was dropped.
    uint32_t released_by = kNone;
    uint32_t first_block = kNone;  ///< that began first; kNone: none was recorded
    int64_t ready_ns = -1;         ///< -1: not known to have become ready
  };
  /// A call of a kernel. Blocks of one lane are disjoint.
  struct Block {
    int64_t begin_ns = 0, end_ns = 0;
    uint32_t task = 0;
    uint32_t block = 0;
    uint32_t kernel = 0;  ///< its name
    uint16_t lane = 0;    ///< executing thread; 0: the one that waited for the run
    bool failed = false;  ///< it threw, or did not return in time
  };
  /// The value of a counter from this moment on.
  struct Sample {
    int64_t at_ns = 0;
    uint64_t value = 0;
  };

  std::string program;   ///< empty when a bare orchestration was run
  std::string platform;  ///< of the worker
  uint32_t worker = 0;   ///< numbered by the Trace
  int64_t begin_ns = 0, end_ns = 0;
  std::string error;  ///< what failed the run; empty: nothing
  std::vector<std::string> names;
  std::vector<HostEvent> host;
  std::vector<Instance> instances;
  std::vector<Task> tasks;
  std::vector<Block> blocks;  ///< lane by lane, in the order of execution

  std::vector<Sample> ready_tasks;   ///< tasks that could run and did not yet
  std::vector<Sample> heap_bytes;    ///< of the graph heap, with values that are still needed
  std::vector<Sample> mapped_bytes;  ///< of all host views of the worker

  // What found no room.
  uint64_t dropped_blocks = 0;
  uint64_t dropped_releases = 0;  ///< of tasks and instances
  uint64_t dropped_host_events = 0;
};

struct TraceOptions {
  /// Bytes for what executing threads record in one run: 32 for each block, and for each task that
  /// another one releases. Past it they drop and count.
  uint64_t buffer = uint64_t{256} << 20;
  /// Events of the host in one run.
  uint64_t host_events = uint64_t{1} << 20;
  /// Read the clock of the system where the processor's counter would do.
  bool system_clock = false;
};

class Trace {
 public:
  explicit Trace(const TraceOptions& options = {}) : options_(options) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  const TraceOptions& options() const { return options_; }
  /// In the order in which they ended.
  const std::vector<RunTrace>& runs() const { return runs_; }
  /// Runs whose trace found no memory.
  uint64_t lost_runs() const { return lost_runs_; }

  // For runs.

  int64_t Nanoseconds(std::chrono::steady_clock::time_point time) const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin_).count();
  }
  /// The number of the calling thread.
  uint32_t ThreadNumber();
  /// The number of a worker, which is named by something unique to it.
  uint32_t WorkerNumber(const void* worker);
  void Add(RunTrace run);
  void NoteLost() noexcept;

 private:
  const TraceOptions options_;
  const std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<std::thread::id> threads_;
  std::vector<const void*> workers_;
  std::vector<RunTrace> runs_;
  uint64_t lost_runs_ = 0;
};

/// A file in the JSON format of Chrome's and Perfetto's viewers (docs/trace.md), opened before the
/// first run so that a bad name shows at once.
class TraceFile {
 public:
  /// Throws `Error{io}` when it can't be opened.
  explicit TraceFile(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Writes all runs of the trace, and closes the file. Throws `Error{io}`. At most once.
  void Write(const Trace& trace);
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::FILE* file_;
};

}  // namespace precast
