# What the installed package and the programs built against it are made of.

# Sets `is_current` in the caller to whether `stamp` exists and is newer than every part: headers and
# archives, what the build files and cmake/ say about them, the example, the page (it holds one too)
# and the tests themselves.
function(compare_with_parts stamp source_dir build_dir)
  file(GLOB_RECURSE parts "${source_dir}/weir/*.h" "${source_dir}/weir/CMakeLists.txt"
       "${source_dir}/cmake/*" "${source_dir}/examples/embed/*" "${source_dir}/tests/embed/*"
       "${build_dir}/weir/*.a")
  list(APPEND parts "${source_dir}/CMakeLists.txt" "${source_dir}/docs/reference/library.md")
  set(is_current ON PARENT_SCOPE)
  foreach(part IN LISTS parts)
    if("${part}" IS_NEWER_THAN "${stamp}")  # also if one of them is not there
      set(is_current OFF PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
