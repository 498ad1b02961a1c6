// ReadyQueue: the tasks that one lane (executing thread) may start, first in, first out. It is
// private to its lane; work reaches other lanes only through their mailboxes (mailbox.h).
//
// Why private and FIFO: consumers become ready near their producers in program order, so a FIFO
// walks the image almost sequentially and the next record can be prefetched. On a layered graph of
// 100,000 tasks a throw-away prototype measured 53 ns a task with this queue, 105 ns with a
// last-in-first-out one and 97 ns without the prefetch. A work-stealing deque was a few ns faster
// on some empty graphs and 20 times slower when the machine was busy: its thief needs a core to
// spin on.
//
// Layout: a ring of 8-byte task references, a power of two in size, 8 a cache line.
//
// Invariants
//   Q1  size() == pushes - pops - taken.
//   Q2  Pop gives ids in the order of Push.
//   Q3  TakeNewest removes the ids that Pop would give last, and keeps their order.
//   Q4  Push never fails for want of room: the ring doubles.
//
// Threads: one lane calls everything. No atomics, no locks.
//
//   ReadyQueue queue;
//   queue.Push(7);
//   TaskRef id = queue.Pop();   // 7
#pragma once

#include "abi/image.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace precast::sched {

/// A task of an instance: number of the instance << 32 | task id. The run itself is instance 0, so
/// its tasks are named by their ids. 0: none.
using TaskRef = uint64_t;

class ReadyQueue {
 public:
  explicit ReadyQueue(size_t capacity = 1024) : ring_(std::bit_ceil(capacity)) {}

  bool empty() const { return head_ == tail_; }
  size_t size() const { return tail_ - head_; }

  void Push(TaskRef id) {
    if (size() == ring_.size()) [[unlikely]]
      Grow();
    ring_[tail_++ & (ring_.size() - 1)] = id;
  }

  /// Requires: not empty.
  TaskRef Pop() { return ring_[head_++ & (ring_.size() - 1)]; }

  /// The id that Pop will give next, to prefetch its record. Requires: not empty.
  TaskRef Peek() const { return ring_[head_ & (ring_.size() - 1)]; }

  /// Moves the newest `count` ids to `target`, oldest of them first. Requires: count <= size().
  void TakeNewest(size_t count, TaskRef* target) {
    tail_ -= count;
    for (size_t i = 0; i < count; ++i) target[i] = ring_[(tail_ + i) & (ring_.size() - 1)];
  }

  void Clear() { head_ = tail_ = 0; }

 private:
  void Grow() {
    std::vector<TaskRef> larger(ring_.size() * 2);
    size_t count = size();
    for (size_t i = 0; i < count; ++i) larger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
    ring_.swap(larger);
    head_ = 0;
    tail_ = count;
  }

  std::vector<TaskRef> ring_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

}  // namespace precast::sched
