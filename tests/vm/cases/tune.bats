#!/usr/bin/env bats
# Tuning a real machine: check, plan, apply, verify, reboot, verify, revert; hastend as a real unit.
# In the core run.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	machine_start one smp=4 mem=2048
	machine_install one
}

teardown_file() {
	machines_stop
}

vm() {
	in_machine one "$@"
}

# Everything that tuning may change: kernel settings, files, huge pages.
state() {
	vm 'sysctl -a 2>/dev/null | grep -vE "random|entropy|dentry|inode|nr_open_files|file-nr|\.pty\.nr|cad_pid|ns_last_pid|netfilter|conntrack|perf_cpu|sched_domain|stable_secret|fs.aio-nr|fs.quota|_reserve_kbytes|boot_id|uuid|urandom" | sort
		cat /sys/kernel/mm/transparent_hugepage/{enabled,defrag} /sys/devices/system/node/node*/hugepages/*/nr_hugepages
		for i in /proc/irq/[0-9]*; do echo "$i $(cat $i/smp_affinity_list)"; done
		find /etc /boot/grub -type f -exec sha256sum {} + | grep -vE "machine-id|/etc/(resolv.conf|adjtime|ssh)" | sort -k2'
}

@test "the units are well made, enabled, and not in the way of the boot" {
	vm 'systemctl enable --now hasten-apply.service hastend.service'
	vm 'systemd-analyze verify --man=no /usr/lib/systemd/system/hastend.service /usr/lib/systemd/system/hasten-apply.service'
	[ "$(vm 'systemctl is-active hastend')" = active ]
	run vm 'systemd-analyze security hastend --no-pager | tail -1'
	echo "$output" >&3
	[[ $output =~ "exposure level for hastend.service: "([0-9]+)\.([0-9]) ]]
	[ "${BASH_REMATCH[1]}" -lt 4 ]
	run vm 'systemd-analyze critical-chain --no-pager'
	[[ $output != *hastend* ]]
}

@test "a newcomer's way: check, profile, plan, apply, verify, status" {
	run vm 'hasten check'
	[ "$status" -le 2 ]
	run vm 'hasten profile list'
	[[ $output == *redis* ]]
	state >"$BATS_FILE_TMPDIR/before"
	run vm 'hasten plan redis packet-rate --detailed-exitcode'
	[ "$status" -eq 2 ]
	state | diff "$BATS_FILE_TMPDIR/before" -
	run vm 'hasten apply redis packet-rate'
	echo "$output"
	[ "$status" -eq 0 ]
	run vm 'hasten verify'
	[ "$status" -eq 0 ]
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 1 ]
	run vm 'hasten plan redis packet-rate --detailed-exitcode'
	[ "$status" -eq 0 ]
}

@test "after a reboot it is as applied, and hastend runs" {
	machine_reboot one
	[ "$(vm 'systemctl is-active hasten-apply')" = active ]
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 1 ]
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
	# Before the network: the order that systemd took.
	run vm 'systemd-analyze dot --order hasten-apply.service 2>/dev/null | grep network-pre'
	[[ $output == *'"network-pre.target"->"hasten-apply.service"'* ]]
}

@test "hastend: reload, somebody else's change stays, the watchdog restarts it, stopping changes nothing" {
	vm 'sysctl -qw vm.swappiness=33; systemctl reload hastend; sleep 1'
	[ "$(vm 'sysctl -n vm.swappiness')" = 33 ]
	run vm 'journalctl -u hastend --no-pager'
	[[ $output == *"vm.swappiness is 33"*"somebody else changed it; kept"* ]]
	vm 'sysctl -qw vm.swappiness=10'
	before=$(vm 'systemctl show -P MainPID hastend')
	vm "kill -STOP $before"
	for _ in $(seq 60); do
		now=$(vm 'systemctl show -P MainPID hastend')
		[ "$now" = "$before" ] || [ "$now" = 0 ] || break
		sleep 4
	done
	[ "$now" != "$before" ]
	[ "$(vm 'systemctl is-active hastend')" = active ]
	vm 'systemctl stop hastend'
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 1 ]
	vm 'systemctl start hastend'
}

@test "a CPU goes and comes back; the machine is as applied afterwards" {
	vm 'echo 0 >/sys/devices/system/cpu/cpu3/online; sleep 6; systemctl is-active hastend'
	vm 'echo 1 >/sys/devices/system/cpu/cpu3/online; sleep 6'
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "revert, and a reboot: everything is as it was" {
	run vm 'hasten revert'
	echo "$output"
	[ "$status" -eq 0 ]
	state | diff "$BATS_FILE_TMPDIR/before" -
	[ "$(vm 'ls /var/lib/hasten 2>/dev/null | wc -l')" = 0 ]
	machine_reboot one
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 0 ]
	state | diff "$BATS_FILE_TMPDIR/before" -
}
