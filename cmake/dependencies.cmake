# Third-party libraries, all from the distribution; scripts/packages.txt names their packages.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)  # the one dependency that public headers show
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
if(PRECAST_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

# Debian ships no CMake package for these two.
function(precast_find_library name header library)
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${name}_LIBRARY ${library} REQUIRED)
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  add_library(precast_dep::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(precast_dep::${name} PROPERTIES
    IMPORTED_LOCATION "${${name}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
endfunction()
precast_find_library(xxhash xxhash.h xxhash)
precast_find_library(hwloc hwloc.h hwloc)
