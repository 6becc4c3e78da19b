#!/usr/bin/env bats
# Every machine there is, from a tree: plan, apply, verify, apply again, revert, and how many operations each has.

load machines

setup_file() {
	# In memory: hundreds of small files, each fsynced.
	[ ! -w /dev/shm ] || export BATS_FILE_TMPDIR=$(mktemp -d /dev/shm/hasten-machines-XXXXXX)
	make_machines
}

teardown_file() {
	[[ $machines != /dev/shm/* ]] || rm -rf "${machines%/machines}"
}

setup() {
	export HASTEN_PROFILE_DIR=$top_srcdir/profiles
	roundtrip=$top_srcdir/tests/machines/roundtrip.py
}

@test "every synthetic machine: as many operations as worked out by hand, and every byte back" {
	[ "$(python3 "$roundtrip" "$hasten" synthetic "$machines"/synthetic/*)" -ge 26 ]
}

@test "every captured machine: as many operations as worked out by hand, and every byte back" {
	need_captured
	[ "$(python3 "$roundtrip" "$hasten" captured "$machines"/captured/*)" -ge 20 ]
}

@test "a whole machine: killed after every write, the next command recovers" {
	[ "$(python3 "$roundtrip" "$hasten" kill "$machines/synthetic/virtio-queues-1of4" packet-rate latency)" -gt 60 ]
	[ "$(python3 "$roundtrip" "$hasten" kill "$machines/synthetic/intel-ixgbevf" dpdk-noiommu redis throughput)" -gt 60 ]
}

@test "four at once, one of them hastend: each finds what the others set, and every byte comes back" {
	cp -a "$machines/synthetic/virtio-queues-1of4" "$BATS_TEST_TMPDIR/m"
	m=$BATS_TEST_TMPDIR/m control=$BATS_TEST_TMPDIR/control
	"$top_builddir/hastend" --root "$m" --control "$control" 2>"$BATS_TEST_TMPDIR/log" 3>&- &
	daemon=$!
	for i in 1 2 3 4 5; do "$hasten" apply packet-rate --root "$m"; done >/dev/null 3>&- &
	a=$!
	for i in 1 2 3 4 5; do "$hasten" apply redis latency --root "$m"; done >/dev/null 3>&- &
	b=$!
	for i in 1 2 3 4 5; do "$hasten" revert --root "$m"; done >/dev/null 3>&- &
	c=$!
	failed=0
	for i in $a $b $c; do wait $i || failed=1; done
	kill $daemon
	wait $daemon || true
	[ $failed = 0 ]
	"$hasten" verify --root "$m"
	"$hasten" revert --root "$m"
	diff <(cd "$machines/synthetic/virtio-queues-1of4" && find . -type f -exec sha256sum {} + | sort -k2) <(cd "$m" && find . -type f -exec sha256sum {} + | sort -k2)
}

@test "a whole machine: every write fails once, in every way" {
	for how in EIO EINVAL ENOSPC EBUSY ENODEV short; do # the others: tune.bats, test_engine
		python3 "$roundtrip" "$hasten" $how "$machines/synthetic/virtio-queues-1of4" packet-rate
	done
}
