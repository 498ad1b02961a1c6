#include "platforms/sim/executor.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "sched/graph_run.h"
#include "sched/host_sync.h"
#include "sched/kernel_table.h"
#include "sched/oracle.h"

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
  enum { kQueued, kRunning, kEnded } state = kQueued;
  std::atomic<bool> ended{false};  // the same, for lane 0 to poll
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

}  // namespace

class Executor::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(int default_threads, sched::AddressSpace memory)
      : default_threads_(default_threads), memory_(std::move(memory)) {
    lanes_.push_back(std::make_unique<Lane>());
    crew_.lanes[0] = lanes_.back().get();
    crew_.count = 1;
  }

  void Close();
  void LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
    kernels_.Load(first, kernels);
  }
  device::Ticket Execute(const device::Launch& launch);
  bool Wait(device::Ticket ticket, std::chrono::nanoseconds timeout);
  device::Outcome Collect(device::Ticket ticket);
  int abandoned() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(abandoned_lanes_.size());
  }

 private:
  // All of these: mutex_ held.
  Run* Find(device::Ticket ticket);
  Run* NextQueued();
  void EnsureLanes(int pool_lanes);
  void StartThread(size_t index);
  void StartOnPool(Run& run);

  // mutex_ not held.
  void LaneMain(Lane& lane);
  void TakePart(Run& run);
  Parcel* Idle(Lane& lane, const std::atomic<bool>& give_up);
  bool Begin(Run& run, Lane& lane, const Parcel* parcel);
  Run* Finish(Run& run, bool pool_lane);
  void Watch();
  void CheckPulses(Run& run, std::vector<std::pair<uint64_t, Clock::time_point>>& seen);

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
  Run* running_ = nullptr;
  bool lane0_taken_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;  // of lanes_[1 …]
  std::thread watchdog_;
  std::vector<std::unique_ptr<Lane>> abandoned_lanes_;
  std::vector<std::unique_ptr<Run>> quarantined_;
};

// Launching and waiting.

device::Ticket Executor::Impl::Execute(const device::Launch& launch) {
  int threads = launch.threads > 0 ? launch.threads : default_threads_;
  if (threads < 1 || threads > kMaxThreads) {
    Fail(ErrorCode::invalid_argument, "{} threads (1 … {} allowed)", threads, kMaxThreads);
  }
  bool watched = launch.kernel_timeout.count() > 0 && !launch.oracle;
  sched::RunLimits limits{threads, watched, launch.measure_kernels};
  void* image = reinterpret_cast<void*>(launch.image + static_cast<uint64_t>(memory_.distance));
  std::lock_guard lock(mutex_);
  if (static_cast<int>(abandoned_lanes_.size()) >= kMaxAbandoned) {
    Fail(ErrorCode::device_lost, "device lost: {} kernels never returned (at most {} allowed)",
         abandoned_lanes_.size(), kMaxAbandoned - 1);
  }
  bool own_threads = watched || !launch.caller_waits;
  EnsureLanes(own_threads ? threads : threads - 1);
  device::Ticket ticket = next_ticket_++;
  runs_.push_back(std::make_unique<Run>(launch, ticket,
                                        sched::Instance(image, kernels_, memory_), crew_, limits));
  Run& run = *runs_.back();
  run.launch.caller_waits = !own_threads;
  if (watched && !watchdog_.joinable()) {
    watchdog_ = std::thread([this] { Watch(); });
  }
  if (own_threads && running_ == nullptr && NextQueued() == &run) StartOnPool(run);
  return ticket;
}

