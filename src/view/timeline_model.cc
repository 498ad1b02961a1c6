#include "view/timeline_model.h"

#include <precast/error.h>

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>

namespace precast::view {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kPerSecond = 1'000'000'000'000;  // picoseconds
constexpr Picoseconds kNever = UINT64_MAX;
constexpr Wide kLongest = Wide{1} << 62;  // picoseconds: 53 days

Wide DivideUp(Wide a, Wide b) { return (a + b - 1) / b; }

/// What `amount` takes at a rate; at most kLongest.
Picoseconds Duration(uint64_t amount, uint64_t per_second) {
  return static_cast<Picoseconds>(
      std::min(kLongest, DivideUp(Wide{amount} * kPerSecond, per_second)));
}

/// What a part takes while no other core moves bytes.
Picoseconds Alone(const ModelGraph::Part& part, const Chip& chip) {
  uint64_t bandwidth = std::min(chip.rates.core_bandwidth, chip.rates.bandwidth);
  return chip.rates.dispatch_ps + std::max(Duration(part.bytes, bandwidth),
                                           Duration(part.operations, chip.operations(part.core)));
}

/// What a block takes while no other does anything.
Picoseconds Alone(std::span<const ModelGraph::Part> parts, const Chip& chip) {
  Picoseconds longest = 0;
  for (const ModelGraph::Part& part : parts) longest = std::max(longest, Alone(part, chip));
  return longest;
}

void Check(const ModelGraph& graph, const Chip& chip) {
  const ChipRates& rates = chip.rates;
  if (rates.bandwidth < chip.cube_cores + chip.vector_cores || rates.core_bandwidth == 0 ||
      rates.cube_operations == 0 || rates.vector_operations == 0) {
    Fail(ErrorCode::invalid_argument, "the chip has no rates to model a timeline with");
  }
  Wide serial = 0;
  for (uint32_t task = 0; task < graph.tasks(); ++task) {
    uint32_t needed[2] = {};
    for (const ModelGraph::Part& part : graph.parts(task)) {
      ++needed[static_cast<size_t>(part.core)];
    }
    if (needed[0] > chip.cube_cores || needed[1] > chip.vector_cores) {
      Fail(ErrorCode::invalid_argument,
           "a block needs {} cube and {} vector cores; the chip has {} and {}", needed[0],
           needed[1], chip.cube_cores, chip.vector_cores);
    }
    serial += Wide{Alone(graph.parts(task), chip)} * graph.blocks(task);
    // While several cores move bytes, they get no less done together than one alone would.
    if (serial > kLongest) {
      Fail(ErrorCode::out_of_range, "the tasks up to number {} take more than 53 days", task);
    }
  }
}

/// The later ends of edges, by their earlier ones.
class Consumers {
 public:
  explicit Consumers(const ModelGraph& graph) : begin_(graph.tasks() + size_t{2}) {
    // Counted two places on, so that filling leaves begin_[t] where those of t begin.
    for (const ModelGraph::Edge& edge : graph.edges()) ++begin_[edge.from + size_t{2}];
    for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    to_.resize(graph.edges().size());
    for (const ModelGraph::Edge& edge : graph.edges()) {
      to_[begin_[edge.from + size_t{1}]++] = edge.to;
    }
  }
  std::span<const uint32_t> operator[](uint32_t task) const {
    return std::span(to_).subspan(begin_[task], begin_[task + size_t{1}] - begin_[task]);
  }

 private:
  std::vector<size_t> begin_;
  std::vector<uint32_t> to_;
};

/// A min-heap.
template <typename T>
using Earliest = std::priority_queue<T, std::vector<T>, std::greater<T>>;

class Simulator {
 public:
  Simulator(const ModelGraph& graph, const Chip& chip);
  Timeline Run();

 private:
  struct CoreState {
    uint32_t last = kNothing;  // the first run of the block that had it before
    // What has it, or had.
    const ModelGraph::Part* part = nullptr;
    uint32_t run = 0;
    uint32_t lead = 0;        // the first core of the same block
    uint32_t parts_left = 0;  // of that block; of the lead only
    bool dispatching = false;
    Picoseconds computed = 0;  // when its operations are done
  };
  // Tasks that wait for the same cores, in the order in which they became ready.
  struct Line {
    struct Place {
      uint32_t order, task;
    };
    uint32_t cubes, vectors;  // that a block needs
    std::vector<Place> places = {};
    size_t head = 0;
    bool empty() const { return head == places.size(); }
    const Place& first() const { return places[head]; }
  };
  using Timed = std::pair<Picoseconds, uint32_t>;  // when, core
  using Moving = std::pair<Wide, uint32_t>;        // `moved_` at which it has its bytes, core

