#include "sched/oracle.h"

#include "base/current_error.h"
#include "sched/running.h"

#include <precast/argument.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace precast::sched {

namespace {

abi::TaskId IdOf(const Instance& instance, const abi::Task* task) {
  return static_cast<abi::TaskId>(
      (reinterpret_cast<const char*>(task) - static_cast<const char*>(instance.image)) /
      abi::kUnit);
}

void RunTraced(const Instance& instance, const abi::Task* task, uint64_t item, TraceWriter& trace) {
  struct Inside {
    const Instance& instance;
    const abi::Task* task;
    uint64_t item;
    TraceWriter& trace;
    bool failed = true;
    ~Inside() { trace.Leave(instance.serial, IdOf(instance, task), item, failed); }
  } inside{instance, task, item, trace};
  trace.Enter();
  RunItem(instance, task, item);
  inside.failed = false;
}

void RunItems(const Instance& instance, const abi::Task* task, const OracleOptions& options) {
  using Clock = std::chrono::steady_clock;
  uint64_t items = Items(instance, task);
  Clock::time_point begin = options.in_kernels ? Clock::now() : Clock::time_point();
  for (uint64_t i = 0; i < items; ++i) {
    uint64_t item = options.reverse_blocks ? items - 1 - i : i;
    if (options.trace == nullptr) {
      RunItem(instance, task, item);
    } else {
      RunTraced(instance, task, item, *options.trace);
    }
  }
  if (options.in_kernels) *options.in_kernels += Clock::now() - begin;
}

/// Calls visit(char* element) for each element of an argument, in row-major order.
template <typename Visit>
void ForEachElement(const Instance& instance, const abi::Argument& argument, Visit&& visit) {
  const abi::Layout& layout = instance.layouts[argument.layout];
  char* base = instance.Pointer(argument.slot, argument.offset);
  for (uint64_t i = 0; i < layout.elements; ++i) {
    uint64_t rest = i, offset = 0;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      offset += rest % layout.shape[axis] * layout.strides[axis];
      rest /= layout.shape[axis];
    }
    visit(i, base + offset * layout.element_bytes);
  }
}

bool IsPattern(const char* element, size_t bytes, uint8_t pattern) {
  return std::all_of(element, element + bytes,
                     [pattern](char c) { return static_cast<uint8_t>(c) == pattern; });
}

/// What the bytes of the task's `inout` tensors were, to run the task a second time.
class Snapshot {
 public:
  Snapshot(const Instance& instance, const abi::Task* task) {
    for (uint16_t i = 0; i < task->tensors; ++i) {
      const abi::Argument& argument = abi::Arguments(task)[i];
      if (argument.direction != static_cast<uint32_t>(Direction::inout) &&
          argument.direction != static_cast<uint32_t>(Direction::no_dep)) {
        continue;
      }
      const char* begin = instance.Pointer(argument.slot, argument.offset);
      saved_.push_back(
          {const_cast<char*>(begin), {begin, begin + instance.layouts[argument.layout].extent}});
    }
  }
  void Restore() const {
    for (const Bytes& bytes : saved_) {
      std::memcpy(bytes.target, bytes.value.data(), bytes.value.size());
    }
  }

 private:
  struct Bytes {
    char* target;
    std::vector<char> value;
  };
  std::vector<Bytes> saved_;
};

void Poison(const Instance& instance, const abi::Task* task, uint8_t pattern) {
  for (uint16_t i = 0; i < task->tensors; ++i) {
    const abi::Argument& argument = abi::Arguments(task)[i];
    if (argument.direction != static_cast<uint32_t>(Direction::out)) continue;
    size_t bytes = instance.layouts[argument.layout].element_bytes;
    ForEachElement(instance, argument,
                   [&](uint64_t, char* element) { std::memset(element, pattern, bytes); });
  }
}

/// Elements of `out` tensors that hold the pattern: (argument, element) pairs in order.
using Survivors = std::vector<std::pair<uint16_t, uint64_t>>;
Survivors FindPattern(const Instance& instance, const abi::Task* task, uint8_t pattern) {
  Survivors found;
  for (uint16_t i = 0; i < task->tensors; ++i) {
    const abi::Argument& argument = abi::Arguments(task)[i];
    if (argument.direction != static_cast<uint32_t>(Direction::out)) continue;
    size_t bytes = instance.layouts[argument.layout].element_bytes;
    ForEachElement(instance, argument, [&](uint64_t element_index, char* element) {
      if (IsPattern(element, bytes, pattern)) found.emplace_back(i, element_index);
    });
  }
  return found;
}

void RunPoisoned(const Instance& instance, const abi::Task* task, const OracleOptions& options) {
  Snapshot snapshot(instance, task);
  constexpr uint8_t kFirst = 0xa5, kSecond = 0x5a;
  Poison(instance, task, kFirst);
  RunItems(instance, task, options);
  Survivors first = FindPattern(instance, task, kFirst);
  if (first.empty()) return;
  // An element may hold the pattern because the kernel computed it: try another pattern.
  snapshot.Restore();
  Poison(instance, task, kSecond);
  RunItems(instance, task, options);
  Survivors second = FindPattern(instance, task, kSecond);
  Survivors both;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(),
                        std::back_inserter(both));
  if (both.empty()) return;
  const auto [argument, element] = both.front();
  Fail(ErrorCode::kernel_failed,
       "left {} elements of its 'out' tensors unwritten; the first is element {} of tensor {}",
       both.size(), element, argument);
}

}  // namespace

void RunOracle(const Instance& instance, const OracleOptions& options, uint64_t* completed) {
  abi::TaskId end = abi::EndTask(instance.header);
  Place current{&instance, nullptr};
  Running running(&current);
  for (abi::TaskId id = abi::kFirstTask; id < end;) {
    const abi::Task* task = abi::TaskAt(instance.image, id);
    current.task = task;
    try {
      if ((task->flags & abi::kTaskGraph) != 0) {
        if (ShouldRun(instance, task)) {
          uint64_t inner = 0;
          Instance* made = MakeInstance(instance, task, false);
          if (options.trace != nullptr) {
            made->serial = options.trace->BeginInstance(instance.serial, id);
          }
          RunOracle(*made, options, &inner);
          if (options.trace != nullptr) options.trace->EndInstance(made->serial, 0);
        }
      } else if (task->kernel != abi::kNoKernel && ShouldRun(instance, task)) {
        // A skipped or predicated task keeps its outputs' bytes, so it is never poisoned.
        if (options.poison_outputs && task->predicate == 0) {
          RunPoisoned(instance, task, options);
        } else {
          RunItems(instance, task, options);
        }
      }
    } catch (...) {
      if ((task->flags & abi::kTaskGraph) != 0) throw;  // it names the inner task
      throw CurrentError(ErrorCode::kernel_failed, instance.Describe(task) + ": ");
    }
    ++*completed;
    id += task->units;
  }
}

}  // namespace precast::sched
