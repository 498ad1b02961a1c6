// FailNew: makes one chosen allocation with `new` fail, for tests that ask, for every n, what
// happens when the n-th one does. CountNew counts them.
//
//   FailNew fail(3);
//   worker.run(...);         // its third allocation on this thread throws std::bad_alloc
//   if (!fail.struck()) ...  // it made fewer
//
// Threads: an object counts the allocations of the thread that made it; one at a time on a thread.
#pragma once

#include <cstdint>

namespace precast::test {

class FailNew {
 public:
  /// Sanitizers have operators of their own: where they are, nothing ever fails.
  static constexpr bool kWorks =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
      false;
#else
      true;
#endif

  /// The n-th allocation from now on fails, once. 0: none.
  explicit FailNew(uint64_t n);
  /// From here on nothing fails.
  ~FailNew();
  FailNew(const FailNew&) = delete;
  FailNew& operator=(const FailNew&) = delete;

  bool struck() const;
};

/// Allocations with `new` that this thread made since then; 0 always unless FailNew::kWorks.
class CountNew {
 public:
  CountNew();
  uint64_t count() const;

 private:
  uint64_t before_;
};

}  // namespace precast::test
