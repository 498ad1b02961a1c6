// The platforms of this build, by name. Only registry.cc names them.
//
// Used by the worker and the command. Threads: every call may be made from any thread.
#pragma once

#include "device/driver.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace precast::platforms {

/// A driver for "name" or "name:key=value[,…]"; `threads` execute kernels, 0 is one per processor.
/// Throws `Error{not_found}` that lists the platforms, `Error{usage}` for an option that makes no
/// sense, `Error{invalid_argument}` for a number of threads outside 0 … 256.
std::unique_ptr<device::Driver> MakeDriver(const std::string& platform, int threads);

struct Entry {
  std::string name;
  std::string summary;
  std::string options;            ///< "host_page=4k|64k", or empty
  device::Properties properties;  ///< with nothing allocated
};
/// All platforms, with the properties of a driver made with default options. Makes no driver.
std::vector<Entry> List();

/// A platform string without its options: the name that kernels use in `Kernel::platforms`.
std::string_view BaseName(std::string_view platform);

}  // namespace precast::platforms
