// Interleaving tests of the Mailbox protocol: short histories under every schedule
// (model_sync_test.h says within which limits), and a run on real threads. Mailboxes with a planted
// mistake show that the tests can fail.
#include "sched/mailbox.h"

#include "sched/host_sync.h"
#include "sched/model_sync_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace precast::sched {
namespace {

using model::Explorer;
using model::History;
using model::Limits;
using model::Outcome;
using testing::HasSubstr;

void Check(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// A parcel that notices two threads at once (M1, M2).
struct Letter {
  void Write(int number) {
    Enter();
    value = number;
    in_use = false;
  }
  int Read() {
    Enter();
    in_use = false;
    return value;
  }
  void Enter() {
    Check(!in_use, "two threads use the parcel at once");
    in_use = true;
    Explorer::Step("parcel", this);
  }
  int value = -1;
  bool in_use = false;
};

/// What can be wrong with a mailbox.
enum class Mistake {
  none,
  no_wake,            // the donor never wakes
  wake_by_claim,      // it wakes only an owner that was asleep when it claimed
  wake_first,         // it wakes before it hands over
  no_second_look,     // the owner does not look at `give_up` once it is asleep
  claim_by_store,     // a donor claims without a compare-and-swap
  withdraw_by_store,  // the owner gives up without one
};

/// The protocol again, with a mistake in it. Must stay equal to Mailbox for Mistake::none.
template <Mistake mistake>
class WrongMailbox {
 public:
  enum State : uint32_t { kBusy, kSpinning, kAsleep, kClaimed, kClaimedAsleep, kFull };

  template <typename OnSleep, typename GiveUp>
  bool Await(uint32_t spins, OnSleep&& on_sleep, GiveUp&& give_up) {
    state_.store(kSpinning);
    for (uint32_t i = 0; i < spins; ++i) {
      if (state_.load() == kFull) return true;
      if (give_up() && Withdraw(kSpinning)) return false;
    }
    if (Move(kSpinning, kAsleep)) {
      on_sleep();
      if (mistake != Mistake::no_second_look && give_up() && Withdraw(kAsleep)) return false;
    }
    uint32_t state;
    while ((state = state_.load()) != kFull) {
      if (state == kClaimed && mistake != Mistake::wake_by_claim) {
        if (!Move(kClaimed, kClaimedAsleep)) continue;
        state = kClaimedAsleep;
      }
      ModelSync::Wait(state_, state);
    }
    return true;
  }
  Letter& Take() {
    state_.store(kBusy);
    return parcel_;
  }
  Letter* TryClaim(bool wake) {
    uint32_t state = state_.load();
    while (state == kSpinning || (wake && state == kAsleep)) {
      uint32_t claimed = state == kSpinning ? kClaimed : kClaimedAsleep;
      if (mistake == Mistake::claim_by_store) {
        state_.store(claimed);
        return &parcel_;
      }
      if (state_.compare_exchange_weak(state, claimed)) return &parcel_;
    }
    return nullptr;
  }
  void Deliver() {
    if (mistake == Mistake::wake_first) ModelSync::Wake(state_);
    uint32_t before = state_.exchange(kFull);
    if (mistake == Mistake::no_wake || mistake == Mistake::wake_first) return;
    if (before == kClaimedAsleep) ModelSync::Wake(state_);
  }

 private:
  bool Move(uint32_t from, uint32_t to) { return state_.compare_exchange_strong(from, to); }
  bool Withdraw(uint32_t from) {
    if (mistake != Mistake::withdraw_by_store) return Move(from, kBusy);
    state_.store(kBusy);
    return true;
  }
  ModelSync::Atomic<uint32_t> state_{kBusy};
  Letter parcel_{};
};

using TheMailbox = Mailbox<ModelSync, Letter>;

/// An owner that works until it is told to stop, as the executor's lanes do, and what it received.
template <typename Box>
struct Office {
  static constexpr int kNothing = 0;  // a parcel that only says: look at `closing`

  void Own(uint32_t spins) {
    while (box.Await(
        spins, [] {}, [this] { return closing.load() != 0; })) {
      int number = box.Take().Read();
      if (number != kNothing) received.push_back(number);
    }
  }
  /// One try; true when it was delivered.
  bool Donate(int number, bool wake) {
    Letter* letter = box.TryClaim(wake);
    if (letter == nullptr) return false;
    letter->Write(number);
    box.Deliver();
    sent.push_back(number);
    return true;
  }
  void Close() {
    closing.store(1);
    if (Letter* letter = box.TryClaim(true)) {
      letter->Write(kNothing);
      box.Deliver();
    }
  }
  void CheckAllArrived() {
    std::sort(sent.begin(), sent.end());
    std::sort(received.begin(), received.end());
    Check(sent == received, "what was sent and what was received differ");
  }

  Box box;
  ModelSync::Atomic<uint32_t> closing{0};
  std::vector<int> sent, received;
};

/// The owner against a thread that closes.
template <typename Box>
Outcome Closing(uint32_t spins) {
  return Explorer({.preemptions = 4}).Explore([spins] {
    auto office = std::make_shared<Office<Box>>();
    return History{{{"owner", [=] { office->Own(spins); }}, {"closer", [=] { office->Close(); }}},
                   [=] { office->CheckAllArrived(); }};
  });
}

/// The owner against two donors that give up when they find it busy; the second one closes.
template <typename Box>
Outcome Competing(uint32_t spins, bool wake, int preemptions) {
  return Explorer({.preemptions = preemptions}).Explore([=] {
    auto office = std::make_shared<Office<Box>>();
    return History{{{"owner", [=] { office->Own(spins); }},
                    {"donor", [=] { office->Donate(1, wake); }},
                    {"closing donor",
                     [=] {
                       office->Donate(2, true);
                       office->Close();
                     }}},
                   [=] { office->CheckAllArrived(); }};
  });
}

/// The owner against two donors that insist: everything arrives, in whatever order.
template <typename Box>
Outcome Insisting(uint32_t spins, int preemptions) {
  return Explorer({.preemptions = preemptions}).Explore([=] {
    auto office = std::make_shared<Office<Box>>();
    auto insist = [office](int number) {
      while (!office->Donate(number, true)) Explorer::Yield();
    };
    return History{{{"owner",
                     [=] {
                       for (int i = 0; i < 2; ++i) {
                         Check(office->box.Await(
                                   spins, [] {}, [] { return false; }),
                               "gave up without a reason");
                         office->received.push_back(office->box.Take().Read());
                       }
                     }},
                    {"first donor", [=] { insist(1); }},
                    {"second donor", [=] { insist(2); }}},
                   [=] {
                     Check(office->sent.size() == 2, "a donor ended early");
                     office->CheckAllArrived();
                   }};
  });
}

void ExpectHolds(const Outcome& outcome, uint64_t at_least) {
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.complete) << outcome.schedules << " schedules";
  EXPECT_GE(outcome.schedules, at_least);
}

TEST(MailboxModelTest, ClosingAgainstTheOwner) {
  for (uint32_t spins : {0, 1, 2}) {
    SCOPED_TRACE(spins);
    ExpectHolds(Closing<TheMailbox>(spins), 300);
  }
}

TEST(MailboxModelTest, TwoDonorsCompeteAndOneCloses) {
  for (uint32_t spins : {0, 1}) {
    for (bool wake : {false, true}) {
      SCOPED_TRACE(spins);
      ExpectHolds(Competing<TheMailbox>(spins, wake, 2), 500);
    }
  }
}

TEST(MailboxModelTest, DonorsThatInsistAreServed) {
  ExpectHolds(Insisting<TheMailbox>(0, 2), 2'000);
  ExpectHolds(Insisting<TheMailbox>(1, 1), 200);
}

TEST(MailboxModelTest, TheCopyForMistakesIsTheProtocol) {
  using Copy = WrongMailbox<Mistake::none>;
  EXPECT_EQ(Closing<Copy>(1).schedules, Closing<TheMailbox>(1).schedules);
  EXPECT_EQ(Competing<Copy>(1, true, 1).schedules, Competing<TheMailbox>(1, true, 1).schedules);
  EXPECT_EQ(Insisting<Copy>(1, 1).schedules, Insisting<TheMailbox>(1, 1).schedules);
}

TEST(MailboxModelTest, FindsAMissingWake) {
  EXPECT_THAT(Insisting<WrongMailbox<Mistake::no_wake>>(0, 2).failure,
              HasSubstr("lost wake-up: owner sleeps for ever"));
  EXPECT_THAT(Closing<WrongMailbox<Mistake::no_wake>>(0).failure, HasSubstr("lost wake-up"));
}

TEST(MailboxModelTest, FindsADonorThatTrustsTheStateItClaimed) {
  EXPECT_THAT(Insisting<WrongMailbox<Mistake::wake_by_claim>>(0, 2).failure,
              HasSubstr("lost wake-up"));
}

TEST(MailboxModelTest, FindsAWakeBeforeTheStore) {
  EXPECT_THAT(Insisting<WrongMailbox<Mistake::wake_first>>(0, 2).failure,
              HasSubstr("lost wake-up"));
}

TEST(MailboxModelTest, FindsAnOwnerThatSleepsWithoutASecondLook) {
  // An owner that polls has looked once after it announced itself, and that is enough.
  EXPECT_EQ(Closing<WrongMailbox<Mistake::no_second_look>>(1).failure, "");
  std::string failure = Closing<WrongMailbox<Mistake::no_second_look>>(0).failure;
  EXPECT_THAT(failure, HasSubstr("lost wake-up: owner sleeps for ever"));
  EXPECT_THAT(failure, HasSubstr("closer: store #"));  // the schedule is there to read
}

TEST(MailboxModelTest, FindsTwoDonorsInOneParcel) {
  EXPECT_NE(Competing<WrongMailbox<Mistake::claim_by_store>>(0, true, 2).failure, "");
}

TEST(MailboxModelTest, FindsAnOwnerThatLeavesAParcelBehind) {
  EXPECT_NE(Competing<WrongMailbox<Mistake::withdraw_by_store>>(1, true, 2).failure, "");
}

// The explorer itself.

TEST(ModelSyncTest, TriesEveryInterleaving) {
  // Two threads of two steps each: C(4, 2) schedules, less those that differ after one has ended.
  auto results = std::make_shared<std::vector<std::string>>();
  Outcome outcome = Explorer({.preemptions = 100}).Explore([results] {
    auto order = std::make_shared<std::string>();
    auto thread = [order](char name) {
      return [order, name] {
        for (int i = 0; i < 2; ++i) {
          Explorer::Step("append", nullptr);
          *order += name;
        }
      };
    };
    return History{{{"a", thread('a')}, {"b", thread('b')}}, [=] { results->push_back(*order); }};
  });
  EXPECT_TRUE(outcome.complete);
  std::sort(results->begin(), results->end());
  results->erase(std::unique(results->begin(), results->end()), results->end());
  EXPECT_THAT(*results, testing::ElementsAre("aabb", "abab", "abba", "baab", "baba", "bbaa"));
}

TEST(ModelSyncTest, SaysWhenARunDoesNotEnd) {
  Outcome outcome = Explorer().Explore([] {
    return History{{{"loop",
                     [] {
                       for (;;) Explorer::Step("turn", nullptr);
                     }}},
                   [] {}};
  });
  EXPECT_THAT(outcome.failure, HasSubstr("no end after 500 steps"));
}

TEST(ModelSyncTest, StopsAtItsLimit) {
  Outcome outcome = Explorer({.schedules = 3}).Explore([] {
    auto step = [] {
      for (int i = 0; i < 5; ++i) Explorer::Step("step", nullptr);
    };
    return History{{{"a", step}, {"b", step}}, [] {}};
  });
  EXPECT_EQ(outcome.schedules, 3u);
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.failure, "");
}

// On real threads: three donors, an owner that mostly sleeps.

TEST(MailboxTest, DeliversEachParcelOnceBetweenThreads) {
  constexpr int kDonors = 3, kEach = 2'000;
  Mailbox<HostSync, int> box;
  std::atomic<bool> closing{false};
  std::vector<int> received(kDonors * kEach + 1);
  std::thread owner([&] {
    uint32_t spins = 0;
    while (box.Await(
        ++spins % 4, [] {}, [&] { return closing.load(std::memory_order_seq_cst); })) {
      ++received[static_cast<size_t>(box.Take())];
    }
  });
  std::vector<std::thread> donors;
  for (int donor = 0; donor < kDonors; ++donor) {
    donors.emplace_back([&, donor] {
      for (int i = 0; i < kEach;) {
        if (int* parcel = box.TryClaim(true)) {
          *parcel = 1 + donor * kEach + i++;
          box.Deliver();
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& donor : donors) donor.join();
  closing.store(true, std::memory_order_seq_cst);
  if (int* parcel = box.TryClaim(true)) {
    *parcel = 0;
    box.Deliver();
  }
  owner.join();
  received[0] = 1;
  EXPECT_EQ(received, std::vector<int>(received.size(), 1));
}

}  // namespace
}  // namespace precast::sched
