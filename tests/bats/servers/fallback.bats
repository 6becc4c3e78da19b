#!/usr/bin/env bats
# Where acceleration is not possible everything works over the kernel, and the monitor says why.

load ../common

talk=$top_srcdir/tests/bats/talk.py

setup() {
	prepare
	need python3 jq ss
	port=$(free_port)
	address=127.0.0.1
}

teardown() {
	dump_log
	stop_all
	[ -z "${namespace:-}" ] || ip netns del "$namespace"
}

# What stands before the command of each end: array variables server_in and client_in.
serve() { # [VERB]
	start plain "${server_in[@]}" "$hasten" run python3 "$talk" "${1:-serve}" "$address" "$port"
	server_pid=$started_pid
	for _ in $(seq 200); do
		"${server_in[@]}" ss -Htln "sport = :$port" 2>/dev/null | grep -q . && return
		sleep 0.05
	done
	return 1
}

ask() { # CONNECTIONS
	: >"$dir/talk"
	"${client_in[@]}" "$hasten" run python3 "$talk" ask "$address" "$port" "$1" >"$dir/talk" 2>>"$dir/log" </dev/null 3>&- &
	client_pid=$!
	echo $client_pid >>"$started"
	for _ in $(seq 200); do
		! grep -q talked "$dir/talk" || break
		kill -0 $client_pid
		sleep 0.05
	done
	grep -q talked "$dir/talk"
	sleep 0.2
	kill -0 $client_pid
}

# The library's reading of all processes, from inside where their files are: ss_in.
connections() { # FILTER
	"${ss_in[@]}" "$hasten" ss --json -s sock | jq -c "[.processes[].sock.connections[] | $1] | unique"
}

@test "with everything in place both directions go by a lane" {
	server_in=() client_in=() ss_in=()
	serve
	ask 3
	connections '.tx.transport, .rx.transport'
	[ "$(connections '.tx.transport, .rx.transport')" = '["shm"]' ]
}

@test "IPv6: both directions go by a lane" {
	[ -e /proc/net/if_inet6 ] && grep -q '^00000000000000000000000000000001' /proc/net/if_inet6 || skip "no IPv6 loopback"
	server_in=() client_in=() ss_in=() address=::1
	serve
	ask 2
	[ "$(connections '.tx.transport, .rx.transport')" = '["shm"]' ]
}

@test "the other end is not accelerated: kernel, and the reason is that" {
	server_in=() client_in=() ss_in=()
	serve
	python3 "$talk" ask "$address" "$port" 2 >"$dir/talk" 2>&1 </dev/null 3>&- &
	echo $! >>"$started"
	for _ in $(seq 100); do
		! grep -q talked "$dir/talk" || break
		sleep 0.05
	done
	grep -q talked "$dir/talk"
	connections '[.tx.transport, .rx.transport, .tx.reason_name, .rx.reason_name]'
	[ "$(connections '.tx.transport, .rx.transport')" = '["kernel"]' ]
	[ "$(connections '.tx.reason_name, .rx.reason_name')" = '["PEER_PLAIN"]' ]
}

