# Installs weir, builds examples/embed with find_package and with pkg-config, and
# compares what each prints. The example in README.md is built as it stands there, and run. What was
# built before is built again only if something it is made of is newer.

include("${CMAKE_CURRENT_LIST_DIR}/freshness.cmake")

set(prefix "${WORK_DIR}/prefix")
set(built "${WORK_DIR}/built")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}\n${output}\n${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# What an installed header includes must be installed too. In the source tree it is always there.
function(check_includes include_dir)
  file(GLOB_RECURSE headers RELATIVE "${include_dir}" "${include_dir}/weir/*.h")
  foreach(header IN LISTS headers)
    file(STRINGS "${include_dir}/${header}" includes REGEX "^#include [\"<]weir/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^#include [\"<]([^\">]+).*" "\\1" path "${include}")
      if(NOT EXISTS "${include_dir}/${path}")
        message(FATAL_ERROR "${header} is installed and includes ${path}, which is not; add it to "
                            "HEADERS of its folder")
      endif()
    endforeach()
  endforeach()
endfunction()

# The C++ under "An example that runs" to the file `to`.
function(extract_readme_example to)
  file(READ "${SOURCE_DIR}/README.md" readme)
  if(NOT readme MATCHES "\n## An example that runs\n\n```cpp\n([^`]+)```\n")
    message(FATAL_ERROR "README.md: found no ```cpp block under '## An example that runs'")
  endif()
  file(WRITE "${to}" "${CMAKE_MATCH_1}")
endfunction()

set(expected [[request 1: allowed, 2 left
request 2: allowed, 1 left
request 3: denied by running
request 4: allowed, 1 left
request 5: denied by running
]])

compare_with_parts("${built}" "${SOURCE_DIR}" "${BUILD_DIR}")
if(NOT is_current)
  file(REMOVE_RECURSE "${prefix}" "${WORK_DIR}/example" "${built}")
  run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")
  check_includes("${prefix}/include")
  run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}/examples/embed" -B "${WORK_DIR}/example" -G Ninja
      "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX}" -DCMAKE_CXX_STANDARD=20)
  run("${CMAKE_COMMAND}" --build "${WORK_DIR}/example")
  set(ENV{PKG_CONFIG_PATH} "${prefix}/lib/x86_64-linux-gnu/pkgconfig:${prefix}/lib/pkgconfig")
  run(pkg-config --cflags --libs weir)
  separate_arguments(flags UNIX_COMMAND "${output}")
  set(compile "${CXX}" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
  run(${compile} "${SOURCE_DIR}/examples/embed/main.cc" -o "${WORK_DIR}/embed-pc" ${flags})
  extract_readme_example("${WORK_DIR}/readme.cc")
  run(${compile} "${WORK_DIR}/readme.cc" -o "${WORK_DIR}/readme" ${flags})
  file(TOUCH "${built}")
endif()

run("${WORK_DIR}/example/embed")
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "find_package: expected\n${expected}\nbut the example printed\n${output}")
endif()
run("${WORK_DIR}/embed-pc")
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "pkg-config: expected\n${expected}\nbut the example printed\n${output}")
endif()
run("${WORK_DIR}/readme")
