#include "graph/validator.h"

#include "abi/image.h"
#include "graph/content_hash.h"

#include <precast/argument.h>
#include <precast/dtype.h>
#include <precast/error.h>
#include <precast/orchestrator.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace precast::graph {

namespace {

/// `a * b + c`, or the largest number when that does not fit.
uint64_t MultiplyAdd(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t result;
  if (__builtin_mul_overflow(a, b, &result) || __builtin_add_overflow(result, c, &result)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return result;
}

class Validator {
 public:
  Validator(std::span<const std::byte> image, const ValidateOptions& options)
      : image_(image), options_(options) {}

  void Run() {
    CheckHeader();
    CheckLayouts();
    CheckPredicates();
    CheckMixes();
    CheckNames();
    CheckDefinitions();
    CheckTasks();
    CheckEdges();
    CheckRoots();
    if (options_.kind == ImageKind::run) {
      CheckRun();
    } else {
      CheckDefinition();
    }
    if (options_.stored) CheckStored();
  }

 private:
  template <typename... Args>
  [[noreturn]] void Bad(ErrorFormat<std::type_identity_t<Args>...> text, Args&&... args) const {
    throw Error(ErrorCode::bad_file,
                "invalid image: " + fmt::format(text.format, std::forward<Args>(args)...),
                text.location);
  }

  template <typename Record>
  std::span<const Record> Records(const abi::Section& section) const {
    return {abi::At<Record>(image_.data(), section), section.count};
  }
  const abi::Task& TaskAt(abi::TaskId id) const { return *abi::TaskAt(image_.data(), id); }

  // A task's counter of in-edges stands at its id; kNoTask where no block starts.
  static constexpr uint32_t kNoTask = 0xffffffff;
  bool IsTask(uint64_t id) const { return id < in_edges_.size() && in_edges_[id] != kNoTask; }

  void CheckHeader();
  void CheckLayouts();
  void CheckPredicates();
  void CheckMixes();
  void CheckNames();
  void CheckTasks();
  void CheckTask(abi::TaskId id, const abi::Task& task);
  void CheckDefinitions();
  void CheckGraphTask(const abi::Task& task);
  void CheckBound(const abi::Task& task, const abi::Header& definition);
  void CheckArguments(const abi::Task& task);
  void CheckEdges();
  void CheckConsumers(abi::TaskId id, const abi::Task& task);
  void CheckRoots();
  void CheckRun();
  void CheckDefinition();
  void CheckStored();

  const std::span<const std::byte> image_;
  const ValidateOptions options_;
  abi::Header header_{};
  std::span<const abi::Layout> layouts_;
  std::span<const abi::ConsumerChunk> chunks_;
  std::span<const abi::Slot> slots_;
  std::vector<uint32_t> in_edges_;
  std::vector<bool> chunk_used_;
};

void Validator::CheckHeader() {
  if (reinterpret_cast<uintptr_t>(image_.data()) % alignof(abi::Header) != 0) {
    Fail(ErrorCode::invalid_argument, "an image at an address that is not a multiple of {}",
         alignof(abi::Header));
  }
  if (image_.size() < sizeof(abi::Header)) {
    Bad("{} bytes, the header alone takes {}", image_.size(), sizeof(abi::Header));
  }
  header_ = *reinterpret_cast<const abi::Header*>(image_.data());
  if (header_.magic != abi::kMagic)
    Bad("header: magic {:#x}, not {:#x}", header_.magic, abi::kMagic);
  if (header_.version != abi::kVersion) {
    Bad("header: version {}, this library reads {}", header_.version, abi::kVersion);
  }
  if (header_.total_bytes != image_.size()) {
    Bad("header: {} bytes in total, {} are there", header_.total_bytes, image_.size());
  }
  uint64_t room = image_.size() - sizeof(abi::Header);
  if (header_.task_bytes % abi::kUnit != 0 || header_.task_bytes > room ||
      header_.task_bytes / abi::kUnit > std::numeric_limits<abi::TaskId>::max() - abi::kFirstTask) {
    Bad("header: {} bytes of tasks (a multiple of {}, at most {}, allowed)", header_.task_bytes,
        abi::kUnit, room);
  }

  struct Named {
    std::string_view name;
    const abi::Section& section;
    size_t record;
  };
  const std::array<Named, 11> sections = {
      Named{"layouts", header_.layouts, sizeof(abi::Layout)},
      {"chunks", header_.chunks, sizeof(abi::ConsumerChunk)},
      {"predicates", header_.predicates, sizeof(abi::Predicate)},
      {"mixes", header_.mixes, sizeof(abi::Mix)},
      {"names", header_.names, sizeof(abi::Name)},
      {"name_bytes", header_.name_bytes, sizeof(char)},
      {"roots", header_.roots, sizeof(abi::TaskId)},
      {"bindings", header_.bindings, sizeof(abi::Binding)},
      {"definitions", header_.definitions, sizeof(abi::Definition)},
      {"counters", header_.counters, sizeof(uint32_t)},
      {"slots", header_.slots, sizeof(abi::Slot)}};
  // Sections stand in this order, each at the next multiple of 64 behind the one before.
  uint64_t end = sizeof(abi::Header) + header_.task_bytes;
  for (const Named& s : sections) {
    uint64_t begin = (end + abi::kUnit - 1) / abi::kUnit * abi::kUnit;
    if (s.section.offset != begin) {
      Bad("section {}: at byte {}, {} expected", s.name, s.section.offset, begin);
    }
    end = MultiplyAdd(s.section.count, s.record, begin);
    if (end > image_.size()) {
      Bad("section {}: {} records of {} bytes from byte {} do not fit into {} bytes", s.name,
          s.section.count, s.record, begin, image_.size());
    }
  }
  if (image_.size() - end >= abi::kUnit) {
    Bad("header: {} bytes behind the last section", image_.size() - end);
  }
  layouts_ = Records<abi::Layout>(header_.layouts);
  chunks_ = Records<abi::ConsumerChunk>(header_.chunks);
  slots_ = Records<abi::Slot>(header_.slots);
}

void Validator::CheckLayouts() {
  if (layouts_.size() > abi::kMaxLayouts) {
    Bad("section layouts: {} records (at most {} allowed)", layouts_.size(), abi::kMaxLayouts);
  }
  // Entry 0 stands for "none"; no argument may use it.
  for (size_t i = 1; i < layouts_.size(); ++i) {
    const abi::Layout& layout = layouts_[i];
    size_t element = SizeOf(static_cast<DType>(layout.dtype));
    if (element == 0) Bad("layouts[{}]: dtype {} is unknown", i, layout.dtype);
    if (layout.element_bytes != element) {
      Bad("layouts[{}]: {} bytes for an element of {}", i, layout.element_bytes, element);
    }
    if (layout.rank > abi::kMaxRank) {
      Bad("layouts[{}]: rank {} (at most {} allowed)", i, layout.rank, abi::kMaxRank);
    }
    uint64_t elements = 1, last = 0, row_major = 1;
    bool contiguous = true;
    for (uint32_t axis = abi::kMaxRank; axis-- > 0;) {
      uint64_t extent = layout.shape[axis], stride = layout.strides[axis];
      if (axis >= layout.rank) {
        if (extent != 0 || stride != 0) {
          Bad("layouts[{}]: axis {} beyond rank {} has extent {} and stride {}", i, axis,
              layout.rank, extent, stride);
        }
        continue;
      }
      if (extent == 0) Bad("layouts[{}]: extent 0 on axis {}", i, axis);
      contiguous = contiguous && (extent == 1 || stride == row_major);
      elements = MultiplyAdd(elements, extent, 0);
      row_major = MultiplyAdd(row_major, extent, 0);
      last = MultiplyAdd(extent - 1, stride, last);
    }
    uint64_t bytes = MultiplyAdd(MultiplyAdd(last, 1, 1), element, 0);
    if (elements > std::numeric_limits<int64_t>::max() ||
        bytes > std::numeric_limits<int64_t>::max()) {
      Bad("layouts[{}]: its shape and strides go beyond 2^63 - 1 bytes", i);
    }
    if (layout.elements != elements || layout.extent != bytes) {
      Bad("layouts[{}]: {} elements in {} bytes; its shape and strides give {} in {}", i,
          layout.elements, layout.extent, elements, bytes);
    }
    if (layout.contiguous != (contiguous ? 1 : 0)) {
      Bad("layouts[{}]: contiguous is {}, its strides say {}", i, layout.contiguous,
          contiguous ? 1 : 0);
    }
  }
}

void Validator::CheckPredicates() {
  auto predicates = Records<abi::Predicate>(header_.predicates);
  for (size_t i = 0; i < predicates.size(); ++i) {
    const abi::Predicate& p = predicates[i];
    DType dtype = static_cast<DType>(p.dtype);
    if (SizeOf(dtype) == 0 || IsFloat(dtype)) {
      Bad("predicates[{}]: dtype {} (integers and bool allowed)", i, p.dtype);
    }
    if (p.compare > static_cast<uint8_t>(Compare::greater_equal)) {
      Bad("predicates[{}]: comparison {} is unknown", i, p.compare);
    }
    if (p.slot >= slots_.size()) {
      Bad("predicates[{}]: slot {} of {}", i, p.slot, slots_.size());
    }
    if (p.offset > slots_[p.slot].bytes || slots_[p.slot].bytes - p.offset < SizeOf(dtype)) {
      Bad("predicates[{}]: byte {} of slot {}, which has {}", i, p.offset, p.slot,
          slots_[p.slot].bytes);
    }
  }
}

void Validator::CheckMixes() {
  auto mixes = Records<abi::Mix>(header_.mixes);
  for (size_t i = 0; i < mixes.size(); ++i) {
    if (mixes[i].kernels < 2 || mixes[i].kernels > 3) {
      Bad("mixes[{}]: {} kernels (2 or 3 allowed)", i, mixes[i].kernels);
    }
    for (uint32_t k = 0; k < mixes[i].kernels; ++k) {
      if (mixes[i].kernel[k] >= options_.kernels) {
        Bad("mixes[{}]: kernel {} of {}", i, mixes[i].kernel[k], options_.kernels);
      }
    }
  }
}

void Validator::CheckNames() {
  auto names = Records<abi::Name>(header_.names);
  for (size_t i = 0; i < names.size(); ++i) {
    uint64_t end = uint64_t{names[i].offset} + names[i].bytes;
    if (names[i].bytes == 0 || end > header_.name_bytes.count) {
      Bad("names[{}]: bytes {} … {} of {}", i, names[i].offset, end, header_.name_bytes.count);
    }
  }
}

void Validator::CheckDefinitions() {
  if (options_.definitions.empty()) return;
  auto definitions = Records<abi::Definition>(header_.definitions);
  if (definitions.size() != options_.definitions.size()) {
    Bad("section definitions: {} records, {} are known", definitions.size(),
        options_.definitions.size());
  }
  for (size_t i = 0; i < definitions.size(); ++i) {
    if (definitions[i].hash != options_.definitions[i]->content_hash) {
      Bad("definitions[{}]: hash {:#x}, that definition has {:#x}", i, definitions[i].hash,
          options_.definitions[i]->content_hash);
    }
  }
}

void Validator::CheckTasks() {
  uint64_t end = abi::kFirstTask + header_.task_bytes / abi::kUnit;
  in_edges_.assign(end, kNoTask);
  uint64_t blocks = 0;
  uint32_t number = 0;
  for (uint64_t id = abi::kFirstTask; id < end;) {
    const abi::Task& task = TaskAt(static_cast<abi::TaskId>(id));
    if (task.number != number) Bad("task at {}: number {}, {} expected", id, task.number, number);
    if (task.units == 0 || task.units > end - id) {
      Bad("task {}: {} units of {} bytes, {} are left", number, task.units, abi::kUnit, end - id);
    }
    CheckTask(static_cast<abi::TaskId>(id), task);
    in_edges_[id] = 0;
    if (task.kernel != abi::kNoKernel && (task.flags & abi::kTaskGraph) == 0) {
      bool mixed = (task.flags & abi::kTaskMixed) != 0;
      uint64_t kernels =
          mixed ? Records<abi::Mix>(header_.mixes)[task.kernel].kernels : uint64_t{1};
      blocks += task.blocks * kernels;
    }
    id += task.units;
    ++number;
  }
  if (header_.tasks != number) Bad("header: {} tasks, {} are there", header_.tasks, number);
  if (header_.blocks != blocks) Bad("header: {} blocks, the tasks have {}", header_.blocks, blocks);
}

void Validator::CheckTask(abi::TaskId id, const abi::Task& task) {
  bool graph = (task.flags & abi::kTaskGraph) != 0;
  uint64_t arguments = graph ? 0 : uint64_t{task.tensors} + task.scalars;
  uint64_t units = 1 + (arguments * sizeof(abi::Argument) + abi::kUnit - 1) / abi::kUnit;
  if (task.units != units) {
    Bad("task {} at {}: {} units, its {} arguments take {}", task.number, id, task.units, arguments,
        units);
  }
  constexpr uint8_t kFlags = abi::kTaskMixed | abi::kTaskGraph | abi::kTaskPasses;
  if ((task.flags & ~kFlags) != 0 || (graph && (task.flags & abi::kTaskMixed) != 0) ||
      (!graph && (task.flags & abi::kTaskPasses) != 0)) {
    Bad("task {}: flags {:#x}", task.number, task.flags);
  }
  if (task.blocks == 0 && !graph) Bad("task {}: 0 blocks", task.number);
  if (graph) {
    CheckGraphTask(task);
  } else if ((task.flags & abi::kTaskMixed) != 0) {
    if (task.kernel >= header_.mixes.count) {
      Bad("task {}: mix {} of {}", task.number, task.kernel, header_.mixes.count);
    }
  } else if (task.kernel != abi::kNoKernel && task.kernel >= options_.kernels) {
    Bad("task {}: kernel {} of {}", task.number, task.kernel, options_.kernels);
  }
  if (task.name > header_.names.count) {
    Bad("task {}: name {} of {}", task.number, task.name, header_.names.count);
  }
  if (task.predicate > header_.predicates.count) {
    Bad("task {}: predicate {} of {}", task.number, task.predicate, header_.predicates.count);
  }
  if (!graph) CheckArguments(task);
}

void Validator::CheckGraphTask(const abi::Task& task) {
  if (task.kernel >= header_.definitions.count) {
    Bad("task {}: definition {} of {}", task.number, task.kernel, header_.definitions.count);
  }
  auto bindings = Records<abi::Binding>(header_.bindings);
  bool passes = (task.flags & abi::kTaskPasses) != 0;
  uint64_t words = uint64_t{task.tensors} + uint64_t{task.scalars} * (passes ? 2 : 1);
  if (task.blocks > bindings.size() || bindings.size() - task.blocks < words) {
    Bad("task {}: {} bindings from {} of {}", task.number, words, task.blocks, bindings.size());
  }
  for (uint64_t i = task.blocks; i < uint64_t{task.blocks} + task.tensors; ++i) {
    uint64_t slot = abi::SlotOf(bindings[i]);
    if (slot >= slots_.size() || abi::OffsetOf(bindings[i]) >= slots_[slot].bytes) {
      Bad("bindings[{}]: byte {} of slot {} of {}", i, abi::OffsetOf(bindings[i]), slot,
          slots_.size());
    }
  }
  for (uint64_t i = 0; passes && i < task.scalars; ++i) {
    uint64_t word = task.blocks + task.tensors + 2 * i + 1;
    if (bindings[word] > header_.scalars) {
      Bad("bindings[{}]: scalar {} of {}", word, bindings[word], header_.scalars);
    }
  }
  uint64_t scratch = task.consumer[abi::kInlineConsumers - 1];
  if (scratch == 0 || slots_.empty() || (scratch - 1) * abi::kScratchUnit >= slots_[0].bytes) {
    Bad("task {}: scratch at unit {} of a heap of {} bytes", task.number, scratch,
        slots_.empty() ? 0 : slots_[0].bytes);
  }
  if (!options_.definitions.empty()) CheckBound(task, *options_.definitions[task.kernel]);
}

/// What sched::MakeInstance relies on.
void Validator::CheckBound(const abi::Task& task, const abi::Header& definition) {
  auto needed =
      std::span(abi::At<abi::Slot>(&definition, definition.slots), definition.slots.count);
  if (task.tensors + uint64_t{1} != needed.size() || task.scalars != definition.scalars) {
    Bad("task {}: {} places and {} scalars for definition {}, which takes {} and {}", task.number,
        task.tensors, task.scalars, task.kernel, needed.size() - 1, definition.scalars);
  }
  const abi::Binding* places = Records<abi::Binding>(header_.bindings).data() + task.blocks;
  for (uint64_t i = 0; i < task.tensors; ++i) {
    uint64_t slot = abi::SlotOf(places[i]), offset = abi::OffsetOf(places[i]);
    if (slots_[slot].bytes - offset < needed[i + 1].bytes) {
      Bad("task {}: slot {} of definition {} takes {} bytes from byte {} of slot {}, which has {}",
          task.number, i + 1, task.kernel, needed[i + 1].bytes, offset, slot, slots_[slot].bytes);
    }
  }
  uint64_t begin = uint64_t{task.consumer[abi::kInlineConsumers - 1] - 1} * abi::kScratchUnit +
                   abi::ScratchHeapOffset(needed.size(), definition.scalars, definition.tasks);
  if (uint64_t end = MultiplyAdd(1, begin, definition.heap_bytes); end > slots_[0].bytes) {
    Bad("task {}: scratch up to byte {} of a heap of {} bytes", task.number, end, slots_[0].bytes);
  }
}

void Validator::CheckArguments(const abi::Task& task) {
  for (uint32_t i = 0; i < task.tensors; ++i) {
    const abi::Argument& argument = abi::Arguments(&task)[i];
    if (argument.slot >= slots_.size()) {
      Bad("task {}: tensor {} in slot {} of {}", task.number, i, argument.slot, slots_.size());
    }
    if (argument.layout == 0 || argument.layout >= layouts_.size()) {
      Bad("task {}: tensor {} has layout {} (1 … {} allowed)", task.number, i,
          uint32_t{argument.layout}, layouts_.size() - 1);
    }
    if (argument.direction < static_cast<uint32_t>(Direction::in) ||
        argument.direction > static_cast<uint32_t>(Direction::no_dep)) {
      Bad("task {}: tensor {} has direction {}", task.number, i, uint32_t{argument.direction});
    }
    uint64_t bytes = slots_[argument.slot].bytes;
    uint64_t extent = layouts_[argument.layout].extent;
    if (argument.offset > bytes || bytes - argument.offset < extent) {
      Bad("task {}: tensor {} takes {} bytes from byte {} of slot {}, which has {}", task.number, i,
          extent, argument.offset, argument.slot, bytes);
    }
    uint32_t element = layouts_[argument.layout].element_bytes;
    if (argument.offset % element != 0 || slots_[argument.slot].address % element != 0) {
      Bad("task {}: tensor {} at byte {} of slot {} is not aligned to its {} byte elements",
          task.number, i, argument.offset, argument.slot, element);
    }
  }
  for (uint32_t i = 0; i < task.scalars; ++i) {
    uint32_t dtype = abi::Scalars(&task)[i].dtype;
    uint32_t bound = abi::Scalars(&task)[i].bound;
    if (bound > header_.scalars) {
      Bad("task {}: scalar {} is bound to {} of {}", task.number, i, bound, header_.scalars);
    }
    if (dtype > 0xff || SizeOf(static_cast<DType>(dtype)) == 0) {
      Bad("task {}: scalar {} has dtype {}", task.number, i, dtype);
    }
  }
}

void Validator::CheckEdges() {
  chunk_used_.assign(chunks_.size(), false);
  uint64_t edges = 0;
  for (uint64_t id = abi::kFirstTask; id < in_edges_.size();) {
    const abi::Task& task = TaskAt(static_cast<abi::TaskId>(id));
    CheckConsumers(static_cast<abi::TaskId>(id), task);
    edges += task.consumers;
    id += task.units;
  }
  auto unused = std::find(chunk_used_.begin(), chunk_used_.end(), false);
  if (unused != chunk_used_.end()) {
    Bad("chunks[{}]: of no task", unused - chunk_used_.begin());
  }
  if (header_.edges != edges) Bad("header: {} edges, the tasks have {}", header_.edges, edges);
  for (uint64_t id = abi::kFirstTask; id < in_edges_.size();) {
    const abi::Task& task = TaskAt(static_cast<abi::TaskId>(id));
    if (task.producers != in_edges_[id]) {
      Bad("task {}: {} producers, {} tasks name it as their consumer", task.number, task.producers,
          in_edges_[id]);
    }
    id += task.units;
  }
}

void Validator::CheckConsumers(abi::TaskId id, const abi::Task& task) {
  // From the newest to the oldest: the order of their ids is descending and each comes once.
  uint64_t newer = in_edges_.size();
  auto visit = [&](const uint32_t* consumers, uint32_t used, uint32_t room) {
    for (uint32_t i = room; i-- > 0;) {
      uint32_t consumer = consumers[i];
      if (i >= used) {
        if (consumer != 0)
          Bad("task {}: consumer {} beyond its {}", task.number, consumer, task.consumers);
        continue;
      }
      if (consumer <= id || consumer >= newer || !IsTask(consumer)) {
        Bad("task {} at {}: consumer {} is no later task, or not in ascending order", task.number,
            id, consumer);
      }
      newer = consumer;
      ++in_edges_[consumer];
    }
  };
  uint32_t inlined = std::min(task.consumers, abi::InlineConsumers(task));
  uint32_t rest = task.consumers - inlined;
  uint32_t chunk = task.chunk;
  uint32_t used = rest == 0 ? 0 : (rest - 1) % abi::kChunkConsumers + 1;
  for (; rest > 0; rest -= used, used = abi::kChunkConsumers) {
    if (chunk == 0 || chunk > chunks_.size()) {
      Bad("task {}: chunk {} of {} with {} consumers to go", task.number, chunk, chunks_.size(),
          rest);
    }
    if (chunk_used_[chunk - 1]) Bad("chunks[{}]: used twice", chunk - 1);
    chunk_used_[chunk - 1] = true;
    visit(chunks_[chunk - 1].consumer, used, abi::kChunkConsumers);
    chunk = chunks_[chunk - 1].older;
  }
  if (chunk != 0)
    Bad("task {}: chunk {} beyond its {} consumers", task.number, chunk, task.consumers);
  visit(task.consumer, inlined, abi::InlineConsumers(task));
}

/// Nobody gives a run scalars, or counts its sinks.
void Validator::CheckRun() {
  struct Field {
    std::string_view name;
    uint64_t value;
  };
  for (const Field& field : {Field{"scalars", header_.scalars},
                             {"sinks", header_.sinks},
                             {"heap_bytes", header_.heap_bytes},
                             {"counters", header_.counters.count}}) {
    if (field.value != 0) {
      Bad("header: {} is {} in the image of a run (0 allowed)", field.name, field.value);
    }
  }
}

/// What an instance copies and counts.
void Validator::CheckDefinition() {
  if (slots_.empty() || slots_[0].bytes != header_.heap_bytes) {
    Bad("header: a heap of {} bytes, slot 0 has {}", header_.heap_bytes,
        slots_.empty() ? 0 : slots_[0].bytes);
  }
  if (header_.tasks == 0) Bad("header: 0 tasks in a definition, whose instances would never end");
  auto counters = Records<uint32_t>(header_.counters);
  if (counters.size() != header_.tasks) {
    Bad("section counters: {} records for {} tasks", counters.size(), header_.tasks);
  }
  uint32_t sinks = 0, number = 0;
  for (uint64_t id = abi::kFirstTask; id < in_edges_.size(); ++number) {
    const abi::Task& task = TaskAt(static_cast<abi::TaskId>(id));
    if (counters[number] != task.producers) {
      Bad("counters[{}]: {}, the task has {} producers", number, counters[number], task.producers);
    }
    sinks += task.consumers == 0 ? 1 : 0;
    id += task.units;
  }
  if (header_.sinks != sinks) Bad("header: {} sinks, there are {}", header_.sinks, sinks);
}

void Validator::CheckStored() {
  auto definitions = Records<abi::Definition>(header_.definitions);
  for (size_t i = 0; i < definitions.size(); ++i) {
    if (definitions[i].address != 0) {
      Bad("definitions[{}]: address {:#x} (0 allowed where an image is kept)", i,
          definitions[i].address);
    }
  }
  if (uint64_t hash = ContentHash(image_); hash != header_.content_hash) {
    Bad("header: content hash {:#x}, the content has {:#x}", header_.content_hash, hash);
  }
}

void Validator::CheckRoots() {
  auto roots = Records<abi::TaskId>(header_.roots);
  size_t next = 0;
  for (uint64_t id = abi::kFirstTask; id < in_edges_.size();) {
    const abi::Task& task = TaskAt(static_cast<abi::TaskId>(id));
    if (task.producers == 0) {
      if (next >= roots.size()) Bad("roots[{}]: task {} at {} is missing", next, task.number, id);
      if (roots[next] != id) {
        Bad("roots[{}]: {}, but the next task without producers is at {}", next, roots[next], id);
      }
      ++next;
    }
    id += task.units;
  }
  if (next != roots.size()) Bad("roots[{}]: {} tasks without producers", next, next);
}

}  // namespace

void Validate(std::span<const std::byte> image, const ValidateOptions& options) {
  Validator(image, options).Run();
}

}  // namespace precast::graph
