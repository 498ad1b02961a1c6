// GraphRun: the execution of one image by any number of lanes.
//
// Each task counts its unfinished producers, in its record; the lane that takes the count to zero
// owns the task. It continues with a consumer that stands next in program order and queues the
// others. A lane shares its backlog with idle lanes when that is worth what sharing costs; tasks of
// many blocks are claimed block by block.
//
// A graph task makes an instance of its definition and puts the tasks without producers into its
// lane's queue; it ends when the last task without consumers does. Tasks of instances differ from
// those of the run in where their counters are, and in nothing else.
//
// Invariants
//   R1  A task is in exactly one place: unready, in one lane's queue or root range, in a parcel, or
//       running.
//   R2  `active` (low bits of progress_) counts the lanes that have work of this run, parcels under
//       way included. It reaches zero once; the lane that takes it there ends the run, and no lane
//       touches the run after it has left.
//   R3  While a lane is alone it decrements counters without atomic operations. Only that lane can
//       end this, by handing out a parcel; seeing the last other lane leave synchronizes with it.
//
// Threads: `Work` from a lane that holds work; `Fail` from anywhere.
#pragma once

#include "base/current_error.h"
#include "base/planted_fault.h"
#include "sched/instance.h"
#include "sched/lane.h"
#include "sched/running.h"

#include <precast/error.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

namespace precast::sched {

struct RunLimits {
  int lanes = 1;       ///< at most this many work at a time
  int first_lane = 0;  ///< lanes of the crew before this one are not asked for help
  bool watched = false;
  bool measure = false;
  abi::TraceHeader* trace = nullptr;  ///< where to record; null: nowhere

  /// Kernels are called, and nothing else is done about it.
  bool plain() const { return !watched && !measure; }
};

template <typename Sync>
class GraphRun {
 public:
  GraphRun(const Instance& instance, Crew<Sync>& crew, const RunLimits& limits)
      : instance_(instance),
        roots_(abi::At<abi::TaskId>(instance.image, instance.header->roots)),
        heap_(instance.Pointer(0, 0)),
        crew_(crew),
        limits_(limits) {}

  /// Makes the lane the first active one, with all roots. Before any `Work`.
  void Start(Lane<Sync>& lane) {
    progress_.store(1, std::memory_order_relaxed);
    lane.roots_begin = 0;
    lane.roots_end = instance_.header->roots.count;
  }
  /// The same for a lane that is reached through its mailbox.
  void Start(Parcel<Sync>& parcel) {
    progress_.store(1, std::memory_order_relaxed);
    parcel.run = this;
    parcel.job = nullptr;
    parcel.tasks = 0;
    parcel.roots_begin = 0;
    parcel.roots_end = instance_.header->roots.count;
  }

  /// Executes what the lane holds, or has just been handed, and all that becomes ready from it;
  /// then leaves the run. True when this was the last active lane: the run has ended, and the
  /// caller must tell those who wait for it.
  bool Work(Lane<Sync>& lane, const Parcel<Sync>* parcel) {
    lane.completed = 0;
    BlockJob<Sync>* job = nullptr;
    if (parcel != nullptr) {
      lane.roots_begin = parcel->roots_begin;
      lane.roots_end = parcel->roots_end;
      for (uint32_t i = 0; i < parcel->tasks; ++i) lane.ready.Push(parcel->task[i]);
      job = parcel->job;
    }
    Place current;
    Running running(&current);
    try {
      if (limits_.trace == nullptr) {
        Loop<false>(lane, job, &current);
      } else {
        Loop<true>(lane, job, &current);
      }
    } catch (...) {
      if (!lane.abandoned) Fail(CurrentError(ErrorCode::kernel_failed, Where(current)));
    }
    if (lane.abandoned) return false;  // the watchdog has left the run on its behalf
    lane.ready.Clear();
    lane.roots_begin = lane.roots_end = 0;
    return Leave(lane.completed);
  }

