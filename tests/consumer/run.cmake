# Installs the build into a fresh prefix and uses it from a project outside the tree, as a user
# would. Takes -D build_dir, build_type, generator and compiler; cleans up unless it fails.
cmake_minimum_required(VERSION 3.22)

execute_process(COMMAND mktemp -d OUTPUT_VARIABLE work OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)

function(step)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${work} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${result}\n${output}\nThe files are in ${work}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

step(${CMAKE_COMMAND} --install ${build_dir} --prefix ${work}/prefix)
file(COPY ${CMAKE_CURRENT_LIST_DIR}/ DESTINATION ${work}/project)
step(${CMAKE_COMMAND} -S project -B build -G ${generator} -D CMAKE_CXX_COMPILER=${compiler}
     -D CMAKE_BUILD_TYPE=${build_type} -D CMAKE_PREFIX_PATH=${work}/prefix
     -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
step(${CMAKE_COMMAND} --build build)
step(build/consumer build/saxpy.so)
message("${output}")
step(prefix/bin/precast --version)
message("${output}")
file(REMOVE_RECURSE ${work})