  uint64_t rate() const { return rates_[moving_.size()]; }
  Picoseconds NextEvent() const;
  void AdvanceTo(Picoseconds time);
  void StartBlocks();
  bool StartBlock();
  void Start(uint32_t task);
  void BeginWork(uint32_t core);
  void EndPart(uint32_t core);
  void EndBlock(uint32_t first_run);
  void EndTask(uint32_t task);
  void EnterLines();
  void FindPath();

  const ModelGraph& graph_;
  const Chip& chip_;
  Consumers consumers_;
  Timeline result_;
  std::vector<CoreState> cores_;
  Earliest<uint32_t> free_[2];                                      // by Core
  std::array<Line, 4> lines_ = {{{1, 0}, {0, 1}, {1, 1}, {1, 2}}};  // see LineOf
  uint32_t next_order_ = 0;
  std::vector<uint64_t> rates_;  // bytes per second of a core while so many move bytes

  Picoseconds now_ = 0;
  Earliest<Timed> timed_;
  Earliest<Moving> moving_;
  Wide moved_ = 0;  // by a core that has moved bytes all the time, in 1 / kPerSecond bytes

  std::vector<uint32_t> producers_left_, started_, blocks_left_;  // by task
  std::vector<uint32_t> released_by_, last_run_;                  // by task
  std::vector<uint32_t> ended_, became_ready_;  // in this instant, not yet looked at
  uint32_t freed_by_ = kNothing;                // what the last block to start late had waited for
  uint32_t ended_last_ = kNothing;              // first run of the block that did
};

size_t LineOf(std::span<const ModelGraph::Part> parts) {
  if (parts.size() > 1) return parts.size();  // 2 or 3
  return static_cast<size_t>(parts[0].core);
}

Simulator::Simulator(const ModelGraph& graph, const Chip& chip)
    : graph_(graph), chip_(chip), consumers_(graph) {
  uint32_t tasks = graph.tasks(), cores = chip.cube_cores + chip.vector_cores;
  cores_.resize(cores);
  rates_.resize(cores + size_t{1});
  for (uint32_t core = 0; core < cores; ++core) {
    free_[core < chip.cube_cores ? 0 : 1].push(core);
    rates_[core + size_t{1}] =
        std::min(chip.rates.core_bandwidth, chip.rates.bandwidth / (core + 1));
  }
  result_.ready.resize(tasks);
  result_.end.resize(tasks);
  producers_left_.resize(tasks);
  started_.resize(tasks);
  blocks_left_.resize(tasks);
  released_by_.resize(tasks, kNothing);
  last_run_.resize(tasks, kNothing);
  uint64_t runs = 0;
  for (uint32_t task = 0; task < tasks; ++task) {
    blocks_left_[task] = graph.blocks(task);
    runs += uint64_t{graph.blocks(task)} * graph.parts(task).size();
  }
  if (runs >= kNothing) {
    Fail(ErrorCode::out_of_range, "{} blocks; a timeline is modelled of up to {}", runs,
         kNothing - 1);
  }
  result_.runs.reserve(runs);
  for (const ModelGraph::Edge& edge : graph.edges()) ++producers_left_[edge.to];
}

Timeline Simulator::Run() {
  for (uint32_t task = 0; task < graph_.tasks(); ++task) {
    if (producers_left_[task] > 0) continue;
    (graph_.parts(task).empty() ? ended_ : became_ready_).push_back(task);
  }
  for (;;) {
    EnterLines();
    StartBlocks();
    Picoseconds next = NextEvent();
    if (next == kNever) break;
    AdvanceTo(next);
  }
  result_.span = now_;
  FindPath();
  return std::move(result_);
}

Picoseconds Simulator::NextEvent() const {
  Picoseconds next = timed_.empty() ? kNever : timed_.top().first;
  if (!moving_.empty()) {
    Wide wait = DivideUp(moving_.top().first - moved_, rate());
    next = std::min(next, now_ + static_cast<Picoseconds>(wait));
  }
  return next;
}

void Simulator::AdvanceTo(Picoseconds time) {
  if (!moving_.empty()) moved_ += Wide{rate()} * (time - now_);
  now_ = time;
  while (!moving_.empty() && moving_.top().first <= moved_) {
    uint32_t core = moving_.top().second;
    moving_.pop();
    if (cores_[core].computed > now_) {
      timed_.emplace(cores_[core].computed, core);
    } else {
      EndPart(core);
    }
  }
  while (!timed_.empty() && timed_.top().first == now_) {
    uint32_t core = timed_.top().second;
    timed_.pop();
    if (cores_[core].dispatching) {
      BeginWork(core);
    } else {
      EndPart(core);
    }
  }
}

void Simulator::StartBlocks() {
  while (StartBlock()) {
  }
}

/// Starts the first block in line that may; false when there is none.
bool Simulator::StartBlock() {
  std::array<Line*, 4> waiting;
  size_t count = 0;
  for (Line& line : lines_) {
    if (line.empty()) continue;
    size_t at = count++;
    for (; at > 0 && waiting[at - 1]->first().order > line.first().order; --at) {
      waiting[at] = waiting[at - 1];
    }
    waiting[at] = &line;
  }
  for (size_t i = 0; i < count; ++i) {
    Line& line = *waiting[i];
    if (free_[0].size() >= line.cubes && free_[1].size() >= line.vectors) {
      uint32_t task = line.first().task;
      Start(task);
      if (started_[task] == graph_.blocks(task)) ++line.head;
      return true;
    }
    if (line.cubes > 0 && line.vectors > 0) return false;  // nobody overtakes it
  }
  return false;
}

void Simulator::Start(uint32_t task) {
  uint32_t block = started_[task]++, lead = kNothing, waited_for = kNothing;
  auto first_run = static_cast<uint32_t>(result_.runs.size());
  std::span<const ModelGraph::Part> parts = graph_.parts(task);
  for (const ModelGraph::Part& part : parts) {
    Earliest<uint32_t>& free = free_[static_cast<size_t>(part.core)];
    uint32_t index = free.top();
    free.pop();
    if (lead == kNothing) {
      lead = index;
      cores_[lead].parts_left = static_cast<uint32_t>(parts.size());
    }
    CoreState& core = cores_[index];
    if (waited_for == kNothing && core.last != kNothing && result_.runs[core.last].end == now_) {
      waited_for = core.last;
    }
    core.part = &part;
    core.lead = lead;
    core.run = static_cast<uint32_t>(result_.runs.size());
    result_.runs.push_back({now_, 0, task, block, index, kNothing});
    core.dispatching = true;
    timed_.emplace(now_ + chip_.rates.dispatch_ps, index);
  }
  if (now_ > result_.ready[task]) {
    // With no core that has just become free it waited behind a mixed task, which did.
    if (waited_for == kNothing) waited_for = freed_by_;
    result_.runs[first_run].waited_for = freed_by_ = waited_for;
  }
}

void Simulator::BeginWork(uint32_t index) {
  CoreState& core = cores_[index];
  core.dispatching = false;
  core.computed = now_ + Duration(core.part->operations, chip_.operations(core.part->core));
  if (core.part->bytes > 0) {
    if (moving_.empty()) moved_ = 0;
    moving_.emplace(moved_ + Wide{core.part->bytes} * kPerSecond, index);
  } else {
    timed_.emplace(core.computed, index);
  }
}

void Simulator::EndPart(uint32_t core) {
  CoreState& lead = cores_[cores_[core].lead];
  if (--lead.parts_left == 0) EndBlock(lead.run);
}

void Simulator::EndBlock(uint32_t first_run) {
  uint32_t task = result_.runs[first_run].task;
  for (size_t i = 0; i < graph_.parts(task).size(); ++i) {
    CoreRun& run = result_.runs[first_run + i];
    size_t kind = run.core < chip_.cube_cores ? 0 : 1;
    run.end = now_;
    result_.busy[kind] += run.end - run.start;
    cores_[run.core].last = first_run;
    free_[kind].push(run.core);
  }
  last_run_[task] = ended_last_ = first_run;
  if (--blocks_left_[task] == 0) ended_.push_back(task);
}

void Simulator::EndTask(uint32_t task) {
  result_.end[task] = now_;
  for (uint32_t consumer : consumers_[task]) {
    if (--producers_left_[consumer] > 0) continue;
    result_.ready[consumer] = now_;
    released_by_[consumer] = task;
    (graph_.parts(consumer).empty() ? ended_ : became_ready_).push_back(consumer);
  }
}

/// Tasks whose producers have ended by now stand in line.
void Simulator::EnterLines() {
  for (size_t i = 0; i < ended_.size(); ++i) EndTask(ended_[i]);
  ended_.clear();
  std::sort(became_ready_.begin(), became_ready_.end());
  for (uint32_t task : became_ready_) {
    lines_[LineOf(graph_.parts(task))].places.push_back({next_order_++, task});
  }
  became_ready_.clear();
}

/// From the block that ended last, back through what each block had waited for.
void Simulator::FindPath() {
  std::vector<PathStep>& path = result_.path;
  for (uint32_t run = ended_last_; run != kNothing;) {
    const CoreRun& block = result_.runs[run];
    uint32_t task = block.task;
    bool waited = block.start > result_.ready[task];
    path.push_back(
        {task, block.start, block.end, waited ? PathStep::Why::core : PathStep::Why::edge});
    if (waited) {
      run = block.waited_for;
      continue;
    }
    for (run = kNothing; run == kNothing && released_by_[task] != kNothing;) {
      task = released_by_[task];
      run = last_run_[task];
      if (run != kNothing) break;
      path.push_back({task, result_.end[task], result_.end[task], PathStep::Why::edge});
    }
  }
  if (!path.empty()) path.back().why = PathStep::Why::start;
  std::reverse(path.begin(), path.end());
}

}  // namespace

