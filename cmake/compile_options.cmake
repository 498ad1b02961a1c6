# How everything in this tree is compiled. Nothing here reaches users of the installed package.

# Warnings. Designated initializers leave fields out on purpose; -Wrestrict is wrong about
# std::string in GCC 12.
add_library(precast_warnings INTERFACE)
target_compile_options(precast_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${PRECAST_WERROR}>:-Werror>)

# What files that may see src/ share: the library itself, the command, the white-box tests.
add_library(precast_internal INTERFACE)
target_include_directories(precast_internal INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(precast_internal INTERFACE
  precast_warnings spdlog::spdlog nlohmann_json::nlohmann_json precast_dep::xxhash
  precast_dep::hwloc Threads::Threads)
target_compile_definitions(precast_internal INTERFACE
  $<$<BOOL:${PRECAST_CHECKS}>:PRECAST_VALIDATE=1;PRECAST_PLANTED_FAULTS=1>)

# Places in error messages are relative to the tree, whatever folder it was built in. (Compiler
# caches turn the absolute path into the relative one.)
file(RELATIVE_PATH source_from_build ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/x)
string(REGEX REPLACE "x$" "" source_from_build ${source_from_build})
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
                    -fmacro-prefix-map=${source_from_build}=)

if(PRECAST_SANITIZE)
  add_compile_options(-fsanitize=${PRECAST_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PRECAST_SANITIZE})
  # The extra branches make GCC see paths that do not exist.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

if(PRECAST_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# The thread sanitizer needs the address space laid out without much randomness. Where the system
# lets us, tests run without any.
if(PRECAST_SANITIZE MATCHES "thread")
  find_program(PRECAST_SETARCH setarch)
  mark_as_advanced(PRECAST_SETARCH)
  if(PRECAST_SETARCH)
    execute_process(COMMAND ${PRECAST_SETARCH} ${CMAKE_HOST_SYSTEM_PROCESSOR} -R true
                    RESULT_VARIABLE setarch_result OUTPUT_QUIET ERROR_QUIET)
    if(setarch_result EQUAL 0)
      set(CMAKE_CROSSCOMPILING_EMULATOR ${PRECAST_SETARCH} ${CMAKE_HOST_SYSTEM_PROCESSOR} -R)
    endif()
  endif()
endif()
