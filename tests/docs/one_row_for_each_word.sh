#!/usr/bin/env bash
# Each word of the glossary stands in one row. One that means several things says of what it is in
# each, as `epoch (of Redis)`, and never stands alone.
#
#   one_row_for_each_word.sh GLOSSARY
set -euo pipefail

awk -F'|' '
  # A table begins below its head and the rule under it; there is one for each part of Weir.
  !/^\|/ { is_table = 0 }
  /^\|-/ { is_table = 1; next }
  /^\|/ && is_table {
    rows += 1
    count = split($2, words, ",")
    for (i = 1; i <= count; i++) {
      word = words[i]
      gsub(/^ +| +$/, "", word)
      bare = word
      sub(/ \(.*\)$/, "", bare)
      if (word in line) fail(word, line[word])
      else if (word != bare && bare in line) fail(bare, line[bare])
      else if (word == bare && bare in qualified) fail(bare, qualified[bare])
      line[word] = FNR
      if (word != bare) qualified[bare] = FNR
    }
  }
  function fail(word, before) {
    printf "%s:%d: \"%s\" has a row already, in line %d; merge them, or say of what each is: %s (of …)\n",
      FILENAME, FNR, word, before, word
    failed = 1
  }
  END {
    if (rows == 0) { print FILENAME ": found no table of words"; failed = 1 }
    exit failed
  }
' "$1"
