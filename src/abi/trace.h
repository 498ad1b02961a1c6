// The trace buffer: where the device records what it executes, when a launch asks for it.
//
//   TraceHeader | TraceChunk …
//
// Whoever launches makes it, large enough or not; each executing thread (lane) takes chunks from it
// and fills them, and counts in its TraceLane what found no room. After the launch has ended, the
// records of a lane stand in the order of time, in chunks of growing index. Times are ticks of a
// clock that the two pairs in the header tie to that of the host.
#pragma once

#include "abi/image.h"

#include <cstddef>
#include <cstdint>

namespace precast::abi {

enum TraceKind : uint8_t {
  kTraceBlock = 1,          // a kernel ran: item `item` of `task`, from `begin` to `end`
  kTraceFailedBlock = 2,    // the same; it threw, or did not return in time
  kTraceRelease = 3,        // at `end`, `task` ended and made task `item` ready
  kTraceBeginInstance = 4,  // at `end`, graph task `task` made the instance of serial `item`
  kTraceEndInstance = 5,    // at `end`, `task` ended and with it the instance
};

struct TraceRecord {
  uint64_t begin;     // ticks
  uint64_t end;       // ticks
  uint32_t instance;  // serial of the one that `task` stands in; 0: the run
  uint32_t task;      // TaskId in its image
  uint32_t item;
  uint16_t item_high;  // of an item that is counted: bits 32 …
  uint8_t kind;        // TraceKind
  uint8_t reserved;
};
static_assert(sizeof(TraceRecord) == 32);
static_assert(offsetof(TraceRecord, kind) == 30);

inline constexpr uint32_t kChunkRecords = 255;
struct TraceChunk {
  uint64_t lane;
  uint64_t records;
  uint64_t reserved[2];
  TraceRecord record[kChunkRecords];
};
static_assert(sizeof(TraceChunk) == 8192);

/// What one lane has to remember, in a cache line of its own.
struct alignas(64) TraceLane {
  uint64_t chunk;  // index + 1 of the one it fills; 0: none yet
  uint64_t dropped_blocks;
  uint64_t dropped_others;
  uint64_t reserved[5];
};
static_assert(sizeof(TraceLane) == 64);

/// One moment on both clocks.
struct TraceMoment {
  uint64_t ticks;
  int64_t nanoseconds;  // of the host's steady clock
};

inline constexpr uint32_t kTraceLanes = 257;
/// Of an instance that was not recorded; nothing in it is.
inline constexpr uint32_t kUntraced = 0xffffffff;

struct TraceHeader {
  uint64_t chunks;        // there are
  uint64_t taken;         // may pass `chunks`
  uint32_t instances;     // serials given, the run's included
  uint32_t system_clock;  // 1: ticks are nanoseconds of the host's steady clock
  uint64_t reserved;
  TraceMoment begin, end;  // of the execution; `end` is zero before that
  TraceLane lane[kTraceLanes];
};
static_assert(sizeof(TraceHeader) == 64 * (kTraceLanes + 1));

inline TraceChunk* ChunkAt(TraceHeader* header, uint64_t index) {
  return reinterpret_cast<TraceChunk*>(header + 1) + index;
}

}  // namespace precast::abi
