#!/usr/bin/env bats
# README.md followed literally: every command of its code blocks is run in a machine as it stands there, or the reason why not is here.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	export commands=$BATS_FILE_TMPDIR/commands
	readme_commands "$vm_source/README.md" >"$commands"
	machine_start one smp=2 mem=2048 qemu="-netdev user,id=n0 -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01"
	machine_install one
	# A newcomer, who has sudo.
	in_machine one 'useradd -m newcomer; echo "newcomer ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/newcomer'
}

teardown_file() {
	machines_stop
}

vm() {
	in_machine one -t 300 "$@"
}

# The lines that are indented by four spaces, without what stands behind "#", and shell "&" kept.
readme_commands() { # FILE
	sed -n 's/^    //p' "$1" | sed -E 's/[[:space:]]+#.*$//; s/[[:space:]]+$//' | grep .
}

# What becomes of each: "run" (exit 0), "run N,M" (one of these), "start" (goes on in the background), or "not" and why. A command of README.md that
# has no line here makes the first test fail, and so does a line whose command is no longer there.
marks() {
	cat <<'END'
sudo ./installer/quickstart.sh|not|it builds from this folder with packages from a Debian mirror; tests/bats/installer does it on the host
sudo ./tests/run.sh|not|it is what runs the tests
curl -fsSL https://HOST/install.sh | sudo sh|not|HOST is the reader's; tests/vm/cases/install.bats does it from a server of its own
curl -fsSL https://HOST/install.sh | sudo sh -s -- --dry-run|not|the same
curl -fsSL https://HOST/install.sh | sudo sh -s -- --profile redis --enable redis-server|not|the same
hasten run --explain redis-server|run|
hasten run redis-server --port 7000 &|start|7000
hasten run redis-benchmark -p 7000 -c 100 -d 512 -t set|run|
hasten ss -s sock|run|
hasten config|run|
hasten bench redis --quick|not|a measurement: more than four minutes under emulation; tests/bats/bench.bats runs it on the host
sudo hasten enable --now redis-server|run|
hasten detect|run|
hasten check|run 0,1,2|
hasten profile list|run|
hasten plan redis|run|
sudo hasten apply redis|run|
hasten verify|run|
sudo hasten revert|run|
sudo systemctl enable --now hasten-apply.service hastend.service|run|
sudo ./installer/quickstart.sh --uninstall|not|what the quick start installed; tests/bats/installer
curl -fsSL https://HOST/install.sh | sudo sh -s -- --uninstall|not|HOST is the reader's; tests/vm/cases/install.bats does it
END
}

@test "every command of README.md is marked, and every mark is of a command" {
	run diff <(sort -u "$commands") <(marks | sed 's/|not|.*//; s/|run[ 0-9,]*|$//; s/|start|.*//' | sort -u)
	echo "$output"
	[ "$status" -eq 0 ]
}

# COMMAND as the newcomer types it.
type_it() {
	printf '%s\n' "$1" >"$BATS_TEST_TMPDIR/typed"
	in_machine one -t 600 -i 'cat >/home/newcomer/typed; chown newcomer /home/newcomer/typed; su - newcomer -c "sh ~/typed"' <"$BATS_TEST_TMPDIR/typed"
}

@test "each runnable one, in the order of the page, as a newcomer with sudo" {
	while IFS= read -r command; do
		mark=$(marks | awk -F'|' -v c="$command" 'index($0, c "|") == 1 { print substr($0, length(c) + 2); exit }')
		case $mark in
		not*) echo "# not run: $command (${mark#not|})" >&3; continue ;;
		start*)
			type_it "nohup setsid ${command%&} >/tmp/started 2>&1 & sleep 1" || return 1
			vm "for i in \$(seq 60); do redis-cli -p ${mark#start|} ping 2>/dev/null | grep -q PONG && exit 0; sleep 0.5; done; cat /tmp/started; exit 1" || return 1
			continue
			;;
		esac
		allowed=${mark#run}
		allowed=${allowed%|}
		allowed=${allowed# }
		from=$SECONDS
		status=0
		output=$(type_it "$command" 2>&1) || status=$?
		echo "# $((SECONDS - from)) s, exit $status: $command" >&3
		[[ ,${allowed:-0}, == *,$status,* ]] || { echo "$command: exit $status"; echo "$output"; return 1; }
	done <"$commands"
}

@test "afterwards the machine is as README.md says: settings back, the service accelerated until it is disabled" {
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 0 ]
	[ "$(vm 'systemctl is-active hastend')" = active ]
	vm 'hasten disable --now redis-server'
	[ -z "$(vm 'find /etc/systemd -name 60-hasten.conf')" ]
}
