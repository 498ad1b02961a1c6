#include "platforms/sim/executor.h"

#include "base/alternate_stack.h"
#include "sched/graph_run.h"
#include "sched/host_sync.h"
#include "sched/kernel_table.h"
#include "sched/oracle.h"
#include "sched/task_observer.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace precast::sim {

namespace {

using Sync = sched::HostSync;
using Lane = sched::Lane<Sync>;
using Parcel = sched::Parcel<Sync>;
using GraphRun = sched::GraphRun<Sync>;
using Clock = std::chrono::steady_clock;

/// One launch, from Execute to Collect. The parcels that travel for it point at it through its
/// GraphRun, so it is one.
struct Run : GraphRun {
  Run(const device::Launch& what, device::Ticket number, const sched::Instance& instance,
      sched::Crew<Sync>& crew, const sched::RunLimits& run_limits)
      : GraphRun(instance, crew, run_limits), launch(what), ticket(number) {}

  device::Launch launch;
  device::Ticket ticket;
  std::unique_ptr<sched::ObservedKernels> observed;  // its kernels, when somebody observes them
  enum { kQueued, kRunning, kEnded } state = kQueued;
  device::Outcome outcome;
};

/// Wall time covered by at least one interval.
double CoveredUs(std::vector<sched::Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  Clock::duration covered{0};
  Clock::time_point until = Clock::time_point::min();
  for (const sched::Interval& interval : intervals) {
    Clock::time_point begin = std::max(interval.begin, until);
    if (interval.end > begin) covered += interval.end - begin;
    until = std::max(until, interval.end);
  }
  return std::chrono::duration<double, std::micro>(covered).count();
}

/// The executors whose kernels the calling thread is inside of, from the innermost one.
struct Executing {
  explicit Executing(const void* who) : executor(who), outer(innermost) { innermost = this; }
  ~Executing() { innermost = outer; }
  Executing(const Executing&) = delete;
  Executing& operator=(const Executing&) = delete;

  static thread_local const Executing* innermost;
  const void* executor;
  const Executing* outer;
};
thread_local const Executing* Executing::innermost = nullptr;

}  // namespace

class Executor::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(int default_threads, sched::AddressSpace memory)
      : default_threads_(default_threads), memory_(std::move(memory)) {
    lanes_.reserve(sched::Crew<Sync>::kMaxLanes);  // so that adding one can't fail half-way
    lanes_.push_back({std::make_unique<Lane>(0u), {}});
    crew_.lanes[0] = lanes_[0].lane.get();
    crew_.count = 1;
  }

  void Close();
  void LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
    kernels_.Load(first, kernels);
  }
  void Prepare(const device::Launch& launch);
  device::Ticket Execute(const device::Launch& launch);
  bool Wait(device::Ticket ticket, std::chrono::nanoseconds timeout);
  device::Outcome Collect(device::Ticket ticket);
  bool Settled(device::Ticket ticket) const;
  bool InKernel() const;
  int abandoned() const {
    std::lock_guard lock(mutex_);
    return Missing();
  }

 private:
  struct PoolLane {
    std::unique_ptr<Lane> lane;
    std::thread thread;  // none for lane 0, which the thread that waits for a run becomes
  };
  /// A lane whose thread was given up inside a kernel of this launch.
  struct Abandoned {
    std::unique_ptr<Lane> lane;
    device::Ticket ticket;
    bool returned;
  };

  // All of these: mutex_ held.
  int Missing() const {
    return static_cast<int>(std::count_if(abandoned_.begin(), abandoned_.end(),
                                          [](const Abandoned& lane) { return !lane.returned; }));
  }
  void ForgetSettled();
  std::deque<std::unique_ptr<Run>>::iterator Lookup(device::Ticket ticket);
  Run* Find(device::Ticket ticket);
  Run* NextQueued() { return next_to_begin_ < next_ticket_ ? Find(next_to_begin_) : nullptr; }
  void EnsureLanes(int pool_lanes, int needed);
  void StartThread(size_t index);
  void StartWatchdog();
  void SetRunning(Run& run);
  void BeginNextOnPool();
  void StartOnPool(Run& run);
  bool GiveUpLane(size_t index, Run& run, uint64_t pulse);

  // mutex_ not held.
  int Threads(int asked) const;
  void LaneMain(Lane& lane);
  void Returned(const Lane& lane);
  void TakePart(Run& run);
  Parcel* Idle(Lane& lane, const std::atomic<bool>& give_up);
  bool Begin(Run& run, Lane& lane, const Parcel* parcel);
  Run* Finish(Run& run, bool pool_lane);
  void RecordOutcome(Run& run);
  void Watch();

  const int default_threads_;
  const uint32_t cores_ = std::max(1u, std::thread::hardware_concurrency());
  const sched::AddressSpace memory_;
  sched::KernelTable kernels_;
  sched::Crew<Sync> crew_;
  std::atomic<bool> closing_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a run ended, or may be begun by the thread that waits for it
  std::condition_variable watch_;    // a watched run began, or the executor closes
  std::deque<std::unique_ptr<Run>> runs_;  // launched and not collected, in order
  device::Ticket next_ticket_ = 1;
  device::Ticket next_to_begin_ = 1;
  Run* running_ = nullptr;
  bool lane0_taken_ = false;             // a waiting thread is lane 0 of its run …
  std::atomic<bool> lane0_done_{false};  // … which has ended
  std::vector<PoolLane> lanes_;
  int pool_threads_ = 0;  // of lanes_[1 …], those that have not been given up
  std::thread watchdog_;
  std::vector<Abandoned> abandoned_;
  std::vector<std::unique_ptr<Run>> quarantined_;
};

