#!/bin/bash
# Runs the small benchmark programs plain and preloaded in turn and prints both beside each other. See --help.
set -u
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	cat <<END
Usage: bench/run.sh [OPTION...] [ROW...]

Runs each ROW once plain and once preloaded in every round (the first of the two changes from round to round) and prints
for each figure the medians, and median and range of the ratio preloaded / plain of the same round. Rows:

$(rows | sed 's/^\([^|]*\)|[^|]*|[^|]*|\(.*\)/  \1\t\2/' | expand -t 20)

  -B, --build DIR      build tree (default: \$top_builddir, else the current folder)
  -l, --library FILE   library to preload (default: BUILD/.libs/libhasten.so)
  -r, --rounds N       rounds (default 5)
  -t, --time S         seconds of one measurement (default 1)
  -o, --output FILE    also write every value: row, figure, unit, round, plain, preloaded; tab separated
  -h, --help           print this

A preloaded run of a row with "lane" counts only where at least half of its bytes went by lane, of a row with "kernel"
only where none did; the table says so, and the exit status is 1. 2 is wrong usage.
END
}

# name | which ends are preloaded | lane, kernel or none: what its bytes must do | what
rows() {
	cat <<END
rr|both|lane|rr -t %t|request-response of one byte, both ends blocking
rr-64|both|lane|rr -c 64 -t %t|the same on 64 connections through epoll
crr|both|none|crr -t %t|connect, request, close
stream-16k|both|lane|stream -s 16384 -t %t|bulk stream, blocks of 16 KiB
stream-128k|both|lane|stream -s 131072 -t %t|bulk stream, blocks of 128 KiB
stream-1m|both|lane|stream -s 1048576 -t %t|bulk stream, blocks of 1 MiB
idle-1000|both|lane|idle -n 1000 -t %t|1,000 idle connections and an active one
idle-10000|both|lane|idle -n 10000 -t %t|10,000 of them
plainfd|both|none|plainfd -t %t|cost of a call on a descriptor that is no TCP socket
rr-server-only|server|kernel|rr -t %t|request-response, only the server is preloaded
rr-client-only|client|kernel|rr -t %t|only the client is
crr-server-only|server|kernel|crr -t %t|connect, request, close: only the server is preloaded
crr-client-only|client|kernel|crr -t %t|only the client is
stream-client-only|client|kernel|stream -t %t|bulk stream, only the sender is preloaded
stream-server-only|server|kernel|stream -t %t|only the receiver is
END
}

die() {
	echo "bench/run.sh: $*" >&2
	exit 2
}

build=${top_builddir:-.} library='' rounds=5 time=1 output='' wanted=()
while [ $# -gt 0 ]; do
	case $1 in
	-B | --build) build=${2:?}; shift ;;
	-l | --library) library=${2:?}; shift ;;
	-r | --rounds) rounds=${2:?}; shift ;;
	-t | --time) time=${2:?}; shift ;;
	-o | --output) output=${2:?}; shift ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) wanted+=("$1") ;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds $rounds: a whole number from 1 is needed"
