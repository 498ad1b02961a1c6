// The programs that are built into the precast command and into the tests.
#pragma once

#include <precast/program.h>

#include <vector>

namespace precast::examples {

/// All of them, in the order in which a newcomer reads them. They live as long as the process.
const std::vector<const Program*>& Examples();

}  // namespace precast::examples
