// Planted faults: mistakes in our own code, each of which some test must notice.
//
//   if (PRECAST_PLANTED("order.war")) return;  // forgets the edge
//
// `scripts/planted_faults` switches on one at a time, by the environment variable
// PRECAST_PLANTED_FAULT, and runs the tests that tests/planted_faults.txt names for it: they must
// fail. Builds with PRECAST_CHECKS have the switch; in all others it is the constant false, and
// nothing is left of it.
#pragma once

#ifdef PRECAST_PLANTED_FAULTS

#include <cstdlib>
#include <string_view>

namespace precast::detail {
inline bool IsPlanted(std::string_view name) {
  const char* asked = std::getenv("PRECAST_PLANTED_FAULT");
  return asked != nullptr && name == asked;
}
}  // namespace precast::detail

#define PRECAST_PLANTED(name)                                       \
  ([] {                                                             \
    static const bool planted = ::precast::detail::IsPlanted(name); \
    return planted;                                                 \
  }())

#else

#define PRECAST_PLANTED(name) false

#endif
