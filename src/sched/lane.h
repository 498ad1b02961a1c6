// Lane: what one executing thread owns, across runs. Lanes of one device know each other through a
// Crew, to find somebody idle to share work with.
//
// Threads: everything in a lane is its thread's own, except the mailbox and the block jobs.
#pragma once

#include "abi/image.h"
#include "sched/mailbox.h"
#include "sched/ready_queue.h"
#include "sched/trace_writer.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace precast::sched {

template <typename Sync>
class GraphRun;

/// The blocks of one task that several lanes run together. It belongs to the lane that made the
/// task ready, and is free again when nobody uses it.
template <typename Sync>
struct alignas(64) BlockJob {
  typename Sync::template Atomic<uint64_t> next{0};   // first item that nobody has claimed
  typename Sync::template Atomic<uint64_t> done{0};   // items that have run
  typename Sync::template Atomic<uint32_t> users{0};  // lanes that may still look at this job
  TaskRef task = 0;
  uint32_t kernel = 0;  // as in its record
  uint64_t items = 0;
};

/// Work handed to an idle lane: tasks, a range of the root table, or a share in a block job.
template <typename Sync>
struct Parcel {
  static constexpr uint32_t kMaxTasks = 256;
  GraphRun<Sync>* run = nullptr;  // null: no work, look at what changed (the crew is ending)
  BlockJob<Sync>* job = nullptr;
  uint64_t roots_begin = 0, roots_end = 0;
  uint32_t tasks = 0;
  std::array<TaskRef, kMaxTasks> task;
};

/// When one block of a kernel ran, with RunOptions::measure_kernels.
struct Interval {
  std::chrono::steady_clock::time_point begin, end;
};

template <typename Sync>
struct alignas(64) Lane {
  explicit Lane(uint32_t place = 0) : number(place) {}

  const uint32_t number;  // its place in the crew
  Mailbox<Sync, Parcel<Sync>> mailbox;
  std::array<BlockJob<Sync>, 8> jobs;

  ReadyQueue ready;
  uint64_t roots_begin = 0, roots_end = 0;
  uint64_t completed = 0;  // tasks of the run so far
  std::vector<Interval> intervals;
  TraceWriter trace;  // attached while it works on a run that is traced

  // An estimate of what one task of this run takes here, from clock readings that are some tasks
  // apart, and of what one block of a kernel takes, by kernel index modulo the size.
  double task_ns = 0;
  std::array<double, 32> item_ns{};
  uint32_t short_jobs = 0;
  double wasted_ns = 0;  // time with work to spare, and nobody but sleeping lanes to take it
  uint32_t until_sample = 1;
  uint32_t sample_every = 1;
  std::chrono::steady_clock::time_point sampled;

  // For the watchdog, written only when a time limit is set: what runs, and a pulse that is odd
  // while inside a kernel. The watchdog gives a lane up by setting kAbandoned with a
  // compare-and-swap on the pulse, so it and the returning kernel agree on who was first.
  static constexpr uint64_t kAbandoned = uint64_t{1} << 63;
  std::atomic<uint64_t> pulse{0};
  std::atomic<TaskRef> task{0};
  std::atomic<uint64_t> item{0};
  std::atomic<uint64_t> completed_before{0};  // tasks of the run, when the kernel was entered
  bool abandoned = false;                     // what the lane itself has seen of that
};

/// The lanes of one device. The array is fixed; lanes come into being as threads are asked for.
template <typename Sync>
struct Crew {
  static constexpr int kMaxLanes = 257;  // 256 threads of its own and the caller
  std::array<std::atomic<Lane<Sync>*>, kMaxLanes> lanes{};
  std::atomic<int> count{0};  // lanes[0 … count) exist
  /// Idle lanes that poll, and that sleep; and lanes that do not sleep, idle or not. Hints: read
  /// without synchronization, wrong for moments.
  alignas(64) std::atomic<int32_t> spinning{0};
  std::atomic<int32_t> asleep{0};
  std::atomic<int32_t> awake{0};
};

}  // namespace precast::sched