# A view of the folders in which nobody, not even root, can make /run/hasten, and with the given /dev/shm.
without_run() { # OPTIONS-OF-TMPFS
	# shellcheck disable=SC2016
	in=(unshare --mount bash -c 'mount -t tmpfs -o ro tmpfs /run && mount -t tmpfs -o "$1" tmpfs /dev/shm && shift &&
		exec "$@"' - "$1")
}

# Neither may fail: they could not even leave a state file for the monitor.
both_live() {
	kill -0 "$server_pid"
	kill -0 "$client_pid"
}

@test "a child that was forked while a thread waited in accept may hold the connection: kernel, and the reason is that" {
	server_in=() client_in=() ss_in=()
	serve fork
	for _ in $(seq 100); do
		! grep -q . "/proc/$server_pid/task/$server_pid/children" || break
		sleep 0.05
	done
	ask 1
	[ "$(connections 'select(.role == "accept") | .tx.transport, .rx.transport')" = '["kernel"]' ]
	[ "$(connections 'select(.role == "accept") | .tx.reason_name, .rx.reason_name')" = '["HOLDERS"]' ]
	pkill -P "$server_pid"
	for _ in $(seq 100); do # its holder is gone: at one of the next reads it is offered
		[ "$(connections '.tx.transport, .rx.transport')" != '["shm"]' ] || break
		sleep 0.1
	done
	[ "$(connections '.tx.transport, .rx.transport')" = '["shm"]' ]
}

@test "no /run/hasten and no writable /dev/shm: kernel" {
	need_root
	without_run ro
	server_in=("${in[@]}") client_in=("${in[@]}")
	serve
	ask 2
	both_live
	run "$hasten" ss "$server_pid"
	[ "$status" -eq 1 ]
	[[ $output == *"it runs under hasten, but no registry: neither /run/hasten nor /dev/shm can be used"* ]]
}

@test "no /run/hasten, /dev/shm is full: kernel" {
	need_root
	without_run size=4096,mode=1777
	server_in=("${in[@]}") client_in=("${in[@]}")
	serve
	ask 2
	both_live
	run "$hasten" ss "$server_pid"
	[[ $output == *"there is no /run/hasten and /dev/shm is full"* ]]
}

@test "no /run/hasten: /dev/shm takes its place" {
	need_root
	# One name space for both ends and for the monitor.
	unshare --mount bash -c 'mount -t tmpfs -o ro tmpfs /run && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec sleep 60' \
		</dev/null >/dev/null 2>&1 3>&- &
	local holder=$!
	echo $holder >>"$started"
	for _ in $(seq 50); do
		[ "$(readlink /proc/$holder/ns/mnt)" = "$(readlink /proc/self/ns/mnt)" ] || [ "$(cat /proc/$holder/comm)" != sleep ] || break
		sleep 0.05
	done
	server_in=(nsenter -t $holder -m -r) client_in=(nsenter -t $holder -m -r) ss_in=(nsenter -t $holder -m -r)
	serve
	ask 2
	[ "$(connections '.tx.transport, .rx.transport')" = '["shm"]' ]
	nsenter -t $holder -m -r ls /dev/shm | grep -q '^hasten-'
	# Of two users each has a folder of its own there, so that they cannot find each other.
	kill "$client_pid"
	need setpriv
	chmod o+x "$dir"
	client_in+=(setpriv --reuid 60001 --regid 60001 --clear-groups)
	ask 2
	run "${ss_in[@]}" "$hasten" ss -s sock "$server_pid"
	[[ $output == *"reason 5: the other end does not run under hasten, or runs as another user: there is no /run/hasten"* ]]
}

@test "/run/hasten is full: kernel" {
	need_root
	# shellcheck disable=SC2016
	unshare --mount bash -c 'mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/hasten &&
		mount -t tmpfs -o mode=1777,size=4096 tmpfs /run/hasten && mount -t tmpfs -o size=4096,mode=1777 tmpfs /dev/shm &&
		exec sleep 60' </dev/null >/dev/null 2>&1 3>&- &
	local holder=$!
	echo $holder >>"$started"
	for _ in $(seq 50); do
		[ "$(cat /proc/$holder/comm)" != sleep ] || break
		sleep 0.05
	done
	server_in=(nsenter -t $holder -m -r) client_in=("${server_in[@]}")
	serve
	ask 2
	both_live
}

@test "somebody else's file in the place of ours: kernel" {
	need_root
	# shellcheck disable=SC2016
	unshare --mount bash -c 'mount -t tmpfs -o ro tmpfs /run && mount -t tmpfs -o mode=1777 tmpfs /dev/shm &&
		setpriv --reuid 65534 --clear-groups mkdir -m 777 /dev/shm/hasten-0 && exec sleep 60' </dev/null >/dev/null 2>&1 3>&- &
	local holder=$!
	echo $holder >>"$started"
	for _ in $(seq 50); do
		[ "$(cat /proc/$holder/comm)" != sleep ] || break
		sleep 0.05
	done
	server_in=(nsenter -t $holder -m -r) client_in=("${server_in[@]}")
	serve
	ask 2
	both_live
	[ -z "$(nsenter -t $holder -m -r find /dev/shm/hasten-0 -mindepth 1 -user root)" ]
}

@test "a low limit of open files: served to the last descriptor, the reason is named" {
	server_in=(prlimit --nofile=24:24) client_in=() ss_in=()
	serve
	ask 4
	connections '[.tx.transport, .tx.reason_name]'
	[[ $(connections '.tx.reason_name') =~ ^\[\"(NONE|NO_FDS|NONE\",\"NO_FDS|NO_FDS\",\"NONE)\"\]$ ]]
}

@test "another user: works, and the reason says so where it stays on the kernel" {
	need_root
	need setpriv
	chmod o+x "$dir"
	server_in=() client_in=(setpriv --reuid 60001 --regid 60001 --clear-groups) ss_in=()
	serve
	ask 2
	connections '[.tx.transport, .tx.reason_name]'
	local got
	got=$(connections '[.tx.transport, .tx.reason_name, .rx.reason_name]')
	[[ $got == '[["shm","NONE","NONE"]]' || $got == *OTHER_USER* || $got == *PEER_PLAIN* ]]
}

@test "two users that are not root: works, and each sees only its own" {
	need_root
	need setpriv
	chmod o+x "$dir"
	server_in=(setpriv --reuid 60001 --regid 60001 --clear-groups) client_in=(setpriv --reuid 60002 --regid 60002 --clear-groups)
	ss_in=()
	serve
	ask 2
	connections '[.tx.transport, .tx.reason_name]'
	[ "$(setpriv --reuid 60001 --regid 60001 --clear-groups "$hasten" ss --json | jq '[.processes[].uid] | unique')" = "$(jq -n '[60001]')" ]
	[ "$(setpriv --reuid 60002 --regid 60002 --clear-groups "$hasten" ss --json | jq '[.processes[].uid] | unique')" = "$(jq -n '[60002]')" ]
}

@test "another network name space: works, and counts as another host" {
	need_root
	need ip
	namespace=hasten-$$
	ip netns add "$namespace" || { namespace=; skip "no network name spaces here"; }
	local n=$((RANDOM % 200 + 10))
	if ! ip link add "hv$n" type veth peer name "hp$n" netns "$namespace"; then
		skip "no veth devices here"
	fi
	ip address add 198.51.100.1/30 dev "hv$n" && ip link set "hv$n" up
	ip -n "$namespace" address add 198.51.100.2/30 dev "hp$n" && ip -n "$namespace" link set "hp$n" up
	ip -n "$namespace" link set lo up
	address=198.51.100.1 server_in=() client_in=(ip netns exec "$namespace") ss_in=()
	serve
	ask 2
	connections '[.tx.transport, .tx.reason_name]'
	[ "$(connections '.tx.transport, .rx.transport')" = '["kernel"]' ]
	[[ $(connections '.tx.reason_name') == *REMOTE* || $(connections '.tx.reason_name') == *PEER_PLAIN* ]]
}

@test "within another network name space: a lane" {
	need_root
	need ip
	namespace=hasten-$$
	ip netns add "$namespace" || { namespace=; skip "no network name spaces here"; }
	ip -n "$namespace" link set lo up
	# "ip netns exec" makes a mount name space, in which /run/hasten is the same.
	server_in=(ip netns exec "$namespace") client_in=(ip netns exec "$namespace") ss_in=(ip netns exec "$namespace")
	serve
	ask 2
	connections '[.tx.transport, .tx.reason_name]'
	[ "$(connections '.tx.transport, .rx.transport')" = '["shm"]' ]
}

@test "acceleration switched off: kernel, and the reason is that" {
	server_in=(env HASTEN_PROMOTE=off) client_in=() ss_in=()
	serve
	ask 2
	connections '[.tx.transport, .tx.reason_name]'
	[ "$(connections '.tx.transport, .rx.transport')" = '["kernel"]' ]
}
