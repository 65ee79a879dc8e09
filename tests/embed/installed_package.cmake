# Installs weir as a static and as a shared library, and uses each as an embedder would: builds
# examples/embed with find_package and with pkg-config and compares what it prints, and builds and runs
# the example of docs/reference/library.md as it stands there. The headers that are installed are those
# which that page names, and each compiles alone. What was built before is built again only if something
# it is made of is newer.

include("${CMAKE_CURRENT_LIST_DIR}/freshness.cmake")

set(built "${WORK_DIR}/built")
set(page "${SOURCE_DIR}/docs/reference/library.md")
set(warnings -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}\n${output}\n${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Fails unless the headers below `prefix` are those in the table of the page.
function(compare_headers prefix)
  file(GLOB_RECURSE installed RELATIVE "${prefix}/include" "${prefix}/include/*")
  file(STRINGS "${page}" rows REGEX "^\\| `weir/[a-z_/]+\\.h`")
  string(REGEX MATCHALL "weir/[a-z_/]+\\.h" named "${rows}")
  list(SORT installed)
  list(SORT named)
  if(NOT installed STREQUAL named)
    message(FATAL_ERROR "docs/reference/library.md and cmake --install differ; change the table there, "
                        "or PUBLIC in a CMakeLists.txt under weir/\n"
                        "in the table: ${named}\ninstalled:    ${installed}")
  endif()
  list(LENGTH installed count)
  if(count GREATER 25)
    message(FATAL_ERROR "${count} headers are installed, but 25 are the most; keep what only Weir "
                        "itself uses in HEADERS")
  endif()
  set(headers "${installed}" PARENT_SCOPE)
endfunction()

# The first C++ of the page to the file `to`.
function(extract_example to)
  file(READ "${page}" text)
  if(NOT text MATCHES "\n```cpp\n([^`]+)```\n")
    message(FATAL_ERROR "docs/reference/library.md: found no ```cpp block")
  endif()
  file(WRITE "${to}" "${CMAKE_MATCH_1}")
endfunction()

function(expect_output program)
  set(expected [[request 1: allowed, 2 left
request 2: allowed, 1 left
request 3: denied by running
request 4: allowed, 1 left
request 5: denied by running
]])
  run(${ARGN} "${program}")
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "${program}: expected\n${expected}\nbut it printed\n${output}")
  endif()
endfunction()

# The prefix as an embedder uses it. `kind`: static or shared.
function(use_package kind prefix)
  set(work "${WORK_DIR}/${kind}")
  run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}/examples/embed" -B "${work}/example" -G Ninja
      "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX}" -DCMAKE_CXX_STANDARD=20)
  run("${CMAKE_COMMAND}" --build "${work}/example")
  set(ENV{PKG_CONFIG_PATH} "${prefix}/lib/x86_64-linux-gnu/pkgconfig:${prefix}/lib/pkgconfig")
  run(pkg-config --cflags --libs weir)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run("${CXX}" ${warnings} "${SOURCE_DIR}/examples/embed/main.cc" -o "${work}/embed-pc" ${flags})
  extract_example("${work}/page.cc")
  run("${CXX}" ${warnings} "${work}/page.cc" -o "${work}/page" ${flags})
  run(pkg-config --variable=libdir weir)
  string(STRIP "${output}" libdir)
  set(found "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${libdir}")
  expect_output("${work}/example/embed")
  expect_output("${work}/embed-pc" ${found})
  run(${found} "${work}/page")
endfunction()

compare_with_parts("${built}" "${SOURCE_DIR}" "${BUILD_DIR}")
if(is_current)
  return()
endif()
file(REMOVE_RECURSE "${WORK_DIR}/static" "${WORK_DIR}/shared" "${built}")

set(prefix "${WORK_DIR}/static/prefix")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")
compare_headers("${prefix}")
foreach(header IN LISTS headers)
  set(source "${WORK_DIR}/static/alone.cc")
  file(WRITE "${source}" "#include <${header}>\n")
  run("${CXX}" ${warnings} -fsyntax-only "-I${prefix}/include" "${source}")
endforeach()
use_package(static "${prefix}")

# The same objects as in the build that is tested, so a compiler cache has most of them.
set(prefix "${WORK_DIR}/shared/prefix")
run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${WORK_DIR}/shared/build" -G Ninja
    "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}" -DWEIR_APPS=OFF
    -DWEIR_WARNINGS_AS_ERRORS=ON -DBUILD_SHARED_LIBS=ON "-DCMAKE_INSTALL_PREFIX=${prefix}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/shared/build" --target weir_weir)
run("${CMAKE_COMMAND}" --install "${WORK_DIR}/shared/build")
compare_headers("${prefix}")
use_package(shared "${prefix}")
file(GLOB_RECURSE library "${prefix}/lib/libweir.so.0.1")
run(readelf -d "${library}")
if(NOT output MATCHES "SONAME[^\n]*libweir\\.so\\.0\\.1\\]")
  message(FATAL_ERROR "libweir.so: expected the SONAME libweir.so.0.1, but found\n${output}")
endif()
run(nm -D -C --defined-only "${library}")
foreach(hidden IN ITEMS "weir::engine::Decider" "weir::engine::Table" "weir::meter::take" "fmt::")
  if(output MATCHES "[TW] ${hidden}")
    message(FATAL_ERROR "libweir.so offers ${hidden}, but only what WEIR_EXPORT marks is offered")
  endif()
endforeach()
file(TOUCH "${built}")