uint32_t ModelGraph::AddTask(uint32_t blocks, std::span<const Part> parts) {
  auto cubes = std::count_if(parts.begin(), parts.end(),
                             [](const Part& part) { return part.core == Core::cube; });
  bool mixed = parts.size() == 2 || parts.size() == 3;
  if (parts.size() > 3 || (mixed && cubes != 1) || blocks == 0) {
    Fail(ErrorCode::internal, "a task of {} blocks, each with {} parts, {} of them on cube cores",
         blocks, parts.size(), cubes);
  }
  tasks_.push_back(
      {blocks, static_cast<uint32_t>(parts_.size()), static_cast<uint32_t>(parts.size())});
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  return tasks() - 1;
}

Timeline Simulate(const ModelGraph& graph, const Chip& chip) {
  Check(graph, chip);
  return Simulator(graph, chip).Run();
}

Bounds BoundsOf(const ModelGraph& graph, const Chip& chip) {
  Check(graph, chip);
  Bounds bounds;
  uint64_t bytes = 0, operations[2] = {};
  Wide held[2] = {};  // time, by Core
  Consumers consumers(graph);
  std::vector<Picoseconds> begin(graph.tasks());  // of each task, after its chain of producers
  for (uint32_t task = 0; task < graph.tasks(); ++task) {
    std::span<const ModelGraph::Part> parts = graph.parts(task);
    Picoseconds block = Alone(parts, chip);
    for (const ModelGraph::Part& part : parts) {
      auto kind = static_cast<size_t>(part.core);
      bytes += part.bytes * graph.blocks(task);
      operations[kind] += part.operations * graph.blocks(task);
      held[kind] += Wide{block} * graph.blocks(task);
    }
    Picoseconds end = begin[task] + block;
    bounds.chain = std::max(bounds.chain, end);
    for (uint32_t consumer : consumers[task]) begin[consumer] = std::max(begin[consumer], end);
  }
  bounds.bandwidth = Duration(bytes, chip.rates.bandwidth);
  for (Core core : {Core::cube, Core::vector}) {
    auto kind = static_cast<size_t>(core);
    if (chip.cores(core) == 0) continue;
    bounds.arithmetic[kind] = Duration(operations[kind], chip.operations(core) * chip.cores(core));
    bounds.cores[kind] = static_cast<Picoseconds>(DivideUp(held[kind], chip.cores(core)));
  }
  return bounds;
}

}  // namespace precast::view