bool Executor::Impl::Wait(device::Ticket ticket, std::chrono::nanoseconds timeout) {
  bool forever = timeout == std::chrono::nanoseconds::max();
  Clock::time_point deadline = forever ? Clock::time_point::max() : Clock::now() + timeout;
  std::unique_lock lock(mutex_);
  Run* found = Find(ticket);
  if (found == nullptr) return true;  // ended and collected
  Run& run = *found;
  while (run.state != Run::kEnded) {
    bool mine = run.state == Run::kQueued && run.launch.caller_waits && running_ == nullptr &&
                NextQueued() == &run;
    if (mine && !lane0_taken_) {
      lane0_taken_ = true;
      run.state = Run::kRunning;
      running_ = &run;
      lock.unlock();
      TakePart(run);
      lock.lock();
      lane0_taken_ = false;
      changed_.notify_all();
    } else if (forever) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return run.state == Run::kEnded;
    }
  }
  return true;
}

device::Outcome Executor::Impl::Collect(device::Ticket ticket) {
  std::lock_guard lock(mutex_);
  Run* found = Find(ticket);
  if (found == nullptr) Fail(ErrorCode::stale, "launch {} was collected already", ticket);
  Run& run = *found;
  device::Outcome outcome = std::move(run.outcome);
  auto it = std::find_if(runs_.begin(), runs_.end(),
                         [&](const auto& entry) { return entry.get() == &run; });
  if (outcome.quarantined) quarantined_.push_back(std::move(*it));
  runs_.erase(it);
  return outcome;
}

/// Null when the launch was collected.
Run* Executor::Impl::Find(device::Ticket ticket) {
  if (ticket == 0 || ticket >= next_ticket_) {
    Fail(ErrorCode::invalid_argument, "launch {} was never made (the next is {})", ticket,
         next_ticket_);
  }
  for (const auto& run : runs_) {
    if (run->ticket == ticket) return run.get();
  }
  return nullptr;
}

Run* Executor::Impl::NextQueued() {
  for (const auto& run : runs_) {
    if (run->state == Run::kQueued) return run.get();
  }
  return nullptr;
}

// Lanes and their threads.

void Executor::Impl::EnsureLanes(int pool_lanes) {
  try {
    while (static_cast<int>(lanes_.size()) < pool_lanes + 1) {
      lanes_.push_back(std::make_unique<Lane>());
      threads_.emplace_back();
      size_t index = lanes_.size() - 1;
      StartThread(index);
      crew_.lanes[index].store(lanes_[index].get(), std::memory_order_release);
      crew_.count.store(static_cast<int>(lanes_.size()), std::memory_order_release);
    }
  } catch (const std::system_error& error) {
    lanes_.pop_back();
    threads_.pop_back();
    // Fewer threads than asked for give the same bytes; none at all can't run anything.
    if (lanes_.size() == 1 && pool_lanes > 0) {
      Fail(ErrorCode::out_of_memory, "can't start a thread to execute kernels: {}", error.what());
    }
  }
}

void Executor::Impl::StartThread(size_t index) {
  // The thread shares ownership: if it is given up inside a kernel, it outlives the executor.
  threads_[index - 1] =
      std::thread([self = shared_from_this(), lane = lanes_[index].get()] { self->LaneMain(*lane); });
}

void Executor::Impl::StartOnPool(Run& run) {
  run.state = Run::kRunning;
  running_ = &run;
  if (run.limits().watched) watch_.notify_all();
  // Nothing runs, so every lane of the pool is idle, or about to be.
  for (;;) {
    for (size_t i = 1; i < lanes_.size(); ++i) {
      if (Parcel* parcel = lanes_[i]->mailbox.TryClaim(true)) {
        run.Start(*parcel);
        lanes_[i]->mailbox.Deliver();
        return;
      }
    }
    std::this_thread::yield();
  }
}

Parcel* Executor::Impl::Idle(Lane& lane, const std::atomic<bool>& give_up) {
  // Polling pays only while every lane can have a core.
  uint32_t spins = crew_.count.load(std::memory_order_relaxed) <= static_cast<int>(cores_) ? 1000 : 16;
  crew_.spinning.fetch_add(1, std::memory_order_relaxed);
  bool slept = false;
  bool full = lane.mailbox.Await(
      spins,
      [&] {
        slept = true;
        crew_.spinning.fetch_sub(1, std::memory_order_relaxed);
        crew_.asleep.fetch_add(1, std::memory_order_relaxed);
      },
      [&] { return give_up.load(std::memory_order_seq_cst); });
  (slept ? crew_.asleep : crew_.spinning).fetch_sub(1, std::memory_order_relaxed);
  return full ? &lane.mailbox.Take() : nullptr;
}

