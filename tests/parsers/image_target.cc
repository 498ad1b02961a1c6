// Images, one behind another: definitions, then the image of a run. Each names definitions before
// it by their number. What the validator accepts is executed, by the oracle and by the scheduler.
#include "graph/validator.h"
#include "parsers/target.h"
#include "platforms/sim/executor.h"
#include "sched/oracle.h"
#include "support/image_samples.h"

#include <precast/error.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace precast::test {
namespace {

// More than that is not executed.
constexpr uint64_t kMostBytes = 1 << 20;  // of all slots
constexpr uint64_t kMostWork = 5'000;     // blocks and tasks, those of instances included
constexpr uint64_t kMostTasks = 256;      // of an image with graph tasks, for the scheduler

/// Cuts where a header says that its image ends, if that can be.
std::vector<TestImage> Split(Input bytes) {
  std::vector<TestImage> images;
  while (!bytes.empty()) {
    uint64_t size = bytes.size();
    if (size >= sizeof(abi::Header)) {
      uint64_t total = 0;
      std::memcpy(&total, bytes.data() + offsetof(abi::Header, total_bytes), sizeof(total));
      if (total >= sizeof(abi::Header) && total < size) size = total;
    }
    std::memcpy(images.emplace_back(size).data(), bytes.data(), size);
    bytes = bytes.subspan(size);
  }
  return images;
}

bool IsAccepted(const TestImage& image, const graph::ValidateOptions& options) {
  try {
    graph::Validate(image.span(), options);
    return true;
  } catch (const Error& error) {
    Require(error.code() == ErrorCode::bad_file, "a bad image is a bad file");
    return false;
  }
}

template <typename Visit>
void ForEachTask(const abi::Header& header, Visit&& visit) {
  for (abi::TaskId id = abi::kFirstTask; id < abi::EndTask(&header);) {
    const abi::Task* task = abi::TaskAt(&header, id);
    visit(id, *task);
    id += task->units;
  }
}

bool IsGraph(const abi::Task& task) { return (task.flags & abi::kTaskGraph) != 0; }

/// An image that was accepted, and what it takes to execute it.
struct Accepted {
  std::vector<const abi::Header*> definitions;
  uint64_t work = 0;
  bool schedulable = true;  ///< no two instances use the same bytes at a time
};

/// A graph task, with the bytes of its scratch.
struct Scratch {
  size_t number;
  uint64_t begin, end;
};

/// Whether edges order all graph tasks that use the same scratch. (Whether edges suffice is not the
/// validator's business.)
bool IsOrdered(const abi::Header& header, const std::vector<Scratch>& scratches) {
  if (scratches.size() < 2) return true;
  if (header.tasks > kMostTasks) return false;
  std::vector<size_t> number_of(abi::EndTask(&header));
  ForEachTask(header, [&](abi::TaskId id, const abi::Task& task) { number_of[id] = task.number; });
  // reaches[a][b]: b waits for a. Filled from the last task to the first.
  std::vector<std::vector<bool>> reaches(header.tasks, std::vector<bool>(header.tasks));
  std::vector<abi::TaskId> ids;
  ForEachTask(header, [&](abi::TaskId id, const abi::Task&) { ids.push_back(id); });
  const auto* chunks = abi::At<abi::ConsumerChunk>(&header, header.chunks);
  for (size_t a = ids.size(); a-- > 0;) {
    const abi::Task& task = *abi::TaskAt(&header, ids[a]);
    auto add = [&](abi::TaskId consumer) {
      size_t b = number_of[consumer];
      reaches[a][b] = true;
      for (size_t c = b; c < ids.size(); ++c) reaches[a][c] = reaches[a][c] || reaches[b][c];
    };
    uint32_t inlined = std::min(task.consumers, abi::InlineConsumers(task));
    for (uint32_t i = 0; i < inlined; ++i) add(task.consumer[i]);
    for (uint32_t chunk = task.chunk; chunk != 0; chunk = chunks[chunk - 1].older) {
      for (uint32_t consumer : chunks[chunk - 1].consumer) {
        if (consumer != 0) add(consumer);
      }
    }
  }
  for (const Scratch& a : scratches) {
    for (const Scratch& b : scratches) {
      bool shared = a.number < b.number && a.begin < b.end && b.begin < a.end;
      if (shared && !reaches[a.number][b.number]) return false;
    }
  }
  return true;
}

Accepted Examine(const TestImage& image, const std::vector<TestImage>& images,
                 const std::vector<Accepted>& before) {
  Accepted result;
  result.definitions = DefinitionsOf(image, std::span(images).first(before.size()));
  const abi::Header& header = *image.header();
  result.work = header.tasks + std::min(header.blocks, kMostWork);
  std::vector<Scratch> scratches;
  ForEachTask(header, [&](abi::TaskId, const abi::Task& task) {
    if (!IsGraph(task)) return;
    const abi::Header& made = *result.definitions[task.kernel];
    const Accepted& inner = before[made.content_hash];
    result.work = std::min(result.work + inner.work, kMostWork + 1);
    result.schedulable = result.schedulable && inner.schedulable;
    uint64_t begin = (task.consumer[abi::kInlineConsumers - 1] - 1) * abi::kScratchUnit;
    uint64_t end = begin + made.heap_bytes +
                   abi::ScratchHeapOffset(made.slots.count, made.scalars, made.tasks);
    scratches.push_back({task.number, begin, end});
  });
  result.schedulable = result.schedulable && IsOrdered(header, scratches);
  return result;
}

bool FitsMemory(const TestImage& image) {
  uint64_t bytes = 0;
  const auto* slots = abi::At<abi::Slot>(image.data(), image.header()->slots);
  for (uint64_t i = 0; i < image.header()->slots.count; ++i) {
    bytes += std::min(slots[i].bytes, kMostBytes) + 16;
    if (bytes > kMostBytes) return false;
  }
  return true;
}

/// Runs the image as the run that it says it is, to its end.
void Execute(TestImage image, bool schedulable) {
  std::vector<TestImage> memory;
  LinkSlots(image, &memory);
  static const sched::KernelTable* table = [] {
    auto* kernels = new sched::KernelTable;
    kernels->Load(0, SampleKernels());
    return kernels;
  }();
  const sched::AddressSpace space;
  for (bool reverse : {false, true}) {
    uint64_t completed = 0;
    sched::RunOracle(sched::Instance(image.data(), *table, space), {.reverse_blocks = reverse},
                     &completed);
    Require(completed == image.header()->tasks, "the oracle runs every task");
  }
  if (!schedulable) return;
  static sim::Executor* executor = [] {
    auto* made = new sim::Executor(1, {});
    made->LoadKernels(0, SampleKernels());
    return made;
  }();
  device::Launch launch;
  launch.image = image.address();
  launch.image_bytes = image.size();
  launch.threads = 1;
  launch.caller_waits = true;
  device::Ticket ticket = executor->Execute(launch);
  Require(executor->Wait(ticket, std::chrono::seconds(10)), "a run ends");
  device::Outcome outcome = executor->Collect(ticket);
  if (!outcome.ok) throw Finding(outcome.message);
  Require(outcome.completed == image.header()->tasks, "the scheduler runs every task");
}

}  // namespace

