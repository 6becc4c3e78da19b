#!/usr/bin/env bats
# hasten bench redis from outside. Redis itself is real; the library is one that accelerates nothing where the
# test is about that, and clients that misbehave are scripts.

setup() {
	hasten=$top_builddir/hasten
	nothing=$top_builddir/tests/unit/.libs/preload_nothing.so
	export TMPDIR=$BATS_TEST_TMPDIR
	command -v redis-server redis-benchmark redis-cli >"$BATS_TEST_TMPDIR/programs" || skip "Redis is not installed"
	# The preloaded ends would refuse to start behind a library that wants the sanitizers' runtime first.
	[ -z "${SANITIZERS:-}" ] || nothing=
}

# A folder with the real server and a client that the test writes.
fake_benchmark() {
	mkdir "$BATS_TEST_TMPDIR/bin"
	ln -s "$(command -v redis-server)" "$(command -v redis-cli)" "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/sh\n%s\n' "$1" >"$BATS_TEST_TMPDIR/bin/redis-benchmark"
	chmod +x "$BATS_TEST_TMPDIR/bin/redis-benchmark"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# Ended: gone, or a zombie that its new parent has not looked at.
ended() {
	local state
	state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) || return 0
	[ -z "$state" ] || [ "$state" = Z ]
}

no_leftovers() {
	[ -z "$(compgen -G "$BATS_TEST_TMPDIR/hasten-bench.*")" ]
}

@test "--list names every scenario, as a document too" {
	run "$hasten" bench redis --list
	[ "$status" -eq 0 ]
	for name in netacc netacc1 knet knet1 default50 default50-p16 lrange mset p8 big single quiet latency latency-history \
		intrinsic memtier limit; do
		grep -q "^$name " <<<"$output"
	done
	[ "$("$hasten" bench redis --list --json | jq '.scenarios | length')" -eq 17 ]
}

@test "wrong arguments are named and nothing is started" {
	for wrong in "--scenario netacc1,foo" "--scenario ," "--rounds 0" "--rounds x" "--requests -5" "--requests 0" \
		"--duration nan" "--chart out.png" "--timeout 0" "extra" "--requests 5 --duration 2"; do
		# shellcheck disable=SC2086
		run "$hasten" bench redis $wrong
		[ "$status" -eq 64 ]
		[[ $output == "hasten bench: "* ]]
	done
	run "$hasten" bench memcached
	[ "$status" -eq 64 ]
	[[ $output == *'"memcached"'* ]]
	run "$hasten" bench redis --library /nonexistent/lib.so
	[ "$status" -eq 1 ]
	[[ $output == *"/nonexistent/lib.so"* ]]
}

@test "without Redis it says what to install" {
	PATH=$BATS_TEST_TMPDIR run "$hasten" bench redis
	[ "$status" -eq 1 ]
	[[ $output == *"apt-get install redis-server redis-tools"* ]]
}

@test "two plain runs are not called a result" {
	[ -n "$nothing" ] || skip "no plain library in a build with sanitizers"
	run "$hasten" bench redis --scenario netacc1,limit --requests 2000 --rounds 2 --no-progress --library "$nothing"
	[ "$status" -eq 1 ]
	[[ $output == *"NOT ACCELERATED"*"compare plain with plain"* ]]
	[[ $output != *"of the pipelined limit"* ]]
	no_leftovers
	"$hasten" bench redis --scenario netacc1,memtier --requests 2000 --rounds 1 --no-progress --library "$nothing" --json \
		--chart "$BATS_TEST_TMPDIR/c.svg" >"$BATS_TEST_TMPDIR/json" 2>"$BATS_TEST_TMPDIR/err" || true
	run jq -c '.scenarios[] | [.id, .status, .tests[0].ratio]' "$BATS_TEST_TMPDIR/json"
	[ "${lines[0]}" = '["netacc1","not_accelerated",null]' ]
	grep -q "no accelerated result to draw" "$BATS_TEST_TMPDIR/err"
}

@test "an accelerated run went by lane, and has a ratio and a drawing" {
	run "$hasten" bench redis --scenario netacc1,single --requests 20000 --rounds 2 --no-progress --json \
		--chart "$BATS_TEST_TMPDIR/c.html"
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.scenarios[].status]' <<<"$output")" = '["ok","ok"]' ]
	[ "$(jq '[.scenarios[].accelerated.lane_share.min] | min > 0.5' <<<"$output")" = true ]
	[ "$(jq '.scenarios[0].tests[0].ratio.rounds | length' <<<"$output")" -eq 2 ]
	[ "$(jq '.scenarios[1].tests | length' <<<"$output")" -eq 2 ]
	grep -q '<svg ' "$BATS_TEST_TMPDIR/c.html"
	grep -q '</svg>' "$BATS_TEST_TMPDIR/c.html"
	no_leftovers
}

