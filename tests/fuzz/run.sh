#!/bin/bash
# Fuzz what reads input that others write. Usage: tests/fuzz/run.sh [SECONDS [TARGET...]], 30 s for each of all.
# top_builddir: where config.h is, for the target peer.
# Exit status: 0 nothing found, 1 a fault (its input stays in the printed folder), 77 clang has no libFuzzer here.
set -u
build_tree=$(cd "${top_builddir:-$(dirname "$0")/../..}" && pwd) || exit 1
cd "${top_srcdir:-$(dirname "$0")/../..}" || exit 1
seconds=${1:-30}
shift || true

sources_of() { # TARGET: what it is linked with
	case $1 in
	options) echo common/options.c common/options_load.c common/options_rule.c ;;
	peer) grep -oE 'preload/[a-z/_]+\.c( |$)' preload/local.mk | tr -d ' ' | sort -u && ls common/*.c ;;
	profile) echo agent/profile/{expr,expr_facts,field,parse,suggest,value}.c agent/detect/takeable.c agent/sys/{cpumask,error,net,yaml}.c -lyaml ;;
	manifest) echo agent/driver/{manifest,dkms,signature}.c agent/sys/*.c -lyaml -lmnl -ljson-c -lcrypto ;;
	control) echo agent/daemon/{control,ask,watch,log}.c agent/sys/*.c -lyaml -lmnl -ljson-c -lsystemd ;;
	*) echo "fuzz: no target \"$1\"" >&2; return 1 ;;
	esac
}

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
	for file in tests/fuzz/fuzz_*.c; do
		name=${file##*/fuzz_}
		targets+=("${name%.c}")
	done
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/hasten-fuzz.XXXXXX") || exit 1
faults=0
for target in "${targets[@]}"; do
	sources=$(sources_of "$target") || exit 1
	# shellcheck disable=SC2086 # a list of words
	if ! clang -std=gnu17 -g -O1 -D_GNU_SOURCE -DSYSCONFDIR='"/etc"' -DPKGLIBDIR='"/usr/lib/hasten"' -DWITH_LIBFUZZER \
		-I. -I"$build_tree" -U_FORTIFY_SOURCE -ftls-model=initial-exec -pthread \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-o "$work/$target" "tests/fuzz/fuzz_$target.c" $sources 2>"$work/$target.log"; then
		cat "$work/$target.log" >&2
		# only a missing libFuzzer is a reason to skip: a program of ours that does not build is a fault
		if echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return 0; }' |
			clang -fsanitize=fuzzer,address -x c -o "$work/none" - 2>/dev/null; then
			echo "fuzz: $target does not build" >&2
			exit 1
		fi
		echo "fuzz: no libFuzzer with clang here (Debian: clang, libclang-rt-14-dev)" >&2
		exit 77
	fi
	mkdir -p "$work/$target.corpus" "$work/run"
	if HASTEN_RUN_DIR="$work/run" "$work/$target" -max_total_time="$seconds" -max_len=4096 -artifact_prefix="$work/" -print_final_stats=1 \
		"$work/$target.corpus" "tests/fuzz/corpus/$target" >"$work/$target.log" 2>&1; then
		echo "fuzz: $target: nothing found in ${seconds}s, $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target.log") inputs"
	else
		tail -n 30 "$work/$target.log" >&2
		echo "fuzz: $target: a fault; its input is in $work" >&2
		faults=1
	fi
done
[ $faults -eq 1 ] || rm -rf "$work"
exit $faults
