#include "worker/probe.h"

#include "platforms/registry.h"

namespace precast {

device::ProbeResult ProbePlatform(const std::string& platform,
                                  const device::ProbeOptions& options) {
  return device::Probe(*platforms::MakeDriver(platform, 1), options);
}

}  // namespace precast
