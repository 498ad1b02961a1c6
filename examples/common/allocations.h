// Allocations: device memory that an example owns, freed in the end, also of a maker that throws.
#pragma once

#include <precast/worker.h>

#include <vector>

namespace precast::examples {

class Allocations {
 public:
  /// Requires: the worker outlives this.
  explicit Allocations(Worker& worker) : worker_(worker) {}
  ~Allocations() {
    for (const Tensor& tensor : tensors_) {
      try {
        worker_.free(tensor);
      } catch (const Error&) {
        // A destructor has nobody to tell. What the device failed to free, its worker will.
      }
    }
  }
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  Tensor Add(const Shape& shape, DType dtype) {
    tensors_.emplace_back();  // first: once there is memory, remembering it must not fail
    try {
      tensors_.back() = worker_.malloc(shape, dtype);
    } catch (...) {
      tensors_.pop_back();
      throw;
    }
    return tensors_.back();
  }

 private:
  Worker& worker_;
  std::vector<Tensor> tensors_;
};

}  // namespace precast::examples
