#include "run/heap_use.h"

#include <precast/argument.h>

#include <algorithm>

namespace precast::run {

namespace {

constexpr uint64_t kMostSteps = uint64_t{1} << 26;

/// One task touches some bytes of the heap.
struct Access {
  uint64_t begin, end;
  uint32_t task;
  bool fresh;  // what was there before is not needed any more
};

void AddArguments(const TracedImage& image, const abi::Task& task, std::vector<Access>* accesses) {
  const auto* layouts = abi::At<abi::Layout>(image.bytes, image.header().layouts);
  const abi::Argument* arguments = abi::Arguments(&task);
  for (uint16_t i = 0; i < task.tensors; ++i) {
    const abi::Argument& argument = arguments[i];
    if (argument.slot != 0) continue;
    const abi::Layout& layout = layouts[argument.layout];
    bool out = argument.direction == static_cast<uint32_t>(Direction::out);
    accesses->push_back({argument.offset, argument.offset + layout.extent, task.number,
                         out && layout.contiguous != 0});
  }
}

void AddGraph(const TracedImage& image, const abi::Task& task, std::vector<Access>* accesses) {
  const Definition& definition = *image.definitions[task.kernel];
  uint64_t scratch = uint64_t{task.consumer[abi::kInlineConsumers - 1] - 1} * abi::kScratchUnit;
  accesses->push_back({scratch, scratch + definition.scratch_bytes, task.number, true});
  const auto* slots = abi::At<abi::Slot>(definition.image.data(), definition.header().slots);
  const auto* bindings = abi::At<abi::Binding>(image.bytes, image.header().bindings) + task.blocks;
  for (uint16_t i = 0; i < task.tensors; ++i) {
    if (abi::SlotOf(bindings[i]) != 0) continue;
    uint64_t begin = abi::OffsetOf(bindings[i]);
    accesses->push_back({begin, begin + slots[i + 1].bytes, task.number, false});
  }
}

/// In the order of submission.
std::vector<Access> AccessesOf(const TracedImage& image, const std::vector<TaskTime>& times) {
  std::vector<Access> accesses;
  const abi::Header& header = image.header();
  for (abi::TaskId id = abi::kFirstTask; id < abi::EndTask(&header);) {
    const abi::Task& task = *abi::TaskAt(image.bytes, id);
    id += task.units;
    if (times[task.number].end_ns < 0) continue;
    if ((task.flags & abi::kTaskGraph) != 0) {
      AddGraph(image, task, &accesses);
    } else {
      AddArguments(image, task, &accesses);
    }
  }
  return accesses;
}

}  // namespace

std::vector<Change> HeapUse(const TracedImage& image, const std::vector<TaskTime>& times) {
  std::vector<Access> accesses = AccessesOf(image, times);
  // Pieces of the heap that every access covers wholly or not at all.
  std::vector<uint64_t> bounds;
  bounds.reserve(accesses.size() * 2);
  for (const Access& access : accesses) {
    bounds.push_back(access.begin);
    bounds.push_back(access.end);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::vector<TaskTime> needed(bounds.size());  // of the value that a piece has; end -1: none
  std::vector<Change> changes;
  auto end_value = [&](size_t piece) {
    TaskTime& value = needed[piece];
    if (value.end_ns < 0) return;
    int64_t bytes = static_cast<int64_t>(bounds[piece + 1] - bounds[piece]);
    changes.push_back({value.begin_ns, bytes});
    changes.push_back({value.end_ns, -bytes});
    value.end_ns = -1;
  };
  uint64_t steps = 0;
  for (const Access& access : accesses) {
    const TaskTime& time = times[access.task];
    auto first = std::lower_bound(bounds.begin(), bounds.end(), access.begin);
    for (size_t i = static_cast<size_t>(first - bounds.begin()); bounds[i] < access.end; ++i) {
      if (++steps > kMostSteps) return {};
      if (access.fresh) end_value(i);
      if (needed[i].end_ns < 0) needed[i] = time;
      needed[i].end_ns = std::max(needed[i].end_ns, time.end_ns);
    }
  }
  for (size_t i = 0; i + 1 < bounds.size(); ++i) end_value(i);
  return changes;
}

}  // namespace precast::run
