#!/bin/bash
# Programs with many threads under ThreadSanitizer: the ring and its wake-ups, then whole conform programs with the
# library linked in. Usage: tests/race.sh [SECONDS]. Status: 0 no race, 1 a race or a fault, 77 no ThreadSanitizer here.
set -u
source_tree=$(cd "${top_srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
build_tree=$(cd "${top_builddir:-$source_tree}" && pwd) || exit 1
seconds=${1:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/hasten-race.XXXXXX") || exit 1
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
cd "$source_tree" || exit 1
mapfile -t sources < <(grep -oE 'preload/[a-z/_]+\.c( |$)' preload/local.mk | tr -d ' ' | sort -u)
flags=(-std=gnu17 -D_GNU_SOURCE -DSYSCONFDIR='"/etc"' -DPKGLIBDIR='"/usr/lib/hasten"' -I. -I"$build_tree" -g -O1
	-U_FORTIFY_SOURCE -ftls-model=initial-exec -pthread -fsanitize=thread)
# gcc's runtime does not come up where the kernel spreads addresses wider than it expects
run=(env TSAN_OPTIONS="exitcode=66 halt_on_error=0 atexit_sleep_ms=0 suppressions=$source_tree/tests/race.supp" setarch -R timeout 120)

if ! echo 'int main(void) { return 0; }' | ${CC:-gcc} -fsanitize=thread -x c -o "$work/none" - 2>/dev/null || ! "${run[@]}" "$work/none"; then
	echo "no ThreadSanitizer with ${CC:-gcc} here (Debian: libtsan2)"
	exit 77
fi
faults=0
for file in "${sources[@]}" common/options.c common/options_load.c common/options_rule.c common/reasons.c; do
	plain=()
	# the runtime itself asks for limits before it is ready
	[ "$file" != preload/proc/limits.c ] || plain=(-fno-sanitize=thread)
	${CC:-gcc} "${flags[@]}" "${plain[@]}" -c -o "$work/$(tr / _ <<<"$file").o" "$file" || exit 1
done
check() { # NAME FILE ARGUMENT...
	local name=$1 file=$2
	shift 2
	${CC:-gcc} "${flags[@]}" -o "$work/$name" "$file" "$work"/*.o || exit 1
	if "${run[@]}" "$work/$name" "$@" >"$work/$name.log" 2>&1; then
		echo "ok $name: $(tail -n 1 "$work/$name.log")"
	else
		echo "not ok $name: status $?"
		head -n 60 "$work/$name.log"
		faults=1
	fi
}
check stress_ring tests/unit/stress_ring.c "$seconds"
export HASTEN_PROMOTE=eager
for name in threads epoll-workers epoll-flags close-while churn shared-sets waits; do
	check "$name" "tests/conform/$name.c"
done
exit $faults
