// Mailbox: how work reaches a lane that has none. The lane advertises that it is idle; a busy lane
// that has enough to share claims the mailbox, writes a parcel into it and hands it over.
//
// Why hand over instead of steal: a busy lane then pays one read of a rarely written word per task
// and touches no shared queue; whether sharing is worth its cost is decided where that is known, by
// the owner of the work.
//
// States and who moves them (the owner is the mailbox's lane):
//
//   busy --owner--> spinning ---donor--> claimed ---donor--> full --owner--> busy
//                       |                   |                  |
//                     owner               owner                |
//                       v                   v                  |
//                    asleep ---donor--> claimed asleep --donor-'
//
// An owner that gives up goes back from spinning or asleep to busy.
//
// Invariants
//   M1  Only one donor owns the parcel: both claimed states are entered from an idle one by a
//       compare-and-swap.
//   M2  The parcel is read only after `full` was seen, written only while claimed.
//   M3  No wake-up is lost: the owner sleeps on the state word itself, only while it says asleep or
//       claimed asleep, and who replaces `claimed asleep` wakes. Nobody is woken for a spinning
//       owner.
//
// Memory order: the donor's exchange to `full` pairs with the owner's acquire load of it; all that
// the donor did before is visible to the owner. `give_up` and the state form a Dekker pair: the
// owner announces itself, then looks at `give_up`; the other side sets it, then looks for the
// owner. Those four accesses are sequentially consistent, so at least one of them sees the other.
//
// `Sync` supplies the atomics: sched/host_sync.h for threads of the host, sched/model_sync_test.h
// in the interleaving test.
#pragma once

#include "base/planted_fault.h"

#include <atomic>
#include <cstdint>

namespace precast::sched {

template <typename Sync, typename Parcel>
class Mailbox {
 public:
  enum State : uint32_t { kBusy, kSpinning, kAsleep, kClaimed, kClaimedAsleep, kFull };

  // Owner.

  /// Waits for a parcel: polls `spins` times, then calls `on_sleep` and sleeps. True: the caller
  /// takes the parcel with `Take`. False: `give_up` said so and no donor was faster; the mailbox is
  /// busy. Who makes `give_up` true must then claim and deliver once, to wake a sleeper.
  template <typename OnSleep, typename GiveUp>
  bool Await(uint32_t spins, OnSleep&& on_sleep, GiveUp&& give_up) {
    state_.store(kSpinning, std::memory_order_seq_cst);
    for (uint32_t i = 0; i < spins; ++i) {
      if (state_.load(std::memory_order_acquire) == kFull) return true;
      if (give_up() && Move(kSpinning, kBusy)) return false;
      Sync::Pause();
    }
    if (Move(kSpinning, kAsleep)) {
      on_sleep();
      // Needed when `spins` is 0; else the owner has looked since it announced itself.
      if (give_up() && Move(kAsleep, kBusy)) return false;
    }
    uint32_t state;
    while ((state = state_.load(std::memory_order_acquire)) != kFull) {
      if (state == kClaimed) {
        if (!Move(kClaimed, kClaimedAsleep)) continue;
        state = kClaimedAsleep;
      }
      Sync::Wait(state_, state);
    }
    return true;
  }

  /// The parcel; the mailbox is then busy. Requires: `Await` returned true.
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
      if (state_.compare_exchange_weak(state, state == kSpinning ? kClaimed : kClaimedAsleep,
                                       std::memory_order_seq_cst)) {
        return &parcel_;
      }
    }
    return nullptr;
  }

  void Deliver() {
    uint32_t before =
        state_.exchange(kFull, PRECAST_PLANTED("sched.relaxed-parcel") ? std::memory_order_relaxed
                                                                       : std::memory_order_acq_rel);
    if (before == kClaimedAsleep && !PRECAST_PLANTED("sched.wake-lost")) Sync::Wake(state_);
  }

 private:
  bool Move(uint32_t from, uint32_t to) {
    return state_.compare_exchange_strong(from, to, std::memory_order_seq_cst);
  }

  typename Sync::template Atomic<uint32_t> state_{kBusy};
  Parcel parcel_{};
};

}  // namespace precast::sched
