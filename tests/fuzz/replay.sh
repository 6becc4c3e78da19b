#!/bin/bash
# The inputs that are kept of each fuzz target, once each, without libFuzzer; a hostile peer for some seconds more.
set -u
faults=0 n=0
HASTEN_RUN_DIR=$(mktemp -d "${TMPDIR:-/tmp}/hasten-replay.XXXXXX") || exit 1
export HASTEN_RUN_DIR
trap 'rm -rf "$HASTEN_RUN_DIR"' EXIT
for program in "$top_builddir"/tests/fuzz/fuzz_*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	target=${program##*/fuzz_}
	for input in "$top_srcdir/tests/fuzz/corpus/$target"/*; do
		n=$((n + 1))
		if ! "$program" <"$input"; then
			echo "$program fails with $input"
			faults=$((faults + 1))
		fi
	done
	[ "$target" = peer ] || continue
	if ! "$program" -r 4 $$; then
		echo "$program fails with random inputs of seed $$"
		faults=$((faults + 1))
	fi
done
echo "$n inputs, $faults faults"
[ "$n" -gt 0 ] && [ "$faults" -eq 0 ]
