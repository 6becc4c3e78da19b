#!/usr/bin/env bats
# Tuning steps on the kernel that runs here. Network: veth in a network name space of the test. Huge pages, THP, interrupts and wake-up times
# are the machine's own: each is put back by revert, checked, and put back once more by a trap whatever happens.

setup() {
	[ "$(id -u)" = 0 ] || skip "needs root"
	dir=$BATS_TEST_TMPDIR
	mkdir -p "$dir/profiles"
	printf 'schema: 1\nname: balanced\nsummary: for a test\nsettings: {}\n' >"$dir/profiles/balanced.yaml"
	make -s -C "$top_builddir" tests/unit/steps_driver >/dev/null
	cat >"$dir/room" <<-'END'
		set -eE
		trap 'echo "failed: $BASH_COMMAND"' ERR
		export HASTEN_PROFILE_DIR=$dir/profiles
		mkdir -p /var/lib/hasten
		mount -t tmpfs none /var/lib/hasten
		step() { "$driver" "$@"; }
		has() { [ "$(cat "$1")" = "$2" ] || { echo "$1 is $(cat "$1"), not $2"; false; }; }
		queues() { ethtool -l v0 | tail -5; ethtool -k v0; for i in /sys/class/net/v0/queues/*/{x,r}ps_cpus /sys/class/net/v0/queues/*/rps_flow_cnt; do
			[ ! -e $i ] || echo $i $(cat $i); done; }
	END
	cat >"$dir/veth" <<-'END'
		mount -t sysfs none /sys
		ip link add v0 numrxqueues 4 numtxqueues 4 type veth peer name v1 numrxqueues 4 numtxqueues 4
		ip link set v0 up
		ip link set v1 up
		ip address add 192.0.2.1/24 dev v0
		ethtool -L v0 rx 2 tx 2
	END
}

room() { # [UNSHARE OPTION..]: commands from standard input
	local made=
	[ -d /var/lib/hasten ] || made=1
	cat - >"$dir/script.body"
	cat "$dir/room" "${prepare:-/dev/null}" "$dir/script.body" >"$dir/script"
	run env dir="$dir" driver="$top_builddir/tests/unit/steps_driver" unshare --mount --propagation private "$@" bash "$dir/script"
	[ -z "$made" ] || rmdir /var/lib/hasten 2>/dev/null || true
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "veth: channels, offloads, XPS, RPS and RFS are set, verified and put back" {
	prepare=$dir/veth room --net <<-'END'
		echo 1 >/sys/class/net/v0/queues/rx-1/rps_cpus
		queues >/run/before.$$
		trap 'rm -f /run/before.$$' EXIT
		set -- nic.channels.combined=3 nic.features.rx-gro=true nic.features.generic-segmentation-offload=false nic.xps=spread \
			nic.rps.cpus=0-$(($(nproc) - 1)) nic.rps.flows=8192
		step plan v0 "$@"
		step apply v0 "$@" >/run/out.$$
		cat /run/out.$$; rm /run/out.$$
		ethtool -l v0 | grep -qx 'RX:		3'
		ethtool -k v0 | grep -q 'generic-receive-offload: on'
		ethtool -k v0 | grep -q 'generic-segmentation-offload: off'
		has /sys/class/net/v0/queues/rx-2/rps_flow_cnt 2048
		for q in 0 1 2; do
			[ $((0x$(tr -d , </sys/class/net/v0/queues/tx-$q/xps_cpus))) != 0 ]
			[ $((0x$(tr -d , </sys/class/net/v0/queues/rx-$q/rps_cpus))) != 0 ]
		done
		step verify -
		step apply v0 "$@" | grep -v '^ok' && false
		step revert -
		queues | diff /run/before.$$ -
	END
}

@test "veth: what depends on an offload comes back with it" {
	prepare=$dir/veth room --net <<-'END'
		queues >/run/before.$$
		trap 'rm -f /run/before.$$' EXIT
		step apply v0 nic.features.tx-scatter-gather=false
		ethtool -k v0 | grep -q 'tx-tcp-segmentation: off'
		step revert -
		queues | diff /run/before.$$ -
	END
}

@test "veth: an offload that the driver keeps, and rings that it has none of, are unsupported" {
	prepare=$dir/veth room --net <<-'END'
		step apply v0 nic.features.rx-ntuple-filter=true nic.rings.rx=512 nic.coalesce.rx-usecs=8 nic.rss.queues=2 >/run/out.$$ || true
		cat /run/out.$$
		[ "$(grep -c ^unsupported /run/out.$$)" = 4 ]
		rm /run/out.$$
	END
}

@test "huge pages, THP and wake-up times: set, verified, put back" {
	pages=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
	node=/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages
	thp=/sys/kernel/mm/transparent_hugepage/enabled
	latency=/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us
	[ -w "$node" ] && [ -w "$thp" ] && [ -w "$latency" ] || skip "this machine does not let them be set"
	local was_pages was_thp was_latency cpu
	was_pages=$(cat $pages) was_thp=$(sed 's/.*\[\(.*\)\].*/\1/' $thp) was_latency=$(cat $latency)
	trap 'echo $was_pages >$pages; echo $was_thp >$thp; for cpu in /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us; do echo $was_latency >$cpu; done' EXIT
	local other=never
	[ "$was_thp" != never ] || other=madvise
	room <<-END
		step apply - hugepages.2048kb=$((was_pages + 4)) thp.enabled=$other cpu.resume_latency_us=-1
		has $node $((was_pages + 4))
		grep -q '\[$other\]' $thp
		has $latency n/a
		step verify -
		step apply - hugepages.2048kb=$((was_pages + 4)) thp.enabled=$other cpu.resume_latency_us=-1 | grep -v '^ok' && false
		step revert -
		has $pages $was_pages
		grep -q '\[$was_thp\]' $thp
		has $latency $was_latency
	END
}

@test "an interrupt of a NIC is moved and comes back" {
	local nic= irq=
	for nic in /sys/class/net/*; do
		nic=${nic##*/}
		irq=$(grep -E "$(basename "$(readlink -f "/sys/class/net/$nic/device")")-input.0\$" /proc/interrupts 2>/dev/null | cut -d: -f1 | tr -d ' ')
		[ -z "$irq" ] || break
	done
	[ -n "$irq" ] || skip "no virtio NIC here"
	[ "$(nproc)" -gt 1 ] || skip "one CPU"
	local was
	was=$(cat "/proc/irq/$irq/smp_affinity_list")
	trap 'echo "$was" >"/proc/irq/$irq/smp_affinity_list"' EXIT
	room <<-END
		step apply $nic nic.irq.cpus=1
		has /proc/irq/$irq/smp_affinity_list 1
		step verify -
		step revert -
		has /proc/irq/$irq/smp_affinity_list "$was"
	END
}

