#include "run/trace_reader.h"

#include "run/heap_use.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace precast::run {

namespace {

using abi::TraceRecord;

constexpr uint32_t kNone = RunTrace::kNone;

uint64_t Item(const TraceRecord& record) { return uint64_t{record.item_high} << 32 | record.item; }

/// Values of a counter, in the order of time. Changes that are close together are one sample, so
/// that there are some thousands at most.
std::vector<RunTrace::Sample> Summed(std::vector<Change> changes) {
  constexpr int64_t kMostSamples = 1 << 13;
  std::vector<RunTrace::Sample> samples;
  if (changes.empty()) return samples;
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
  int64_t width = (changes.back().at_ns - changes.front().at_ns) / kMostSamples + 1;
  int64_t value = 0, until = changes.front().at_ns;
  for (const Change& change : changes) {
    value += change.by;
    if (change.at_ns >= until) {
      samples.push_back({change.at_ns, 0});
      until = change.at_ns + width;
    }
    samples.back().value = static_cast<uint64_t>(std::max<int64_t>(value, 0));
  }
  return samples;
}

/// Ticks of the device as times of a Trace.
class Timeline {
 public:
  Timeline(const abi::TraceHeader& buffer, const Trace& clock)
      : begin_(buffer.begin),
        origin_(clock.Nanoseconds(std::chrono::steady_clock::time_point(
            std::chrono::nanoseconds(buffer.begin.nanoseconds)))) {
    if (buffer.end.ticks > begin_.ticks) {
      ns_per_tick_ = static_cast<double>(buffer.end.nanoseconds - begin_.nanoseconds) /
                     static_cast<double>(buffer.end.ticks - begin_.ticks);
    }
  }
  int64_t begin() const { return origin_; }
  int64_t At(uint64_t ticks) const {
    return origin_ +
           static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(ticks - begin_.ticks)) *
                                ns_per_tick_);
  }

 private:
  abi::TraceMoment begin_;
  int64_t origin_;
  double ns_per_tick_ = 1;
};

/// One image whose tasks were executed, the run's or a definition's.
struct Source {
  TracedImage image;
  std::vector<RunTrace::Task> tasks;  // as in an instance; ready_ns 0: from its start
};

class Reader {
 public:
  Reader(abi::TraceHeader* buffer, const KernelRegistry& kernels, const Trace& clock,
         RunTrace* trace)
      : buffer_(buffer), kernels_(kernels), time_(*buffer, clock), trace_(*trace) {}

  void Read(const TracedImage& image) {
    for (const abi::TraceLane& lane : buffer_->lane) {
      trace_.dropped_blocks += lane.dropped_blocks;
      trace_.dropped_releases += lane.dropped_others;
    }
    dropped_ = trace_.dropped_blocks + trace_.dropped_releases > 0;
    SortChunks();
    AddInstance(0, image, kNone, time_.begin());
    if (buffer_->end.nanoseconds != 0) trace_.instances[0].end_ns = time_.At(buffer_->end.ticks);
    MakeInstances();
    ReadLanes();
    resolved_.assign(trace_.tasks.size(), false);
    for (uint32_t task = 0; task < trace_.tasks.size(); ++task) Resolve(task);
    CountReady();
    trace_.heap_bytes = Summed(HeapUse(image, TimesOfRun()));
  }

 private:
  /// Chunks lane by lane, each lane's in the order of time.
  void SortChunks() {
    uint64_t used = std::min(buffer_->taken, buffer_->chunks);
    for (uint64_t i = 0; i < used; ++i) chunks_.push_back(abi::ChunkAt(buffer_, i));
    std::stable_sort(chunks_.begin(), chunks_.end(),
                     [](const auto* a, const auto* b) { return a->lane < b->lane; });
  }
  template <typename Visit>
  void ForEachRecord(Visit&& visit) const {
    for (const abi::TraceChunk* chunk : chunks_) {
      for (uint64_t i = 0; i < chunk->records; ++i) visit(*chunk, chunk->record[i]);
    }
  }

