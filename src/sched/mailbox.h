// Mailbox: how work reaches a lane that has none. The lane advertises that it is idle; a busy lane
// that has enough to share claims the mailbox, writes a parcel into it and hands it over.
//
// Why hand over instead of steal: a busy lane then pays one read of a rarely written word per task
// and touches no shared queue; whether sharing is worth its cost is decided where that is known, by
// the owner of the work.
//
// States and who moves them (the owner is the mailbox's lane):
//
//   busy --owner--> spinning --owner--> asleep
//                       |                 |
//                       +--donor--> claimed --donor--> full --owner--> busy
//
// An owner that gives up goes back from spinning or asleep to busy.
//
// Invariants
//   M1  Only one donor owns the parcel: `claimed` is entered by a compare-and-swap.
//   M2  The parcel is read only after `full` was seen, written only in `claimed`.
//   M3  No wake-up is lost: the owner sleeps on the state word itself, while it holds a value that
//       only a donor changes, and every donor wakes after its last change. (An owner that was about
//       to fall asleep may sleep in `claimed`, so the donor cannot tell from the state it claimed.)
//
// Memory order: the donor's store of `full` pairs with the owner's acquire load of it; all that the
// donor did before is visible to the owner. Two Dekker pairs, each of four accesses that are
// sequentially consistent, so that at least one side sees the other: the owner announces itself, then
// looks at `give_up`, while the other side sets that, then looks for the owner; and the donor stores
// `full`, then Sync::Wake looks for sleepers, while Sync::Wait counts itself as one, then looks at the
// state.
//
// `Sync` supplies the atomics: sched/host_sync.h for threads of the host, a model checker in the
// interleaving test.
#pragma once

#include <atomic>
#include <cstdint>

namespace precast::sched {

template <typename Sync, typename Parcel>
class Mailbox {
 public:
  enum State : uint32_t { kBusy, kSpinning, kAsleep, kClaimed, kFull };

  // Owner.

  /// Waits for a parcel: polls `spins` times, then calls `on_sleep` and sleeps. True: the caller takes
  /// the parcel with `Take`. False: `give_up` said so and no donor was faster; the mailbox is busy.
  /// Who makes `give_up` true must then claim and deliver once, to wake a sleeper.
  template <typename OnSleep, typename GiveUp>
  bool Await(uint32_t spins, OnSleep&& on_sleep, GiveUp&& give_up) {
    state_.store(kSpinning, std::memory_order_seq_cst);
    for (uint32_t i = 0; i < spins; ++i) {
      if (state_.load(std::memory_order_acquire) == kFull) return true;
      if (give_up() && Withdraw(kSpinning)) return false;
      Sync::Pause();
    }
    uint32_t state = kSpinning;
    if (state_.compare_exchange_strong(state, kAsleep, std::memory_order_seq_cst)) {
      on_sleep();
      if (give_up() && Withdraw(kAsleep)) return false;
    }
    while ((state = state_.load(std::memory_order_acquire)) != kFull) Sync::Wait(state_, state);
    return true;
  }

  /// The parcel; the mailbox is then busy. Requires: `Await` returned.
  Parcel& Take() {
    state_.store(kBusy, std::memory_order_relaxed);
    return parcel_;
  }

  // Donors.

  /// Takes the right to fill the parcel; null when the owner is not idle, or not spinning when
  /// `wake` is false. The caller must `Deliver`.
  Parcel* TryClaim(bool wake) {
    uint32_t state = state_.load(std::memory_order_seq_cst);
    while (state == kSpinning || (wake && state == kAsleep)) {
      if (state_.compare_exchange_weak(state, kClaimed, std::memory_order_seq_cst)) {
        return &parcel_;
      }
    }
    return nullptr;
  }

  void Deliver() {
    state_.store(kFull, std::memory_order_seq_cst);
    Sync::Wake(state_);
  }

 private:
  bool Withdraw(uint32_t state) {
    return state_.compare_exchange_strong(state, kBusy, std::memory_order_seq_cst);
  }

  typename Sync::template Atomic<uint32_t> state_{kBusy};
  Parcel parcel_{};
};

}  // namespace precast::sched
