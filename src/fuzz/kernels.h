// The kernels of plans, and the records they leave.
//
// There is one kernel, in two kinds of cores. A block hashes its scalars and all bytes that it
// reads, and writes numbers that follow from that hash: a byte that is not what it should be
// changes everything after it. It also leaves a *record*: that hash, and two tickets from one
// counter, drawn when it starts and when it ends. So two executions can be compared block by block,
// and the order of tasks can be checked against the order that the plan demands.
//
// A block finds its record through scalars: the address of the Recorder, then numbers that add up.
// Bodies of recorded graphs pass these on, so each replay leaves records of its own.
//
// Threads: blocks of one run write different records; a counter without order joins them, so that
// it hides no data race from a thread sanitizer.
#pragma once

#include "fuzz/plan.h"

#include <precast/kernel.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace precast::fuzz {

struct Record {
  uint64_t hash = 0;
  uint64_t start = 0, end = 0;  ///< tickets; 0: did not run
};

class Recorder {
 public:
  /// `pauses`: whether blocks wait where the plan says so.
  Recorder(uint64_t records, bool pauses) : records_(records), pauses_(pauses) {}

  uint64_t Ticket() { return 1 + tickets_.fetch_add(1, std::memory_order_relaxed); }
  /// Null outside the table: a kernel that was given wrong scalars fails.
  Record* At(uint64_t index) { return index < records_.size() ? &records_[index] : nullptr; }
  bool pauses() const { return pauses_; }
  const std::vector<Record>& records() const { return records_; }

 private:
  std::vector<Record> records_;
  std::atomic<uint64_t> tickets_{0};
  bool pauses_;
};

/// Scalars before those of the plan. On the boundary of bodies: Recorder, run, and an offset for
/// each depth of graphs. Of kernels, behind those: offset of the task, its setup, modes, salt.
inline constexpr size_t kPassedScalars = 5, kKernelScalars = kPassedScalars + 4;

/// How a kernel uses a tensor; two bits each in its modes.
enum class Mode : uint8_t { read = 0, read_own = 1, write = 2, read_write = 3 };
inline constexpr size_t kMaxUses = 32;
inline constexpr size_t kMaxScalars = 8;

/// What a kernel has to know of its task: number of kernels, pause, types of scalars.
uint64_t SetupOf(const Item& item);
uint64_t ModesOf(const Item& item);

/// All kernels of plans.
std::vector<Kernel> Kernels();
extern const Kernel kVectorKernel, kCubeKernel;

/// A good hash of one number.
uint64_t Mix(uint64_t x);

/// Calls visit.operator()<T>() with the type of `dtype`. Requires: not `none`.
template <typename Visit>
void WithType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::boolean:
      return visit.template operator()<bool>();
    case DType::i8:
      return visit.template operator()<int8_t>();
    case DType::u8:
      return visit.template operator()<uint8_t>();
    case DType::i16:
      return visit.template operator()<int16_t>();
    case DType::u16:
      return visit.template operator()<uint16_t>();
    case DType::i32:
      return visit.template operator()<int32_t>();
    case DType::u32:
      return visit.template operator()<uint32_t>();
    case DType::i64:
      return visit.template operator()<int64_t>();
    case DType::u64:
      return visit.template operator()<uint64_t>();
    case DType::f16:
      return visit.template operator()<f16>();
    case DType::bf16:
      return visit.template operator()<bf16>();
    case DType::f32:
      return visit.template operator()<float>();
    case DType::f64:
      return visit.template operator()<double>();
    case DType::none:
      break;
  }
}

/// Bytes of `count` elements that follow from `salt`; those of a bool are 0 and 1.
std::vector<std::byte> RandomBytes(DType dtype, int64_t count, uint64_t salt);

}  // namespace precast::fuzz