void Executor::Impl::LaneMain(Lane& lane) {
  for (;;) {
    Parcel* parcel = Idle(lane, closing_);
    if (parcel == nullptr) return;
    if (parcel->run == nullptr) continue;
    Run* run = static_cast<Run*>(parcel->run);
    bool last = Begin(*run, lane, parcel);
    if (lane.abandoned) return;
    while (last) {
      run = Finish(*run, true);
      if (run == nullptr) break;
      if (!run->launch.oracle) run->Start(lane);
      last = Begin(*run, lane, nullptr);
      if (lane.abandoned) return;
    }
  }
}

void Executor::Impl::TakePart(Run& run) {
  Lane& lane = *lanes_[0];
  Run* current = &run;
  if (!run.launch.oracle) run.Start(lane);
  bool last = Begin(run, lane, nullptr);
  for (;;) {
    if (last) Finish(*current, false);
    if (run.ended.load(std::memory_order_seq_cst)) return;
    Parcel* parcel = Idle(lane, run.ended);
    if (parcel == nullptr) return;
    last = false;
    if (parcel->run == nullptr) continue;
    current = static_cast<Run*>(parcel->run);
    last = Begin(*current, lane, parcel);
  }
}

/// Works on a run that the lane was started on or got a parcel for. True when it has ended.
bool Executor::Impl::Begin(Run& run, Lane& lane, const Parcel* parcel) {
  if (!run.launch.oracle) return run.Work(lane, parcel);
  uint64_t completed = 0;
  try {
    sched::RunOracle(run.instance(), {run.launch.reverse_blocks, run.launch.poison_outputs},
                     &completed);
  } catch (const Error& error) {
    run.Fail(error);
  }
  run.Start(lane);
  lane.roots_begin = lane.roots_end = 0;
  return run.Leave(completed);
}

/// Records how a run went and begins the next one. A run that is for this very lane to begin is
/// returned.
Run* Executor::Impl::Finish(Run& run, bool pool_lane) {
  uint64_t total = run.instance().header->tasks;
  device::Outcome& outcome = run.outcome;
  outcome.completed = run.completed();
  if (run.error()) {
    outcome.ok = false;
    outcome.code = run.error()->code();
    outcome.message = fmt::format("{} ({} of {} tasks ran)", run.error()->message(),
                                  outcome.completed, total);
  } else if (outcome.completed != total) {
    outcome.ok = false;
    outcome.code = ErrorCode::internal;
    outcome.message = fmt::format("stalled: {} of {} tasks ran and none of the others is ready",
                                  outcome.completed, total);
  }
  if (run.limits().measure) {
    std::vector<sched::Interval> all;
    for (int i = 0; i < crew_.count.load(std::memory_order_acquire); ++i) {
      Lane* lane = crew_.lanes[static_cast<size_t>(i)].load(std::memory_order_acquire);
      all.insert(all.end(), lane->intervals.begin(), lane->intervals.end());
      lane->intervals.clear();
    }
    outcome.in_kernels_us = CoveredUs(std::move(all));
  }

  std::lock_guard lock(mutex_);
  run.state = Run::kEnded;
  running_ = nullptr;
  run.ended.store(true, std::memory_order_seq_cst);
  Run* next = NextQueued();
  Run* mine = nullptr;
  if (next != nullptr && !next->launch.caller_waits) {
    if (pool_lane) {
      next->state = Run::kRunning;
      running_ = next;
      if (next->limits().watched) watch_.notify_all();
      mine = next;
    } else {
      StartOnPool(*next);
    }
  }
  changed_.notify_all();
  // Lane 0 may sleep in its mailbox: see Mailbox::Await.
  if (Parcel* parcel = lanes_[0]->mailbox.TryClaim(true)) {
    parcel->run = nullptr;
    lanes_[0]->mailbox.Deliver();
  }
  return mine;
}

