# Installs weir, builds examples/embed with find_package and with pkg-config, and
# compares what each prints. What was built before is built again only if something it is made of
# is newer.

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

set(expected [[request 1: allowed, 2 left
request 2: allowed, 1 left
request 3: denied by running
request 4: allowed, 1 left
request 5: denied by running
]])

file(GLOB_RECURSE parts "${SOURCE_DIR}/weir/*.h" "${SOURCE_DIR}/examples/embed/*" "${SOURCE_DIR}/cmake/*"
     "${BUILD_DIR}/weir/*.a")
set(is_current ON)
foreach(part IN LISTS parts)
  if("${part}" IS_NEWER_THAN "${built}")  # also if nothing was built
    set(is_current OFF)
  endif()
endforeach()

if(NOT is_current)
  file(REMOVE_RECURSE "${prefix}" "${WORK_DIR}/example" "${built}")
  run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")
  run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}/examples/embed" -B "${WORK_DIR}/example" -G Ninja
      "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX}" -DCMAKE_CXX_STANDARD=20)
  run("${CMAKE_COMMAND}" --build "${WORK_DIR}/example")
  set(ENV{PKG_CONFIG_PATH} "${prefix}/lib/x86_64-linux-gnu/pkgconfig:${prefix}/lib/pkgconfig")
  run(pkg-config --cflags --libs weir)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run("${CXX}" -std=c++20 -Wall -Wextra -Werror "${SOURCE_DIR}/examples/embed/main.cc" -o "${WORK_DIR}/embed-pc" ${flags})
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
