#!/usr/bin/env bats
# Programs that move much or measure: curl, wget, iperf3, sockperf, rsync, ssh.

load ../common

setup() {
	prepare
	need ss
	count_bytes
	port=$(free_port)
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

iperf() { # both|server|client|neither
	need iperf3 jq
	ends "$1"
	start "$server" iperf3 -s -B 127.0.0.1 -p "$port"
	wait_port "$port"
	local options how sent=0 each=$(($(seconds 6) / 6))
	local -a every=("-P 4" "--bidir" "-n 300M -l 1M")
	[ "$1" != both ] || every+=("-R -P 2" "-N -l 100" "-Z")
	for options in "${every[@]}"; do
		# shellcheck disable=SC2086
		if [[ $options == *-n* ]]; then how=; else how="-t $each"; fi
		under "$client" timeout $((each + 60)) iperf3 -c 127.0.0.1 -p "$port" -J $how $options >"$dir/json" || { cat "$dir/json"; return 1; }
		# Both ends count what they moved, and tell each other.
		jq -e '.end.sum_received.bytes > 0 and .end.sum_sent.bytes >= .end.sum_received.bytes' "$dir/json"
		sent=$((sent + $(jq .end.sum_received.bytes "$dir/json")))
	done
	figure "$sent bytes received"
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "iperf3: both ends accelerated" {
	iperf both
}

@test "iperf3: the server accelerated" {
	iperf server
}

@test "iperf3: the client accelerated" {
	iperf client
}

sock() { # both|server|client|neither
	need sockperf
	ends "$1"
	start "$server" sockperf server --tcp -i 127.0.0.1 -p "$port"
	wait_port "$port"
	# Every message is numbered; it says which were lost, doubled or out of order.
	local how
	for how in "under-load --mps 20000 -m 1000" "ping-pong -m 200 --data-integrity"; do
		# shellcheck disable=SC2086
		under "$client" timeout $(($(seconds 1) + 60)) sockperf $how --tcp -i 127.0.0.1 -p "$port" -t "$(seconds 1)" >"$dir/sockperf" 2>&1
		grep -i 'dropped\|total\|error' "$dir/sockperf" || :
		[ "$(grep -c '# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0' "$dir/sockperf")" = 1 ]
		none_of 'data integrity test failed' "$dir/sockperf"
		figure "${how%% *}: $(grep -o 'ReceivedMessages=[0-9]*' "$dir/sockperf" | tail -1)"
		[ "$1" = both ] || break
	done
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "sockperf: both ends accelerated" {
	sock both
}

@test "sockperf: the server accelerated" {
	sock server
}

@test "sockperf: the client accelerated" {
	sock client
}

# Downloads and uploads of curl and wget with a small server of Python's own.
web() { # both|server|client|neither
	need python3 curl wget
	ends "$1"
	mkdir "$dir/www"
	local size
	for size in 10 5000 300000 20000000; do head -c $size /dev/urandom >"$dir/www/$size"; done
	(cd "$dir/www" && exec "$BASH" -c 'exec "$@"' "$BASH" $([ "$server" != accelerated ] || echo "$hasten" run) \
		python3 -m http.server --protocol HTTP/1.1 --bind 127.0.0.1 "$port" >>"$dir/log" 2>&1 </dev/null 3>&-) &
	echo $! >>"$started"
	wait_port "$port"
	for size in 10 5000 300000 20000000; do
		under "$client" curl -sS --max-time 20 "http://127.0.0.1:$port/$size" | cmp - "$dir/www/$size"
		under "$client" wget -q -T 20 -t 1 -O - "http://127.0.0.1:$port/$size" | cmp - "$dir/www/$size"
	done
	# All of them over one connection, slowly.
	local -a wanted=()
	for size in 10 5000 300000 20000000; do wanted+=(-o "$dir/got-$size" "http://127.0.0.1:$port/$size"); done
	under "$client" curl -sS --max-time 20 --limit-rate 40M "${wanted[@]}"
	for size in 10 5000 300000 20000000; do cmp "$dir/got-$size" "$dir/www/$size"; done
	mkdir "$dir/mirror"
	under "$client" wget -q -T 20 -t 1 -r -nd -np -P "$dir/mirror" "http://127.0.0.1:$port/"
	for size in 10 5000 300000 20000000; do cmp "$dir/mirror/$size" "$dir/www/$size"; done
	stop_all
	# One answer a connection goes by the kernel; of several over one, those from the third on by lane.
	by_lane "$1" 20
}

@test "curl and wget: both ends accelerated" {
	web both
}

@test "curl and wget: the server accelerated" {
	web server
}

@test "curl and wget: the client accelerated" {
	web client
}
