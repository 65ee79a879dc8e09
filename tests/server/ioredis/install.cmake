# cmake -DFROM=... -DTO=... -P install.cmake: the packages of the lock file, once.

file(SHA256 "${FROM}/package-lock.json" wanted)
set(mark "${TO}/installed")
if(EXISTS "${mark}")
  file(READ "${mark}" found)
  if(found STREQUAL wanted)
    return()
  endif()
endif()
file(COPY "${FROM}/package.json" "${FROM}/package-lock.json" "${FROM}/.npmrc" DESTINATION "${TO}")
execute_process(COMMAND npm ci --no-audit --no-fund --ignore-scripts
  WORKING_DIRECTORY "${TO}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "npm ci failed in ${TO}; it needs npm and the npm registry:\n${output}")
endif()
file(WRITE "${mark}" "${wanted}")
