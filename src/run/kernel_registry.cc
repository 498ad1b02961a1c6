#include "run/kernel_registry.h"

#include <fmt/core.h>

namespace precast::run {

namespace {

/// Whether a comma-separated list holds `name`.
bool Lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    size_t begin = entry.find_first_not_of(' ');
    size_t end = entry.find_last_not_of(' ');
    if (begin != entry.npos && entry.substr(begin, end - begin + 1) == name) return true;
    if (comma == list.npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

uint32_t KernelRegistry::Index(const Kernel& kernel) {
  if (kernel.name == nullptr || kernel.function == nullptr) {
    precast::Fail(ErrorCode::invalid_argument, "kernel '{}' has no {}",
                  kernel.name == nullptr ? "" : kernel.name,
                  kernel.function == nullptr ? "function" : "name");
  }
  std::string_view platforms = kernel.platforms == nullptr ? "" : kernel.platforms;
  if (!platforms.empty() && !Lists(platforms, platform_)) {
    precast::Fail(ErrorCode::not_found,
                  "kernel '{}' does not exist on platform '{}' (it exists on: {})", kernel.name,
                  platform_, platforms);
  }
  std::lock_guard lock(mutex_);
  Key key{kernel.function, kernel.core, kernel.name};
  auto found = indices_.find(key);
  if (found != indices_.end()) return found->second;
  uint32_t index = static_cast<uint32_t>(kernels_.size());
  // In this order: what fails half-way costs an index, and never uses one again.
  kernels_.push_back(kernel);
  try {
    driver_->LoadKernels(index, std::span(&kernel, 1));
  } catch (...) {
    kernels_.pop_back();
    throw;
  }
  indices_.emplace(key, index);
  return index;
}

Kernel KernelRegistry::operator[](uint32_t index) const {
  std::lock_guard lock(mutex_);
  return kernels_.at(index);
}

std::string KernelRegistry::Name(uint32_t index) const {
  std::lock_guard lock(mutex_);
  return index < kernels_.size() ? kernels_[index].name : fmt::format("#{}", index);
}

}  // namespace precast::run