  uint32_t NameOf(std::string name) {
    auto [known, fresh] =
        names_.emplace(std::move(name), static_cast<uint32_t>(trace_.names.size()));
    if (fresh) trace_.names.push_back(known->first);
    return known->second;
  }
  uint32_t KernelName(uint32_t kernel) {
    auto [known, fresh] = kernel_names_.emplace(kernel, 0);
    if (fresh) {
      known->second =
          NameOf(kernel == abi::kNoKernel ? std::string("no kernel") : kernels_.Name(kernel));
    }
    return known->second;
  }

  Source& SourceOf(const TracedImage& image) {
    Source& source = sources_[image.bytes];
    if (source.image.bytes != nullptr) return source;
    source.image = image;
    const abi::Header& header = image.header();
    source.tasks.resize(header.tasks);
    const auto* names = abi::At<abi::Name>(image.bytes, header.names);
    const char* text = abi::At<char>(image.bytes, header.name_bytes);
    const auto* mixes = abi::At<abi::Mix>(image.bytes, header.mixes);
    std::vector<uint32_t> numbers(header.names.count, kNone);
    for (abi::TaskId id = abi::kFirstTask; id < abi::EndTask(&header);) {
      const abi::Task& task = *abi::TaskAt(image.bytes, id);
      RunTrace::Task& made = source.tasks[task.number];
      made.number = task.number;
      if (task.producers == 0) made.ready_ns = 0;
      if (task.name == 0) {
        bool mixed = (task.flags & abi::kTaskMixed) != 0;
        made.name = KernelName(mixed ? mixes[task.kernel].kernel[0] : task.kernel);
      } else {
        uint32_t& number = numbers[task.name - 1];
        const abi::Name& name = names[task.name - 1];
        if (number == kNone) number = NameOf(std::string(text + name.offset, name.bytes));
        made.name = number;
      }
      id += task.units;
    }
    return source;
  }

  struct Known {  // of an instance
    uint32_t serial;
    const Source* source;
  };
  const Source& SourceOf(uint32_t instance) const { return *known_[instance].source; }
  const abi::Task& TaskOf(uint32_t instance, abi::TaskId id) const {
    return *abi::TaskAt(SourceOf(instance).image.bytes, id);
  }
  /// The number of an instance; kNone for one that was not recorded.
  uint32_t InstanceOf(uint32_t serial) const {
    auto found =
        std::lower_bound(known_.begin(), known_.end(), serial,
                         [](const Known& k, uint32_t wanted) { return k.serial < wanted; });
    if (found == known_.end() || found->serial != serial) return kNone;
    return static_cast<uint32_t>(found - known_.begin());
  }
  uint32_t IndexOf(uint32_t instance, abi::TaskId id) const {
    return trace_.instances[instance].first_task + TaskOf(instance, id).number;
  }

  void AddInstance(uint32_t serial, const TracedImage& image, uint32_t maker, int64_t begin) {
    const Source& source = SourceOf(image);
    uint32_t number = static_cast<uint32_t>(known_.size());
    known_.push_back({serial, &source});
    uint32_t first = static_cast<uint32_t>(trace_.tasks.size());
    RunTrace::Instance instance{.task = maker, .first_task = first, .begin_ns = begin};
    instance.tasks = static_cast<uint32_t>(source.tasks.size());
    if (maker != kNone) instance.name = trace_.tasks[maker].name;
    trace_.instances.push_back(instance);
    trace_.tasks.insert(trace_.tasks.end(), source.tasks.begin(), source.tasks.end());
    for (uint32_t i = first; i < trace_.tasks.size(); ++i) {
      trace_.tasks[i].instance = number;
      if (trace_.tasks[i].ready_ns == 0) trace_.tasks[i].ready_ns = begin;
    }
  }

