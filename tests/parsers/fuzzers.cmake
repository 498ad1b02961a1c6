# One executable for each target of coverage-guided fuzzing, bin/fuzz_TARGET, and the program that
# writes their seeds. scripts/fuzz uses them.
add_custom_target(precast_fuzzers)

# Of the examples, what reads files and text.
set(fuzzed_examples config.cc dequantize.cc gguf.cc gguf_value.cc pretokenizer.cc tokenizer.cc utf8.cc)
list(TRANSFORM fuzzed_examples PREPEND ${PROJECT_SOURCE_DIR}/examples/qwen3/)
add_library(precast_fuzzed_examples STATIC ${fuzzed_examples})
target_include_directories(precast_fuzzed_examples PUBLIC ${PROJECT_SOURCE_DIR}/examples)
target_link_libraries(precast_fuzzed_examples PUBLIC precast ICU::uc PRIVATE precast_warnings)

function(precast_add_fuzzer_executable name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE precast_test_support_objects ${ARGN})
  add_dependencies(precast_fuzzers ${name})
endfunction()

function(precast_add_fuzzer target function)
  precast_add_fuzzer_executable(fuzz_${target} parsers/${target}_target.cc ${ARGN})
  target_sources(fuzz_${target} PRIVATE parsers/libfuzzer_main.cc)
  target_compile_definitions(fuzz_${target} PRIVATE PRECAST_FUZZ_TARGET=${function})
  target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
endfunction()

precast_add_fuzzer(command FuzzCommand precast_cli)
precast_add_fuzzer(gguf FuzzGguf precast_fuzzed_examples)
precast_add_fuzzer(image FuzzImage)
precast_add_fuzzer(program FuzzProgram precast_cli)
precast_add_fuzzer(tokenizer FuzzTokenizer precast_fuzzed_examples)
precast_add_fuzzer_executable(precast_parser_seeds parsers/seeds.cc precast_fuzzed_examples)
