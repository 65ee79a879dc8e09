# Headers of others that most files read, compiled once. None of our own: a change to one would
# compile everything again.
set(WEIR_PRECOMPILED <algorithm> <array> <atomic> <chrono> <cstdint> <functional> <map> <memory>
    <mutex> <optional> <random> <span> <string> <string_view> <unordered_map> <variant> <vector>
    <fmt/format.h> <boost/container/small_vector.hpp> <boost/multiprecision/cpp_int.hpp>
    <boost/unordered/unordered_flat_map.hpp>)
if(WEIR_PRECOMPILE)
  # One holder for libraries and, in tests/, one for programs: they differ in how their code is
  # placed.
  file(WRITE "${CMAKE_BINARY_DIR}/precompiled/empty.cc" "int main() { return 0; }\n")
  add_library(weir_precompiled STATIC EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/precompiled/empty.cc")
  target_link_libraries(weir_precompiled PRIVATE weir_options fmt::fmt Boost::headers)
  target_precompile_headers(weir_precompiled PRIVATE ${WEIR_PRECOMPILED})
  set(WEIR_PRECOMPILED_BUSY weir_precompiled)
  if(WEIR_SANITIZE)
    set(WEIR_PRECOMPILED_BUSY weir_precompiled_busy)
    add_library(weir_precompiled_busy STATIC EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/precompiled/empty.cc")
    target_link_libraries(weir_precompiled_busy PRIVATE weir_options fmt::fmt Boost::headers)
    target_compile_options(weir_precompiled_busy PRIVATE -O1)
    target_precompile_headers(weir_precompiled_busy PRIVATE ${WEIR_PRECOMPILED})
  endif()
endif()

# Compiles the files of a target as one: most of a file's time goes to the headers it reads. So
# names must differ within a folder, also those in unnamed namespaces.
function(weir_together target)
  if(WEIR_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
endfunction()

# weir_library(NAME SOURCES ... [PUBLIC ...] HEADERS ... DEPS ... [LINKS ...] [BUSY])
#
# One library per folder under weir/, called as the folder is: weir/wire/resp holds wire_resp. PUBLIC
# names the headers that are installed, HEADERS those that other folders of weir include. DEPS names
# the other weir libraries whose headers it includes (tests/layering compares) and LINKS the
# third-party targets, so these calls together draw the architecture. BUSY marks the ones whose tests
# run longer than they compile: optimised under sanitizers too.
function(weir_library name)
  cmake_parse_arguments(ARG "BUSY" "" "SOURCES;PUBLIC;HEADERS;DEPS;LINKS" ${ARGN})
  set(target "weir_${name}")
  if(ARG_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:weir_options>)
    weir_together(${target})
    set(precompiled weir_precompiled)
    if(WEIR_SANITIZE AND ARG_BUSY)
      target_compile_options(${target} PRIVATE -O1)
      set(precompiled ${WEIR_PRECOMPILED_BUSY})
    endif()
    if(WEIR_PRECOMPILE AND fmt::fmt IN_LIST ARG_LINKS)
      target_precompile_headers(${target} REUSE_FROM ${precompiled})
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(weir::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(JOIN ARG_DEPS " " deps)
  set_property(GLOBAL APPEND PROPERTY WEIR_DEPS "${name} ${deps}")
  list(TRANSFORM ARG_DEPS PREPEND weir::)
  target_link_libraries(${target} ${scope} ${ARG_DEPS} ${ARG_LINKS})
  set_property(GLOBAL APPEND PROPERTY WEIR_LIBRARIES ${target})
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  list(TRANSFORM ARG_PUBLIC PREPEND "${folder}/")
  list(TRANSFORM ARG_HEADERS PREPEND "${folder}/")
  set_property(GLOBAL APPEND PROPERTY WEIR_PUBLIC_HEADERS ${ARG_PUBLIC})
  set_property(GLOBAL APPEND PROPERTY WEIR_HEADERS ${ARG_PUBLIC} ${ARG_HEADERS})
endfunction()

# weir_lua(NAME FOLDER SCRIPTS ... INCLUDED ...)
#
# Embeds Lua scripts of a folder of a library. Its sources include FOLDER/lua.h, where the text of
# one_bucket.lua is kOneBucket, in the namespace of the library and FOLDER_lua. INCLUDED names the
# files that scripts put in front of themselves. A change to any of them embeds all again.
function(weir_lua name folder)
  cmake_parse_arguments(ARG "" "" "SCRIPTS;INCLUDED" ${ARGN})
  file(RELATIVE_PATH below "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(made "${PROJECT_BINARY_DIR}/made")
  set(header "${made}/${below}/${folder}/lua.h")
  set(embed "${PROJECT_SOURCE_DIR}/cmake/EmbedLua.cmake")
  string(REPLACE "/" "::" namespace "${below}::${folder}_lua")
  set(scripts ${ARG_SCRIPTS})
  set(included ${ARG_INCLUDED})
  foreach(list scripts included)
    list(TRANSFORM ${list} PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
    list(TRANSFORM ${list} APPEND ".lua")
  endforeach()
  add_custom_command(OUTPUT "${header}"
    COMMAND "${CMAKE_COMMAND}" "-DSCRIPTS=${scripts}" "-DOUTPUT=${header}" "-DNAMESPACE=${namespace}"
            -P "${embed}"
    DEPENDS ${scripts} ${included} "${embed}"
    COMMENT "Embedding ${below}/${folder}/*.lua" VERBATIM)
  target_sources(weir_${name} PRIVATE "${header}")
  target_include_directories(weir_${name} PRIVATE "${made}")
  if(NOT TARGET weir_embedded_lua)
    add_custom_target(weir_embedded_lua)  # for tools that compile nothing and read everything
  endif()
  add_custom_target(weir_${name}_${folder}_lua DEPENDS "${header}")
  add_dependencies(weir_${name} weir_${name}_${folder}_lua)
  add_dependencies(weir_embedded_lua weir_${name}_${folder}_lua)
endfunction()

# weir_test(NAME SOURCES ... [BUSY ...] DEPS ... [LINKS ...] [CONCURRENCY] [FIRST])
#
# One test binary per folder under tests/. BUSY names the sources that run longer than they compile:
# optimised in every preset. CONCURRENCY marks the tests the thread sanitizer runs, FIRST those that
# wait long and so begin before others.
function(weir_test name)
  cmake_parse_arguments(ARG "CONCURRENCY;FIRST" "" "SOURCES;BUSY;DEPS;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND weir::)
  set(links ${ARG_DEPS} ${ARG_LINKS} GTest::gtest GTest::gmock)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE weir_options weir_test_options ${links} GTest::gtest_main)
  if(ARG_BUSY)
    add_library(${name}_busy OBJECT ${ARG_BUSY})
    target_include_directories(${name}_busy PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name}_busy PRIVATE weir_options ${links})
    target_compile_options(${name}_busy PRIVATE -O1 ${WEIR_TEST_CHECKS})
    weir_together(${name}_busy)
    if(WEIR_PRECOMPILE)
      target_link_libraries(${name}_busy PRIVATE fmt::fmt Boost::headers)
      target_precompile_headers(${name}_busy REUSE_FROM ${WEIR_PRECOMPILED_BUSY})
    endif()
    target_link_libraries(${name} PRIVATE ${name}_busy)
  endif()
  if(WEIR_PRECOMPILE)
    target_link_libraries(${name} PRIVATE fmt::fmt Boost::headers)
    target_precompile_headers(${name} REUSE_FROM weir_precompiled_tests)
  endif()
  weir_together(${name})
  if(ARG_CONCURRENCY)
    set(label concurrency)
    add_dependencies(concurrency_tests ${name})
  else()
    set(label unit)
  endif()
  add_dependencies(unit_tests ${name})
  set(properties LABELS ${label})
  if(ARG_FIRST)
    list(APPEND properties COST 1000)
  endif()
  # To start a process for each test would take longer than most of them run.
  set(shards 4)
  foreach(shard RANGE 1 ${shards})
    math(EXPR index "${shard} - 1")
    set(test "${name}.${shard}_of_${shards}")
    add_test(NAME ${test} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${test} PROPERTIES ${properties} TIMEOUT 900
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# Boost.JSON has headers only, and one file to compile.
add_library(weir_boost_json STATIC "${PROJECT_SOURCE_DIR}/cmake/boost_json.cc")
target_link_libraries(weir_boost_json PUBLIC Boost::headers)
target_compile_features(weir_boost_json PUBLIC cxx_std_20)
