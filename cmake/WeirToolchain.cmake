# How weir is compiled: language level, warnings, sanitizers, compiler cache, linker.
# Everything here hangs on the target weir_options, which only weir's own targets use,
# so a project that embeds weir keeps its own flags.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# weir/base/export.h
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  # File and line are enough for a backtrace, and cost a quarter less to compile than everything;
  # -O1 costs a quarter less than -O2, and tests run as fast. What is shipped has -O3.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
  find_program(WEIR_CCACHE ccache)
  if(WEIR_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${WEIR_CCACHE}")
  endif()
  find_program(WEIR_MOLD mold)
  if(WEIR_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

add_library(weir_options INTERFACE)
target_compile_features(weir_options INTERFACE cxx_std_20)
if(WEIR_WARNINGS_AS_ERRORS)
  target_compile_options(weir_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
    # At -O3 g++ 12 sees an overlap in `"text" + string` where there is none (its bug 105651).
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
    # What g++ leaves out of -Wconversion in C++.
    $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>)
endif()
if(WEIR_TOGETHER)
  # In a batch g++ takes every file but the batch itself for a header.
  target_compile_options(weir_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(WEIR_SANITIZE)
  # Most of the sanitized code compiles longer than it runs, so only what is marked BUSY is
  # optimised; -g1 is enough for file and line in a report. By clang++: it compiles sanitized code
  # in two thirds of the time of g++.
  add_compile_options(-O0 -g1 -fno-omit-frame-pointer "-fsanitize=${WEIR_SANITIZE}"
                      -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${WEIR_SANITIZE}")
endif()
# A fault in memory shall end the program rather than run another's code. The sanitizers find more, and
# a project that embeds weir has flags of its own.
if(PROJECT_IS_TOP_LEVEL AND NOT WEIR_SANITIZE AND NOT WEIR_FUZZ)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
  add_compile_options(-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  add_link_options(LINKER:-z,relro LINKER:-z,now)
endif()
# A test's own code is compiled more often than it runs; what it tests is optimised in any case, and
# has file and line in a backtrace.
add_library(weir_test_options INTERFACE)
target_link_libraries(weir_test_options INTERFACE weir_options)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # From precompiled headers g++ 12 takes sound standard strings for overflows.
  target_compile_options(weir_test_options INTERFACE
    -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(NOT WEIR_SANITIZE)
  # Without optimising there is nothing to fortify, and the headers of libc say so.
  target_compile_options(weir_test_options INTERFACE -O0 -g0 -U_FORTIFY_SOURCE)
elseif(WEIR_SANITIZE MATCHES undefined)
  # A fifth of its time to compile; the address sanitizer finds null pointers too.
  set(WEIR_TEST_CHECKS -fno-sanitize=null,alignment)
  target_compile_options(weir_test_options INTERFACE ${WEIR_TEST_CHECKS})
endif()
if(WEIR_FUZZ)
  add_compile_options(-O1 -g1 -fsanitize=address,undefined,fuzzer-no-link
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
