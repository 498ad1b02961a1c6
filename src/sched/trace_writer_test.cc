#include "sched/trace_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace precast::sched {
namespace {

struct Freed {
  void operator()(abi::TraceHeader* buffer) const { std::free(buffer); }
};

std::unique_ptr<abi::TraceHeader, Freed> MakeBuffer(uint64_t chunks, bool system_clock = false) {
  size_t bytes = sizeof(abi::TraceHeader) + chunks * sizeof(abi::TraceChunk);
  void* memory = std::aligned_alloc(alignof(abi::TraceHeader), bytes);
  std::memset(memory, 0, bytes);
  auto* buffer = static_cast<abi::TraceHeader*>(memory);
  TraceWriter::Format(buffer, chunks, system_clock);
  return std::unique_ptr<abi::TraceHeader, Freed>(buffer);
}

TEST(TraceWriterTest, RecordsAndDropsAreWhatWasCalled) {
  constexpr uint64_t kCalls = 2000;
  for (uint64_t chunks : {0u, 1u, 3u, 20u}) {
    auto buffer = MakeBuffer(chunks);
    std::vector<std::thread> threads;
    for (uint32_t lane : {0u, 1u, 256u}) {
      threads.emplace_back([&buffer, lane] {
        TraceWriter writer;
        writer.Attach(buffer.get(), lane);
        for (uint64_t i = 0; i < kCalls; ++i) {
          writer.Enter();
          writer.Leave(0, lane, i, false);
          writer.Release(0, lane, 7);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    uint64_t blocks = 0, others = 0;
    uint64_t used = std::min(buffer->taken, buffer->chunks);
    for (uint64_t i = 0; i < used; ++i) {
      const abi::TraceChunk& chunk = *abi::ChunkAt(buffer.get(), i);
      ASSERT_LE(chunk.records, abi::kChunkRecords);
      for (uint64_t r = 0; r < chunk.records; ++r) {
        const abi::TraceRecord& record = chunk.record[r];
        EXPECT_EQ(record.task, chunk.lane);
        (record.kind == abi::kTraceBlock ? blocks : others) += 1;
      }
    }
    // 3 * 2 * 2000 records are more than the first three have room for: they are full.
    if (chunks < 20) {
      EXPECT_EQ(blocks + others, chunks * abi::kChunkRecords);
    }
    for (const abi::TraceLane& lane : buffer->lane) {
      blocks += lane.dropped_blocks;
      others += lane.dropped_others;
    }
    EXPECT_EQ(blocks, 3 * kCalls);
    EXPECT_EQ(others, 3 * kCalls);
  }
}

TEST(TraceWriterTest, AttachingAgainGoesOnWhereTheLaneWas) {
  auto buffer = MakeBuffer(4), other = MakeBuffer(4);
  TraceWriter writer;
  for (int i = 0; i < 3; ++i) {
    writer.Attach(buffer.get(), 5);
    writer.Enter();
    writer.Leave(0, 10, uint64_t{1} << 33, i == 2);
    writer.Attach(other.get(), 5);
    writer.Release(0, 10, 11);
  }
  EXPECT_EQ(buffer->taken, 1u);
  const abi::TraceChunk& chunk = *abi::ChunkAt(buffer.get(), 0);
  ASSERT_EQ(chunk.records, 3u);
  EXPECT_EQ(chunk.lane, 5u);
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const abi::TraceRecord& record = chunk.record[i];
    EXPECT_EQ(record.kind, i == 2 ? abi::kTraceFailedBlock : abi::kTraceBlock);
    EXPECT_EQ(record.item, 0u);
    EXPECT_EQ(record.item_high, 2u);
    EXPECT_LE(last, record.begin);
    EXPECT_LE(record.begin, record.end);
    last = record.end;
  }
  EXPECT_EQ(abi::ChunkAt(other.get(), 0)->records, 3u);
}

TEST(TraceWriterTest, AnInstanceThatFoundNoRoomIsDroppedWhole) {
  auto buffer = MakeBuffer(1);
  TraceWriter writer;
  writer.Attach(buffer.get(), 0);
  for (uint32_t i = 0; i < abi::kChunkRecords; ++i) {
    EXPECT_EQ(writer.BeginInstance(0, 4), i + 1);
  }
  uint32_t serial = writer.BeginInstance(0, 4);
  EXPECT_EQ(serial, abi::kUntraced);
  // A lane with room left drops them, too.
  auto roomy = MakeBuffer(1);
  writer.Attach(roomy.get(), 0);
  writer.Enter();
  writer.Leave(serial, 4, 0, false);
  writer.Release(serial, 4, 5);
  EXPECT_EQ(writer.BeginInstance(serial, 4), abi::kUntraced);
  writer.EndInstance(serial, 4);
  EXPECT_EQ(roomy->taken, 0u);
  EXPECT_EQ(roomy->lane[0].dropped_blocks, 1u);
  EXPECT_EQ(roomy->lane[0].dropped_others, 3u);
}

TEST(TraceWriterTest, TheBeginningAndTheEndTieTheClocks) {
  for (bool system_clock : {false, true}) {
    auto buffer = MakeBuffer(1, system_clock);
    TraceWriter::NoteBegin(buffer.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    TraceWriter::NoteEnd(buffer.get());
    EXPECT_GE(buffer->end.nanoseconds - buffer->begin.nanoseconds, 1'000'000);
    EXPECT_GT(buffer->end.ticks, buffer->begin.ticks);
    if (system_clock) {
      EXPECT_EQ(buffer->system_clock, 1u);
      EXPECT_EQ(buffer->begin.ticks, static_cast<uint64_t>(buffer->begin.nanoseconds));
    }
  }
}

}  // namespace
}  // namespace precast::sched
