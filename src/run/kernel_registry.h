// KernelRegistry: gives each kernel of a device its index, and loads it there once.
//
// Used by the run layer of one worker. A kernel is known by its function and core kind.
//
// Threads: every call from any thread.
#pragma once

#include "device/driver.h"

#include <precast/kernel.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace precast::run {

class KernelRegistry {
 public:
  /// `platform` is the platform's name without options.
  KernelRegistry(device::Driver* driver, std::string platform)
      : driver_(driver), platform_(std::move(platform)) {}

  /// The index of a kernel, loading it when it is new. Throws `not_found` when the kernel does not
  /// exist on this platform, `invalid_argument` when it has no function.
  uint32_t Index(const Kernel& kernel);
  std::string Name(uint32_t index) const;
  /// Requires: Index gave it.
  Kernel operator[](uint32_t index) const;

 private:
  struct Key {
    KernelFunction function;
    Core core;
    std::string_view name;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return std::hash<const void*>()(reinterpret_cast<const void*>(key.function));
    }
  };

  device::Driver* driver_;
  std::string platform_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, uint32_t, Hash> indices_;
  std::vector<Kernel> kernels_;
};

}  // namespace precast::run