// The watchdog.

void Executor::Impl::Watch() {
  std::unique_lock lock(mutex_);
  std::vector<std::pair<uint64_t, Clock::time_point>> seen;
  Run* watched = nullptr;
  while (!closing_) {
    if (running_ == nullptr || !running_->limits().watched) {
      watched = nullptr;
      watch_.wait(lock);
      continue;
    }
    if (running_ != watched) {
      watched = running_;
      seen.clear();
    }
    CheckPulses(*running_, seen);
    if (running_ != watched) continue;
    auto period = std::min<std::chrono::nanoseconds>(watched->launch.kernel_timeout / 4,
                                                     std::chrono::milliseconds(50));
    watch_.wait_for(lock, std::max<std::chrono::nanoseconds>(period, std::chrono::milliseconds(1)));
  }
}

/// Gives up every lane that has been inside one kernel call for longer than allowed. mutex_ held.
void Executor::Impl::CheckPulses(Run& run,
                                 std::vector<std::pair<uint64_t, Clock::time_point>>& seen) {
  Clock::time_point now = Clock::now();
  seen.resize(lanes_.size(), {0, now});
  for (size_t i = 1; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    uint64_t pulse = lane.pulse.load(std::memory_order_acquire);
    if (pulse != seen[i].first || pulse % 2 == 0) {
      seen[i] = {pulse, now};
      continue;
    }
    if (now - seen[i].second < run.launch.kernel_timeout) continue;
    abi::TaskId id = lane.task.load(std::memory_order_relaxed);
    uint64_t item = lane.item.load(std::memory_order_relaxed);
    if (!lane.pulse.compare_exchange_strong(pulse, pulse | Lane::kAbandoned,
                                            std::memory_order_acq_rel)) {
      continue;  // it returned just now
    }
    const abi::Task* task = abi::TaskAt(run.instance().image, id);
    run.Fail(Error(
        ErrorCode::timeout,
        fmt::format("{}: block {} did not return within {} ms", run.instance().Describe(task),
                    item % task->blocks,
                    std::chrono::duration_cast<std::chrono::milliseconds>(run.launch.kernel_timeout)
                        .count())));
    run.outcome.quarantined = true;
    threads_[i - 1].detach();
    abandoned_lanes_.push_back(std::move(lanes_[i]));
    lanes_[i] = std::make_unique<Lane>();
    crew_.lanes[i].store(lanes_[i].get(), std::memory_order_release);
    StartThread(i);
    seen[i] = {0, now};
    if (run.Leave(0)) {
      mutex_.unlock();
      Finish(run, false);
      mutex_.lock();
      return;
    }
  }
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
  std::vector<std::thread> threads = std::move(threads_);
  std::thread watchdog = std::move(watchdog_);
  size_t lanes = lanes_.size();
  lock.unlock();
  for (size_t i = 1; i < lanes; ++i) {
    if (Parcel* parcel = lanes_[i]->mailbox.TryClaim(true)) {
      parcel->run = nullptr;
      lanes_[i]->mailbox.Deliver();
    }
  }
  if (watchdog.joinable()) watchdog.join();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

Executor::Executor(int default_threads, sched::AddressSpace memory)
    : impl_(std::make_shared<Impl>(default_threads, std::move(memory))) {}
Executor::~Executor() { impl_->Close(); }
void Executor::LoadKernels(uint32_t first, std::span<const Kernel> kernels) {
  impl_->LoadKernels(first, kernels);
}
device::Ticket Executor::Execute(const device::Launch& launch) { return impl_->Execute(launch); }
bool Executor::Wait(device::Ticket ticket, std::chrono::nanoseconds timeout) {
  return impl_->Wait(ticket, timeout);
}
device::Outcome Executor::Collect(device::Ticket ticket) { return impl_->Collect(ticket); }
int Executor::abandoned() const { return impl_->abandoned(); }

}  // namespace precast::sim
