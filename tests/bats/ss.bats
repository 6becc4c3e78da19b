#!/usr/bin/env bats
# hasten ss against a state file that tests/unit/state_writer wrote.

setup() {
	hasten=$top_builddir/hasten
	dir=$BATS_TEST_TMPDIR
	coproc writer { exec "$top_builddir/tests/unit/state_writer" "$dir"; }
	read -r pid <&"${writer[0]}"
	writer_in=${writer[1]}
}

teardown() {
	[ -z "${writer_in:-}" ] || exec {writer_in}>&-
	wait "$pid" 2>/dev/null || true
}

stop_writer() {
	exec {writer_in}>&-
	writer_in=
	wait "$pid" 2>/dev/null || true
}

@test "without a process id it lists the accelerated processes" {
	run "$hasten" ss --dir "$dir"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 2 ]
	[[ ${lines[1]} =~ ^\ *$pid\ +$(id -u)\ state_writer\ +test\ +3\ +1\ +1500\ +50$ ]]
}

@test "an empty folder has no accelerated processes" {
	mkdir "$dir/empty"
	run "$hasten" ss --dir "$dir/empty"
	[ "$status" -eq 0 ]
	[[ $output = "no accelerated processes: "*"hasten run"* ]]
}

@test "under the name that NetACC's users have it says so" {
	ln -s "$(readlink -f "$hasten")" "$dir/netacc_ss"
	run "$dir/netacc_ss" --help
	[ "$status" -eq 0 ]
	[[ $output = "Usage: netacc_ss "* ]]
}

@test "a process shows its counters by default, with the lane bytes of closed and open connections" {
	run "$hasten" ss --dir "$dir" -p "$pid"
	[ "$status" -eq 0 ]
	[[ $output =~ "lane tx "\ +"1500  bytes sent by lane, in 15 messages" ]]
	[[ $output =~ "sockets "\ +"5 " ]]
	[[ $output != *settings* ]]
}

@test "bytes by the kernel come from the kernel's socket table" {
	run "$hasten" ss --dir "$dir" -s sock --json "$pid"
	[ "$status" -eq 0 ]
	plain='.processes[0].sock.connections[] | select(.tx.reason == 5)'
	[ "$(jq -c "[$plain | select(.role == \"connect\") | .tx.kernel_bytes, .rx.kernel_bytes]" <<<"$output")" = "[100,7]" ]
	[ "$(jq -c "[$plain | select(.role == \"accept\") | .tx.kernel_bytes, .rx.kernel_bytes]" <<<"$output")" = "[7,100]" ]
}

@test "a connection shows transport, lane bytes and its reason in words and as a number" {
	run "$hasten" ss --dir "$dir" -s sock "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *"link 1 lane 4"* ]]
	[[ $output == *"tx shm     lane 500 bytes in 5 messages, kernel 0 bytes"* ]]
	[[ $output == *"reason 5: the other end does not run under hasten"* ]]
	[[ $output == *"1 connections changed too quickly to be read"* ]]
}

@test "qp says that there is no RDMA lane and shows the settings for one" {
	run "$hasten" ss --dir "$dir" -s qp "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *"no RDMA lane"* ]]
	[[ $output == *msg_size*16384* ]]
	[[ $output != *spin_us* ]]
}

@test "all is every section, in one valid document" {
	run "$hasten" ss --dir "$dir" -s all --json "$pid"
	[ "$status" -eq 0 ]
	[ "$(jq -c '.processes[0] | [has("cfg","cnt","mem","qp","sock")]' <<<"$output")" = "[true,true,true,true,true]" ]
	[ "$(jq -r .id <<<"$output")" = hasten.ss ]
	[ "$(jq .schema_version <<<"$output")" = 1 ]
	run "$hasten" ss --dir "$dir" -s cfg,mem "$pid"
	[[ $output == *settings* && $output == *own_fds* && $output != *counters* ]]
}

@test "netacc_ss is the same program" {
	ln -s "$hasten" "$dir/netacc_ss"
	run "$dir/netacc_ss" --dir "$dir" "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *state_writer* ]]
}

@test "-c removes what a dead process left and nothing else" {
	run "$hasten" ss --dir "$dir" -c
	[ "$status" -eq 0 ]
	[ "$output" = "nothing to remove" ]
	[ -e "$dir/proc-$(id -u)-$pid" ]
	touch "$dir/proc-notes"
	stop_writer
	run "$hasten" ss --dir "$dir" "$pid"
	[ "$status" -eq 1 ]
	[[ $output == *"removes the file that it left"* ]]
	run "$hasten" ss --dir "$dir" -c
	[ "$status" -eq 0 ]
	[[ $output == removed*"its process is gone" ]]
	[ ! -e "$dir/proc-$(id -u)-$pid" ]
	[ -e "$dir/proc-notes" ]
}

@test "-c does not follow a symbolic link out of the folder" {
	echo precious >"$dir/target"
	ln -s target "$dir/proc-$(id -u)-4194303"
	run "$hasten" ss --dir "$dir" -c
	[[ $output == *"a symbolic link"* ]]
	[ "$(cat "$dir/target")" = precious ]
}

@test "a stopped process can be read" {
	kill -STOP "$pid"
	run timeout 5 "$hasten" ss --dir "$dir" -s all "$pid"
	kill -CONT "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *"lane tx"* ]]
}

@test "a real process under hasten run shows its connection on the lane, from both ends" {
	"$hasten" run "$top_builddir/bench/rr" -t 3 >"$dir/rr" 3>&- &
	rr=$!
	for _ in $(seq 40); do
		sleep 0.05
		"$hasten" ss -s sock --json "$rr" >"$dir/json" 2>"$dir/err" || continue
		[ "$(jq -r '.processes[0].sock.connections[0] | .tx.transport + .rx.transport' "$dir/json")" != shmshm ] || break
	done
	[ "$(jq -r '.processes[0].program' "$dir/json")" = rr ]
	[ "$(jq -r '.processes[0].sock.connections[0] | .role + .tx.transport + .rx.transport' "$dir/json")" = connectshmshm ]
	[ "$(jq '.processes[0].sock.connections[0].tx.lane_bytes > 0' "$dir/json")" = true ]
	server=$(pgrep -P "$rr")
	run "$hasten" ss -s sock "$server"
	[[ $output == *" accept "*"tx shm "*"rx shm "* ]]
	wait "$rr"
	run "$hasten" ss "$rr"
	[ "$status" -eq 1 ]
}

@test "wrong arguments are named" {
	run "$hasten" ss -s cnt,foo
	[ "$status" -eq 64 ]
	[[ $output == *'"foo"'* ]]
	run "$hasten" ss -p 12x
	[ "$status" -eq 64 ]
	[[ $output == *'"12x" is not a process id'* ]]
	run "$hasten" ss --dir "$dir" $$
	[ "$status" -eq 1 ]
	[[ $output == *"has no state file"* ]]
	run "$hasten" ss --dir "$dir/none"
	[ "$status" -eq 1 ]
	[[ $output == *"$dir/none"* ]]
}