// Launching and waiting.

int Executor::Impl::Threads(int asked) const {
  int threads = asked > 0 ? asked : default_threads_;
  if (threads < 1 || threads > kMaxThreads) {
    Fail(ErrorCode::invalid_argument, "{} threads (1 … {} allowed)", threads, kMaxThreads);
  }
  return threads;
}

void Executor::Impl::Prepare(const device::Launch& launch) {
  if (launch.oracle) return;
  bool own_threads = launch.kernel_timeout.count() > 0 || !launch.caller_waits;
  int lanes = Threads(launch.threads) - (own_threads ? 0 : 1);
  if (crew_.count.load(std::memory_order_relaxed) > lanes) return;
  std::lock_guard lock(mutex_);
  EnsureLanes(lanes, 0);
  if (launch.kernel_timeout.count() > 0 && !watchdog_.joinable()) StartWatchdog();
}

bool Executor::Impl::InKernel() const {
  for (const Executing* at = Executing::innermost; at != nullptr; at = at->outer) {
    if (at->executor == this) return true;
  }
  return false;
}

device::Ticket Executor::Impl::Execute(const device::Launch& launch) {
  int threads = launch.oracle ? 1 : Threads(launch.threads);
  bool watched = launch.kernel_timeout.count() > 0 && !launch.oracle;
  bool own_threads = watched || !launch.caller_waits;
  sched::RunLimits limits{threads, own_threads ? 1 : 0, watched, launch.measure_kernels,
                          launch.trace};
  void* image = reinterpret_cast<void*>(launch.image + static_cast<uint64_t>(memory_.distance));
  std::lock_guard lock(mutex_);
  if (Missing() > kMaxAbandoned) {
    Fail(ErrorCode::device_lost, "device lost: {} kernels never returned (at most {} allowed)",
         Missing(), kMaxAbandoned);
  }
  EnsureLanes(own_threads ? threads : threads - 1, own_threads ? 1 : 0);
  if (watched && !watchdog_.joinable()) StartWatchdog();
  std::unique_ptr<sched::ObservedKernels> observed;
  if (launch.observer != nullptr) {
    observed = std::make_unique<sched::ObservedKernels>(kernels_, launch.observer);
  }
  const sched::KernelTable& kernels = observed ? *observed : kernels_;
  runs_.push_back(std::make_unique<Run>(launch, next_ticket_,
                                        sched::Instance(image, kernels, memory_), crew_, limits));
  runs_.back()->observed = std::move(observed);
  runs_.back()->launch.caller_waits = !own_threads;
  device::Ticket ticket = next_ticket_++;
  if (running_ == nullptr) BeginNextOnPool();
  return ticket;
}

