# precast_add_program(name sources...)
#
# Builds a Precast program as a shared library `name.so` that `precast run path/to/name.so` and
# `Worker::load` open. The sources define kernels, an orchestration and one program descriptor.
function(precast_add_program name)
  if(NOT ARGN)
    message(FATAL_ERROR "precast_add_program(${name}): give it at least one source file")
  endif()
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so")
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_definitions(${name} PRIVATE PRECAST_PROGRAM_MODULE=1)
  # Without this, an inline variable of one program is the one of every other program that has a
  # variable of that name, and the library can never be unloaded.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_libraries(${name} PRIVATE precast::precast)
endfunction()
