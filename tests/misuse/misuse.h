// Misuse: something that a user may do wrong, and the error that it must give.
//
// Every entry of the table runs on a worker that works before it and must work after it, with the
// same device memory in use.
#pragma once

#include "scenes/scene_kernels.h"

#include <precast/precast.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace precast::misuse {

using scenes::bump;
using scenes::copy;
using scenes::put;

struct Misuse {
  std::string name;
  ErrorCode code;
  /// What the message must contain: what was found, what is allowed, who did it.
  std::vector<std::string> words;
  /// Must throw.
  std::function<void(Worker&)> act;
};

// The parts of the table.
std::vector<Misuse> MemoryMisuse();         // malloc, free, copies, addresses
std::vector<Misuse> ArgumentMisuse();       // what a run is given
std::vector<Misuse> ProgramMisuse();        // programs, signatures, shared libraries
std::vector<Misuse> TaskMisuse();           // what is submitted
std::vector<Misuse> LifetimeMisuse();       // used after its scope, run, worker, allocation
std::vector<Misuse> HostAccessMisuse();     // get and set
std::vector<Misuse> OrchestrationMisuse();  // what orchestrations do
std::vector<Misuse> KernelMisuse();         // what kernels do

/// Runs `build` with one `inout` argument of 8 values, 0 … 7.
template <typename Build>
std::function<void(Worker&)> Building(Build build) {
  return [build](Worker& worker) {
    std::vector<int64_t> x{0, 1, 2, 3, 4, 5, 6, 7};
    const std::vector<int64_t> before = x;
    try {
      worker.run(build, {inout(x)});
    } catch (...) {
      EXPECT_EQ(x, before) << "a failed run copies nothing back";
      throw;
    }
  };
}

/// A device allocation that is freed at the end.
class DeviceTensor {
 public:
  DeviceTensor(Worker& worker, const Shape& shape, DType dtype = DType::i64)
      : worker_(worker), tensor_(worker.malloc(shape, dtype)) {}
  ~DeviceTensor() { worker_.free(tensor_); }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;
  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }

 private:
  Worker& worker_;
  Tensor tensor_;
};

/// Checks that `act` throws an Error of this code whose message contains all words.
void ExpectError(ErrorCode code, const std::vector<std::string>& words,
                 const std::function<void()>& act);

}  // namespace precast::misuse