@test "default_smp_affinity is set and comes back" {
	[ "$(nproc)" -gt 1 ] || skip "one CPU"
	local was
	was=$(cat /proc/irq/default_smp_affinity)
	trap 'echo "$was" >/proc/irq/default_smp_affinity' EXIT
	room <<-END
		step apply - irq.default_cpus=1
		[ \$((0x\$(tr -d , </proc/irq/default_smp_affinity))) = 2 ]
		step verify -
		step revert -
		has /proc/irq/default_smp_affinity "$was"
	END
}

@test "a managed interrupt (virtio-blk's request queue) is the kernel's: immutable, and no failure" {
	local name irq
	name=$(grep -oE 'virtio[0-9]+-req\.0$' /proc/interrupts | head -1)
	[ -n "$name" ] || skip "no virtio-blk here"
	irq=$(grep -E "$name\$" /proc/interrupts | cut -d: -f1 | tr -d ' ')
	local was before
	was=$(cat "/proc/irq/$irq/smp_affinity_list")
	# virtio-blk's vectors are managed where the driver asked for it (5.x and later, drivers/block/virtio_blk.c, init_vq).
	if (echo "$was" >"/proc/irq/$irq/smp_affinity_list") 2>/dev/null; then skip "$name is not managed here"; fi
	room <<-END
		[ "\$(step interrupt $name 0)" = immutable ]
	END
	[ "$(cat "/proc/irq/$irq/smp_affinity_list")" = "$was" ]
}

@test "a container's read-only /proc/sys: said before anything is tried, once, with the reason; nothing is left behind" {
	cat >"$dir/profiles/test.yaml" <<-'END'
		schema: 1
		name: test
		summary: for a test
		settings:
		  sysctl.net.core.somaxconn: {at-least: 60000, why: w, source: s}
		  sysctl.net.ipv4.tcp_fin_timeout: {value: 22, why: w, source: s}
		  thp.enabled: {value: never, why: w, source: s}
	END
	hasten=$top_builddir/hasten room --net --pid --fork --mount-proc <<-'END'
		mount --bind /proc/sys /proc/sys
		mount -o remount,ro,bind /proc/sys
		mount -t sysfs -o ro none /sys
		hasten=$top_builddir/hasten
		for command in "plan test" "apply test --yes" verify; do
			status=0
			"$hasten" $command >/run/out.$$ || status=$?
			cat /run/out.$$
			case $command in plan*) [ $status = 0 ] ;; *) [ $status = 1 ] ;; esac
			[ "$(grep -c 'denied  ' /run/out.$$)" = "$(grep -c ' -> ' /run/out.$$)" ]
			[ "$(grep -c '/proc/sys is read-only here' /run/out.$$)" = 1 ]
			[ "$(grep -c '/sys is read-only here' /run/out.$$)" = 2 ] || grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled
		done
		! [ -e /var/lib/hasten/journal ]
		"$hasten" revert
		rm /run/out.$$
		[ -z "$(ls -A /var/lib/hasten)" ]
	END
}
