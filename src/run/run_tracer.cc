#include "run/run_tracer.h"

#include "run/trace_reader.h"
#include "sched/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

namespace precast::run {

namespace {

/// What an execution records, at most.
struct Demand {
  uint64_t blocks = 0, others = 0;
};

class DemandOf {
 public:
  const Demand& operator()(const TracedImage& image) {
    auto [known, fresh] = known_.emplace(image.bytes, Demand{});
    if (!fresh) return known->second;
    Demand demand;
    const abi::Header& header = image.header();
    demand.blocks = header.blocks;
    demand.others = header.tasks;
    for (abi::TaskId id = abi::kFirstTask;
         id < abi::EndTask(&header) && header.definitions.count > 0;) {
      const abi::Task& task = *abi::TaskAt(image.bytes, id);
      id += task.units;
      if ((task.flags & abi::kTaskGraph) == 0) continue;
      Definition* definition = image.definitions[task.kernel];
      const Demand& inner = (*this)({definition->image.data(), definition->inner});
      demand.blocks += inner.blocks;
      demand.others += inner.others + 2;  // its begin and its end
    }
    return known_[image.bytes] = demand;
  }

 private:
  std::unordered_map<const void*, Demand> known_;
};

}  // namespace

void FreeTraceMemory::operator()(abi::TraceHeader* buffer) const { std::free(buffer); }

void RunTracer::AddPhase(Phase phase, Clock::time_point begin, Clock::time_point end,
                         uint64_t bytes, uint64_t modelled_ps, bool waited) {
  host_.Add({.begin_ns = host_.At(begin),
             .end_ns = host_.At(end),
             .name = host_.NameOf(Name(phase)),
             .thread = waited ? host_.thread() : RunTrace::kNone,
             .kind = device::HostTrace::Kind::phase,
             .bytes = bytes,
             .modelled_ps = modelled_ps});
  last_ = end;
}

abi::TraceHeader* RunTracer::MakeBuffer(const TracedImage& image, int threads, bool poisons) {
  Demand demand = DemandOf()(image);
  uint64_t records = demand.blocks * (poisons ? 2 : 1) + demand.others;
  // The last chunk of each lane may stay almost empty.
  uint64_t chunks = records / abi::kChunkRecords + static_cast<uint64_t>(threads) + 1;
  chunks = std::min(chunks, host_.trace().options().buffer / sizeof(abi::TraceChunk));
  uint64_t bytes = sizeof(abi::TraceHeader) + chunks * sizeof(abi::TraceChunk);
  auto* memory =
      static_cast<abi::TraceHeader*>(std::aligned_alloc(alignof(abi::TraceHeader), bytes));
  if (memory == nullptr) throw std::bad_alloc();
  buffer_.reset(memory);
  std::memset(static_cast<void*>(memory), 0,
              bytes);  // all of it, so that recording meets no page fault
  sched::TraceWriter::Format(memory, chunks, host_.trace().options().system_clock);
  return memory;
}

std::string RunTracer::Deliver(const TracedImage& image, const KernelRegistry& kernels,
                               std::string_view error) {
  RunTrace trace = std::move(trace_);
  trace.end_ns = host_.Now();
  trace.error = error;
  if (!error.empty()) {
    int64_t begin = last_ == Clock::time_point() ? trace.begin_ns : host_.At(last_);
    host_.Add({.begin_ns = begin,
               .end_ns = trace.end_ns,
               .name = host_.NameOf("failed"),
               .thread = host_.thread(),
               .kind = device::HostTrace::Kind::failed});
  }
  trace.names = std::move(host_.names());
  trace.host = std::move(host_.events());
  std::sort(trace.host.begin(), trace.host.end(), [](const auto& a, const auto& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  trace.mapped_bytes = std::move(host_.mapped_bytes());
  trace.dropped_host_events = host_.dropped();
  if (buffer_ != nullptr && buffer_->begin.nanoseconds != 0) {
    ReadTrace(buffer_.get(), image, kernels, host_.trace(), &trace);
  }
  buffer_.reset();
  std::string dropped;
  uint64_t events = trace.dropped_blocks + trace.dropped_releases + trace.dropped_host_events;
  if (events > 0) {
    dropped = fmt::format(
        "the trace has {} of {} blocks; {} releases and {} events of the host are missing, too "
        "(TraceOptions, --trace-buffer)",
        trace.blocks.size(), trace.blocks.size() + trace.dropped_blocks, trace.dropped_releases,
        trace.dropped_host_events);
  }
  host_.trace().Add(std::move(trace));
  return dropped;
}

}  // namespace precast::run
