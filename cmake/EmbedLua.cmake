# Embeds Lua scripts: run by weir_lua() when one of them changes, and by scripts/lint.
#
#   cmake -DSCRIPTS=a.lua;b.lua -DOUTPUT=lua.h -DNAMESPACE=weir::x -P EmbedLua.cmake
#   cmake -DSCRIPTS=a.lua -DOUTPUT=whole.lua -P EmbedLua.cmake
#
# The first lines of a script may name others of its folder that stand before it, each once:
#
#   -- include meters.lua
#
# With a NAMESPACE the output is a header with a constant for each script, kOneBucket for
# one_bucket.lua. Without, it is the text of the scripts themselves.

cmake_minimum_required(VERSION 3.25)

# Appends the script to the variable `whole`, after what it includes. Text, never a list: Lua has
# brackets and semicolons.
function(append_script path)
  get_property(seen GLOBAL PROPERTY SEEN)
  if(path IN_LIST seen)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY SEEN "${path}")
  get_filename_component(folder "${path}" DIRECTORY)
  file(READ "${path}" text)
  while("${text}" MATCHES "^-- include ([a-z_]+\\.lua)\n")
    append_script("${folder}/${CMAKE_MATCH_1}")
    string(LENGTH "${CMAKE_MATCH_0}" length)
    string(SUBSTRING "${text}" ${length} -1 text)
  endwhile()
  get_property(whole GLOBAL PROPERTY WHOLE)
  set_property(GLOBAL PROPERTY WHOLE "${whole}${text}")
endfunction()

set(output "")
foreach(script IN LISTS SCRIPTS)
  set_property(GLOBAL PROPERTY SEEN "")
  set_property(GLOBAL PROPERTY WHOLE "")
  append_script("${script}")
  get_property(whole GLOBAL PROPERTY WHOLE)
  if(NOT NAMESPACE)
    string(APPEND output "${whole}")
    continue()
  endif()
  get_filename_component(words "${script}" NAME_WE)
  string(REPLACE "_" ";" words "${words}")
  set(name "k")
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(APPEND name "${first}${rest}")
  endforeach()
  string(APPEND output "inline constexpr std::string_view ${name} = R\"lua(${whole})lua\";\n\n")
endforeach()
if(NAMESPACE)
  set(output "// Made from Lua scripts by cmake/EmbedLua.cmake.

#pragma once

#include <string_view>

namespace ${NAMESPACE} {

${output}}  // namespace ${NAMESPACE}
")
endif()
file(WRITE "${OUTPUT}" "${output}")
