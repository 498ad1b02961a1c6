// ModelSync: the Sync policy of the interleaving tests. Its atomics hand control to an Explorer
// before every operation, and the Explorer runs the same short history under one schedule after
// another until it has tried them all.
//
// Only one thread of a history runs at a time, so each run is decided by its *schedule*: which
// thread makes the next step. The Explorer walks the tree of schedules depth first. It fails a
// history when a thread throws (a check in the test), when no thread can go on and some are asleep
// (a lost wake-up), or when a run does not end; it then gives the steps of that run.
//
// What it does not model
//   - Weak memory. Every operation is sequentially consistent, whatever order it names. Whether the
//     orders suffice must be argued beside the code; the thread sanitizer checks what it can.
//   - Spurious failure of compare_exchange_weak, spurious wake-ups.
//   - Schedules with more preemptions than `Limits::preemptions`. A preemption takes the turn from
//   a
//     thread that could go on; one that sleeps, yields or ends gives it away for free. Nearly all
//     mistakes in protocols of this size show with two.
//
// The threads are std::threads that pass a token, so the test runs under every sanitizer.
//
//   model::Outcome outcome = model::Explorer().Explore([] {
//     auto word = std::make_shared<ModelSync::Atomic<uint32_t>>(0);
//     return model::History{{{"writer", [word] { word->store(1); ModelSync::Wake(*word); }},
//                            {"reader", [word] { while (word->load() == 0) ModelSync::Wait(*word,
//                            0); }}},
//                           [] {}};
//   });
//   EXPECT_EQ(outcome.failure, "");
#pragma once

#include "sched/host_sync.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace precast::sched::model {

struct Thread {
  const char* name;
  std::function<void()> body;
};

/// Some threads, and what must hold when all have ended. A check fails by throwing std::exception.
struct History {
  std::vector<Thread> threads;
  std::function<void()> check;
};

struct Limits {
  int preemptions = 3;
  uint64_t schedules = 200'000;
  int steps = 500;  // of one run
};

struct Outcome {
  uint64_t schedules = 0;
  bool complete = false;  // every schedule within the limits was tried, and none failed
  std::string failure;    // of the first schedule that failed, with its steps
};

class Explorer {
 public:
  explicit Explorer(const Limits& limits = {}) : limits_(limits) {}
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  /// `make` builds the history anew for each schedule. One call for each Explorer.
  Outcome Explore(const std::function<History()>& make);

  // For model threads. Outside of one (while a history is built or checked) these do nothing.

  /// Lets another thread go first, maybe. Called before each operation.
  static void Step(const char* what, const void* where) {
    if (current_ != nullptr) current_->owner->Move(what, where);
  }
  /// Goes on when some other thread has changed something: for loops that wait for others.
  static void Yield();
  /// The calling thread has changed something.
  static void Changed();
  /// Sleeps until `WakeAll` of the same place.
  static void Sleep(const void* where);
  static void WakeAll(const void* where);

 private:
  enum class State { kReady, kYielded, kAsleep, kDone };
  /// Hands the turn to one thread, and with it everything that the Explorer holds.
  struct Baton {
    std::atomic<uint32_t> given{0};
    void Give() {
      given.store(1);
      HostSync::Wake(given);
    }
    void Await() {
      while (given.load() == 0) HostSync::Wait(given, 0);
      given.store(0);
    }
  };
  struct Worker {
    Explorer* owner = nullptr;
    size_t index = 0;
    State state = State::kDone;
    const void* asleep_on = nullptr;
    Baton baton;
    std::thread thread;
  };
  struct Choice {
    std::vector<size_t> options;  // workers that may go next
    size_t taken = 0;
  };
  struct Event {
    size_t worker;
    const char* what;
    const void* where;
  };
  struct Abort {};  // unwinds the threads of a run that failed

  static constexpr size_t kNobody = ~size_t{0};
  static constexpr size_t kShownEvents = 80;

  void Main(Worker& worker);
  void Move(const char* what, const void* where);
  void PassTurn(Worker& from);
  size_t Choose(size_t from);
  void FailRun(const std::string& why);
  bool NextSchedule();