@test "bench/run.sh prints figures of both sides and names a row whose bytes went elsewhere" {
	[ -z "${SANITIZERS:-}" ] || skip "a build with sanitizers is not measured"
	run "$top_srcdir/bench/run.sh" -B "$top_builddir" -r 2 -t 0.2 rr rr-server-only plainfd -o "$BATS_TEST_TMPDIR/values"
	[ "$status" -eq 0 ]
	[[ $output =~ rr\ +requests\ +/s ]]
	[[ $output =~ plainfd\ +pipe-write-read\ +ns ]]
	[ "$(awk -F'\t' '$1 == "rr" && $2 == "requests" && $5 > 0 && $6 > 0' "$BATS_TEST_TMPDIR/values" | wc -l)" -eq 2 ]
	run "$top_srcdir/bench/run.sh" -B "$top_builddir" -l "$nothing" -r 1 -t 0.1 rr
	[ "$status" -eq 1 ]
	[[ $output == *"NOT WHAT IT SAYS: rr, round 1"* ]]
	run "$top_srcdir/bench/run.sh" -B "$top_builddir" nosuchrow
	[ "$status" -eq 2 ]
}

@test "a plain side that is accelerated as well is a failure and not a comparison" {
	[ -z "${SANITIZERS:-}" ] || skip "a library that wants the sanitizers' runtime cannot be preloaded here"
	LD_PRELOAD=$top_builddir/.libs/libhasten.so run "$hasten" bench redis --scenario netacc1 --requests 20000 --rounds 1 \
		--no-progress
	[ "$status" -eq 1 ]
	[[ $output == *"the plain server is accelerated too"* ]]
}

@test "memtier_benchmark that is not installed is skipped with that reason" {
	command -v memtier_benchmark && skip "memtier_benchmark is installed"
	run "$hasten" bench redis --scenario memtier --no-progress
	[ "$status" -eq 0 ]
	[[ $output == *"memtier "*"skipped: memtier_benchmark is not in PATH"* ]]
}

@test "a client that hangs is ended after --timeout and named" {
	fake_benchmark 'exec sleep 1000'
	run "$hasten" bench redis --scenario netacc1 --rounds 2 --timeout 1 --no-progress
	[ "$status" -eq 1 ]
	[[ $output == *"FAILED: round 1, plain: the client did not end within 1 s"* ]]
	no_leftovers
}

@test "a client that fails is named with its status and last words" {
	fake_benchmark 'echo boom >&2; exit 3'
	run "$hasten" bench redis --scenario netacc1 --rounds 1 --no-progress
	[ "$status" -eq 1 ]
	[[ $output == *"status 3; its last words: boom"* ]]
	no_leftovers
}

@test "a client that prints nonsense gives no result" {
	fake_benchmark 'echo nonsense'
	run "$hasten" bench redis --scenario netacc1 --rounds 1 --no-progress
	[ "$status" -eq 1 ]
	[[ $output == *"printed no result"* ]]
}

@test "Ctrl-C ends it at once and leaves no process and no file" {
	"$hasten" bench redis --scenario netacc1 --rounds 50 >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	bench=$!
	for _ in $(seq 100); do
		pgrep -P "$bench" redis-benchmar && break
		sleep 0.05
	done
	children=$(pgrep -P "$bench")
	kill -TERM "$bench"
	rc=0
	wait "$bench" || rc=$?
	[ "$rc" -eq 143 ]
	[ -n "$children" ]
	for child in $children; do
		ended "$child"
	done
	no_leftovers
}

@test "its children die with it when it is killed" {
	"$hasten" bench redis --scenario netacc1 --rounds 50 >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	bench=$!
	for _ in $(seq 100); do
		pgrep -P "$bench" redis-benchmar && break
		sleep 0.05
	done
	children=$(pgrep -P "$bench")
	kill -KILL "$bench"
	wait "$bench" || true
	sleep 0.2
	[ -n "$children" ]
	for child in $children; do
		ended "$child"
	done
}
