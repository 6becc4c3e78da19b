#!/usr/bin/env bats
# Boot arguments: huge pages and isolated CPUs as planned after a reboot, a resized machine, revert, and gone.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	machine_start one smp=4 mem=4608
	machine_install one
	# The image's first grub.cfg is written by hand: what update-grub makes of it is what a revert has to come back to.
	in_machine one -t 240 'update-grub >/dev/null 2>&1; systemctl enable hasten-apply hastend
		mkdir -p /etc/hasten/profiles && cat >/etc/hasten/profiles/quiet.yaml <<-END
			schema: 1
			name: quiet
			summary: for the test
			boot: true
			settings:
			  hugepages.2048kb: {value: 48, why: a test, source: this test}
			  boot.hugepages_1gib: {value: 1, why: a test, source: this test}
			  boot.isolated_cpus: {value: "cpus.cores(cpus.isolatable, 1)", why: a test, source: this test}
			  boot.nohz_full: {value: "cpus.cores(cpus.isolatable, 1)", why: a test, source: this test}
			  boot.irqaffinity: {value: "cpus.online - cpus.cores(cpus.isolatable, 1)", why: a test, source: this test}
		END'
	files >"$BATS_FILE_TMPDIR/before"
	cmdline >"$BATS_FILE_TMPDIR/cmdline"
}

teardown_file() {
	machines_stop
}

vm() {
	in_machine one -t 240 "$@"
}

files() {
	vm 'find /etc /boot/grub -type f -exec sha256sum {} + | grep -vE "machine-id|resolv.conf|adjtime|/etc/ssh|grubenv|/etc/hasten/" | sort -k2; ls -R /var/lib/hasten 2>/dev/null; true'
}

# Where grub says it put the kernel depends on who made grub.cfg: the rest counts.
cmdline() {
	vm 'sed -E "s/BOOT_IMAGE=[^ ]* ?//; s/root=[^ ]* ?//" /proc/cmdline'
}

pages() { # KIB
	vm "cat /sys/kernel/mm/hugepages/hugepages-$1kB/nr_hugepages"
}

@test "plan says what the next boot brings, and nothing changes; apply leaves it pending" {
	run vm 'hasten plan quiet'
	echo "$output"
	[[ $output == *isolcpus=* && $output == *hugepages=1* ]]
	files | diff "$BATS_FILE_TMPDIR/before" -
	vm 'hasten plan quiet --json' >"$BATS_FILE_TMPDIR/plan.json"
	run vm 'hasten apply quiet --yes'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(pages 2048)" = 48 ]
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *pending-reboot* || $output == *"next boot"* || $output == *reboot* ]]
	vm 'grep -q isolcpus /boot/grub/grub.cfg && ! grep -q isolcpus /proc/cmdline'
}

@test "after the reboot verify says ok: the arguments, huge pages of both sizes, isolated CPUs as planned" {
	machine_reboot one
	vm 'cat /proc/cmdline'
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(pages 2048)" = 48 ]
	[ "$(pages 1048576)" = 1 ]
	planned=$(jq -r '.operations[].desired // empty | strings' "$BATS_FILE_TMPDIR/plan.json" | grep -oE 'isolcpus=[^ ]*' | head -1 | sed 's/.*,//')
	[ -n "$planned" ]
	[ "$(vm 'cat /sys/devices/system/cpu/isolated')" = "$planned" ]
	[ "$(vm 'cat /sys/devices/system/cpu/nohz_full')" = "$planned" ]
	[ "$(vm 'systemctl is-active hasten-apply')" = active ]
}

@test "the machine comes back smaller: stale, said as critical, and dropped from the boot after" {
	vm 'sync'
	machine_stop one
	machine_start one smp=2 mem=1536 keep=1
	run vm 'hasten status'
	echo "$output"
	[[ $output == *"Made for 4 CPUs"*"which this machine does not have"* ]]
	run vm 'hasten verify'
	echo "$output"
	vm '! grep -q isolcpus /boot/grub/grub.cfg'
	machine_reboot one
	vm '! grep -q isolcpus /proc/cmdline'
	[ -z "$(vm 'cat /sys/devices/system/cpu/isolated')" ]
}

@test "at its old size again, applied anew, it is as planned" {
	vm 'sync'
	machine_stop one
	machine_start one smp=4 mem=4608 keep=1
	run vm 'hasten apply quiet --yes'
	echo "$output"
	[ "$status" -eq 0 ]
	machine_reboot one
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
	[ -n "$(vm 'cat /sys/devices/system/cpu/isolated')" ]
}

@test "revert, reboot: gone" {
	run vm 'hasten revert'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(pages 2048)" = 0 ]
	files | diff "$BATS_FILE_TMPDIR/before" -
	machine_reboot one
	cmdline | diff "$BATS_FILE_TMPDIR/cmdline" -
	[ "$(pages 1048576)" = 0 ]
	[ -z "$(vm 'cat /sys/devices/system/cpu/isolated')" ]
}
