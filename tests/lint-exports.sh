#!/bin/bash
# What libhasten.so shows to the world: its exports are the rows of preload/calls.def and nothing else, it needs
# nothing but libc and the loader, everything is bound at start, and no segment is written or executed that should
# not be.
# Usage: tests/lint-exports.sh [TREE [BUILD]]
set -u
tree=${1:-${top_srcdir:-$(dirname "$0")/..}}
build=${2:-${top_builddir:-.}}
library=$build/.libs/libhasten.so
rows=$tree/preload/calls.def
variadic='execl execle execlp vfork' # calls without a row
faults=0

fault() {
	echo "lint-exports: $*"
	faults=$((faults + 1))
}

[ -f "$library" ] || { fault "$library is not built"; exit 1; }

wanted=$({ sed -n 's/^CALL([^,]*, *\([A-Za-z0-9_]*\),.*/\1/p' "$rows"; tr ' ' '\n' <<<"$variadic"; } | sort)
exported=$(nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort)
n=$(wc -l <<<"$wanted")
[ "$(grep -c '^CALL(' "$rows")" = $((n - 4)) ] || fault "a row of calls.def does not begin with CALL(type, name,"
double=$(uniq -d <<<"$wanted")
[ -z "$double" ] || fault "two rows for one call:" $double
missing=$(comm -23 <(echo "$wanted") <(echo "$exported"))
[ -z "$missing" ] || fault "rows without a function, or one that is not EXPORT:" $missing
extra=$(comm -13 <(echo "$wanted") <(echo "$exported"))
[ -z "$extra" ] || fault "exported without a row:" $extra
kinds=$(nm -D --defined-only "$library" | awk '$2 != "T" { print $3 "(" $2 ")" }')
[ -z "$kinds" ] || fault "exports that are no plain functions:" $kinds

dynamic=$(readelf -dW "$library")
for need in $(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic"); do
	case $need in
	libc.so.6 | ld-linux*.so.* | ld64.so.*) ;;
	libpthread.so.0 | libdl.so.2) ;; # parts of libc before glibc 2.34
	libasan.so.* | libubsan.so.* | libtsan.so.* | liblsan.so.* | libm.so.6 | libgcc_s.so.1)
		[ -n "${SANITIZERS:-}" ] || fault "needs $need" ;;
	*) fault "needs $need" ;;
	esac
done
grep -q 'BIND_NOW\|Flags:.*NOW' <<<"$dynamic" || fault "not bound at start (-z now)"
grep -q 'Flags:.*NODELETE' <<<"$dynamic" || fault "may be unloaded (-z nodelete)"
! grep -q 'TEXTREL' <<<"$dynamic" || fault "relocations in code (TEXTREL)"
! grep -q 'RPATH\|RUNPATH' <<<"$dynamic" || fault "has a RUNPATH: a preloaded library must not say where others are"
segments=$(readelf -lW "$library")
grep -q 'GNU_STACK.* RW ' <<<"$segments" || fault "executable stack"
! grep -q 'LOAD.* RWE ' <<<"$segments" || fault "a segment is writable and executable"
grep -q 'GNU_RELRO' <<<"$segments" || fault "no RELRO"

# Undefined: each name must carry a version of libc (-z defs has looked when it was linked; this sees the result).
open=$(nm -D --undefined-only "$library" | awk '$1 == "U" && $2 !~ /@GLIBC_/ { print $2 }')
# A sanitizer's runtime has functions of its own, without a version, in place of many of libc's.
[ -z "${SANITIZERS:-}" ] || open=
[ -z "$open" ] || fault "undefined and not of libc:" $open

# Its own calls go straight to its own functions: a look-up would find another preload's, and cost at every start.
own=$(comm -12 <(nm -D --undefined-only "$library" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort) <(echo "$wanted"))
[ -z "$own" ] || fault "imports what it exports:" $own

echo "lint-exports: $n calls, $faults faults"
[ $faults -eq 0 ]
