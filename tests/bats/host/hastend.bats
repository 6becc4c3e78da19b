#!/usr/bin/env bats
# hastend on a captured tree: starts, answers, re-applies what changed, keeps what others changed, ends without changing anything.

setup() {
	hasten=$top_builddir/hasten
	m=$BATS_TEST_TMPDIR/m
	export HASTEN_PROFILE_DIR=$top_srcdir/profiles
	"$top_srcdir/tests/machines/make" "$BATS_TEST_TMPDIR" virtio-queues-1of4 >/dev/null
	mv "$BATS_TEST_TMPDIR/virtio-queues-1of4" "$m"
	control=$BATS_TEST_TMPDIR/control
}

teardown() {
	[ -z "${daemon:-}" ] || kill "$daemon" 2>/dev/null || true
}

start() {
	"$top_builddir/hastend" --root "$m" --control "$control" 2>"$BATS_TEST_TMPDIR/log" 3>&- &
	daemon=$!
	for _ in $(seq 100); do [ -S "$control" ] && return; sleep 0.05; done
	cat "$BATS_TEST_TMPDIR/log"
	return 1
}

ask() { # COMMAND, or a whole line
	python3 - "$control" "$1" <<-'END'
		import socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		line = sys.argv[2]
		s.sendall((line if line.startswith('{') else '{"command": "%s"}' % line).encode() + b'\n')
		s.shutdown(socket.SHUT_WR)
		out = b''
		while True:
		    b = s.recv(65536)
		    if not b: break
		    out += b
		sys.stdout.write(out.decode())
	END
}

tree() {
	(cd "$m" && find . -type f -exec sha256sum {} + | sort -k2)
}

@test "nothing applied: it runs, says so, and changes nothing" {
	before=$(tree)
	start
	run ask status
	[ "$(jq -r .id <<<"$output")" = hastend.status ]
	[ "$(jq .profiles <<<"$output")" = null ]
	run ask reapply
	[[ $output == *"nothing was applied yet"* ]]
	kill "$daemon"
	wait "$daemon"
	daemon=
	diff <(echo "$before") <(tree)
	[ ! -e "$control" ]
}

@test "it keeps an applied set: a NIC's interrupts that went elsewhere come back on request, somebody else's sysctl stays" {
	"$hasten" apply packet-rate --root "$m"
	start
	[ "$(ask status | jq -r .profiles)" = packet-rate ]
	[ "$(ask status | jq .drift)" = 0 ]
	echo 7777 >"$m/proc/sys/net/core/somaxconn"
	ask reapply >"$BATS_TEST_TMPDIR/answer"
	cat "$BATS_TEST_TMPDIR/answer" "$BATS_TEST_TMPDIR/log"
	[ "$(cat "$m/proc/sys/net/core/somaxconn")" = 7777 ]
	before=$(tree)
	kill "$daemon"
	wait "$daemon"
	daemon=
	diff <(echo "$before") <(tree)
}

@test "hasten status says whether hastend runs, hangs or is in trouble" {
	"$hasten" apply packet-rate --root "$m"
	"$hasten" status --root "$m" --json | jq -e '.hastend == null'
	run "$hasten" status --root "$m" --control "$control"
	[[ $output == *"hastend does not run"* ]]
	start
	run "$hasten" status --root "$m" --control "$control"
	[ "$status" = 0 ]
	[[ $output == *"hastend runs."* ]]
	"$hasten" status --root "$m" --control "$control" --json | jq -e '.hastend == {running: true, trouble: null}'
	kill -STOP "$daemon"
	run "$hasten" status --root "$m" --control "$control"
	kill -CONT "$daemon"
	[ "$status" = 0 ]
	[[ $output == *"hastend gives no answer within 5 s"* ]]
}

# The driver reset the card: its interrupts have other numbers, and go where the kernel likes.
reset_card() { # OLD NEW
	device=$(cd "$m/sys/class/net/eth0/device" && pwd -P)
	for folder in "$device" "$device/.."; do
		[ ! -e "$folder/msi_irqs/$1" ] || mv "$folder/msi_irqs/$1" "$folder/msi_irqs/$2"
	done
	mv "$m/proc/irq/$1" "$m/proc/irq/$2"
	sed -i "s/^\( *\)$1:/\1$2:/" "$m/proc/interrupts"
	echo f >"$m/proc/irq/$2/smp_affinity"
	echo 0-3 >"$m/proc/irq/$2/smp_affinity_list"
}

@test "a card that was reset gets its interrupts placed again, the others are left alone" {
	"$hasten" apply packet-rate --root "$m"
	[ "$(cat "$m/proc/irq/25/smp_affinity_list")" = 1 ]
	start
	reset_card 25 125
	ask reapply >/dev/null
	cat "$BATS_TEST_TMPDIR/log"
	[ "$(cat "$m/proc/irq/125/smp_affinity_list")" = 1 ]
	[ "$(ask status | jq .drift)" = 0 ]
	# And it is put back with the rest.
	"$hasten" revert --root "$m"
	[ "$(cat "$m/proc/irq/125/smp_affinity_list")" = 0-3 ]
}

@test "bad requests get one answer, and the daemon lives" {
	start
	for line in '{' '{}' '[]' '{"command": 1}' '{"command": "x", "more": 1}' '{"command": "nosuch"}' '{"command": "'"$(printf 'a%.0s' $(seq 100))"'"}' \
		"{$(printf ' %.0s' $(seq 5000))"; do
		run ask "$line"
		echo "$line: $output"
		[ "$(jq -r 'has("error")' <<<"$output")" = true ]
	done
	[ "$(ask status | jq -r .id)" = hastend.status ]
}

@test "a client that says nothing is dropped, and twenty of them do not keep others out for long" {
	start
	python3 - "$control" <<-'END' &
		import socket, sys, time
		all = []
		for i in range(20):
		    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); all.append(s)
		time.sleep(8)
	END
	clients=$!
	sleep 7
	[ "$(ask status | jq -r .id)" = hastend.status ]
	kill $clients
}

@test "wrong use" {
	run "$top_builddir/hastend" --nosuch
	[ "$status" -eq 64 ]
	run "$top_builddir/hastend" word
	[ "$status" -eq 64 ]
	run "$top_builddir/hastend" --root "$BATS_TEST_TMPDIR/none"
	[ "$status" -eq 1 ]
	[[ $output == *"$BATS_TEST_TMPDIR/none"* ]]
}
