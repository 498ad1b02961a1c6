// The end of a graph: the sections behind its tasks, and its header.
#include "graph/builder.h"

#include <cstring>
#include <vector>

namespace precast::graph {

namespace {

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

uint64_t Builder::SealedBytes() const {
  constexpr uint64_t kSections = 11;
  return used_ + layouts_.records().size() * sizeof(abi::Layout) +
         chunks_.size() * sizeof(abi::ConsumerChunk) + predicates_.size() * sizeof(abi::Predicate) +
         mixes_.size() * sizeof(abi::Mix) + names_.records().size() * sizeof(abi::Name) +
         names_.bytes().size() + roots_.size() * sizeof(abi::TaskId) + slots_ * sizeof(abi::Slot) +
         bindings_.size() * sizeof(abi::Binding) + definitions_.size() * sizeof(abi::Definition) +
         kSections * abi::kUnit;
}

uint64_t Builder::SealDefinition(std::span<const abi::Slot> slots, uint32_t scalars) {
  abi::Header header{};
  std::vector<uint32_t> counters;
  counters.reserve(statistics_.tasks);
  for (abi::TaskId id = abi::kFirstTask; id < next_id(); id += At(id)->units) {
    abi::Task* task = At(id);
    counters.push_back(task->producers);
    header.sinks += task->consumers == 0 ? 1 : 0;
    if ((task->flags & abi::kTaskGraph) != 0) continue;
    // Equal graphs have equal bytes, those that nobody reads included.
    size_t used =
        sizeof(abi::Task) + (size_t{task->tensors} + task->scalars) * sizeof(abi::Argument);
    std::memset(reinterpret_cast<char*>(task) + used, 0, task->units * abi::kUnit - used);
  }
  header.scalars = scalars;
  header.heap_bytes = heap_.peak_bytes();
  return Seal(header, slots, counters);
}

uint64_t Builder::Seal(std::span<const abi::Slot> slots) { return Seal({}, slots, {}); }

uint64_t Builder::Seal(abi::Header header, std::span<const abi::Slot> slots,
                       std::span<const uint32_t> counters) {
  if (log_ != nullptr) LogBuffers();
  uint64_t bound = SealedBytes() + counters.size_bytes();
  if (bound > memory_->capacity) memory_->grow(*memory_, bound, used_);
  uint64_t end = used_;
  auto append = [&](const auto& records) {
    uint64_t begin = AlignUp(end, abi::kUnit);
    std::memset(memory_->data + end, 0, begin - end);
    end = begin;
    abi::Section section{end, records.size()};
    uint64_t bytes = records.size() * sizeof(*records.data());
    if (bytes > 0) std::memcpy(memory_->data + end, records.data(), bytes);
    end += bytes;
    return section;
  };
  header.magic = abi::kMagic;
  header.version = abi::kVersion;
  header.tasks = statistics_.tasks;
  header.edges = statistics_.edges;
  header.blocks = statistics_.blocks;
  header.task_bytes = used_ - sizeof(abi::Header);
  header.layouts = append(layouts_.records());
  header.chunks = append(chunks_);
  header.predicates = append(predicates_);
  header.mixes = append(mixes_);
  header.names = append(names_.records());
  header.name_bytes = append(names_.bytes());
  header.roots = append(roots_);
  header.bindings = append(bindings_);
  header.definitions = append(definitions_);
  header.counters = append(counters);
  header.slots = append(slots);
  header.total_bytes = AlignUp(end, abi::kUnit);
  std::memset(memory_->data + end, 0, header.total_bytes - end);
  std::memcpy(memory_->data, &header, sizeof(header));
  return header.total_bytes;
}

}  // namespace precast::graph