  /// An instance is made after the one around it, so its serial is larger.
  void MakeInstances() {
    std::vector<const TraceRecord*> made;
    ForEachRecord([&](const auto&, const TraceRecord& record) {
      if (record.kind == abi::kTraceBeginInstance) made.push_back(&record);
    });
    std::sort(made.begin(), made.end(),
              [](const auto* a, const auto* b) { return a->item < b->item; });
    for (const TraceRecord* record : made) {
      uint32_t parent = InstanceOf(record->instance);
      Definition* definition =
          SourceOf(parent).image.definitions[TaskOf(parent, record->task).kernel];
      AddInstance(record->item, {definition->image.data(), definition->inner},
                  IndexOf(parent, record->task), time_.At(record->end));
    }
    made_by_.assign(trace_.tasks.size(), kNone);
    for (uint32_t i = 1; i < trace_.instances.size(); ++i) made_by_[trace_.instances[i].task] = i;
  }

  void ReadLanes() {
    links_.assign(trace_.tasks.size(), {});
    ended_by_.assign(trace_.instances.size(), {});
    uint64_t lane = ~uint64_t{0};
    uint32_t last = kNone;  // block of that lane
    ForEachRecord([&](const abi::TraceChunk& chunk, const TraceRecord& record) {
      if (chunk.lane != lane) last = kNone;
      lane = chunk.lane;
      if (record.kind == abi::kTraceBeginInstance) return;
      uint32_t instance = InstanceOf(record.instance);
      if (record.kind == abi::kTraceBlock || record.kind == abi::kTraceFailedBlock) {
        AddBlock(instance, record, static_cast<uint16_t>(lane), last);
        last = static_cast<uint32_t>(trace_.blocks.size() - 1);
        return;
      }
      int64_t at = time_.At(record.end);
      if (record.kind == abi::kTraceEndInstance && record.task == 0) {  // by the oracle
        trace_.instances[instance].end_ns = at;
        return;
      }
      // What a task with blocks releases, it does right behind its last one.
      uint32_t task = IndexOf(instance, record.task);
      Link link{kNone, task};
      if (last != kNone && trace_.blocks[last].task == task) link = {last, kNone};
      if (link.block == kNone && HasBlocks(TaskOf(instance, record.task))) link = {};  // dropped
      if (record.kind == abi::kTraceEndInstance) {
        trace_.instances[instance].end_ns = at;
        ended_by_[instance] = link;
      } else {
        uint32_t released = IndexOf(instance, record.item);
        trace_.tasks[released].ready_ns = at;
        links_[released] = link;
      }
    });
  }

  /// A task that surely calls a kernel.
  static bool HasBlocks(const abi::Task& task) {
    return task.kernel != abi::kNoKernel && task.predicate == 0 &&
           (task.flags & abi::kTaskGraph) == 0;
  }

  void AddBlock(uint32_t instance, const TraceRecord& record, uint16_t lane, uint32_t last) {
    const abi::Task& task = TaskOf(instance, record.task);
    uint64_t item = Item(record);
    uint32_t kernel = task.kernel;
    if ((task.flags & abi::kTaskMixed) != 0) {
      const Source& source = SourceOf(instance);
      const auto* mixes = abi::At<abi::Mix>(source.image.bytes, source.image.header().mixes);
      kernel = mixes[task.kernel].kernel[item / task.blocks];
    }
    RunTrace::Block block;
    block.begin_ns = time_.At(record.begin);
    // Readings of the clock are not ordered to the last few ns.
    if (last != kNone) block.begin_ns = std::max(block.begin_ns, trace_.blocks[last].end_ns);
    block.end_ns = std::max(block.begin_ns, time_.At(record.end));
    block.task = IndexOf(instance, record.task);
    block.block = static_cast<uint32_t>(item % task.blocks);
    block.kernel = KernelName(kernel);
    block.lane = lane;
    block.failed = record.kind == abi::kTraceFailedBlock;
    uint32_t& first = trace_.tasks[block.task].first_block;
    if (first == kNone || block.begin_ns < trace_.blocks[first].begin_ns) {
      first = static_cast<uint32_t>(trace_.blocks.size());
    }
    trace_.blocks.push_back(block);
  }

