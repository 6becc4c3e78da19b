#!/usr/bin/env bats
# hasten check: findings on machines made for it, exit status, JSON.

setup_file() {
	"$top_srcdir/tests/machines/make" "$BATS_FILE_TMPDIR/machines" virtio-queues-1of4 alibaba-erdma-unbound alibaba-erdma-compat cpu0-offline gce-gvnic azure-mlx5 >/dev/null
}

setup() {
	hasten=$top_builddir/hasten
	machines=$BATS_FILE_TMPDIR/machines
}

finding() { # ID [SUBJECT]: of the document in $output
	jq -c --arg id "$1" --arg subject "${2:-}" '.findings[] | select(.id == $id and ($subject == "" or .subject == $subject))' <<<"$output"
}

@test "one of four queues in use: said, with the mend" {
	run "$hasten" check queues --root "$machines/virtio-queues-1of4"
	[ "$status" -eq 1 ]
	[[ $output == *"warning"*"queues"*"eth0"*"1 of 4 queues in use, 4 CPUs"* ]]
	[[ $output == *"expected: 4 queues"* ]]
	[[ $output == *"why: "* ]]
	[[ $output == *"to mend: sudo hasten apply packet-rate"* ]]
}

@test "a machine in order exits 0, and --quiet says nothing" {
	run "$hasten" check --root "$machines/gce-gvnic" queues irq-spread clock
	[ "$status" -eq 0 ]
	[[ $output == *"3 in order"* ]]
	run "$hasten" check -q --root "$machines/gce-gvnic" queues irq-spread clock
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "an RDMA function without a driver is critical, and the rungs above it are silent" {
	run "$hasten" check rdma --json --root "$machines/alibaba-erdma-unbound"
	[ "$status" -eq 2 ]
	[ "$(finding rdma.driver | jq -r .status)" = critical ]
	[ "$(finding rdma.driver | jq -r .fix)" = "sudo hasten driver install erdma" ]
	[ "$(finding rdma.device | jq -r .status)" = skipped ]
}

@test "compat mode's ports: a warning until they are reserved" {
	cp -r "$machines/alibaba-erdma-compat" "$BATS_TEST_TMPDIR/m"
	run "$hasten" check rdma.compat --root "$BATS_TEST_TMPDIR/m"
	[ "$status" -eq 1 ]
	[[ $output == *"30608-30623"* ]]
	for ports in 30608-30623 80,30000-31000; do
		echo "$ports" >"$BATS_TEST_TMPDIR/m/proc/sys/net/ipv4/ip_local_reserved_ports"
		run "$hasten" check rdma.compat --root "$BATS_TEST_TMPDIR/m"
		[ "$status" -eq 0 ]
	done
	for ports in 30608-30622 30609-30623 3060 ''; do
		echo "$ports" >"$BATS_TEST_TMPDIR/m/proc/sys/net/ipv4/ip_local_reserved_ports"
		run "$hasten" check rdma.compat --root "$BATS_TEST_TMPDIR/m"
		[ "$status" -eq 1 ]
	done
}

@test "all interrupts on one CPU are named with the CPU" {
	run "$hasten" check irq-spread --root "$machines/cpu0-offline"
	[ "$status" -eq 1 ]
	[[ $output == *"8 of 8 queue interrupts on CPU 1, 1 of 6 CPUs serve any"* ]]
}

@test "Azure's pair of one address is said, and the mend is one that works; an empty tree is unknown" {
	cp -r "$machines/azure-mlx5" "$BATS_TEST_TMPDIR/m"
	run "$hasten" check driver --root "$BATS_TEST_TMPDIR/m"
	[ "$status" -eq 0 ]
	[[ $output == *"hv_netvsc; another card has its address: profiles leave both alone"* ]]
	jq '.ethtool.enP30832s1.channels.combined.value = 1' "$machines/azure-mlx5/hasten-capture.json" >"$BATS_TEST_TMPDIR/m/hasten-capture.json"
	run "$hasten" check queues --root "$BATS_TEST_TMPDIR/m"
	[[ $output == *"sudo ethtool -L enP30832s1 combined 8"* ]]
	mkdir "$BATS_TEST_TMPDIR/empty"
	run "$hasten" check --root "$BATS_TEST_TMPDIR/empty"
	[ "$status" -eq 3 ]
	[[ $output == *"nothing of a machine is there"* ]]
}

@test "losses at rings and in the backlog are found in the counters" {
	cp -r "$machines/gce-gvnic" "$BATS_TEST_TMPDIR/m"
	statistics=$BATS_TEST_TMPDIR/m/sys/class/net/ens4/statistics
	mkdir -p "$statistics"
	for counter in rx_missed_errors rx_fifo_errors rx_packets; do echo 0 >"$statistics/$counter"; done
	echo 1000000 >"$statistics/rx_packets"
	run "$hasten" check ring-drops --root "$BATS_TEST_TMPDIR/m"
	[ "$status" -eq 0 ]
	echo 5000 >"$statistics/rx_missed_errors"
	run "$hasten" check ring-drops --root "$BATS_TEST_TMPDIR/m"
	[ "$status" -eq 1 ]
	[[ $output == *"5000 of 1005000 packets lost"* ]]
	mkdir -p "$BATS_TEST_TMPDIR/m/proc/net"
	printf '00100000 00000000 00000000 00000000\n00100000 0000000a 00000000 00000000\n' >"$BATS_TEST_TMPDIR/m/proc/net/softnet_stat"
	run "$hasten" check softnet-drops --root "$BATS_TEST_TMPDIR/m"
	[ "$status" -eq 0 ] # 10 of two millions
	printf '00100000 00000000 00000000 00000000\n00100000 00000064 00000000 00000000\n' >"$BATS_TEST_TMPDIR/m/proc/net/softnet_stat"
	run "$hasten" check softnet-drops --root "$BATS_TEST_TMPDIR/m"
	[ "$status" -eq 1 ]
	[[ $output == *"100 dropped"* ]]
	echo nonsense >"$BATS_TEST_TMPDIR/m/proc/net/softnet_stat"
	run "$hasten" check softnet-drops --root "$BATS_TEST_TMPDIR/m"
	[ "$status" -eq 3 ]
}

@test "--json fits its schema on every machine here" {
	for m in "$machines"/*; do
		"$hasten" check --json --root "$m" >"$BATS_TEST_TMPDIR/out.json" || [ $? -le 3 ]
		python3 - "$top_srcdir/schema/check.schema.json" "$BATS_TEST_TMPDIR/out.json" <<-'END'
			import json, sys, jsonschema
			jsonschema.validate(json.load(open(sys.argv[2])), json.load(open(sys.argv[1])))
		END
	done
}

@test "the manual lists the checks that there are" {
	diff <("$hasten" check --list | sed -E 's/^([^ ]+) +([^ ]+) +/\1|\2|/') \
		<(sed -n '/^\.TS$/,/^\.TE$/p' "$top_srcdir/man/hasten-check.1" | grep -E '^[a-z.-]+\|[a-z]+\|')
}

@test "wrong use" {
	run "$hasten" check nosuch --root "$machines/gce-gvnic"
	[[ $status = 64 && $output == *'no check "nosuch"'* ]]
	run "$hasten" check --frobnicate
	[ "$status" -eq 64 ]
	run "$hasten" check --root "$BATS_TEST_TMPDIR/none"
	[ "$status" -eq 64 ]
}
