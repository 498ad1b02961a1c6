# precast_add_program(name [CHECK_BOUNDS] sources...)
#
# Builds a Precast program as a shared library `name.so` that `precast run path/to/name.so` and
# `Worker::load` open. The sources define kernels, an orchestration and one program descriptor.
#
# CHECK_BOUNDS: kernels check every index of a tensor; one outside it fails the run with a message.
# Without a build type (CMAKE_BUILD_TYPE) the program is optimized as in Release.
function(precast_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "CHECK_BOUNDS" "" "")
  set(sources ${program_UNPARSED_ARGUMENTS})
  if(NOT sources)
    message(FATAL_ERROR "precast_add_program(${name}): give it at least one source file")
  endif()
  add_library(${name} MODULE ${sources})
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${name} PRIVATE -O3 -DNDEBUG)
  endif()
  if(program_CHECK_BOUNDS)
    target_compile_definitions(${name} PRIVATE PRECAST_CHECK_BOUNDS=1)
  endif()
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so")
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_definitions(${name} PRIVATE PRECAST_PROGRAM_MODULE=1)
  # Without this, an inline variable of one program is the one of every other program that has a
  # variable of that name, and the library can never be unloaded.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_libraries(${name} PRIVATE precast::precast)
endfunction()
