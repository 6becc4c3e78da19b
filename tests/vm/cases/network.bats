#!/usr/bin/env bats
# A real card with four queues: the multi-queue check, spreading its interrupts, and a session that stays alive.
# In the core run.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	export net=hastenvm$$
	network_make "$net" multi_queue
	machine_start one smp=4 mem=1536 netns="$net" qemu="-netdev tap,id=n0,ifname=t0,script=no,downscript=no,queues=4 -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01,mq=on,vectors=10"
	machine_install one
	in_machine one 'systemctl enable --now hasten-apply hastend'
}

teardown_file() {
	machines_stop
	network_remove "$net"
}

vm() {
	in_machine one "$@"
}

card() {
	vm 'basename "$(dirname "$(grep -l 52:54:00:00:00:01 /sys/class/net/*/address)")"'
}

queues() {
	vm "ls -d /sys/class/net/$(card)/queues/rx-* | wc -l"
}

@test "one of four queues in use: said; packet-rate sets four without consent, spreads them, and the session stays alive" {
	name=$(card)
	vm "ethtool -L $name combined 1"
	run vm 'hasten check queues'
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"1 of 4 queues in use, 4 CPUs"*"hasten apply packet-rate"* ]]
	ip netns exec "$net" ping -q -i 0.2 -c 100 -W 2 10.0.2.15 >"$BATS_TEST_TMPDIR/ping" 3>&- &
	ping=$!
	run vm 'hasten apply packet-rate'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(queues)" = 4 ]
	run vm 'hasten check irq-spread'
	[ "$status" -eq 0 ]
	run vm 'hasten verify'
	[ "$status" -eq 0 ]
	wait "$ping" || true
	cat "$BATS_TEST_TMPDIR/ping"
	grep -q ' 0% packet loss\| [1-5]% packet loss' "$BATS_TEST_TMPDIR/ping"
}

@test "the card is reset: hastend places its new interrupts" {
	name=$(card)
	vm "echo virtio_net; d=\$(basename \$(readlink -f /sys/class/net/$name/device)); echo \$d >/sys/bus/virtio/drivers/virtio_net/unbind; sleep 1; echo \$d >/sys/bus/virtio/drivers/virtio_net/bind; sleep 12; networkctl list --no-pager"
	[ "$(queues)" = 4 ]
	run vm 'hasten verify'
	echo "$output"
	vm 'journalctl -u hastend --no-pager | tail -5'
	[ "$status" -eq 0 ]
}

@test "the card gets another name: hastend finds it" {
	name=$(card)
	vm "ip link set $name down && ip link set $name name lan0 && ip link set lan0 up; sleep 8"
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
	vm "ip link set lan0 down && ip link set lan0 name $name && ip link set $name up; sleep 8"
}

@test "revert gives the one queue back" {
	run vm 'hasten revert'
	echo "$output"
	[ "$(queues)" = 1 ]
}