  /// What made a task ready: the end of a block, or what made another task ready (one that has no
  /// blocks); neither: unknown, or the start.
  struct Link {
    uint32_t block = kNone;
    uint32_t task = kNone;
  };

  /// Whether a task without recorded blocks may have had some that were dropped.
  bool MayHaveRun(uint32_t task) const {
    return dropped_ && trace_.tasks[task].first_block == kNone;
  }

  /// Finds released_by of a task: follows links until a block stands at their end, and notes it for
  /// all on the way.
  void Resolve(uint32_t task) {
    way_.clear();
    uint32_t block = kNone;
    while (!resolved_[task]) {
      resolved_[task] = true;
      way_.push_back(task);
      Link link = links_[task];
      if (link.block == kNone && link.task == kNone) {
        uint32_t maker = trace_.instances[trace_.tasks[task].instance].task;
        if (maker == kNone || trace_.tasks[task].ready_ns < 0) break;
        task = maker;  // ready since its instance was made
        continue;
      }
      while (link.task != kNone && made_by_[link.task] != kNone) {
        link = ended_by_[made_by_[link.task]];
      }
      block = link.block;
      if (link.task == kNone || MayHaveRun(link.task)) break;
      task = link.task;
    }
    if (block == kNone) block = trace_.tasks[task].released_by;
    for (uint32_t passed : way_) trace_.tasks[passed].released_by = block;
  }

  /// When the tasks of the run itself ran.
  std::vector<TaskTime> TimesOfRun() const {
    std::vector<TaskTime> times(trace_.instances[0].tasks);
    for (const RunTrace::Block& block : trace_.blocks) {
      if (trace_.tasks[block.task].instance != 0) continue;
      TaskTime& time = times[block.task];  // the run's tasks stand first
      time.begin_ns = trace_.blocks[trace_.tasks[block.task].first_block].begin_ns;
      time.end_ns = std::max(time.end_ns, block.end_ns);
    }
    for (const RunTrace::Instance& instance : trace_.instances) {
      if (instance.task == kNone || trace_.tasks[instance.task].instance != 0) continue;
      times[instance.task] = {instance.begin_ns, std::max(instance.begin_ns, instance.end_ns)};
    }
    return times;
  }

  void CountReady() {
    std::vector<Change> changes;
    for (const RunTrace::Task& task : trace_.tasks) {
      if (task.first_block == kNone || task.ready_ns < 0) continue;
      int64_t begin = trace_.blocks[task.first_block].begin_ns;
      changes.push_back({std::min(task.ready_ns, begin), 1});
      changes.push_back({begin, -1});
    }
    trace_.ready_tasks = Summed(std::move(changes));
  }

  abi::TraceHeader* const buffer_;
  const KernelRegistry& kernels_;
  const Timeline time_;
  RunTrace& trace_;
  std::vector<const abi::TraceChunk*> chunks_;
  std::unordered_map<std::string, uint32_t> names_;
  std::unordered_map<uint32_t, uint32_t> kernel_names_;
  std::unordered_map<const void*, Source> sources_;
  std::vector<Known> known_;       // of instances, by number; serials grow
  std::vector<uint32_t> made_by_;  // the instance that a graph task made
  std::vector<Link> links_;        // of tasks
  std::vector<Link> ended_by_;     // of instances
  bool dropped_ = false;           // anything
  std::vector<bool> resolved_;     // tasks whose released_by is known
  std::vector<uint32_t> way_;      // scratch
};

}  // namespace

void ReadTrace(abi::TraceHeader* buffer, const TracedImage& image, const KernelRegistry& kernels,
               const Trace& clock, RunTrace* trace) {
  Reader(buffer, kernels, clock, trace).Read(image);
}

}  // namespace precast::run
