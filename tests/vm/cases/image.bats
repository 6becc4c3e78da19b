#!/usr/bin/env bats
# A golden image: hasten put into a mounted one with --root, and two machines of different size booted from it.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	mkdir -p "$machines/golden"
	qemu-img create -q -f qcow2 -b "$vm_image/disk.raw" -F raw "$machines/golden/disk.qcow2"
	# The workshop boots directly: the root of both disks has the same label.
	machine_start workshop smp=2 mem=1536 boot=direct qemu="-drive id=d1,if=none,file=$machines/golden/disk.qcow2,format=qcow2,cache=unsafe -device virtio-blk-pci,drive=d1"
	machine_install workshop
}

teardown_file() {
	machines_stop
}

work() {
	in_machine workshop -t 240 "$@"
}

@test "apply, enable and systemctl with --root write the image and nothing else" {
	work 'mkdir -p /mnt/image /mnt/tree && mount /dev/vdb2 /mnt/image && mount -t 9p -o trans=virtio,ro tree /mnt/tree && cp -a /mnt/tree/. /mnt/image/ &&
		for i in proc sys dev; do mount --rbind /$i /mnt/image/$i; done
		mkdir -p /mnt/image/etc/hasten/profiles && printf "%s\n" "schema: 1" "name: quiet" "summary: for the test" "boot: true" "settings:" \
			"  hugepages.2048kb: {value: \"cpus.count * 8\", why: a test, source: this test}" >/mnt/image/etc/hasten/profiles/quiet.yaml
		find /etc /var/lib -type f -exec sha256sum {} + | sort -k2 >/root/before; sysctl -a 2>/dev/null | grep ^vm | grep -v stat >/root/sysctl'
	run work 'hasten apply --root /mnt/image --yes redis quiet'
	echo "$output"
	[ "$status" -eq 0 ]
	run work 'hasten enable --root /mnt/image redis-server && systemctl --root=/mnt/image enable hasten-apply.service hastend.service redis-server'
	echo "$output"
	[ "$status" -eq 0 ]
	run work 'hasten status --root /mnt/image'
	echo "$output"
	[[ $output == *redis* ]]
	work 'find /etc /var/lib -type f -exec sha256sum {} + | sort -k2 | diff /root/before - && sysctl -a 2>/dev/null | grep ^vm | grep -v stat | diff /root/sysctl -'
	work 'umount -R /mnt/image && sync'
	machine_stop workshop
}

@test "a machine from it: applied at its first boot by its own measure, Redis accelerated" {
	machine_start golden smp=2 mem=1536 keep=1
	run in_machine golden 'cat /etc/machine-id; hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(in_machine golden 'sysctl -n vm.overcommit_memory')" = 1 ]
	[ "$(in_machine golden 'cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages')" = 16 ]
	[ "$(in_machine golden 'systemctl is-active hastend')" = active ]
	in_machine golden 'grep -q libhasten /proc/$(systemctl show -P MainPID redis-server)/maps'
	in_machine golden 'sync'
	machine_stop golden
}

@test "a larger one: worked out anew" {
	rm "$machines/golden/agent"
	machine_start golden smp=4 mem=2048 keep=1
	run in_machine golden 'hasten status; hasten verify'
	echo "$output"
	[ "$(in_machine golden 'sysctl -n vm.overcommit_memory')" = 1 ]
	run in_machine golden 'hasten apply redis quiet --yes; hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(in_machine golden 'cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages')" = 32 ]
	run in_machine golden 'hasten revert'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(in_machine golden 'sysctl -n vm.overcommit_memory')" = 0 ]
}
