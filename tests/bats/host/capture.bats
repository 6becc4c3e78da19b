#!/usr/bin/env bats
# hasten capture: the copy gives the same facts, and holds nothing that names the machine.

load machines

setup_file() {
	make_machines
}

setup() {
	for name in $(compgen -e | grep -E '^(HASTEN_|NACC_)'); do unset "$name"; done
	unset LD_PRELOAD
	copy=$BATS_TEST_TMPDIR/copy
}

# What must be the same; addresses, GUIDs and VMBus's paths are other ones, and so are texts that name an address.
facts() { # ROOT
	"$hasten" detect --json --root "$1" | jq 'del(.nics[] | .id, .address, .path) | (.nics[].protected_by |= (. != null)) |
		del(.rdma[] | .node_guid, .pci) | del(.platform.command_line) | del(.memory.available_kib, .memory.nodes[].free_kib)'
}

same_facts() { # TREE
	rm -rf "$copy"
	"$hasten" capture --root "$1" "$copy" >/dev/null
	diff <(facts "$1") <(facts "$copy") >"$BATS_TEST_TMPDIR/diff" || { echo "${1##*/}:" && head -20 "$BATS_TEST_TMPDIR/diff" && return 1; }
}

@test "the same facts: every synthetic machine" {
	local tree bad=0
	for tree in "$machines"/synthetic/*; do
		same_facts "$tree" || bad=1
	done
	[ $bad = 0 ]
}

@test "the same facts: every captured machine" {
	need_captured
	local tree bad=0
	for tree in "$machines"/captured/*; do
		same_facts "$tree" || bad=1
	done
	[ $bad = 0 ]
}

@test "the same findings of hasten check" {
	local tree
	for tree in alibaba-erdma virtio-queues-1of4 metal-mlx5-bond; do
		rm -rf "$copy"
		"$hasten" capture --root "$machines/synthetic/$tree" "$copy" >/dev/null
		diff <("$hasten" check --json --root "$machines/synthetic/$tree" | jq -c '.findings[] | [.id, .subject, .status]') \
			<("$hasten" check --json --root "$copy" | jq -c '.findings[] | [.id, .subject, .status]')
	done
}

@test "this machine: the same facts, and no address, name or id of it" {
	"$hasten" capture "$copy" >/dev/null
	# counters go on meanwhile
	diff <(facts / | jq 'del(.nics[].interrupts[].count)') <(facts "$copy" | jq 'del(.nics[].interrupts[].count)')
	local secret
	for secret in $(cat /sys/class/net/*/address 2>/dev/null | grep -v '^00:00:00:00:00:00$') $(cat /etc/machine-id /proc/sys/kernel/random/boot_id 2>/dev/null) \
		$(ip -o address | awk '{ sub("/.*", "", $4); print $4 }' | grep -vE '^(127\.|::1$)'); do
		! grep -rqF -- "$secret" "$copy" || { echo "$secret:" && grep -rlF -- "$secret" "$copy" | head -3 && return 1; }
	done
	[ "$(cat "$copy/proc/sys/kernel/hostname")" = host ]
	if python3 -c 'import jsonschema' 2>/dev/null; then
		python3 -c 'import json, jsonschema, sys; jsonschema.validate(json.load(open(sys.argv[2])), json.load(open(sys.argv[1])))' \
			"$top_srcdir/schema/capture.schema.json" "$copy/hasten-capture.json"
	fi
}

