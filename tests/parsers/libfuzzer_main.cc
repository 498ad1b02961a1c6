// What libFuzzer calls; PRECAST_FUZZ_TARGET is the function of one target.
#include "parsers/target.h"

#include <cstddef>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  precast::test::PRECAST_FUZZ_TARGET({data, size});
  return 0;
}