bool Executor::Impl::Wait(device::Ticket ticket, std::chrono::nanoseconds timeout) {
  Clock::time_point now = Clock::now();
  bool forever = timeout > Clock::time_point::max() - now;
  std::unique_lock lock(mutex_);
  for (bool late = false;;) {
    Run* run = Find(ticket);  // again each time: another thread may have collected it
    if (run == nullptr || run->state == Run::kEnded) return true;
    if (late) return false;
    bool mine = run->state == Run::kQueued && run->launch.caller_waits && running_ == nullptr &&
                NextQueued() == run;
    if (mine && !lane0_taken_) {
      lane0_taken_ = true;
      lane0_done_.store(false, std::memory_order_relaxed);
      SetRunning(*run);
      lock.unlock();
      TakePart(*run);
      lock.lock();
      lane0_taken_ = false;
      changed_.notify_all();
    } else if (forever) {
      changed_.wait(lock);
    } else {
      late = changed_.wait_until(lock, now + timeout) == std::cv_status::timeout;
    }
  }
}

device::Outcome Executor::Impl::Collect(device::Ticket ticket) {
  std::lock_guard lock(mutex_);
  Run* run = Find(ticket);
  if (run == nullptr) Fail(ErrorCode::stale, "launch {} was collected already", ticket);
  if (run->state != Run::kEnded) {
    Fail(ErrorCode::invalid_argument, "launch {} has not ended: wait before collecting it", ticket);
  }
  if (run->outcome.quarantined) quarantined_.reserve(quarantined_.size() + 1);
  auto it = Lookup(ticket);
  device::Outcome outcome = std::move(run->outcome);
  if (outcome.quarantined) quarantined_.push_back(std::move(*it));
  runs_.erase(it);
  ForgetSettled();
  return outcome;
}

bool Executor::Impl::Settled(device::Ticket ticket) const {
  std::lock_guard lock(mutex_);
  return std::none_of(abandoned_.begin(), abandoned_.end(), [ticket](const Abandoned& lane) {
    return lane.ticket == ticket && !lane.returned;
  });
}

/// Drops the collected runs whose kernels have all returned, and their lanes. (Lanes stay as long
/// as the run goes on: others may work on a job of theirs.)
void Executor::Impl::ForgetSettled() {
  auto missing = [this](device::Ticket ticket) {
    return std::any_of(abandoned_.begin(), abandoned_.end(), [ticket](const Abandoned& lane) {
      return lane.ticket == ticket && !lane.returned;
    });
  };
  std::erase_if(quarantined_, [&](const std::unique_ptr<Run>& run) {
    if (missing(run->ticket)) return false;
    std::erase_if(abandoned_, [&](const Abandoned& lane) { return lane.ticket == run->ticket; });
    return true;
  });
}

/// The kernel of a lane that was given up has returned; its thread ends now.
void Executor::Impl::Returned(const Lane& lane) {
  std::lock_guard lock(mutex_);
  for (Abandoned& entry : abandoned_) {
    if (entry.lane.get() == &lane) entry.returned = true;
  }
  ForgetSettled();
}

std::deque<std::unique_ptr<Run>>::iterator Executor::Impl::Lookup(device::Ticket ticket) {
  return std::lower_bound(
      runs_.begin(), runs_.end(), ticket,
      [](const auto& run, device::Ticket wanted) { return run->ticket < wanted; });
}

