# One executable for each target of coverage-guided fuzzing, bin/fuzz_TARGET, and the program that
# writes their seeds. scripts/fuzz uses them.
add_custom_target(precast_fuzzers)

# Of the examples, what reads files and text.
set(fuzzed_examples config.cc dequantize.cc gguf.cc gguf_value.cc pretokenizer.cc tokenizer.cc utf8.cc)
list(TRANSFORM fuzzed_examples PREPEND ${PROJECT_SOURCE_DIR}/examples/qwen3/)
add_library(precast_fuzzed_examples STATIC ${fuzzed_examples})
target_include_directories(precast_fuzzed_examples PUBLIC ${PROJECT_SOURCE_DIR}/examples)
target_link_libraries(precast_fuzzed_examples PUBLIC precast ICU::uc PRIVATE precast_warnings)

function(precast_add_fuzzer_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE
    precast_cli precast_fuzzed_examples precast_test_support precast_test_support_objects)
  add_dependencies(precast_fuzzers ${name})
endfunction()

precast_test_sources(target_sources ${CMAKE_CURRENT_SOURCE_DIR}/parsers/*_target.cc)
foreach(source IN LISTS target_sources)
  get_filename_component(target ${source} NAME_WE)
  string(REPLACE _target "" target ${target})
  string(SUBSTRING ${target} 0 1 first)
  string(SUBSTRING ${target} 1 -1 rest)
  string(TOUPPER ${first} first)
  precast_add_fuzzer_executable(fuzz_${target} ${source} parsers/libfuzzer_main.cc)
  target_compile_definitions(fuzz_${target} PRIVATE PRECAST_FUZZ_TARGET=Fuzz${first}${rest})
  target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
endforeach()
precast_add_fuzzer_executable(precast_parser_seeds parsers/seeds.cc)
