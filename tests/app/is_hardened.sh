#!/usr/bin/env bash
# Whether a program has what makes a fault in memory end it rather than run another's code.
#
#   is_hardened.sh PROGRAM
set -euo pipefail
program=$1
failed=0

# has WHAT PATTERN READELF-OPTION...
has() {
  local what=$1 pattern=$2
  shift 2
  readelf -W "$@" "$program" | grep -- "$pattern" >/dev/null && return
  echo "$program: no $what" >&2
  failed=1
}

has 'position-independent code' 'Type: *DYN .*Position-Independent Executable' --file-header
has 'read-only relocations' GNU_RELRO --program-headers
has 'binding at start' 'BIND_NOW\|Flags: .*NOW' --dynamic
has 'stack that is not executable' 'GNU_STACK.* RW ' --program-headers
has 'stack protector' __stack_chk_fail --dyn-syms
has 'fortified call of libc' '__[a-z]*_chk@' --dyn-syms
exit $failed
