#include "examples.h"

// Each is defined by PRECAST_PROGRAM in the folder of its name.
const precast::Program& precast_program_vector_add();
const precast::Program& precast_program_bgemm();
const precast::Program& precast_program_paged_attention();
const precast::Program& precast_program_qwen3_14b_decode();
const precast::Program& precast_program_qwen3();

namespace precast::examples {

const std::vector<const Program*>& Examples() {
  static const std::vector<const Program*> programs = {
      &precast_program_vector_add(), &precast_program_bgemm(), &precast_program_paged_attention(),
      &precast_program_qwen3_14b_decode(), &precast_program_qwen3()};
  return programs;
}

}  // namespace precast::examples
