# Installs the build into a fresh prefix and uses it from projects outside the tree, as a user would:
# the first program of the README, the programs of docs/programs.md and docs/graphs.md (built from the
# very text of the pages), and the project of this folder. Takes -D build_dir, build_type, generator and compiler;
# cleans up unless it fails.
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

# Writes a code block of a language in a page to a file: the first, or the one of that number.
function(extract page language file)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/../../${page} text)
  set(fence "\n```${language}\n")
  string(LENGTH "${fence}" length)
  set(number 1)
  if(ARGC GREATER 3)
    set(number ${ARGV3})
  endif()
  foreach(block RANGE 1 ${number})
    string(FIND "${text}" "${fence}" begin)
    if(begin EQUAL -1)
      message(FATAL_ERROR "${page} has no code block ${block} in ${language}")
    endif()
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${text}" ${begin} -1 text)
  endforeach()
  string(FIND "${text}" "\n```\n" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  file(WRITE ${work}/${file} "${text}\n")
endfunction()

# Configures and builds ${work}/<name> in ${work}/build-<name>.
function(build name)
  step(${CMAKE_COMMAND} -S ${name} -B build-${name} -G ${generator}
       -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${work}/prefix
       -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror" ${ARGN})
  step(${CMAKE_COMMAND} --build build-${name})
endfunction()

step(${CMAKE_COMMAND} --install ${build_dir} --prefix ${work}/prefix)
step(prefix/bin/precast --version)
message("${output}")

extract(README.md cpp first/first.cc)
extract(README.md cmake first/CMakeLists.txt)
build(first)
step(build-first/first)
message("${output}")

extract(docs/programs.md cpp saxpy/saxpy.cc)
extract(docs/programs.md cmake saxpy/CMakeLists.txt)
build(saxpy)
step(prefix/bin/precast run build-saxpy/saxpy.so --platform a2a3sim --n 500 --a 2)
message("${output}")

foreach(block RANGE 1 2)
  extract(docs/graphs.md cpp graphs-${block}/first.cc ${block})
  extract(README.md cmake graphs-${block}/CMakeLists.txt)
  build(graphs-${block})
  step(build-graphs-${block}/first)
  message("${output}")
endforeach()

file(COPY ${CMAKE_CURRENT_LIST_DIR}/ DESTINATION ${work}/consumer)
build(consumer -D CMAKE_BUILD_TYPE=${build_type})
step(build-consumer/consumer build-saxpy/saxpy.so build-consumer/beyond.so)
message("${output}")
file(REMOVE_RECURSE ${work})
