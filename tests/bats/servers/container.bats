#!/usr/bin/env bats
# Containers without Docker at either end: bubblewrap with its own file systems, users and process ids, and systemd-nspawn.
# Where both ends see one /run/hasten, one network and users that they can name, a connection may go by lane; else it goes by
# the kernel, and nothing else changes.

load ../common

setup() {
	prepare
	need_root
	need redis-server redis-cli redis-benchmark python3 ss
	count_bytes
	port=$(free_port)
	chmod o+x "$dir"
	in=(--bind / / --dev-bind /dev /dev --proc /proc)
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

jail() { # WHAT COMMAND...: the command in that container, accelerated
	local what=$1
	shift
	case $what in
	none) "$hasten" run "$@" ;;
	# All process ids are its own, /run is the host's.
	pids) bwrap "${in[@]}" --unshare-pid --die-with-parent "$hasten" run "$@" ;;
	# Its own /run and /dev/shm: nobody is found there.
	files) bwrap "${in[@]}" --tmpfs /run --tmpfs /dev/shm --bind "$dir" "$dir" --unshare-pid --die-with-parent "$hasten" run "$@" ;;
	# Another user name space with one user of it, as rootless containers have.
	users) bwrap "${in[@]}" --unshare-user --uid 1000 --gid 1000 --unshare-pid --die-with-parent "$hasten" run "$@" ;;
	# Nothing may be written, and the registries cannot be seen.
	readonly) bwrap --ro-bind / / --dev /dev --proc /proc --bind "$dir" "$dir" --unshare-pid --die-with-parent "$hasten" run "$@" ;;
	esac
}

traffic() { # SERVER CLIENT
	need bwrap
	jail none true
	jail "$1" true 2>/dev/null || skip "no such container can be made here ($1)"
	jail "$2" true 2>/dev/null || skip "no such container can be made here ($2)"
	mkdir -p "$dir/data"
	chmod 777 "$dir/data"
	jail "$1" redis-server --port "$port" --bind 127.0.0.1 --dir "$dir/data" --save '' --appendonly no --daemonize no >>"$dir/log" 2>&1 </dev/null 3>&- &
	echo $! >>"$started"
	wait_port "$port"
	run jail "$2" timeout 60 python3 "$BATS_TEST_DIRNAME/redis.py" values "$port" 10 1
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *" bytes checked, 0 reconnected" ]]
	# A client outside, and one that is not accelerated, at the same time.
	redis_fill accelerated "$port"
	redis_verify plain "$port"
	redis-cli -p "$port" shutdown nosave || :
	moved
}

@test "bubblewrap: a server with process ids of its own" {
	traffic pids none
	by_lane both 30
}

@test "bubblewrap: both with process ids of their own" {
	traffic pids pids
}

@test "bubblewrap: a client with process ids of its own" {
	traffic none pids
	by_lane both 30
}

@test "bubblewrap: a server with file systems of its own" {
	traffic files none
	by_lane kernel
}

@test "bubblewrap: a client with file systems of its own" {
	traffic none files
}

@test "bubblewrap: a server in a user name space" {
	traffic users none
}

@test "bubblewrap: a client in a user name space" {
	traffic none users
}

@test "bubblewrap: both where nothing can be written" {
	traffic readonly readonly
	by_lane kernel
}

@test "systemd-nspawn: a server in it, a client outside" {
	need systemd-nspawn
	local nspawn=(systemd-nspawn --quiet --register=no --keep-unit --directory=/ --volatile=yes --bind="$dir" --bind=/run/hasten --bind-ro="$top_builddir"
		--setenv=HASTEN_COUNTERS="$counters" --console=pipe --as-pid2)
	"${nspawn[@]}" "$hasten" run true >"$dir/try" 2>&1 </dev/null || skip "systemd-nspawn does not run here: $(tail -1 "$dir/try")"
	mkdir "$dir/data"
	"${nspawn[@]}" "$hasten" run redis-server --port "$port" --bind 127.0.0.1 --dir "$dir/data" --save '' --daemonize no >>"$dir/log" 2>&1 </dev/null 3>&- &
	echo $! >>"$started"
	wait_port "$port"
	run under accelerated timeout 60 python3 "$BATS_TEST_DIRNAME/redis.py" values "$port" 10 1
	echo "$output"
	[[ $output == *" bytes checked, 0 reconnected" ]]
	redis-cli -p "$port" shutdown nosave || :
}