void FuzzImage(Input bytes) {
  std::vector<TestImage> images = Split(bytes);
  std::vector<Accepted> accepted;
  for (size_t i = 0; i < images.size(); ++i) {
    TestImage& image = images[i];
    graph::ValidateOptions options{.kernels = static_cast<uint32_t>(SampleKernels().size())};
    options.kind = i + 1 < images.size() ? graph::ImageKind::definition : graph::ImageKind::run;
    if (!IsAccepted(image, options)) return;
    // From here on the image can be read. Its definitions get numbers for hashes.
    auto* records = abi::At<abi::Definition>(image.data(), image.header()->definitions);
    uint64_t count = image.header()->definitions.count;
    if (count > 0 && accepted.empty()) return;
    for (uint64_t d = 0; d < count; ++d) records[d].hash %= accepted.size();
    image.header()->content_hash = i;
    std::vector<const abi::Header*> definitions = DefinitionsOf(image, std::span(images).first(i));
    options.definitions = definitions;
    if (!IsAccepted(image, options)) return;
    LinkDefinitions(image, definitions);
    accepted.push_back(Examine(image, images, accepted));
  }
  if (images.empty() || accepted.back().work > kMostWork || !FitsMemory(images.back())) return;
  Execute(std::move(images.back()), accepted.back().schedulable);
}

}  // namespace precast::test

#ifdef PRECAST_FUZZ_TARGET
// An image is words that refer to each other: most changes of single bytes, and all that move what
// follows, are refused at once.

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::mt19937 random(seed);
  if (size < 8 || random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
    size_t word = random() % (size / 4);
    uint32_t value = 0, other = 0;
    std::memcpy(&value, data + word * 4, 4);
    std::memcpy(&other, data + random() % (size / 4) * 4, 4);
    switch (random() % 6) {
      case 0:
        value = random() % 8;
        break;
      case 1:
        value += random() % 9 - 4;
        break;
      case 2:
        value = other;
        break;
      case 3:
        value ^= 1u << random() % 32;
        break;
      case 4:
        value += (random() % 9 - 4) * 64;
        break;
      default:
        value = static_cast<uint32_t>(random());
        break;
    }
    std::memcpy(data + word * 4, &value, 4);
  }
  return size;
}
#endif
