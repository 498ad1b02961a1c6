// Profile: what one simulated chip is, as data. Nothing in sim/ asks for a chip by name; it reads
// these fields.
//
// Used by the registry, which lists the profiles, and by SimDriver. A Profile is a value.
#pragma once

#include "device/driver.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace precast::sim {

/// A rule that grants no allocation a host view.
inline constexpr uint64_t kNoHostViews = UINT64_MAX;

/// A device page of allocations from this size on, in bytes; smaller ones are made of host pages.
inline constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

/// The calls that advance the modelled clock.
enum class Priced : uint8_t {
  register_view,
  unregister_view,
  copy_to_host,
  copy_to_device,
  allocate,
  free,
  allocate_pinned,
  launch
};
inline constexpr size_t kPriced = 8;
using CostTable = std::array<device::CallCost, kPriced>;  // by Priced

struct Profile {
  std::string name;     ///< as users write it, without options
  std::string summary;  ///< one line for `precast list`; says which figures are assumed
  int cube_cores = 0;
  int vector_cores = 0;
  uint64_t memory_bytes = 0;     ///< device memory, a multiple of 2 MiB
  uint64_t host_page_bytes = 0;  ///< of the host that the chip sits in
  /// The smallest allocation that may have a host view, in bytes; 0: all; kNoHostViews: none.
  uint64_t host_view_minimum = 0;
  /// A device address is also the address that kernels use, and that of its host view.
  bool unified = false;
  const CostTable* costs = nullptr;  ///< static; null: no modelled clock
  std::string_view assumed = "";     ///< static; which costs are assumed, for reports
  ChipRates rates = {};              ///< zero: no modelled timeline

  /// Modelled picoseconds of one call about `bytes` bytes.
  uint64_t Cost(Priced call, uint64_t bytes) const;
  bool host_views() const { return host_view_minimum != kNoHostViews; }
};

/// This machine: as many cores of each kind as it has processors, its physical memory.
Profile CpuProfile();
Profile A2a3Profile();
Profile A5Profile();

/// Applies the text that follows the colon of a platform string, "key=value[,key=value…]".
/// Throws `Error{usage}` with what was found and what is allowed; then `profile` is unchanged.
void ApplyOptions(std::string_view options, Profile* profile);

/// The options that a profile takes, for help: "host_page=4k|64k", or empty.
std::string DescribeOptions(const Profile& profile);

}  // namespace precast::sim
