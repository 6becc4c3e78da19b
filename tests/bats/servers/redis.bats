#!/usr/bin/env bats
# Redis: plain load, saving under load, replication, ends that are killed.

load ../common

setup() {
	prepare
	need redis-server redis-cli redis-benchmark jq ss
	count_bytes
	port=$(free_port)
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

traffic() { # both|server|client|neither
	ends "$1"
	redis_start "$server" "$port"
	redis_fill "$client" "$port"
	redis_load "$client" "$port" -c 20 -n 20000 -t set,get
	redis_load "$client" "$port" -c 5 -n 5000 -P 16 -t lpush,lrange_100,mset
	redis_verify "$client" "$port"
	redis_load "$client" "$port" -c 2 -n 50 -d 1000000 -t set,get
	redis_verify plain "$port"
	stop_all
	by_lane "$1" 60
}

@test "redis: both ends accelerated" {
	traffic both
}

@test "redis: the server accelerated" {
	traffic server
}

@test "redis: the client accelerated" {
	traffic client
}

@test "redis: neither accelerated" {
	traffic neither
}

@test "redis: with both ends accelerated the connections are on a lane" {
	redis_start accelerated "$port"
	local redis=$started_pid
	start accelerated redis-benchmark -p "$port" -q -c 10 -n 100000000 -t set
	for _ in $(seq 100); do
		[ "$(on_lane "$redis")" -lt 10 ] || break
		sleep 0.05
	done
	[ "$(on_lane "$redis")" -ge 10 ]
	# A plain client beside them is served too.
	redis_fill plain "$port"
	redis_verify plain "$port"
}

# Waits for what INFO says, at most 20 s.
until_info() { # PORT SECTION LINE
	for _ in $(seq 200); do
		! redis-cli -p "$1" info "$2" | tr -d '\r' | grep -qx "$3" || return 0
		sleep 0.1
	done
	echo "INFO $2 does not say $3:" >&2
	redis-cli -p "$1" info "$2" >&2
	return 1
}

# Clients that check each answer, in the background; "checked" waits for them.
check_values() { # CONNECTIONS SECONDS [killed]
	need python3
	"$hasten" run timeout $(($2 + 60)) python3 "$BATS_TEST_DIRNAME/redis.py" values "$port" "$@" >"$dir/checked" 2>&1 </dev/null 3>&- &
	checker=$!
	echo $checker >>"$started"
}

checked() {
	local status=0
	wait "$checker" || status=$?
	cat "$dir/checked"
	figure "$(tail -1 "$dir/checked")"
	[ $status = 0 ]
}

# bats test_tags=soak
@test "redis: 1,000 clients that check every answer" {
	redis_start accelerated "$port" --maxclients 2000
	check_values 1000 "$(seconds 3)"
	checked
	stop_all
	by_lane both 60
}

# bats test_tags=soak
@test "redis: BGSAVE and AOF rewrite each second, then read back what was appended" {
	local before i
	redis_start accelerated "$port" --appendonly yes --appendfsync everysec
	check_values 20 "$(seconds 4)"
	for i in $(seq "$(seconds 3)"); do
		sleep 1
		redis-cli -p "$port" bgsave schedule | grep -qE 'started|scheduled|in progress'
		redis-cli -p "$port" bgrewriteaof | grep -qE 'started|scheduled|in progress'
	done
	checked
	until_info "$port" persistence rdb_bgsave_in_progress:0
	until_info "$port" persistence aof_rewrite_in_progress:0
	until_info "$port" persistence rdb_last_bgsave_status:ok
	until_info "$port" persistence aof_last_bgrewrite_status:ok
	before=$(digest "$port")
	stop_all
	by_lane both 60
	redis_start accelerated "$port" --appendonly yes
	until_info "$port" persistence loading:0
	[ "$(digest "$port")" = "$before" ]
}

# bats test_tags=soak
@test "redis: a full resync each second under load" {
	local other i
	redis_start accelerated "$port" --client-output-buffer-limit "replica 0 0 0"
	other=$(free_port)
	redis_start accelerated "$other"
	check_values 10 "$(seconds 4)"
	for i in $(seq "$(seconds 3)"); do
		redis-cli -p "$other" replicaof 127.0.0.1 "$port"
		sleep 0.8
		# One that was its own master for a while has another history.
		redis-cli -p "$other" replicaof no one
		redis-cli -p "$other" set "of-its-own" "$i"
	done
	redis-cli -p "$other" replicaof 127.0.0.1 "$port"
	checked
	until_info "$other" replication master_link_status:up
	same_data "$port" "$other"
	[ "$(redis-cli -p "$port" info stats | tr -d '\r' | sed -n 's/^sync_full://p')" -ge 3 ]
	stop_all
	by_lane both 60
}

# bats test_tags=soak
@test "redis: CLIENT KILL of everybody ten times a second" {
	redis_start accelerated "$port"
	check_values 20 "$(seconds 3)" killed
	while kill -0 "$checker" 2>/dev/null; do
		redis-cli -p "$port" client kill type normal skipme yes >>"$dir/kills"
		sleep 0.1
	done
	checked
	# The first ones may have met nobody.
	[ "$(awk '{ n += $1 } END { print n }' "$dir/kills")" -ge 100 ]
	none_of ' 0 reconnected' "$dir/checked"
	stop_all
	by_lane both 20
}

# bats test_tags=soak
@test "redis: MONITOR and pub/sub, every message once and in order" {
	need python3
	redis_start accelerated "$port"
	run under accelerated timeout $(($(seconds 30) + 60)) python3 "$BATS_TEST_DIRNAME/redis.py" follow "$port" 10 $(($(seconds 2) * 1000))
	echo "$output"
	figure "$output"
	[ "$output" = "$(($(seconds 2) * 1000)) messages to 12 followers" ]
	stop_all
	by_lane both 60
}

@test "redis: BGSAVE each second under load" {
	redis_start accelerated "$port"
	redis_fill accelerated "$port"
	start accelerated redis-benchmark -p "$port" -q -c 20 -n 100000000 -d 512 -r 10000 -t set,get
	local benchmark=$started_pid i
	for i in 1 2 3 4; do
		sleep 1
		redis-cli -p "$port" bgsave | grep -q 'Background saving started'
		kill -0 "$benchmark"
	done
	for _ in $(seq 100); do
		[ "$(redis-cli -p "$port" info persistence | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p')" != 0 ] || break
		sleep 0.1
	done
	redis-cli -p "$port" info persistence | grep -q 'rdb_last_bgsave_status:ok'
	kill -0 "$benchmark"
	redis_verify accelerated "$port"
	[ "$(redis-cli -p "$port" info stats | tr -d '\r' | sed -n 's/^total_forks://p')" -ge 4 ]
}

digest() {
	redis-cli -p "$1" debug digest
}

# The replica's copy is complete when nothing is on its way.
same_data() { # PORT PORT
	for _ in $(seq 200); do
		[ "$(digest "$1")" != "$(digest "$2")" ] || return 0
		sleep 0.1
	done
	echo "digests differ: $(digest "$1") $(digest "$2")" >&2
	return 1
}

@test "redis: replication between two accelerated servers, the replica killed and started again" {
	local other
	redis_start accelerated "$port"
	other=$(free_port)
	redis_start accelerated "$other" --replicaof 127.0.0.1 "$port"
	local replica=$started_pid
	redis_fill accelerated "$port"
	redis_load accelerated "$port" -c 20 -n 30000 -t set,lpush
	same_data "$port" "$other"
	redis-cli -p "$other" info replication | grep -q 'master_link_status:up'
	kill -9 "$replica"
	redis_load accelerated "$port" -c 20 -n 10000 -t set
	redis_start accelerated "$other" --replicaof 127.0.0.1 "$port"
	same_data "$port" "$other"
	redis_verify accelerated "$other"
}

@test "redis: replication from an accelerated server to a plain one" {
	local other
	redis_start accelerated "$port"
	other=$(free_port)
	redis_start plain "$other" --replicaof 127.0.0.1 "$port"
	redis_fill plain "$port"
	redis_load accelerated "$port" -c 20 -n 20000 -t set
	same_data "$port" "$other"
}

@test "redis: the server killed under load, its clients end as over TCP" {
	local how benchmark redis status
	for how in plain accelerated; do
		redis_start $how "$port"
		redis=$started_pid
		start $how redis-benchmark -p "$port" -q -c 20 -n 100000000 -t set
		benchmark=$started_pid
		sleep 1
		kill -0 "$benchmark"
		kill -9 "$redis"
		for _ in $(seq 100); do
			kill -0 "$benchmark" 2>/dev/null || break
			sleep 0.1
		done
		status=0
		wait "$benchmark" || status=$?
		echo "$how: $status" >>"$dir/statuses"
		port=$(free_port)
	done
	cat "$dir/statuses"
	[ "$(sed 's/.*: //' "$dir/statuses" | sort -u | wc -l)" = 1 ]
	nothing_left
}

@test "redis: clients killed under load, the server goes on" {
	redis_start accelerated "$port"
	redis_fill accelerated "$port"
	local i
	for i in 1 2 3 4 5; do
		start accelerated redis-benchmark -p "$port" -q -c 20 -n 100000000 -t set,get
		sleep 0.4
		kill -9 "$started_pid"
		redis_verify accelerated "$port"
	done
	for _ in $(seq 100); do
		[ "$(redis-cli -p "$port" info clients | tr -d '\r' | sed -n 's/^connected_clients://p')" != 1 ] || break
		sleep 0.05
	done
	[ "$(redis-cli -p "$port" info clients | tr -d '\r' | sed -n 's/^connected_clients://p')" = 1 ]
}

@test "redis: a client stopped in the middle does not hold up the others" {
	redis_start accelerated "$port"
	start accelerated redis-benchmark -p "$port" -q -c 20 -n 100000000 -t set,get
	sleep 0.5
	kill -STOP "$started_pid"
	redis_fill accelerated "$port"
	redis_load accelerated "$port" -c 10 -n 10000 -t set
	redis_verify accelerated "$port"
	kill -CONT "$started_pid"
	sleep 0.3
	kill -0 "$started_pid"
}
