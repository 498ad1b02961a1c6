#include "sched/trace_writer.h"

#include <cpuid.h>

namespace precast::sched {

namespace {

/// Whether the processor's counter goes on at one rate, whatever the processor does.
bool CounterIsInvariant() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d >> 8 & 1) != 0;
}

}  // namespace

void TraceWriter::Format(abi::TraceHeader* buffer, uint64_t chunks, bool system_clock) {
  buffer->chunks = chunks;
  buffer->instances = 1;
  buffer->system_clock = system_clock || !CounterIsInvariant() ? 1 : 0;
}

abi::TraceMoment TraceWriter::Moment(const abi::TraceHeader& buffer) {
  if (buffer.system_clock != 0) {
    uint64_t now = SystemTicks();
    return {now, static_cast<int64_t>(now)};
  }
  // The narrowest of a few tries: between two readings of the counter the thread may have had to
  // wait for a processor.
  abi::TraceMoment best{};
  uint64_t narrowest = ~uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    uint64_t before = __builtin_ia32_rdtsc();
    uint64_t now = SystemTicks();
    uint64_t width = __builtin_ia32_rdtsc() - before;
    if (width >= narrowest) continue;
    narrowest = width;
    best = {before + width / 2, static_cast<int64_t>(now)};
  }
  return best;
}

}  // namespace precast::sched
