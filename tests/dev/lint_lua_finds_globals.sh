#!/usr/bin/env bash
# `scripts/lint-lua` refuses what Redis would: a global that is written, one that is not given, and
# what is no Lua. A name of an included script is no global.
#
#   lint_lua_finds_globals.sh SOURCE_DIR WORK_DIR
set -euo pipefail
lint="$1/scripts/lint-lua"
rm -rf "$2"
mkdir -p "$2"
cd "$2"

refuses() {
  if "$lint" "$1" >out.log 2>&1; then
    echo "$1 is accepted"
    exit 1
  fi
  grep -q -e "$2" out.log || { echo "$1: '$2' is not said, but:"; cat out.log; exit 1; }
}

printf "local key = KEYS[1]\n" >part.lua
printf -- "-- include part.lua\n\nreturn redis.call('GET', key)\n" >good.lua
"$lint" part.lua good.lua

printf "local a = 1\nb = a\n" >writes.lua
refuses writes.lua "writes the global 'b', in: b = a"
printf "local function f()\n  return key\nend\nreturn f()\n" >reads.lua
refuses reads.lua "reads the global 'key', in: return key"
printf "redis = nil\n" >takes.lua
refuses takes.lua "writes the global 'redis'"
printf "return (\n" >broken.lua
refuses broken.lua "unexpected symbol"
