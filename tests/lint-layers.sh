#!/bin/bash
# Who may include whom: the table "The house" of ARCHITECTURE.md, checked against every #include "...".
# Also: what is safe inside a foreign process calls nothing that allocates, logs or exits.
# Usage: tests/lint-layers.sh [TREE [BUILD]]
set -u
tree=${1:-${top_srcdir:-$(dirname "$0")/..}}
build=${2:-${top_builddir:-}}
faults=0

fault() {
	echo "lint-layers: $*"
	faults=$((faults + 1))
}

declare -A uses
while IFS='|' read -r _ place _ may _; do
	place=$(sed -nE 's/^ *`([^`]*)\/` *$/\1/p' <<<"$place")
	[ -n "$place" ] && uses[$place]=$(tr -d '`,' <<<"$may")
done < <(sed -n '/^| place /,/^$/p' "$tree/ARCHITECTURE.md")
[ ${#uses[@]} -gt 0 ] || { fault "ARCHITECTURE.md has no table of places"; exit 1; }

layer_of() { # PATH: the longest place that it lies in
	local dir=$1
	while [[ $dir == */* ]]; do
		dir=${dir%/*}
		[ -n "${uses[$dir]+set}" ] && { echo "$dir"; return; }
	done
}

n=0
while IFS=: read -r file line text; do
	file=${file#"$tree"/}
	n=$((n + 1))
	header=$(sed -nE 's/^[ \t]*#[ \t]*include[ \t]*"([^"]*)".*/\1/p' <<<"$text")
	from=$(layer_of "$file")
	if [ -z "$from" ]; then
		fault "$file: lies in no place of ARCHITECTURE.md"
	elif [ "$header" = config.h ]; then
		[ "$from" != common ] || fault "$file:$line: common does not depend on how the rest is configured"
	elif [[ $header != */* ]]; then
		# A neighbour is of the same layer.
		[ -f "$tree/${file%/*}/$header" ] || fault "$file:$line: \"$header\": write the path from the top of the tree"
	else
		to=$(layer_of "$header")
		[[ $to == "$from" || " ${uses[$from]} " == *" everything "* || (-n $to && " ${uses[$from]} " == *" $to "*) ]] ||
			fault "$file:$line: $from may not use $header"
	fi
done < <(cd "$tree" && find . -name .git -prune -o -path './tests/machines' -prune -o \( -name '*.[ch]' -o -name '*.def' \) -print |
	sed 's|^\./||' | sort | xargs -r grep -HnE '^[ 	]*#[ 	]*include[ 	]*"')

library=$build/.libs/libcommon.a
[ -f "$library" ] || library=$build/libcommon.a
if [ -n "$build" ] && [ -f "$library" ]; then
	bad=$(nm -u "$library" | awk '{ print $NF }' |
		grep -xE '(malloc|calloc|realloc|free|strn?dup|getline|opendir|.*printf(_chk)?|fopen|fputs|puts|fwrite|perror|syslog|_?exit|abort|__assert_fail|setlocale|strto.*|__isoc.*|getenv)' | sort -u)
	[ -z "$bad" ] || fault "common calls what may allocate, log, exit or look at the locale:" $bad
else
	fault "no libcommon.a below \"$build\" to look at"
fi
echo "lint-layers: $n includes, $faults faults"
[ "$n" -gt 0 ] && [ $faults -eq 0 ]