@test "addresses, serials, names, UUIDs are replaced, each always by the same" {
	local tree=$BATS_TEST_TMPDIR/tree
	cp -a "$machines/synthetic/azure-mlx5" "$tree"
	echo "db-frankfurt-7" | tee "$tree/proc/sys/kernel/hostname" >"$tree/etc/hostname"
	echo "BOOT_IMAGE=/x root=UUID=66666666-7777-8888-9999-aaaaaaaaaaaa ip=192.0.2.10::192.0.2.1 token=geheim isolcpus=2-3 quiet -- --secret=innen" >"$tree/proc/cmdline"
	printf '# Frau Muster, Telefon 123\nnet.core.somaxconn = 2048\nx = db-frankfurt-7 192.0.2.10 00:0d:3a:00:00:01\n' >"$tree/etc/sysctl.d/50-own.conf"
	echo "SN-4711" >"$tree/sys/devices/virtual/dmi/id/board_serial"
	printf '/dev/mapper/vg0-root / ext4 rw 0 0\nnas.intern:/export /data nfs4 rw 0 0\n' >"$tree/proc/self/mounts"
	"$hasten" capture --root "$tree" "$copy" >/dev/null
	! grep -rE 'db-frankfurt|66666666-7777|192\.0\.2\.|geheim|innen|Muster|00:0d:3a|SN-4711|11111111-2222|0123456789abcdef01|nas\.intern|vg0' "$copy"
	[ -z "$(find "$copy" -name '*000d3a00*')" ]
	# one line each, so that messages name the right ones
	[ "$(sed -n 2p "$copy/etc/sysctl.d/50-own.conf")" = "net.core.somaxconn = 2048" ]
	# the VF and the synthetic card still share an address, and the RDMA device's GUID is made of it
	[ "$(cat "$copy/sys/class/net/eth0/address")" = "$(cat "$copy/sys/class/net/enP30832s1/address")" ]
	[ "$("$hasten" detect --json --root "$copy" | jq -c '[.nics[] | select(.name) | .ambiguous] | unique')" = '[true]' ]
	grep -q 'isolcpus=2-3' "$copy/proc/cmdline"
	grep -q 'ip=scrubbed' "$copy/proc/cmdline"
	# an older kernel's RDMA device, which pairs by the address in its GUID only
	rm -rf "$copy"
	"$hasten" capture --root "$machines/synthetic/alibaba-erdma-compat" "$copy" >/dev/null
	[ "$("$hasten" detect --json --root "$copy" | jq -c '.rdma[0] | [.netdev, .paired_by]')" = '["eth0","guid"]' ]
	! grep -rq '00:16:3e\|0216:3eff' "$copy"
}

@test "archives" {
	local form
	for form in tar tar.gz tgz tar.bz2 tar.xz; do
		"$hasten" capture --root "$machines/synthetic/small-2cpu" "$BATS_TEST_TMPDIR/a.$form" >/dev/null
		mkdir "$BATS_TEST_TMPDIR/x"
		case $form in tar.bz2) command -v bzip2 >/dev/null || continue ;; esac
		tar -C "$BATS_TEST_TMPDIR/x" -xf "$BATS_TEST_TMPDIR/a.$form"
		diff <(facts "$machines/synthetic/small-2cpu") <(facts "$BATS_TEST_TMPDIR/x/a")
		rm -r "$BATS_TEST_TMPDIR/x"
	done
}

@test "what is there is not written over; what cannot be written says so" {
	mkdir "$copy" && touch "$copy/mine"
	run "$hasten" capture --root "$machines/synthetic/small-2cpu" "$copy"
	[ "$status" = 1 ] && [[ $output == *"is there already"* ]]
	touch "$BATS_TEST_TMPDIR/b.tar"
	run "$hasten" capture --root "$machines/synthetic/small-2cpu" "$BATS_TEST_TMPDIR/b.tar"
	[ "$status" = 1 ] && [[ $output == *"is there already"* ]] && [ ! -s "$BATS_TEST_TMPDIR/b.tar" ]
	run "$hasten" capture --root "$machines/synthetic/small-2cpu" /no/such/place/c.tar
	[ "$status" = 1 ] && [[ $output == *"/no/such/place/c.tar"* ]]
	run "$hasten" capture
	[ "$status" = 64 ]
}

@test "hostile trees are captured or refused, and nothing is written outside" {
	local seed
	for seed in 1 2 3; do
		rm -rf "$copy" "$BATS_TEST_TMPDIR/spoilt"
		python3 - "$top_srcdir/tests/machines/spoil.py" "$machines/synthetic/small-2cpu" "$BATS_TEST_TMPDIR/spoilt" $seed <<'END'
import sys
spoil, source, to, seed = sys.argv[1:]
text = open(spoil).read()
sys.argv = [spoil, "", "", "0"]
exec(compile(text[:text.index("\nbad = 0")], spoil, "exec"))
spoilt(source, to, int(seed))
END
		run timeout 30 "$hasten" capture --root "$BATS_TEST_TMPDIR/spoilt" "$copy"
		[ "$status" = 0 ] || { [ "$status" -le 64 ] && [ "${#lines[@]}" = 1 ]; } || { echo "seed $seed: $status $output" && return 1; }
	done
}
