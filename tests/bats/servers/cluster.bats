#!/usr/bin/env bats
# A Redis cluster of three masters and three replicas on one host, all accelerated.

load ../common

setup() {
	prepare
	need redis-server redis-cli redis-benchmark ss
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

@test "redis: a cluster of six accelerated nodes under redis-benchmark --cluster" {
	local i ports=() nodes=() pids=()
	for i in 1 2 3 4 5 6; do
		ports+=("$(free_port)")
		redis_start accelerated "${ports[-1]}" --cluster-enabled yes --cluster-node-timeout 3000
		pids+=("$started_pid")
		nodes+=("127.0.0.1:${ports[-1]}")
	done
	# The command checks what it made before it returns.
	timeout 60 "$hasten" run redis-cli --cluster create "${nodes[@]}" --cluster-replicas 1 --cluster-yes >"$dir/create"
	grep -q 'All 16384 slots covered' "$dir/create"
	# Each node finds out for itself that all is well.
	for i in 0 1 2 3 4 5; do
		for _ in $(seq 100); do
			! redis-cli -p "${ports[i]}" cluster info | grep -q 'cluster_state:ok' || break
			sleep 0.1
		done
	done
	redis_load accelerated "${ports[0]}" --cluster -c 20 -n 20000 -t set,get
	redis_load plain "${ports[0]}" --cluster -c 20 -n 5000 -t set
	for i in $(seq 100); do echo "SET k:$i value-$i"; done >"$dir/sets"
	for i in $(seq 100); do echo "GET k:$i"; done >"$dir/gets"
	"$hasten" run redis-cli -c -p "${ports[0]}" <"$dir/sets" | grep -c '^OK' >"$dir/count"
	[ "$(cat "$dir/count")" = 100 ]
	"$hasten" run redis-cli -c -p "${ports[1]}" <"$dir/gets" | grep '^value' >"$dir/got"
	for i in $(seq 100); do echo "value-$i"; done | cmp - "$dir/got"
	# Every replica has its master's data, over accelerated links.
	for i in 0 1 2 3 4 5; do
		redis-cli -p "${ports[i]}" cluster nodes | grep -c fail >"$dir/failed" || true
		[ "$(cat "$dir/failed")" = 0 ]
	done
	redis-cli --cluster check "${nodes[0]}" | grep -q 'All nodes agree about slots'
	# A master is killed: its replica takes over, the cluster goes on.
	kill -9 "${pids[0]}"
	for _ in $(seq 200); do
		redis-cli -p "${ports[1]}" cluster nodes >"$dir/nodes"
		[ "$(grep master "$dir/nodes" | grep -vc fail)" != 3 ] || ! grep ":${ports[0]}@" "$dir/nodes" | grep -q 'fail ' || break
		sleep 0.1
	done
	redis-cli -p "${ports[1]}" cluster info | grep -q 'cluster_state:ok'
	for i in $(seq 100); do echo "GET k:$i"; done | "$hasten" run redis-cli -c -p "${ports[1]}" | grep '^value' >"$dir/got"
	for i in $(seq 100); do echo "value-$i"; done | cmp - "$dir/got"
}
