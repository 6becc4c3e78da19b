#!/usr/bin/env bats
# Changes that may cut the session off are undone unless confirmed: whatever dies in the meantime.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	export net=hastenvm$$
	network_make "$net"
	# A card of a family that hasten knows nothing of: what a change does to it counts as flap.
	machine_start one smp=2 mem=1536 netns="$net" qemu="-netdev tap,id=n0,ifname=t0,script=no,downscript=no -device e1000e,netdev=n0,mac=52:54:00:00:00:01"
	machine_install one
	in_machine one 'mkdir -p /etc/hasten/profiles && printf "%s\n" "schema: 1" "name: rings" "summary: for the test" "settings:" \
		"  nic.rings.rx: {value: 512, why: a test, source: this test}" >/etc/hasten/profiles/rings.yaml
		systemctl enable --now hasten-apply hastend'
}

teardown_file() {
	machines_stop
	network_remove "$net"
}

vm() {
	in_machine one "$@"
}

ring() {
	vm 'ethtool -g "$(basename "$(dirname "$(grep -l 52:54:00:00:00:01 /sys/class/net/*/address)")")" | sed -n "/Current/,\$s/^RX:[^0-9]*//p" | head -1'
}

undone_within() { # SECONDS
	local end=$((SECONDS + $1))
	while [ $SECONDS -lt $end ]; do
		[ "$(ring)" != 256 ] || return 0
		sleep 3
	done
	vm 'systemctl list-timers --all --no-pager; journalctl --no-pager | tail -20'
	return 1
}

@test "without consent nothing is done to the card in use, and it is said" {
	[ "$(ring)" = 256 ]
	run vm 'hasten apply rings'
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"--allow-disruptive"* ]]
	[ "$(ring)" = 256 ]
	vm 'hasten revert'
}

@test "not confirmed: undone" {
	run vm 'hasten apply rings --allow-disruptive --confirm-within 15 --yes'
	echo "$output"
	[ "$(ring)" = 512 ]
	undone_within 90
}

@test "the command is killed in between: undone" {
	vm 'HASTEN=1; (hasten apply rings --allow-disruptive --confirm-within 15 --yes & p=$!; for i in $(seq 200); do [ -e /var/lib/hasten/set-pending.json ] && break; sleep 0.02; done; kill -9 $p) >/dev/null 2>&1; true'
	undone_within 90
	run vm 'hasten status'
	echo "$output"
}

@test "the command is stopped in between: undone" {
	vm '(hasten apply rings --allow-disruptive --confirm-within 15 --yes & p=$!; for i in $(seq 200); do [ -e /var/lib/hasten/set-pending.json ] && break; sleep 0.02; done; kill -STOP $p; echo $p >/run/stopped) >/dev/null 2>&1; true'
	undone_within 120
	vm 'kill -9 $(cat /run/stopped) 2>/dev/null; true'
}

@test "hastend is killed in between: undone" {
	vm 'hasten apply rings --allow-disruptive --confirm-within 15 --yes; kill -9 $(systemctl show -P MainPID hastend)'
	undone_within 90
}

@test "a reboot in between: the machine comes up as it was" {
	vm 'hasten apply rings --allow-disruptive --confirm-within 100 --yes'
	[ "$(ring)" = 512 ]
	machine_reboot one
	[ "$(ring)" = 256 ]
	run vm 'hasten verify'
	echo "$output"
}

@test "confirmed: kept, also over a reboot" {
	vm 'hasten apply rings --allow-disruptive --confirm-within 30 --yes && hasten confirm'
	sleep 40
	[ "$(ring)" = 512 ]
	machine_reboot one
	[ "$(ring)" = 512 ]
	vm 'hasten revert --allow-disruptive'
	[ "$(ring)" = 256 ]
}
