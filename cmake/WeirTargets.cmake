# weir_library(NAME SOURCES ... HEADERS ... DEPS ... [LINKS ...])
#
# One library per folder under weir/, called as the folder is: weir/wire/resp holds wire_resp. DEPS
# names the other weir libraries it uses and LINKS the third-party targets, so these calls together
# draw the architecture.
function(weir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPS;LINKS" ${ARGN})
  set(target "weir_${name}")
  if(ARG_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:weir_options>)
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
  list(TRANSFORM ARG_DEPS PREPEND weir::)
  target_link_libraries(${target} ${scope} ${ARG_DEPS} ${ARG_LINKS})
  set_property(GLOBAL APPEND PROPERTY WEIR_LIBRARIES ${target})
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  list(TRANSFORM ARG_HEADERS PREPEND "${folder}/")
  set_property(GLOBAL APPEND PROPERTY WEIR_HEADERS ${ARG_HEADERS})
endfunction()

# weir_test(NAME SOURCES ... DEPS ... [CONCURRENCY])
#
# One test binary per folder under tests/. CONCURRENCY marks the ones the thread sanitizer runs.
function(weir_test name)
  cmake_parse_arguments(ARG "CONCURRENCY" "" "SOURCES;DEPS;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND weir::)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE weir_options ${ARG_DEPS} ${ARG_LINKS}
    GTest::gtest GTest::gmock GTest::gtest_main)
  if(ARG_CONCURRENCY)
    set(label concurrency)
    add_dependencies(concurrency_tests ${name})
  else()
    set(label unit)
  endif()
  add_dependencies(unit_tests ${name})
  gtest_discover_tests(${name} TEST_PREFIX "${name}." NO_PRETTY_VALUES PROPERTIES LABELS ${label} TIMEOUT 300
    DISCOVERY_TIMEOUT 60)
endfunction()
