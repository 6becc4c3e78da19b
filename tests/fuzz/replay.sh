#!/bin/bash
# The inputs that are kept of each fuzz target, once each, without libFuzzer.
set -u
faults=0 n=0
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
done
echo "$n inputs, $faults faults"
[ "$n" -gt 0 ] && [ "$faults" -eq 0 ]
