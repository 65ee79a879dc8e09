# cmake -DFROM=... -DTO=... -P install.cmake: the packages of the lock file, once.

file(SHA256 "${FROM}/package-lock.json" wanted)
set(mark "${TO}/installed")
if(EXISTS "${mark}")
  file(READ "${mark}" found)
  if(found STREQUAL wanted)
    return()
  endif()
endif()
file(REMOVE "${mark}")  # of other versions
file(COPY "${FROM}/package.json" "${FROM}/package-lock.json" "${FROM}/.npmrc" DESTINATION "${TO}")
execute_process(COMMAND npm ci --no-audit --no-fund --ignore-scripts --fetch-retries=1 --fetch-timeout=60000
  WORKING_DIRECTORY "${TO}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
set(unreachable "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|E40[0-9]")
string(APPEND unreachable "|code E5[0-9][0-9]|ERR_SOCKET_TIMEOUT|FETCH_ERROR|network timeout")
if(NOT result EQUAL 0 AND output MATCHES "${unreachable}")
  message("skipped: npm reaches no registry from here, so there is no client of Node.js to test with:\n${output}")
  return()
endif()
if(NOT result EQUAL 0)
  message(FATAL_ERROR "npm ci failed in ${TO}; it needs npm and the npm registry:\n${output}")
endif()
file(WRITE "${mark}" "${wanted}")
