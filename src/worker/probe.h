// ProbePlatform: device::Probe on a platform by name, for the command.
#pragma once

#include "device/probe.h"

#include <string>

namespace precast {

/// Makes a device of that platform for itself. Throws what platforms::MakeDriver throws.
device::ProbeResult ProbePlatform(const std::string& platform, const device::ProbeOptions& options);

}  // namespace precast
