# cmake --install: one library, its public headers, find_package(weir), pkg-config.

include(CMakePackageConfigHelpers)

# weir::weir is the whole embeddable library: static, or shared with BUILD_SHARED_LIBS. It is made of
# the folders below, which the rest of weir links one by one.
add_library(weir_weir $<TARGET_OBJECTS:weir_base> $<TARGET_OBJECTS:weir_meter>
                      $<TARGET_OBJECTS:weir_engine>)
add_library(weir::weir ALIAS weir_weir)
# While the version begins with 0, a minor one may break what is linked against another.
set_target_properties(weir_weir PROPERTIES OUTPUT_NAME weir EXPORT_NAME weir LINKER_LANGUAGE CXX
  VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
target_compile_features(weir_weir INTERFACE cxx_std_20)
target_include_directories(weir_weir INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(weir_weir PRIVATE fmt::fmt Threads::Threads)

if(BUILD_SHARED_LIBS)
  set(WEIR_IS_STATIC OFF)
else()
  set(WEIR_IS_STATIC ON)
endif()

get_property(headers GLOBAL PROPERTY WEIR_PUBLIC_HEADERS)
install(TARGETS weir_weir EXPORT weirTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(header IN LISTS headers)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/weirConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/weirConfigVersion.cmake"
        DESTINATION "${package_dir}")

# A shared library brings fmt along; who links a static one links fmt, too.
if(WEIR_IS_STATIC)
  set(pc_requires "Requires: fmt")
else()
  set(pc_requires "Requires.private: fmt")
endif()
# The file finds its prefix from where it lies, so the package can be moved.
file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/weir.pc.in weir.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/weir.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