  static inline thread_local Worker* current_ = nullptr;

  const Limits limits_;
  Baton controller_;
  // What follows belongs to the thread whose turn it is.
  std::vector<std::unique_ptr<Worker>> workers_;
  History history_;
  bool quit_ = false;
  bool aborting_ = false;
  std::vector<Choice> path_;  // choices of this run, then of the prefix for the next one
  size_t depth_ = 0;
  int preemptions_ = 0;
  int steps_ = 0;
  std::vector<Event> events_;
  std::string failure_;
};

inline Explorer::~Explorer() {
  quit_ = true;
  for (auto& worker : workers_) worker->baton.Give();
  for (auto& worker : workers_) worker->thread.join();
}

inline Outcome Explorer::Explore(const std::function<History()>& make) {
  Outcome outcome;
  while (outcome.schedules < limits_.schedules) {
    history_ = make();
    while (workers_.size() < history_.threads.size()) {
      auto& worker = workers_.emplace_back(std::make_unique<Worker>());
      worker->owner = this;
      worker->index = workers_.size() - 1;
      worker->thread = std::thread([this, target = worker.get()] { Main(*target); });
    }
    for (auto& worker : workers_) worker->state = State::kReady;
    depth_ = 0;
    preemptions_ = steps_ = 0;
    events_.clear();
    workers_[Choose(kNobody)]->baton.Give();
    controller_.Await();
    ++outcome.schedules;
    aborting_ = false;
    if (failure_.empty()) {
      try {
        history_.check();
      } catch (const std::exception& error) {
        FailRun(error.what());
      }
    }
    history_ = {};
    if (!failure_.empty()) {
      outcome.failure = failure_;
      return outcome;
    }
    if (!NextSchedule()) {
      outcome.complete = true;
      return outcome;
    }
  }
  return outcome;
}

inline void Explorer::Main(Worker& worker) {
  current_ = &worker;
  for (;;) {
    worker.baton.Await();
    if (quit_) return;
    if (!aborting_) {
      try {
        history_.threads[worker.index].body();
      } catch (const Abort&) {
      } catch (const std::exception& error) {
        FailRun(fmt::format("{}: {}", history_.threads[worker.index].name, error.what()));
      }
    }
    worker.state = State::kDone;
    PassTurn(worker);
  }
}

/// The thread with the turn is about to do `what`.
inline void Explorer::Move(const char* what, const void* where) {
  if (aborting_) {
    if (std::uncaught_exceptions() > 0) return;
    throw Abort();
  }
  if (++steps_ > limits_.steps) {
    FailRun(fmt::format("no end after {} steps", limits_.steps));
    throw Abort();
  }
  PassTurn(*current_);
  events_.push_back({current_->index, what, where});
}

inline void Explorer::Yield() {
  if (current_ == nullptr) return;
  current_->state = State::kYielded;
  current_->owner->Move("went on", nullptr);
}

inline void Explorer::Changed() {
  if (current_ == nullptr) return;
  for (auto& worker : current_->owner->workers_) {
    if (worker->state == State::kYielded) worker->state = State::kReady;
  }
}

inline void Explorer::Sleep(const void* where) {
  if (current_ == nullptr) throw std::logic_error("a sleep outside of a history");
  current_->state = State::kAsleep;
  current_->asleep_on = where;
  current_->owner->events_.push_back({current_->index, "falls asleep on", where});
  current_->owner->PassTurn(*current_);
}

inline void Explorer::WakeAll(const void* where) {
  if (current_ == nullptr) return;
  for (auto& worker : current_->owner->workers_) {
    if (worker->state == State::kAsleep && worker->asleep_on == where) {
      worker->state = State::kReady;
    }
  }
}

