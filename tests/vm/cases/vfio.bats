#!/usr/bin/env bats
# An idle second card is handed to vfio-pci behind an IOMMU, again after a reboot, and given back; the card in use is refused.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	# Two CPUs: the profile dpdk asks for boot arguments from four on, which a kernel that QEMU loads itself would not get.
	machine_start one smp=2 mem=2048 boot=direct append="intel_iommu=on iommu=pt" \
		qemu="-machine kernel-irqchip=split -device intel-iommu,intremap=on -netdev user,id=n0 -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01
			-netdev user,id=n1 -device $(second_card)"
	machine_install one
	in_machine one 'systemctl enable hasten-apply hastend'
	state >"$BATS_FILE_TMPDIR/before"
}

teardown_file() {
	machines_stop
}

second_card() {
	echo "${HASTEN_VM_CARD:-e1000e},netdev=n1,mac=52:54:00:00:00:02,id=second"
}

vm() {
	in_machine one "$@"
}

# Of the function whose address is in $BATS_FILE_TMPDIR/second and of what else the profile changes.
state() {
	vm 'for i in /sys/bus/pci/devices/*; do echo "$i $(basename $(readlink $i/driver)) $(cat $i/driver_override)"; done
		ls /sys/class/net; cat /sys/kernel/mm/hugepages/*/nr_hugepages; find /etc -name "*hasten*" | grep -vE "^/etc/(hasten|systemd/system/.*)$"; ls /etc/modules-load.d /etc/modprobe.d'
}

second() { # the PCI address of the second card, whatever drives it
	cat "$BATS_FILE_TMPDIR/second"
}

driver() { # ADDRESS
	vm "basename \$(readlink /sys/bus/pci/devices/$1/driver)"
}

@test "detect: the card with the route is protected, the idle one may be taken" {
	vm 'for i in /sys/class/net/*/address; do case $(cat $i) in 52:54:00:00:00:01) e=first;; 52:54:00:00:00:02) e=second;; *) continue;; esac
		d=$(dirname $(readlink -f $i)); while [ ! -e $d/vendor ] || [ ! -e $d/driver_override ]; do d=$(dirname $d); done; echo $e $(basename $d) $(basename $(dirname $i)); done' >"$BATS_FILE_TMPDIR/cards"
	cat "$BATS_FILE_TMPDIR/cards"
	sed -n 's/^second \([^ ]*\) .*/\1/p' "$BATS_FILE_TMPDIR/cards" >"$BATS_FILE_TMPDIR/second"
	sed -n 's/^first \([^ ]*\) .*/\1/p' "$BATS_FILE_TMPDIR/cards" >"$BATS_FILE_TMPDIR/first"
	run vm 'hasten detect'
	echo "$output"
	run vm 'hasten plan dpdk'
	echo "$output"
	[[ $output == *"$(second)"*vfio-pci* ]]
	state | diff "$BATS_FILE_TMPDIR/before" -
}

@test "apply dpdk: the idle card is vfio-pci's, huge pages are there, the other card goes on" {
	run vm 'hasten apply dpdk --yes'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(driver "$(second)")" = vfio-pci ]
	vm 'ls /dev/vfio/[0-9]*'
	[ "$(vm 'cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages')" -gt 0 ]
	vm 'ping -c 1 -W 5 10.0.2.2 2>/dev/null || ip route get 10.0.2.2'
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "a profile that wants the card in use is refused for that card, with the reason" {
	vm 'mkdir -p /etc/hasten/profiles && printf "%s\n" "schema: 1" "name: greedy" "summary: for the test" "settings:" \
		"  nic.driver: {value: vfio-pci, why: a test, source: this test}" >/etc/hasten/profiles/greedy.yaml'
	run vm 'hasten plan dpdk greedy --all --allow-disruptive'
	echo "$output"
	[[ $output == *route* || $output == *address* || $output == *protected* ]]
	run vm 'hasten apply dpdk greedy --yes --allow-disruptive --confirm-within 20'
	echo "$output"
	[ "$(driver "$(cat "$BATS_FILE_TMPDIR/first")")" = virtio-pci ]
	[ "$(driver "$(second)")" = vfio-pci ]
	vm 'hasten confirm || true; hasten apply dpdk --yes && rm -r /etc/hasten/profiles'
	vm 'hasten verify --json' >"$BATS_TEST_TMPDIR/json"
	# The set that was made while the card was taken still holds it.
	jq -e '[.operations[] | select((.id | startswith("binding/")) and .status == "ok")] | length == 1' "$BATS_TEST_TMPDIR/json" || { cat "$BATS_TEST_TMPDIR/json"; return 1; }
}

@test "after a reboot it is so again" {
	machine_reboot one
	run vm 'journalctl -b -u hasten-apply --no-pager; hasten verify'
	echo "$output"
	[ "$(driver "$(second)")" = vfio-pci ]
	[ "$status" -eq 0 ]
}

@test "revert gives it back: driver, name, huge pages, nothing left" {
	run vm 'hasten revert'
	echo "$output"
	[ "$status" -eq 0 ]
	sleep 3
	state | diff "$BATS_FILE_TMPDIR/before" -
	[ -z "$(vm 'ls /var/lib/hasten')" ]
}