[[ $time =~ ^[0-9]*\.?[0-9]+$ ]] || die "--time $time: a number of seconds is needed"
build=$(cd "$build" 2>/dev/null && pwd) || die "no such build tree: $build"
library=$(realpath -e "${library:-$build/.libs/libhasten.so}" 2>/dev/null) || die "no library $library; run make, or use --library"
[ -x "$build/bench/rr" ] || die "no $build/bench/rr; run make, or use --build"
[ ${#wanted[@]} -gt 0 ] || mapfile -t wanted < <(rows | cut -d'|' -f1 | grep -vx idle-10000)
for row in "${wanted[@]}"; do
	rows | grep -q "^$row|" || die "no row \"$row\"; bench/run.sh --help lists them"
done

scratch=$(mktemp -d) || exit 1
child=
end() {
	[ -z "$child" ] || kill "$child" 2>/dev/null
	rm -rf "$scratch"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

measure() { # ROW SIDE ROUND
	local name ends bytes command what limit
	IFS='|' read -r name ends bytes command what < <(rows | grep "^$1|")
	local -a set=(-u LD_PRELOAD -u BENCH_SERVER_PRELOAD -u BENCH_CLIENT_PRELOAD -u HASTEN_COUNTERS)
	local counters=$scratch/counters
	rm -f "$counters"
	[ "$2" = plain ] || case $ends in
	both) set+=("LD_PRELOAD=$library" "HASTEN_COUNTERS=$counters") ;;
	server) set+=("BENCH_SERVER_PRELOAD=$library" "HASTEN_COUNTERS=$counters") ;;
	client) set+=("BENCH_CLIENT_PRELOAD=$library" "HASTEN_COUNTERS=$counters") ;;
	esac
	limit=$(awk -v t="$time" 'BEGIN { print int(t * 10) + 60 }')
	# shellcheck disable=SC2086
	env "${set[@]}" timeout --foreground "$limit" "$build/bench/"${command//%t/$time} >"$scratch/out" 2>"$scratch/err" </dev/null &
	child=$!
	wait "$child"
	local status=$?
	child=
	if [ $status != 0 ]; then
		printf 'error\t%s\t%s\t%s\t%s\n' "$1" "$3" "$2" "status $status: $(tail -1 "$scratch/err")" >>"$scratch/notes"
		return
	fi
	awk -v row="$1" -v side="$2" -v round="$3" 'NF >= 3 { print row "\t" $1 "\t" (NF > 3 ? $3 : "-") "\t" $NF "\t" round "\t" side "\t" $2 }' \
		"$scratch/out" >>"$scratch/values"
	[ "$2" = plain ] || check_bytes "$1" "$3" "$bytes" "$counters"
}

# HASTEN_COUNTERS has a line for each process: pid, program, lane bytes out and in, kernel bytes out and in, ...
check_bytes() { # ROW ROUND RULE FILE
	local lane kernel
	if [ "$3" = none ]; then
		return
	elif [ ! -s "$4" ]; then
		[ "$3" = kernel ] || printf 'bytes\t%s\t%s\t%s\n' "$1" "$2" "no lane at all: the numbers compare plain with plain" >>"$scratch/notes"
		return
	fi
	read -r lane kernel < <(awk '{ l += $3 + $4; k += $5 + $6 } END { printf "%.0f %.0f\n", l, k }' "$4")
	if [ "$3" = lane ] && [ "$lane" -le "$kernel" ]; then
		printf 'bytes\t%s\t%s\t%s\n' "$1" "$2" "$lane bytes by lane, $kernel by the kernel" >>"$scratch/notes"
	elif [ "$3" = kernel ] && [ "$lane" -gt 0 ]; then
		printf 'bytes\t%s\t%s\t%s\n' "$1" "$2" "$lane bytes by lane where none can" >>"$scratch/notes"
	fi
}

: >"$scratch/values"
: >"$scratch/notes"
done_runs=0
for ((round = 1; round <= rounds; round++)); do
	for row in "${wanted[@]}"; do
		sides=(plain preloaded)
		[ $((round % 2)) = 1 ] || sides=(preloaded plain)
		for side in "${sides[@]}"; do
			done_runs=$((done_runs + 1))
			note="[$done_runs/$((2 * rounds * ${#wanted[@]}))] round $round of $rounds  $row  $side"
			if [ -t 2 ]; then printf '\r\033[K%s' "$note" >&2; else echo "$note" >&2; fi
			measure "$row" "$side" "$round"
		done
	done
done
[ ! -t 2 ] || printf '\r\033[K' >&2

echo
echo "$rounds rounds, plain and preloaded in turn, $(nproc) CPUs, Linux $(uname -r)"
echo
[ -z "$output" ] || printf 'row\tfigure\tunit\tround\tplain\tpreloaded\n' >"$output"
awk -F'\t' -v output="$output" '
function number(v) { return v == "" ? "-" : v >= 1000 ? sprintf("%.0f", v) : sprintf("%.4g", v) }
function median(list, n,   i, j, t) {
	for (i = 2; i <= n; i++) { t = list[i]; for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]; list[j + 1] = t }
	return n == 0 ? "" : n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
{
	key = $1 "\t" $2
	if (!(key in unit)) { order[++keys] = key; unit[key] = $3; better[key] = $4 }
	value[key, $6, $5] = $7
	if ($5 > rounds) rounds = $5
}
END {
	printf "%-20s %-19s %-15s %11s %11s  %-28s %s\n", "row", "figure", "unit", "plain", "preloaded", "preloaded / plain (range)", "good"
	for (k = 1; k <= keys; k++) {
		key = order[k]; split(key, name, "\t"); np = nf = nr = 0
		for (r = 1; r <= rounds; r++) {
			p = value[key, "plain", r]; f = value[key, "preloaded", r]
			if (p != "") plain[++np] = p + 0
			if (f != "") fast[++nf] = f + 0
			# What plain has next to none of has no ratio.
			if (p + 0 > 0 && f != "" && unit[key] != "%" && unit[key] != "KiB/connection") ratio[++nr] = f / p
			if (output != "") printf "%s\t%s\t%s\t%s\t%s\t%s\n", name[1], name[2], unit[key], r, p, f >> output
		}
		mp = median(plain, np); mf = median(fast, nf); mr = median(ratio, nr)
		printf "%-20s %-19s %-15s %11s %11s  %-28s %s\n", name[1] == last ? "" : name[1], name[2], unit[key], number(mp), number(mf),
			nr ? sprintf("%.3f  (%.3f - %.3f)", mr, ratio[1], ratio[nr]) : "-", better[key]
		last = name[1]
	}
}' "$scratch/values"
status=0
while IFS=$'\t' read -r kind row round a b; do
	status=1
	case $kind in
	error) echo "FAILED: $row, round $round, $a: $b" ;;
	bytes) echo "NOT WHAT IT SAYS: $row, round $round: $a" ;;
	esac
done <"$scratch/notes"
exit $status