/// Null when the launch was collected.
Run* Executor::Impl::Find(device::Ticket ticket) {
  if (ticket == 0 || ticket >= next_ticket_) {
    Fail(ErrorCode::invalid_argument, "launch {} was never made (the next is {})", ticket,
         next_ticket_);
  }
  auto it = Lookup(ticket);
  return it != runs_.end() && (*it)->ticket == ticket ? it->get() : nullptr;
}

void Executor::Impl::SetRunning(Run& run) {
  run.state = Run::kRunning;
  running_ = &run;
  if (run.launch.trace != nullptr) sched::TraceWriter::NoteBegin(run.launch.trace);
  next_to_begin_ = run.ticket + 1;
  if (run.limits().watched) watch_.notify_all();
}

// Lanes and their threads.

/// Makes lanes of the pool, each with its thread, until there are this many. Throws when the system
/// refuses and fewer than `needed` threads are there.
void Executor::Impl::EnsureLanes(int pool_lanes, int needed) {
  while (static_cast<int>(lanes_.size()) < pool_lanes + 1) {
    size_t index = lanes_.size();
    try {
      lanes_.push_back({std::make_unique<Lane>(static_cast<uint32_t>(index)), {}});
      StartThread(index);
    } catch (const std::exception& error) {  // no thread, or no memory
      lanes_.resize(index);
      // Fewer threads than asked for give the same bytes.
      if (pool_threads_ >= needed) return;
      Fail(ErrorCode::out_of_memory, "can't start a thread to execute kernels: {}", error.what());
    }
    crew_.lanes[index].store(lanes_[index].lane.get(), std::memory_order_release);
    crew_.count.store(static_cast<int>(lanes_.size()), std::memory_order_release);
  }
}

void Executor::Impl::StartThread(size_t index) {
  // The thread shares ownership: if it is given up inside a kernel, it outlives the executor.
  lanes_[index].thread = std::thread(
      [self = shared_from_this(), lane = lanes_[index].lane.get()] { self->LaneMain(*lane); });
  ++pool_threads_;
}

/// Begins the next run unless that is for its waiting thread to do. Requires: nothing runs.
void Executor::Impl::BeginNextOnPool() {
  while (Run* next = NextQueued()) {
    if (next->launch.caller_waits) return;
    SetRunning(*next);
    if (pool_threads_ > 0) {
      StartOnPool(*next);
      return;
    }
    // Threads were given up, and the system has refused new ones.
    next->outcome.ok = false;
    next->outcome.code = ErrorCode::device_lost;
    next->outcome.message = "device lost: no thread is left to execute kernels";
    next->outcome.ended = Clock::now();
    next->state = Run::kEnded;
    running_ = nullptr;
  }
}

void Executor::Impl::StartOnPool(Run& run) {
  // Nothing runs, so every lane of the pool is idle, or about to be.
  for (;;) {
    for (size_t i = 1; i < lanes_.size(); ++i) {
      if (Parcel* parcel = lanes_[i].lane->mailbox.TryClaim(true)) {
        run.Start(*parcel);
        lanes_[i].lane->mailbox.Deliver();
        return;
      }
    }
    std::this_thread::yield();
  }
}

Parcel* Executor::Impl::Idle(Lane& lane, const std::atomic<bool>& give_up) {
  // Polling pays only while every lane that wants one can have a core.
  uint32_t spins =
      crew_.awake.load(std::memory_order_relaxed) <= static_cast<int>(cores_) ? 1000 : 16;
  crew_.spinning.fetch_add(1, std::memory_order_relaxed);
  bool slept = false;
  bool full = lane.mailbox.Await(
      spins,
      [&] {
        slept = true;
        crew_.spinning.fetch_sub(1, std::memory_order_relaxed);
        crew_.awake.fetch_sub(1, std::memory_order_relaxed);
        crew_.asleep.fetch_add(1, std::memory_order_relaxed);
      },
      [&] { return give_up.load(std::memory_order_seq_cst); });
  if (slept) {
    crew_.asleep.fetch_sub(1, std::memory_order_relaxed);
    crew_.awake.fetch_add(1, std::memory_order_relaxed);
  } else {
    crew_.spinning.fetch_sub(1, std::memory_order_relaxed);
  }
  return full ? &lane.mailbox.Take() : nullptr;
}