  /// Leaves the run with `completed` more tasks done. True for the last active lane.
  bool Leave(uint64_t completed) {
    uint64_t before =
        progress_.fetch_add((completed << kActiveBits) - 1, std::memory_order_acq_rel);
    return (before & kActiveMask) == 1;
  }

  /// Records a failure, unless there is one already, and stops the run.
  void Fail(Error error) {
    {
      std::lock_guard lock(mutex_);
      if (!error_) error_.emplace(std::move(error));
    }
    stop_.store(true, std::memory_order_release);
  }

  /// What failed the run, if anything. After its end.
  const std::optional<Error>& error() const { return error_; }
  uint64_t completed() const { return progress_.load(std::memory_order_acquire) >> kActiveBits; }
  const Instance& instance() const { return instance_; }
  /// Requires: the instance exists and has not ended.
  Place Find(TaskRef ref) const {
    uint32_t number = static_cast<uint32_t>(ref >> 32);
    const Instance* instance =
        number == 0 ? &instance_
                    : reinterpret_cast<const Instance*>(heap_ + (number - 1) * abi::kScratchUnit);
    return {instance, abi::TaskAt(instance->image, static_cast<abi::TaskId>(ref))};
  }
  const RunLimits& limits() const { return limits_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kActiveBits = 16;
  static constexpr uint64_t kActiveMask = (1u << kActiveBits) - 1;

  // Work that must be at stake before a lane hands some out: to one that polls, and to one that
  // must be woken (a system call here, and its start-up there). One that sleeps is also woken for
  // less when the lane has had something to spare for as long as a wake-up takes: a task that waits
  // may lead to many others, as the first one of a row of a wavefront does.
  static constexpr double kShareNs = 500;
  static constexpr double kWakeNs = 30'000;
  // Tasks shorter than this stay with their lane once they are ready: the counters of their
  // consumers would travel between cores for longer than the tasks take.
  static constexpr double kTinyNs = 150;
  // Roots of a run of such tasks are handed out when they are worth this: less, and what they make
  // ready costs both lanes more than it saves (a tree of 10,000 empty tasks 14 ns a task, not 8).
  static constexpr double kTinyShareNs = 120'000;
  // Work between two readings of the clock, which take some 30 ns.
  static constexpr double kSampleNs = 1'000;
  static constexpr double kMaxSample = 32;  // tasks

  static TaskRef RefOf(Place place) { return TaskRef{place.instance->number} << 32 | IdOf(place); }

  // The loop and what it calls exist twice, with and without recording, so that a run that is not
  // traced has nothing of it in its way.

  template <bool kTrace>
  void Loop(Lane<Sync>& lane, BlockJob<Sync>* job, Place* current) {
    TaskRef next = 0;
    if (job != nullptr) {
      if (JoinJob<kTrace>(lane, *job, current)) next = Complete<kTrace>(lane, *current);
      if (lane.abandoned) return;
    }
    lane.task_ns = lane.wasted_ns = 0;
    lane.until_sample = lane.sample_every = 1;
    lane.sampled = Clock::now();
    while (!stop_.load(std::memory_order_relaxed)) {
      TaskRef ref = next;
      next = 0;
      if (ref == 0) {
        if (!lane.ready.empty()) {
          ref = lane.ready.Pop();
          if (!lane.ready.empty()) __builtin_prefetch(Find(lane.ready.Peek()).task);
        } else if (lane.roots_begin < lane.roots_end) {
          ref = roots_[lane.roots_begin++];
        } else {
          return;
        }
      }
      // By value from here on, in registers: a copy of a Place that was just written to memory
      // costs as much as all the rest.
      Place place = Find(ref);
      current->instance = place.instance;
      current->task = place.task;
      bool complete = Execute<kTrace>(lane, place, current);
      if (lane.abandoned) [[unlikely]]
        return;
      if (complete) next = Complete<kTrace>(lane, place);
      if (--lane.until_sample == 0) Sample(lane, next != 0);
      if (limits_.lanes > 1 && crew_.spinning.load(std::memory_order_relaxed) > 0) {
        Share(lane, next != 0, false);
      }
    }
  }

  /// Runs a ready task. False when it has not ended: lanes that joined it are still at it, the last
  /// of which completes; or it is a graph task, which its last inner task completes.
  template <bool kTrace>
  bool Execute(Lane<Sync>& lane, Place place, Place* current) {
    const abi::Task* task = place.task;
    const Instance& instance = *place.instance;
    if (task->kernel == abi::kNoKernel) return true;
    if (task->predicate != 0 && !ShouldRun(instance, task) &&
        !PRECAST_PLANTED("sched.predicate-ignored")) {
      return true;
    }
    if ((task->flags & abi::kTaskGraph) != 0) {
      Instantiate<kTrace>(lane, place);
      return false;
    }
    if (task->blocks == 1 && (task->flags & abi::kTaskMixed) == 0) {
      Call<kTrace>(lane, place, 0);
      return true;
    }
    uint64_t items = Items(instance, task);
    // Blocks known to be short are not worth a job; now and then one is made, to see whether they
    // still are.
    double ns = lane.item_ns[task->kernel % lane.item_ns.size()] * static_cast<double>(items);
    bool alone = limits_.lanes == 1 || (ns > 0 && ns < kShareNs && ++lane.short_jobs % 8 != 0);
    BlockJob<Sync>* job = alone ? nullptr : FreeJob(lane);
    if (job == nullptr) {
      for (uint64_t item = 0; item < items; ++item) {
        if (Stopped() || lane.abandoned) return false;
        Call<kTrace>(lane, place, item);
      }
      return true;
    }
    job->task = RefOf(place);
    job->kernel = task->kernel;
    job->items = items;
    job->next.store(0, std::memory_order_relaxed);
    job->done.store(0, std::memory_order_relaxed);
    job->users.store(1, std::memory_order_relaxed);
    return JoinJob<kTrace>(lane, *job, current);
  }

  /// Runs items of a job until none is unclaimed; `*current` is then its task, if there was one.
  /// True when the caller ran the last one of all.
  template <bool kTrace>
  bool JoinJob(Lane<Sync>& lane, BlockJob<Sync>& job, Place* current) {
    struct Use {  // ends with the scope, also when a kernel throws
      BlockJob<Sync>& job;
      ~Use() { job.users.fetch_sub(1, std::memory_order_release); }
    } use{job};
    uint64_t lanes = static_cast<uint64_t>(limits_.lanes);
    double& item_ns = lane.item_ns[job.kernel % lane.item_ns.size()];
    uint64_t ran = 0;
    while (!Stopped()) {
      uint64_t seen = job.next.load(std::memory_order_relaxed);
      if (seen >= job.items) break;
      OfferJob(lane, job, job.items - seen - 1, item_ns);
      // A part of what is left, so that lanes end together, but not less than is worth its
      // overhead.
      uint64_t worth = item_ns == 0 ? 1 : static_cast<uint64_t>(kSampleNs / item_ns) + 1;
      uint64_t batch = std::max((job.items - seen) / (8 * lanes), worth);
      uint64_t begin = job.next.fetch_add(batch, std::memory_order_relaxed);
      uint64_t end = std::min(begin + batch, job.items);
      if (begin >= end) break;
      // Only now: without an item of its own, the task may have ended long ago, and its instance
      // with it.
      Place place = Find(job.task);
      current->instance = place.instance;
      current->task = place.task;
      Clock::time_point start = Clock::now();
      for (uint64_t item = begin; item < end && !lane.abandoned; ++item) {
        Call<kTrace>(lane, place, item);
      }
      ran += end - begin;
      if (lane.abandoned) return false;
      double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
      item_ns = ns / static_cast<double>(end - begin);
      if (end < job.items) lane.wasted_ns += ns;
    }
    if (ran == 0) return false;
    // The release makes this lane's results visible to the lane that completes the task.
    if (PRECAST_PLANTED("sched.first-lane-completes")) return job.done.fetch_add(ran) == 0;
    std::memory_order order = PRECAST_PLANTED("sched.relaxed-done") ? std::memory_order_relaxed
                                                                    : std::memory_order_acq_rel;
    return job.done.fetch_add(ran, order) + ran == job.items;
  }

  template <bool kTrace>
  void Instantiate(Lane<Sync>& lane, Place place) {
    Instance* made = MakeInstance(*place.instance, place.task, true);
    if (kTrace) made->serial = lane.trace.BeginInstance(place.instance->serial, IdOf(place));
    const abi::TaskId* roots = abi::At<abi::TaskId>(made->image, made->header->roots);
    TaskRef instance = TaskRef{made->number} << 32;
    for (uint64_t i = 0; i < made->header->roots.count; ++i) lane.ready.Push(instance | roots[i]);
  }

  template <bool kTrace>
  [[gnu::always_inline]] void Call(Lane<Sync>& lane, Place place, uint64_t item) {
    if (!kTrace && limits_.plain()) [[likely]] {
      RunItem(*place.instance, place.task, item);
    } else {
      CallWatched<kTrace>(lane, place, item);
    }
  }

  /// The same with all that may be asked for around it.
  template <bool kTrace>
  [[gnu::noinline]] void CallWatched(Lane<Sync>& lane, Place place, uint64_t item) {
    if (kTrace) lane.trace.Enter();
    if (limits_.watched) {
      lane.task.store(RefOf(place), std::memory_order_relaxed);
      lane.item.store(item, std::memory_order_relaxed);
      lane.completed_before.store(lane.completed, std::memory_order_relaxed);
      lane.pulse.fetch_add(1, std::memory_order_release);  // odd: inside
    }
    struct Inside {  // ends with the scope, also when the kernel throws
      Lane<Sync>& lane;
      const RunLimits& limits;
      Place place;
      uint64_t item;
      Clock::time_point begin;
      bool failed = true;
      ~Inside() {
        if (limits.measure) lane.intervals.push_back({begin, Clock::now()});
        if (limits.watched) {
          uint64_t before = lane.pulse.fetch_add(1, std::memory_order_acq_rel);
          lane.abandoned = (before & Lane<Sync>::kAbandoned) != 0;
        }
        // Of a lane that was given up, the watchdog has recorded the call.
        if (kTrace && !lane.abandoned) {
          lane.trace.Leave(place.instance->serial, IdOf(place), item, failed);
        }
      }
    } inside{lane, limits_, place, item, limits_.measure ? Clock::now() : Clock::time_point()};
    RunItem(*place.instance, place.task, item);
    inside.failed = false;
  }

  /// Releases the consumers of a task that has ended; gives one to continue with, or 0.
  template <bool kTrace>
  TaskRef Complete(Lane<Sync>& lane, Place place) {
    for (;;) {
      bool inner = place.instance->parent != nullptr;
      lane.completed += inner ? 0 : 1;
      // Pairs with the acq_rel in Leave of the lane that left last (R3).
      bool alone = (progress_.load(std::memory_order_acquire) & kActiveMask) == 1 ||
                   PRECAST_PLANTED("sched.plain-decrement");
      if (place.task->consumers != 0) return Release<kTrace>(lane, place, alone);
      // A task without consumers ends its instance if it is the last one.
      if (!inner) return 0;
      uint32_t* sinks = &const_cast<Instance*>(place.instance)->sinks;
      if ((alone ? --*sinks : Sync::Decrement(sinks)) != 0) return 0;
      if (kTrace) lane.trace.EndInstance(place.instance->serial, IdOf(place));
      place = {place.instance->parent, place.instance->maker};
    }
  }

  template <bool kTrace>
  TaskRef Release(Lane<Sync>& lane, Place place, bool alone) {
    const abi::Task* task = place.task;
    const Instance& instance = *place.instance;
    uint32_t count = task->consumers;
    TaskRef number = TaskRef{instance.number} << 32;
    // Continue only where the next records already are: a consumer close behind in program order.
    abi::TaskId close = IdOf(place) + 2u * task->units + 2u;
    TaskRef next = 0;
    auto release = [&](abi::TaskId id) {
      abi::Task* consumer = abi::TaskAt(instance.image, id);
      uint32_t* producers = instance.counters == nullptr ? &consumer->producers
                                                         : &instance.counters[consumer->number];
      if ((alone ? --*producers : Sync::Decrement(producers)) != 0) return;
      if (kTrace) lane.trace.Release(instance.serial, IdOf(place), id);
      if (next == 0 && id <= close) {
        next = number | id;
      } else {
        __builtin_prefetch(consumer);
        lane.ready.Push(number | id);
      }
    };
    uint32_t inlined = abi::InlineConsumers(*task);
    for (uint32_t i = 0; i < std::min(count, inlined); ++i) release(task->consumer[i]);
    if (count > inlined) [[unlikely]] {
      const abi::ConsumerChunk* chunks =
          abi::At<abi::ConsumerChunk>(instance.image, instance.header->chunks);
      uint32_t in_newest = (count - inlined - 1) % abi::kChunkConsumers + 1;
      for (uint32_t chunk = task->chunk; chunk != 0; chunk = chunks[chunk - 1].older) {
        if (PRECAST_PLANTED("sched.consumer-twice")) release(chunks[chunk - 1].consumer[0]);
        for (uint32_t i = 0; i < in_newest; ++i) release(chunks[chunk - 1].consumer[i]);
        in_newest = abi::kChunkConsumers;
      }
    }
    return next;
  }

  // Sharing.

  /// Updates the estimate of what a task costs, and looks for sleeping lanes that are worth waking.
  void Sample(Lane<Sync>& lane, bool has_next) {
    Clock::time_point now = Clock::now();
    double ns = std::chrono::duration<double, std::nano>(now - lane.sampled).count();
    double per_task = std::max(ns / lane.sample_every, 1.0);
    // Quick to believe that tasks are short: the first ones find cold caches, and the very first
    // says nothing unless it was long.
    bool first = lane.task_ns == 0;
    double weight = first ? 1 : per_task < lane.task_ns ? 0.5 : 0.25;
    lane.task_ns += weight * ((first && per_task < kSampleNs ? 1 : per_task) - lane.task_ns);
    lane.sample_every = static_cast<uint32_t>(std::clamp(kSampleNs / per_task, 1.0, kMaxSample));
    lane.until_sample = lane.sample_every;
    lane.sampled = now;
    if (limits_.lanes > 1 && crew_.asleep.load(std::memory_order_relaxed) > 0) {
      if (Spare(lane, has_next) > 0) lane.wasted_ns += ns;
      Share(lane, has_next, true);
    }
  }

  /// Tasks that the lane could give away and still go on. `has_next`: it has something to do
  /// besides.
  static uint64_t Spare(const Lane<Sync>& lane, bool has_next) {
    uint64_t backlog = lane.roots_end - lane.roots_begin;
    if (lane.task_ns >= kTinyNs) backlog += lane.ready.size();
    return has_next || backlog == 0 ? backlog : backlog - 1;
  }

  static bool WorthIt(const Lane<Sync>& lane, double worth, bool wake) {
    if (worth < kShareNs) return false;
    return !wake || worth >= kWakeNs || lane.wasted_ns >= kWakeNs;
  }

  /// Hands half of the lane's backlog to an idle lane, if it is worth it.
  void Share(Lane<Sync>& lane, bool has_next, bool wake) {
    double worth = static_cast<double>(Spare(lane, has_next)) * lane.task_ns;
    bool tiny = lane.task_ns < kTinyNs;
    if (!WorthIt(lane, worth, wake) || (tiny && worth < kTinyShareNs)) return;
    auto [target, parcel] = ClaimIdle(wake);
    if (parcel == nullptr) return;
    parcel->run = this;
    parcel->job = nullptr;
    // Half of each, rounded up only where something is left for this lane anyway.
    uint64_t roots = lane.roots_end - lane.roots_begin;
    size_t queued = lane.ready.size();
    size_t give = tiny ? 0 : (queued + (has_next ? 1 : 0)) / 2;
    uint64_t give_roots = (roots + (has_next || queued > 0 ? 1 : 0)) / 2;
    lane.roots_end -= give_roots;
    parcel->roots_begin = lane.roots_end;
    parcel->roots_end = lane.roots_end + give_roots;
    parcel->tasks = static_cast<uint32_t>(std::min<size_t>(give, Parcel<Sync>::kMaxTasks));
    lane.ready.TakeNewest(parcel->tasks, parcel->task.data());
    target->mailbox.Deliver();
    if (wake) lane.wasted_ns = 0;
  }

  /// Offers a share in a job that has `others` unclaimed items beyond the caller's next one.
  void OfferJob(Lane<Sync>& lane, BlockJob<Sync>& job, uint64_t others, double item_ns) {
    if (others == 0) return;
    double worth = static_cast<double>(others) * item_ns;
    bool wake = crew_.asleep.load(std::memory_order_relaxed) > 0 && WorthIt(lane, worth, true);
    bool polling = crew_.spinning.load(std::memory_order_relaxed) > 0 &&
                   (item_ns == 0 || WorthIt(lane, worth, false));
    if (!wake && !polling) return;
    auto [target, parcel] = ClaimIdle(wake);
    if (parcel == nullptr) return;
    job.users.fetch_add(1, std::memory_order_relaxed);
    parcel->run = this;
    parcel->job = &job;
    parcel->tasks = 0;
    parcel->roots_begin = parcel->roots_end = 0;
    target->mailbox.Deliver();
    lane.wasted_ns = 0;
  }

  /// Claims the mailbox of some idle lane and counts that lane as active.
  std::pair<Lane<Sync>*, Parcel<Sync>*> ClaimIdle(bool wake) {
    uint64_t progress = progress_.load(std::memory_order_relaxed);
    do {
      if ((progress & kActiveMask) >= static_cast<uint64_t>(limits_.lanes)) return {};
    } while (!progress_.compare_exchange_weak(progress, progress + 1, std::memory_order_relaxed));
    int lanes = crew_.count.load(std::memory_order_acquire);
    for (int i = limits_.first_lane; i < lanes; ++i) {
      Lane<Sync>* lane = crew_.lanes[static_cast<size_t>(i)].load(std::memory_order_acquire);
      if (lane == nullptr) continue;
      if (Parcel<Sync>* parcel = lane->mailbox.TryClaim(wake)) return {lane, parcel};
    }
    progress_.fetch_sub(1, std::memory_order_relaxed);
    return {};
  }

  BlockJob<Sync>* FreeJob(Lane<Sync>& lane) {
    for (BlockJob<Sync>& job : lane.jobs) {
      if (job.users.load(std::memory_order_acquire) == 0) return &job;
    }
    return nullptr;
  }

  bool Stopped() const { return stop_.load(std::memory_order_relaxed); }

  static abi::TaskId IdOf(Place place) {
    return static_cast<abi::TaskId>((reinterpret_cast<const char*>(place.task) -
                                     static_cast<const char*>(place.instance->image)) /
                                    abi::kUnit);
  }

  static std::string Where(Place place) {
    return place.task == nullptr ? std::string() : place.instance->Describe(place.task) + ": ";
  }

  Instance instance_;
  const abi::TaskId* roots_;
  const char* heap_;
  Crew<Sync>& crew_;
  RunLimits limits_;

  alignas(64) typename Sync::template Atomic<uint64_t> progress_{0};  // completed << 16 | active
  alignas(64) typename Sync::template Atomic<bool> stop_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace precast::sched
