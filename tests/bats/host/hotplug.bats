#!/usr/bin/env bats
# A card that comes and goes, thousands of times: memory and open files stay flat. HOTPLUG_CYCLES=20000 for the long run (about four minutes).

@test "hot-plug cycles leave memory and open files flat over the last half" {
	export HASTEN_PROFILE_DIR=$top_srcdir/profiles
	"$top_srcdir/tests/machines/make" "$BATS_TEST_TMPDIR" virtio-queues-1of4 >/dev/null
	"$top_builddir/hasten" apply packet-rate --root "$BATS_TEST_TMPDIR/virtio-queues-1of4" >/dev/null
	make -s -C "$top_builddir" tests/unit/hotplug_cycles
	run "$top_builddir/tests/unit/hotplug_cycles" "$BATS_TEST_TMPDIR/virtio-queues-1of4" "${HOTPLUG_CYCLES:-2000}"
	echo "$output" | tail -1 | sed "s,^,# ," >&3
	[ "$status" -eq 0 ]
}