void Executor::Impl::LaneMain(Lane& lane) {
  AlternateStack stack;  // kernels may overflow the thread's own
  crew_.awake.fetch_add(1, std::memory_order_relaxed);
  for (;;) {
    Parcel* parcel = Idle(lane, closing_);
    if (parcel == nullptr) break;
    if (parcel->run == nullptr) continue;
    Run* run = static_cast<Run*>(parcel->run);
    bool last = Begin(*run, lane, parcel);
    if (lane.abandoned) return Returned(lane);
    while (last) {
      run = Finish(*run, true);
      if (run == nullptr) break;
      if (!run->launch.oracle) run->Start(lane);
      last = Begin(*run, lane, nullptr);
      if (lane.abandoned) return Returned(lane);
    }
  }
  crew_.awake.fetch_sub(1, std::memory_order_relaxed);
}

/// The calling thread begins a run, and works on it as lane 0 until it has ended.
void Executor::Impl::TakePart(Run& run) {
  Lane& lane = *lanes_[0].lane;
  crew_.awake.fetch_add(1, std::memory_order_relaxed);
  if (!run.launch.oracle) run.Start(lane);
  if (Begin(run, lane, nullptr)) Finish(run, false);
  // From here on the run may be gone: another thread may end and collect it.
  while (!lane0_done_.load(std::memory_order_seq_cst)) {
    Parcel* parcel = Idle(lane, lane0_done_);
    if (parcel == nullptr) break;
    if (parcel->run == nullptr) continue;
    Run* same = static_cast<Run*>(parcel->run);
    if (Begin(*same, lane, parcel)) Finish(*same, false);
  }
  crew_.awake.fetch_sub(1, std::memory_order_relaxed);
}

/// Works on a run that the lane was started on or got a parcel for. True when it has ended.
bool Executor::Impl::Begin(Run& run, Lane& lane, const Parcel* parcel) {
  Executing inside(this);
  if (run.launch.trace != nullptr) lane.trace.Attach(run.launch.trace, lane.number);
  if (!run.launch.oracle) return run.Work(lane, parcel);
  uint64_t completed = 0;
  std::chrono::nanoseconds in_kernels{0};
  try {
    sched::OracleOptions options;
    options.reverse_blocks = run.launch.reverse_blocks;
    options.poison_outputs = run.launch.poison_outputs;
    if (run.limits().measure) options.in_kernels = &in_kernels;
    if (run.launch.trace != nullptr) options.trace = &lane.trace;
    sched::RunOracle(run.instance(), options, &completed);
  } catch (const Error& error) {
    run.Fail(error);
  }
  if (run.limits().measure) {
    run.outcome.in_kernels_us = std::chrono::duration<double, std::micro>(in_kernels).count();
  }
  run.Start(lane);
  lane.roots_begin = lane.roots_end = 0;
  return run.Leave(completed);
}

/// Records how a run went and begins the next one. A run that is for this very lane to begin is
/// returned.
Run* Executor::Impl::Finish(Run& run, bool pool_lane) {
  try {
    RecordOutcome(run);
  } catch (const std::bad_alloc&) {  // on a thread of the pool nobody would catch it
    run.outcome.ok = false;
    run.outcome.code = ErrorCode::out_of_memory;
    run.outcome.message = "no host memory";  // short enough to need none
  }
  std::lock_guard lock(mutex_);
  run.state = Run::kEnded;
  running_ = nullptr;
  if (run.launch.caller_waits) {
    // The thread that waits for it may sleep in its mailbox: see Mailbox::Await.
    lane0_done_.store(true, std::memory_order_seq_cst);
    Lane& lane0 = *lanes_[0].lane;
    if (Parcel* parcel = lane0.mailbox.TryClaim(true)) {
      parcel->run = nullptr;
      lane0.mailbox.Deliver();
    }
  }
  changed_.notify_all();
  Run* next = NextQueued();
  if (next == nullptr || next->launch.caller_waits) return nullptr;
  if (!pool_lane) {
    BeginNextOnPool();
    return nullptr;
  }
  SetRunning(*next);
  return next;
}

