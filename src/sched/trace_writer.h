// TraceWriter: how one lane records what it executes, in the launch's trace buffer (abi/trace.h).
//
// Recording takes no lock, allocates nothing and makes no system call: a record goes into the
// lane's chunk, and the next chunk costs one atomic addition. When there is none, the lane counts
// what it drops.
//
// Invariants
//   T1  Recorded and dropped blocks together are the blocks that returned, threw, or were given up.
//   T2  Of an instance whose beginning was dropped, everything is.
//
// Threads: its lane's. When the watchdog has given up a lane inside a kernel, it calls Leave on the
// lane's behalf; the lane calls nothing any more.
#pragma once

#include "abi/trace.h"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace precast::sched {

class TraceWriter {
 public:
  /// Makes an empty buffer of all-zero memory that has room for so many chunks. `system_clock`:
  /// never use the processor's counter, which is taken if its rate never changes.
  static void Format(abi::TraceHeader* buffer, uint64_t chunks, bool system_clock);
  /// Notes when execution begins, and ends.
  static void NoteBegin(abi::TraceHeader* buffer) { buffer->begin = Moment(*buffer); }
  static void NoteEnd(abi::TraceHeader* buffer) { buffer->end = Moment(*buffer); }

  /// The lane works on this launch from here on; again, or for the first time.
  void Attach(abi::TraceHeader* buffer, uint32_t lane) {
    buffer_ = buffer;
    lane_ = &buffer->lane[lane];
    chunk_ = lane_->chunk == 0 ? nullptr : abi::ChunkAt(buffer, lane_->chunk - 1);
    last_ = Now();
  }

  /// Around a call of a kernel.
  void Enter() { begin_ = Now(); }
  void Leave(uint32_t instance, abi::TaskId task, uint64_t item, bool failed) {
    last_ = Now();
    abi::TraceRecord* record = instance == abi::kUntraced ? nullptr : Next();
    if (record == nullptr) [[unlikely]] {
      ++lane_->dropped_blocks;
      return;
    }
    *record = {begin_,
               last_,
               instance,
               task,
               static_cast<uint32_t>(item),
               static_cast<uint16_t>(item >> 32),
               failed ? abi::kTraceFailedBlock : abi::kTraceBlock,
               0};
  }

  void Release(uint32_t instance, abi::TaskId producer, abi::TaskId consumer) {
    Note(abi::kTraceRelease, instance, producer, consumer);
  }
  /// Gives the new instance's serial.
  uint32_t BeginInstance(uint32_t parent, abi::TaskId maker) {
    uint32_t serial =
        std::atomic_ref<uint32_t>(buffer_->instances).fetch_add(1, std::memory_order_relaxed);
    bool noted = Note(abi::kTraceBeginInstance, parent, maker, serial);
    return noted ? serial : abi::kUntraced;
  }
  void EndInstance(uint32_t instance, abi::TaskId last) {
    Note(abi::kTraceEndInstance, instance, last, 0);
  }

 private:
  static abi::TraceMoment Moment(const abi::TraceHeader& buffer);

  static uint64_t SystemTicks() {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     std::chrono::steady_clock::now().time_since_epoch())
                                     .count());
  }
  // Not ordered against the code around it: the processor may read it some ns early or late. Such
  // orders cost as much as the reading itself; whoever compares lanes allows for it.
  uint64_t Now() const {
    return buffer_->system_clock != 0 ? SystemTicks() : __builtin_ia32_rdtsc();
  }

  bool Note(abi::TraceKind kind, uint32_t instance, abi::TaskId task, uint32_t item) {
    abi::TraceRecord* record = instance == abi::kUntraced ? nullptr : Next();
    if (record == nullptr) [[unlikely]] {
      ++lane_->dropped_others;
      return false;
    }
    *record = {last_, last_, instance, task, item, 0, kind, 0};
    return true;
  }

  /// Room for one more record, or null.
  abi::TraceRecord* Next() {
    if (chunk_ == nullptr || chunk_->records == abi::kChunkRecords) [[unlikely]] {
      if (!TakeChunk()) return nullptr;
    }
    return &chunk_->record[chunk_->records++];
  }
  [[gnu::noinline]] bool TakeChunk() {
    std::atomic_ref<uint64_t> taken(buffer_->taken);
    // Looked at first, so that a full buffer is not written to for each record that is dropped.
    if (taken.load(std::memory_order_relaxed) >= buffer_->chunks) return false;
    uint64_t index = taken.fetch_add(1, std::memory_order_relaxed);
    if (index >= buffer_->chunks) return false;
    chunk_ = abi::ChunkAt(buffer_, index);
    chunk_->lane = static_cast<uint64_t>(lane_ - buffer_->lane);
    lane_->chunk = index + 1;
    return true;
  }

  abi::TraceHeader* buffer_ = nullptr;
  abi::TraceLane* lane_ = nullptr;
  abi::TraceChunk* chunk_ = nullptr;
  uint64_t begin_ = 0;
  uint64_t last_ = 0;  // when the last block ended here: the time of what follows from that
};

}  // namespace precast::sched
