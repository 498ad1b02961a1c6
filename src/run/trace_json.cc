#include <precast/error.h>
#include <precast/trace.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace precast {

namespace {

constexpr int kHost = 1;         // process
constexpr int kFirstWorker = 2;  // its process; the next ones follow

[[noreturn]] void FailTraceFile(std::string_view name) {
  Fail(ErrorCode::io, "cannot write the trace to '{}': {}", name,
       std::generic_category().message(errno != 0 ? errno : EIO));
}

/// Writes to a file through one buffer, so that a document of any size takes little memory.
class Output {
 public:
  Output(std::FILE* file, std::string_view name) : file_(file), name_(name) {}
  template <typename... Args>
  void Print(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), text, std::forward<Args>(args)...);
    if (buffer_.size() > kBuffered) Flush();
  }
  void Flush() {
    bool all = std::fwrite(buffer_.data(), 1, buffer_.size(), file_) == buffer_.size();
    if (!all || std::fflush(file_) != 0) FailTraceFile(name_);
    buffer_.clear();
  }

 private:
  static constexpr size_t kBuffered = 1 << 20;

  std::FILE* file_;
  const std::string_view name_;
  fmt::memory_buffer buffer_;
};

/// A string as JSON, whatever bytes are in it.
std::string Quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with three decimals, exactly.
struct Us {
  int64_t ns;
};

}  // namespace
}  // namespace precast

template <>
struct fmt::formatter<precast::Us> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  auto format(const precast::Us& time, format_context& context) const {
    return fmt::format_to(context.out(), "{}.{:03}", time.ns / 1000, time.ns % 1000);
  }
};

namespace precast {

namespace {

class Writer {
 public:
  Writer(std::FILE* file, std::string_view name) : file_(file, name) {}

