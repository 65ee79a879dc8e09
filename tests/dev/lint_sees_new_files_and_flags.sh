#!/usr/bin/env bash
# `./dev lint` tells clang-tidy how files compile now, not how they did when it ran first: a file or
# a flag that came since is in build/lint/compile_commands.json.
#
#   lint_sees_new_files_and_flags.sh SOURCE_DIR WORK_DIR
set -euo pipefail
source_dir=$1
work_dir=$2

rm -rf "$work_dir"
mkdir -p "$work_dir/scripts"
cd "$work_dir"
cp "$source_dir/dev" .
: >scripts/packages.txt  # nothing to install
printf '#!/bin/sh\n' >scripts/lint  # what the tools say does not matter here
chmod +x scripts/lint
touch old.cc new.cc
cat >CMakePresets.json <<'EOF'
{
  "version": 6,
  "configurePresets": [
    {
      "name": "dev",
      "generator": "Ninja",
      "binaryDir": "${sourceDir}/build/dev",
      "cacheVariables": { "CMAKE_EXPORT_COMPILE_COMMANDS": "ON" }
    }
  ]
}
EOF

project() {
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(few LANGUAGES CXX)\n%s\n' "$1" >CMakeLists.txt
}
lint() { ./dev lint 2>lint.log || { cat lint.log; exit 1; }; }
expect() {
  grep -q -e "$1" build/lint/compile_commands.json || {
    echo "build/lint/compile_commands.json does not have '$1' after $2"
    exit 1
  }
}

project 'add_library(few old.cc)'
lint
expect old.cc 'the first run'

project 'add_library(few old.cc new.cc)'
lint
expect new.cc 'a file was added'

project 'add_library(few old.cc new.cc)
target_compile_options(few PRIVATE -Wshadow)'
lint
expect -Wshadow 'a flag was added'
