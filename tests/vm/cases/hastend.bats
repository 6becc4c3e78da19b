#!/usr/bin/env bats
# hastend as a real unit: start order, readiness, watchdog, messages, a broken state file, not in the way of the boot.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	machine_start one smp=2 mem=1536
	machine_install one
	in_machine one 'systemctl enable hasten-apply hastend && hasten apply redis --yes'
	machine_reboot one
}

teardown_file() {
	machines_stop
}

vm() {
	in_machine one "$@"
}

property() { # UNIT NAME
	vm "systemctl show -P $2 $1"
}

@test "after a boot: settings before the network, then hastend, neither on the critical chain" {
	[ "$(property hasten-apply ActiveState)" = active ]
	[ "$(property hastend ActiveState)" = active ]
	# Microseconds since the boot: what systemd really did.
	applied=$(property hasten-apply ExecMainExitTimestampMonotonic)
	sysctl=$(property systemd-sysctl ExecMainExitTimestampMonotonic)
	network=$(property network-pre.target ActiveEnterTimestampMonotonic)
	networkd=$(property systemd-networkd ExecMainStartTimestampMonotonic)
	daemon=$(property hastend ExecMainStartTimestampMonotonic)
	echo "systemd-sysctl $sysctl, hasten-apply $applied, network-pre $network, networkd $networkd, hastend $daemon"
	[ "$sysctl" -le "$applied" ] && [ "$applied" -le "$network" ] && [ "$network" -le "$networkd" ] && [ "$applied" -le "$daemon" ]
	run vm 'systemd-analyze critical-chain --no-pager'
	echo "$output"
	[[ $output != *hastend* ]]
	# Nothing waits for hastend but the target that wants it.
	run vm 'systemctl list-dependencies --reverse --plain --no-legend hastend.service'
	echo "$output"
	[[ $output != *network* && $output != *cloud* ]]
}

@test "readiness: start returns when hastend answers; its status line says what holds" {
	vm 'systemctl restart hastend && hasten status >/tmp/status && grep -i hastend /tmp/status'
	[ "$(property hastend Type)" = notify ]
	[[ $(property hastend StatusText) == redis:* ]]
	vm '[ "$(stat -c %U:%G /run/hastend/control)" = root:root ]'
	# A message in the journal for each start, none of them an error.
	run vm 'journalctl -b -u hastend -p err --no-pager -o cat'
	[ -z "$output" ] || [[ $output == *"No entries"* ]]
}

@test "privileges as the unit says: one capability, a file system that it cannot write" {
	pid=$(property hastend MainPID)
	run vm "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/$pid/status | tr -s '\t\n' ' '"
	echo "$output"
	[[ $output == *"NoNewPrivs: 1"* && $output == *"CapEff: 0000000000001000"* && $output == *"Seccomp: 2"* ]]
	vm "nsenter -t $pid -m touch /etc/x 2>&1 | grep -q 'Read-only'"
	run vm 'systemd-analyze security hastend --no-pager | tail -1'
	echo "$output"
	[[ $output =~ "exposure level for hastend.service: "([0-9]+)\.([0-9]) ]]
	[ "${BASH_REMATCH[1]}" -lt 3 ]
	run vm 'systemd-analyze verify --man=no /usr/lib/systemd/system/hastend.service /usr/lib/systemd/system/hasten-apply.service'
	[[ $status = 0 && -z $output ]]
}

@test "killed: it comes again; settings stay; the control socket answers" {
	before=$(property hastend MainPID)
	vm "kill -9 $before; for i in \$(seq 30); do sleep 1; p=\$(systemctl show -P MainPID hastend); [ \$p != 0 ] && [ \$p != $before ] && break; done; sleep 1"
	[ "$(property hastend NRestarts)" = 1 ]
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 1 ]
	vm 'hasten verify && hasten status'
}

@test "stopped for the watchdog's time: killed by systemd, which says why, and started again" {
	# The unit's own time is 90 s; a shorter one leaves the rest as it is.
	vm 'mkdir -p /run/systemd/system/hastend.service.d && printf "[Service]\nWatchdogSec=12\n" >/run/systemd/system/hastend.service.d/test.conf && systemctl daemon-reload && systemctl restart hastend'
	before=$(property hastend MainPID)
	sleep 26
	[ "$(property hastend MainPID)" = "$before" ] # it feeds the watchdog as often as asked
	vm "kill -STOP $before; for i in \$(seq 60); do sleep 1; p=\$(systemctl show -P MainPID hastend); [ \$p != 0 ] && [ \$p != $before ] && break; done; sleep 1"
	[ "$(property hastend MainPID)" != "$before" ]
	[ "$(property hastend ActiveState)" = active ]
	run vm 'journalctl -b -u hastend --no-pager -o cat'
	[[ $output == *"Watchdog timeout"* ]]
	vm 'rm -r /run/systemd/system/hastend.service.d; systemctl daemon-reload; systemctl restart hastend'
}

@test "a burst of reloads while settings are changed: one answer each, and it ends as asked" {
	vm 'for i in $(seq 8); do systemctl reload hastend || exit 1; done; [ "$(systemctl is-active hastend)" = active ]'
	vm 'systemctl stop hastend'
	[ "$(property hastend Result)" = success ]
	[ "$(property hastend ExecMainStatus)" = 0 ]
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 1 ]
	run vm 'hasten status'
	[ "$status" -eq 0 ]
	vm 'systemctl start hastend'
}

@test "a state file that is spoilt: said, the network and the boot go on, hastend runs" {
	vm 'cp -a /var/lib/hasten /root/state; echo "{ not json" >/var/lib/hasten/set.json; sync'
	machine_reboot one
	[ "$(property network-pre.target ActiveState)" = active ]
	[ "$(property multi-user.target ActiveState)" = active ]
	[ "$(property hasten-apply ActiveState)" = failed ]
	run vm 'journalctl -b -u hasten-apply --no-pager -o cat'
	echo "$output"
	[[ $output == *set.json* ]]
	run vm 'journalctl -b -u hastend --no-pager -o cat; systemctl is-active hastend'
	echo "$output"
	[[ $output == *set.json* ]]
	[ "${lines[-1]}" = active ]
	vm 'rm -r /var/lib/hasten/* && cp -a /root/state/. /var/lib/hasten/ && systemctl reset-failed && systemctl restart hasten-apply hastend && hasten verify'
}

@test "a cloned image: another machine-id, the files and the set count, running originals are read anew" {
	vm 'systemd-machine-id-setup --help >/dev/null; : >/etc/machine-id; rm -f /var/lib/dbus/machine-id; sync'
	machine_reboot one
	run vm 'hasten verify'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 1 ]
	run vm 'hasten revert'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 0 ]
	[ -z "$(vm 'ls /var/lib/hasten | grep -v lock')" ]
}