/// Gives the turn to whom the schedule says; returns when `from` has it again, or has ended.
inline void Explorer::PassTurn(Worker& from) {
  bool ended = from.state == State::kDone;  // not to be read once somebody else has the turn
  size_t next = aborting_ ? kNobody : Choose(from.index);
  if (next == kNobody) {
    // All have ended, or the run has failed and those that are left must unwind.
    for (auto& worker : workers_) {
      if (worker->state == State::kDone) continue;
      if (!aborting_) {
        FailRun(fmt::format("{}: {}",
                            worker->state == State::kAsleep ? "lost wake-up" : "no progress",
                            history_.threads[worker->index].name) +
                (worker->state == State::kAsleep ? " sleeps for ever" : " waits for ever"));
        aborting_ = true;
      }
      next = worker->index;
      break;
    }
  }
  if (next == kNobody) {
    controller_.Give();
  } else if (next != from.index) {
    workers_[next]->baton.Give();
    if (!ended) from.baton.Await();
  }
  if (ended) return;
  from.state = State::kReady;
  if (aborting_) throw Abort();
}

/// Who goes next; nobody when all have ended or wait for others.
inline size_t Explorer::Choose(size_t from) {
  std::vector<size_t> options;
  bool free = from == kNobody || workers_[from]->state != State::kReady;
  if (!free) options.push_back(from);
  if (free || preemptions_ < limits_.preemptions) {
    for (auto& worker : workers_) {
      if (worker->index != from && worker->state == State::kReady) options.push_back(worker->index);
    }
  }
  if (options.empty()) return kNobody;
  if (options.size() == 1) return options[0];
  if (depth_ == path_.size()) path_.push_back({options, 0});
  Choice& choice = path_[depth_++];
  size_t next = choice.options[choice.taken];
  if (!free && next != from) ++preemptions_;
  return next;
}

inline void Explorer::FailRun(const std::string& why) {
  aborting_ = true;
  if (!failure_.empty()) return;
  failure_ = why + "\nthe schedule was:";
  std::vector<const void*> places;  // addresses differ from run to run, their order does not
  size_t first = events_.size() > kShownEvents ? events_.size() - kShownEvents : 0;
  for (size_t i = first; i < events_.size(); ++i) {
    const Event& event = events_[i];
    failure_ += fmt::format("\n  {}: {}", history_.threads[event.worker].name, event.what);
    if (event.where == nullptr) continue;
    auto place = std::find(places.begin(), places.end(), event.where);
    if (place == places.end()) place = places.insert(places.end(), event.where);
    failure_ += fmt::format(" #{}", place - places.begin());
  }
}

/// Turns the path into the prefix of the next schedule; false when there is none.
inline bool Explorer::NextSchedule() {
  while (!path_.empty() && path_.back().taken + 1 == path_.back().options.size()) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

}  // namespace precast::sched::model

namespace precast::sched {

struct ModelSync {
  template <typename T>
  class Atomic {
   public:
    Atomic(T value = T()) : value_(value) {}  // NOLINT: implicit like std::atomic
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load(std::memory_order = std::memory_order_seq_cst) const {
      model::Explorer::Step("load", this);
      return value_;
    }
    void store(T value, std::memory_order = std::memory_order_seq_cst) {
      model::Explorer::Step("store", this);
      value_ = value;
      model::Explorer::Changed();
    }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
      model::Explorer::Step("exchange", this);
      model::Explorer::Changed();
      return std::exchange(value_, value);
    }
    bool compare_exchange_strong(T& expected, T desired,
                                 std::memory_order = std::memory_order_seq_cst) {
      model::Explorer::Step("compare-and-swap", this);
      if (value_ != expected) {
        expected = value_;
        return false;
      }
      value_ = desired;
      model::Explorer::Changed();
      return true;
    }
    bool compare_exchange_weak(T& expected, T desired,
                               std::memory_order order = std::memory_order_seq_cst) {
      return compare_exchange_strong(expected, desired, order);
    }

   private:
    friend struct ModelSync;
    T value_;
  };

  static void Pause() {}
  static void Wait(const Atomic<uint32_t>& word, uint32_t seen) {
    model::Explorer::Step("wait", &word);
    if (word.value_ == seen) model::Explorer::Sleep(&word);
  }
  static void Wake(Atomic<uint32_t>& word) {
    model::Explorer::Step("wake", &word);
    model::Explorer::WakeAll(&word);
  }
};

}  // namespace precast::sched
