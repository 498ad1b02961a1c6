// A program that the command refuses: its parameter has the name of an option of the command.
#include <precast/precast.h>

namespace {

void Build(precast::Orchestrator& /*o*/, const precast::Args& /*args*/) {}

}  // namespace

PRECAST_PROGRAM(cli_reserved) {
  return {.name = "cli_reserved",
          .summary = "has a parameter with the name of an option",
          .orchestration = Build,
          .signature = {},
          .kernels = {},
          .cases = {},
          .params = {{"rounds", "1", "not how many runs"}}};
}