  void Write(const Trace& trace) {
    file_.Print("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    WriteNames(trace);
    for (size_t i = 0; i < trace.runs().size(); ++i) WriteRun(trace.runs()[i], i + 1);
    WriteEnd(trace);
    file_.Flush();
  }

 private:
  /// What all events begin with; the caller goes on with members, each behind a comma, and "}}".
  void Begin(std::string_view phase, int process, uint32_t thread, int64_t at_ns) {
    file_.Print("{}{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{}", first_ ? "" : ",\n", phase,
                process, thread, Us{at_ns});
    first_ = false;
  }

  void Name(std::string_view what, int process, uint32_t thread, const std::string& name) {
    Begin("M", process, thread, 0);
    file_.Print(",\"name\":\"{}\",\"args\":{{\"name\":{}}}}}", what, Quoted(name));
  }

  void WriteNames(const Trace& trace) {
    std::set<uint32_t> threads;
    std::set<std::pair<uint32_t, uint16_t>> lanes;
    std::set<uint32_t> workers;
    for (const RunTrace& run : trace.runs()) {
      for (const RunTrace::HostEvent& event : run.host) {
        if (event.thread != RunTrace::kNone) threads.insert(event.thread);
      }
      for (const RunTrace::Block& block : run.blocks) lanes.emplace(run.worker, block.lane);
      if (workers.insert(run.worker).second) {
        Name("process_name", Process(run), 0,
             fmt::format("device {} ({})", run.worker, run.platform));
      }
    }
    Name("process_name", kHost, 0, "host");
    for (uint32_t thread : threads)
      Name("thread_name", kHost, thread, fmt::format("host {}", thread));
    for (auto [worker, lane] : lanes) {
      Name("thread_name", kFirstWorker + static_cast<int>(worker), lane,
           lane == 0 ? std::string("thread 0 (the one that waits)")
                     : fmt::format("thread {}", lane));
    }
  }

  static int Process(const RunTrace& run) { return kFirstWorker + static_cast<int>(run.worker); }

  void WriteRun(const RunTrace& run, size_t number) {
    names_.clear();
    for (const std::string& name : run.names) names_.push_back(Quoted(name));
    std::string title = fmt::format("run {}", number);
    if (!run.program.empty()) title += " " + run.program;
    title = Quoted(title);
    Begin("b", kHost, 0, run.begin_ns);
    file_.Print(
        ",\"cat\":\"run\",\"id\":\"run{}\",\"name\":{},\"args\":{{\"run\":{},\"program\":{},"
        "\"platform\":{},\"error\":{},\"blocks\":{},\"dropped_blocks\":{},"
        "\"dropped_releases\":{},\"dropped_host_events\":{}}}}}",
        number, title, number, Quoted(run.program), Quoted(run.platform),
        run.error.empty() ? "null" : Quoted(run.error), run.blocks.size(), run.dropped_blocks,
        run.dropped_releases, run.dropped_host_events);
    for (const RunTrace::HostEvent& event : run.host) WriteHostEvent(event, run, number);
    WriteInstances(run, number);
    for (const RunTrace::Block& block : run.blocks) WriteBlock(run, block, number);
    WriteFlows(run);
    WriteCounter(run, "ready tasks", run.ready_tasks);
    WriteCounter(run, "heap bytes", run.heap_bytes);
    WriteCounter(run, "mapped bytes", run.mapped_bytes);
    Begin("e", kHost, 0, run.end_ns);
    file_.Print(",\"cat\":\"run\",\"id\":\"run{}\",\"name\":{}}}", number, title);
  }

  void WriteHostEvent(const RunTrace::HostEvent& event, const RunTrace& run, size_t number) {
    static constexpr const char* kKinds[] = {"phase", "submit", "record", "driver", "failed"};
    const char* kind = kKinds[static_cast<size_t>(event.kind)];
    const std::string& name = names_[event.name];
    if (event.thread == RunTrace::kNone) {  // beside what the host's threads did meanwhile
      Begin("b", kHost, 0, event.begin_ns);
      file_.Print(",\"cat\":\"run\",\"id\":\"run{}\",\"name\":{}}}", number, name);
      Begin("e", kHost, 0, event.end_ns);
      file_.Print(",\"cat\":\"run\",\"id\":\"run{}\",\"name\":{}}}", number, name);
      return;
    }
    Begin("X", kHost, event.thread, event.begin_ns);
    file_.Print(
        ",\"dur\":{},\"cat\":\"{}\",\"name\":{},\"args\":{{\"run\":{},\"bytes\":{},"
        "\"modelled_ps\":{}",
        Us{event.end_ns - event.begin_ns}, kind, name, number, event.bytes, event.modelled_ps);
    if (event.kind == RunTrace::HostEvent::Kind::failed) {
      file_.Print(",\"error\":{}", Quoted(run.error));
    }
    file_.Print("}}}}");
  }

  /// Replays of recorded graphs on the device, each from its first to its last task.
  void WriteInstances(const RunTrace& run, size_t number) {
    for (size_t i = 1; i < run.instances.size(); ++i) {
      const RunTrace::Instance& instance = run.instances[i];
      const RunTrace::Task& maker = run.tasks[instance.task];
      Begin("b", Process(run), 0, instance.begin_ns);
      file_.Print(
          ",\"cat\":\"graph\",\"id\":\"run{}.{}\",\"name\":{},\"args\":{{\"run\":{},"
          "\"instance\":{},\"task\":{},\"in_instance\":{},\"tasks\":{}}}}}",
          number, i, names_[instance.name], number, i, maker.number, maker.instance,
          instance.tasks);
      Begin("e", Process(run), 0, std::max(instance.end_ns, instance.begin_ns));
      file_.Print(",\"cat\":\"graph\",\"id\":\"run{}.{}\",\"name\":{}}}", number, i,
                  names_[instance.name]);
    }
  }

  void WriteBlock(const RunTrace& run, const RunTrace::Block& block, size_t number) {
    const RunTrace::Task& task = run.tasks[block.task];
    Begin("X", Process(run), block.lane, block.begin_ns);
    file_.Print(
        ",\"dur\":{},\"cat\":\"{}\",\"name\":{},\"args\":{{\"kernel\":{},\"task\":{},"
        "\"block\":{},\"instance\":{},\"run\":{}}}}}",
        Us{block.end_ns - block.begin_ns}, block.failed ? "block,failed" : "block",
        names_[task.name], names_[block.kernel], task.number, block.block, task.instance, number);
  }

  /// From the block that made a task ready to the task's first one.
  void WriteFlows(const RunTrace& run) {
    for (const RunTrace::Task& task : run.tasks) {
      if (task.released_by == RunTrace::kNone || task.first_block == RunTrace::kNone) continue;
      const RunTrace::Block& from = run.blocks[task.released_by];
      const RunTrace::Block& to = run.blocks[task.first_block];
      uint64_t id = ++flows_;
      // Inside the slice that it leaves, and no later than it arrives.
      int64_t leaves =
          std::clamp(std::min(from.end_ns - 1, to.begin_ns), from.begin_ns, from.end_ns);
      Begin("s", Process(run), from.lane, leaves);
      file_.Print(",\"cat\":\"release\",\"id\":{},\"name\":\"release\"}}", id);
      Begin("f", Process(run), to.lane, std::max(to.begin_ns, leaves));
      file_.Print(",\"bp\":\"e\",\"cat\":\"release\",\"id\":{},\"name\":\"release\"}}", id);
    }
  }

  void WriteCounter(const RunTrace& run, std::string_view name,
                    const std::vector<RunTrace::Sample>& samples) {
    for (const RunTrace::Sample& sample : samples) {
      Begin("C", Process(run), 0, sample.at_ns);
      file_.Print(",\"name\":\"{}\",\"args\":{{\"value\":{}}}}}", name, sample.value);
    }
  }

  void WriteEnd(const Trace& trace) {
    uint64_t blocks = 0, dropped = 0;
    for (const RunTrace& run : trace.runs()) {
      blocks += run.blocks.size();
      dropped += run.dropped_blocks;
    }
    file_.Print(
        "\n],\"otherData\":{{\"runs\":{},\"lost_runs\":{},\"blocks\":{},"
        "\"dropped_blocks\":{}}}}}\n",
        trace.runs().size(), trace.lost_runs(), blocks, dropped);
  }

  Output file_;
  bool first_ = true;
  uint64_t flows_ = 0;
  std::vector<std::string> names_;  // of the run being written, quoted
};

}  // namespace

TraceFile::TraceFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w")) {
  if (file_ == nullptr) FailTraceFile(path_);
}

TraceFile::~TraceFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void TraceFile::Write(const Trace& trace) {
  if (file_ == nullptr) Fail(ErrorCode::stale, "the trace '{}' was written already", path_);
  Writer(file_, path_).Write(trace);
  if (std::fclose(std::exchange(file_, nullptr)) != 0) FailTraceFile(path_);
}

}  // namespace precast