/// How an ended run went.
void Executor::Impl::RecordOutcome(Run& run) {
  device::Outcome& outcome = run.outcome;
  outcome.ended = Clock::now();
  if (run.launch.trace != nullptr) sched::TraceWriter::NoteEnd(run.launch.trace);
  const sched::Instance& instance = run.instance();
  uint64_t total = instance.header->tasks;
  outcome.completed = run.completed();
  if (run.error()) {
    outcome.ok = false;
    outcome.code = run.error()->code();
    outcome.message =
        fmt::format("{} ({} of {} tasks ran)", run.error()->message(), outcome.completed, total);
  } else if (outcome.completed != total) {
    outcome.ok = false;
    outcome.code = ErrorCode::internal;
    outcome.message = fmt::format("stalled: {} of {} tasks ran and none of the others is ready",
                                  outcome.completed, total);
    int named = 0;
    abi::TaskId end = abi::EndTask(instance.header);
    for (abi::TaskId id = abi::kFirstTask; id < end && named < 3;) {
      const abi::Task* task = abi::TaskAt(instance.image, id);
      if (task->producers > 0) {
        ++named;
        outcome.message += fmt::format("; {} waits for {} of its producers",
                                       instance.Describe(task), task->producers);
      }
      id += std::max<uint32_t>(task->units, 1);
    }
  }
  if (!run.limits().measure || run.launch.oracle) return;
  std::vector<sched::Interval> all;
  for (int i = 0; i < crew_.count.load(std::memory_order_acquire); ++i) {
    Lane* lane = crew_.lanes[static_cast<size_t>(i)].load(std::memory_order_acquire);
    all.insert(all.end(), lane->intervals.begin(), lane->intervals.end());
    lane->intervals.clear();
  }
  outcome.in_kernels_us = CoveredUs(std::move(all));
}

// The watchdog.

void Executor::Impl::StartWatchdog() {
  try {
    watchdog_ = std::thread([this] { Watch(); });
  } catch (const std::exception& error) {
    Fail(ErrorCode::out_of_memory, "can't start a thread to watch kernels: {}", error.what());
  }
}

void Executor::Impl::Watch() {
  std::unique_lock lock(mutex_);
  struct Seen {
    uint64_t pulse = 0;
    Clock::time_point since;
  };
  // By lane; a pulse stands for one call of a kernel, whatever the run and the thread.
  std::vector<Seen> seen(sched::Crew<Sync>::kMaxLanes);
  while (!closing_) {
    Run* run = running_;
    if (run == nullptr || !run->limits().watched) {
      watch_.wait(lock);
      continue;
    }
    std::chrono::nanoseconds limit = run->launch.kernel_timeout;
    Clock::time_point now = Clock::now();
    bool last = false;
    for (size_t i = 1; i < lanes_.size() && !last; ++i) {
      uint64_t pulse = lanes_[i].lane->pulse.load(std::memory_order_acquire);
      if (pulse != seen[i].pulse || pulse % 2 == 0) {
        seen[i] = {pulse, now};
      } else if (now - seen[i].since >= limit) {
        last = GiveUpLane(i, *run, pulse);
      }
    }
    if (last) {
      lock.unlock();
      Finish(*run, false);
      lock.lock();
      continue;
    }
    watch_.wait_for(lock,
                    std::clamp<std::chrono::nanoseconds>(limit / 4, std::chrono::milliseconds(1),
                                                         std::chrono::milliseconds(50)));
  }
}

