// Probe: what the driver calls behind host views cost on a device, on both clocks, and whether to
// cache views, rebuild them in every run, or copy.
//
// Used by `precast probe`. It measures as the figures for a2a3 were: register and unregister apart,
// 7 sizes, rotating over 4 allocations; small copies from the device; allocations, each with a
// first copy to it.
//
// Threads: the calling thread; nothing else should use the device.
#pragma once

#include "device/driver.h"

#include <nlohmann/json.hpp>

#include <string>

namespace precast {

struct ProbeOptions {
  double budget_us = 10;  ///< what a bind may spend on mapping its two tensors anew
  int iterations = 300;
  int copy_iterations = 2000;
};

/// {"wall": clock, "modelled": clock or null}, a clock being
///   {"host_view": [view], "device_copy": [copy], "allocate_and_copy": [copy],
///    "fit": {"ordinary_pages": fit, "huge_pages": fit},
///    "bind": {"rebuild_us", "budget_us", "tensors": [view]}, "verdict", "reason"}
///   view {"bytes", "register_us", "unregister_us", "pair_us", "accesses_to_break_even" and the
///         least of each time}, null where the platform refuses
///   copy {"bytes", "us", "min_us"}; fit {"floor_us", "page_us"} of a pair, or null.
/// Times are medians in microseconds. Passes on what the driver throws; what it has allocated by
/// then stays until the driver's reset.
nlohmann::ordered_json Probe(device::Driver& driver, const ProbeOptions& options);

/// The same on a device made for it, with "platform" in front. Throws what MakeDriver throws.
nlohmann::ordered_json ProbePlatform(const std::string& platform, const ProbeOptions& options);

}  // namespace precast
