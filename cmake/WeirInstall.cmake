# cmake --install: libraries, public headers, find_package(weir), pkg-config.

include(CMakePackageConfigHelpers)

# weir::weir is the whole embeddable library.
add_library(weir_weir INTERFACE)
add_library(weir::weir ALIAS weir_weir)
set_target_properties(weir_weir PROPERTIES EXPORT_NAME weir)
target_link_libraries(weir_weir INTERFACE weir::engine weir::testing)

get_property(libraries GLOBAL PROPERTY WEIR_LIBRARIES)
get_property(headers GLOBAL PROPERTY WEIR_HEADERS)
install(TARGETS ${libraries} weir_weir EXPORT weirTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
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

# weir::weir for those without CMake: static archives in the order a linker wants them, users before
# what they use.
set(pc_libraries "")
foreach(name IN ITEMS base meter engine testing)
  get_target_property(type weir_${name} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    string(PREPEND pc_libraries " -lweir_${name}")
  endif()
endforeach()
# The file finds its prefix from where it lies, so the package can be moved.
file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/weir.pc.in weir.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/weir.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
