// KernelTable: the kernels of one device by index, as tasks name them.
//
// Written by the worker (it appends), read by executing threads without a lock: an entry never
// changes or moves once `Load` returned, and a launch that uses it comes later.
#pragma once

#include <precast/error.h>
#include <precast/kernel.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

namespace precast::sched {

class KernelTable {
 public:
  static constexpr uint32_t kPage = 256;
  static constexpr uint32_t kCapacity = 256 * kPage;

  /// Not for concurrent use with itself.
  void Load(uint32_t first, std::span<const Kernel> kernels) {
    if (first + kernels.size() > kCapacity) {
      Fail(ErrorCode::out_of_memory, "{} kernels loaded; a device holds at most {}",
           first + kernels.size(), kCapacity);
    }
    for (const Kernel& kernel : kernels) {
      std::unique_ptr<Kernel[]>& page = pages_[first / kPage];
      if (!page) page = std::make_unique<Kernel[]>(kPage);
      page[first % kPage] = kernel;
      ++first;
    }
  }

  /// Calls visit(index, kernel) for all that were loaded; none is being loaded.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (uint32_t i = 0; i < kCapacity; ++i) {
      if (!pages_[i / kPage]) {
        i += kPage - 1;
      } else if ((*this)[i].function != nullptr) {
        visit(i, (*this)[i]);
      }
    }
  }

  const Kernel& operator[](uint32_t index) const { return pages_[index / kPage][index % kPage]; }

 private:
  std::array<std::unique_ptr<Kernel[]>, kCapacity / kPage> pages_;
};

}  // namespace precast::sched
