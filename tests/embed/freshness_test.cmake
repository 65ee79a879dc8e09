# A package that was installed before is used again only if no part of it has changed since.

include("${CMAKE_CURRENT_LIST_DIR}/freshness.cmake")

set(source "${WORK_DIR}/source")
set(build "${WORK_DIR}/build")
set(stamp "${WORK_DIR}/built")
set(parts "${source}/CMakeLists.txt" "${source}/docs/reference/library.md" "${source}/cmake/weir.pc.in"
    "${source}/examples/embed/main.cc" "${source}/tests/embed/installed_package.cmake"
    "${source}/weir/CMakeLists.txt" "${source}/weir/store/redis/CMakeLists.txt"
    "${source}/weir/store/redis/link/client.h" "${build}/weir/store/redis/libweir_store_redis.a")

function(date file when)
  execute_process(COMMAND touch -d "${when}" "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(expect wanted why)
  compare_with_parts("${stamp}" "${source}" "${build}")
  if(NOT is_current STREQUAL wanted)
    message(FATAL_ERROR "${why}: expected ${wanted}, found ${is_current}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
foreach(part IN LISTS parts)
  file(WRITE "${part}" "")
  date("${part}" "2026-01-01 00:00:01")
endforeach()
expect(OFF "nothing was built")
file(WRITE "${stamp}" "")
date("${stamp}" "2026-01-01 00:00:02")
expect(ON "nothing has changed")
foreach(part IN LISTS parts)
  date("${part}" "2026-01-01 00:00:03")
  expect(OFF "${part} has changed")
  date("${part}" "2026-01-01 00:00:01")
endforeach()
file(REMOVE "${source}/docs/reference/library.md")
expect(OFF "the page is gone")