/// Gives up a lane that has been inside one call of a kernel, with this pulse, for too long. True
/// when it was the last active lane: the run has ended.
bool Executor::Impl::GiveUpLane(size_t index, Run& run, uint64_t pulse) {
  Lane& lane = *lanes_[index].lane;
  sched::TaskRef ref = lane.task.load(std::memory_order_relaxed);
  uint64_t item = lane.item.load(std::memory_order_relaxed);
  std::unique_ptr<Lane> fresh;
  try {
    fresh = std::make_unique<Lane>(lane.number);
    abandoned_.reserve(abandoned_.size() + 1);
  } catch (const std::bad_alloc&) {
    return false;  // the next look tries again
  }
  // For the watchdog a pulse stands for one call on the lane of this index, so it goes on from
  // here.
  fresh->pulse.store(pulse + 1, std::memory_order_relaxed);
  if (!lane.pulse.compare_exchange_strong(pulse, pulse | Lane::kAbandoned,
                                          std::memory_order_acq_rel)) {
    return false;  // it returned just now
  }
  // From here on the kernel counts as running for ever, so the instance that it is of stays.
  auto [instance, task] = run.Find(ref);
  if (run.launch.trace != nullptr) {
    lane.trace.Leave(instance->serial, static_cast<abi::TaskId>(ref), item, true);
  }
  std::string message = "a kernel";
  try {
    message = fmt::format(
        "{}: block {} did not return within {} ms", instance->Describe(task), item % task->blocks,
        std::chrono::duration<double, std::milli>(run.launch.kernel_timeout).count());
  } catch (const std::bad_alloc&) {
  }
  run.Fail(Error(ErrorCode::timeout, std::move(message)));
  run.outcome.quarantined = true;
  lanes_[index].thread.detach();
  --pool_threads_;
  crew_.awake.fetch_sub(1, std::memory_order_relaxed);
  uint64_t completed = lane.completed_before.load(std::memory_order_relaxed);
  abandoned_.push_back({std::move(lanes_[index].lane), run.ticket, false});
  lanes_[index].lane = std::move(fresh);
  crew_.lanes[index].store(lanes_[index].lane.get(), std::memory_order_release);
  try {
    StartThread(index);
  } catch (const std::exception&) {
    // The lane never becomes idle, so nobody hands it anything. See BeginNextOnPool.
  }
  return run.Leave(completed);
}

void Executor::Impl::Close() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    return std::all_of(runs_.begin(), runs_.end(), [](const auto& run) {
      return run->state == Run::kEnded || run->launch.caller_waits;
    });
  });
  closing_.store(true, std::memory_order_seq_cst);
  watch_.notify_all();
  std::thread watchdog = std::move(watchdog_);
  lock.unlock();
  if (watchdog.joinable()) watchdog.join();  // then nobody replaces lanes any more
  for (size_t i = 1; i < lanes_.size(); ++i) {
    if (Parcel* parcel = lanes_[i].lane->mailbox.TryClaim(true)) {
      parcel->run = nullptr;
      lanes_[i].lane->mailbox.Deliver();
    }
  }
  for (PoolLane& lane : lanes_) {
    if (lane.thread.joinable()) lane.thread.join();
  }
}

Executor::Executor(int default_threads, sched::AddressSpace memory)
    : impl_(std::make_shared<Impl>(default_threads, std::move(memory))) {}
Executor::~Executor() { impl_->Close(); }
void Executor::LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
  impl_->LoadKernels(first, kernels);
}
void Executor::Prepare(const device::Launch& launch) { impl_->Prepare(launch); }
device::Ticket Executor::Execute(const device::Launch& launch) { return impl_->Execute(launch); }
bool Executor::Wait(device::Ticket ticket, std::chrono::nanoseconds timeout) {
  return impl_->Wait(ticket, timeout);
}
device::Outcome Executor::Collect(device::Ticket ticket) { return impl_->Collect(ticket); }
bool Executor::Settled(device::Ticket ticket) const { return impl_->Settled(ticket); }
bool Executor::InKernel() const { return impl_->InKernel(); }
int Executor::abandoned() const { return impl_->abandoned(); }

}  // namespace precast::sim
