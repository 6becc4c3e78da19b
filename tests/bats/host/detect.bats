#!/usr/bin/env bats
# hasten detect on every machine: its facts against values worked out by other means than its own output.

load machines

setup_file() {
	make_machines
}

setup() {
	for name in $(compgen -e | grep -E '^(HASTEN_|NACC_)'); do unset "$name"; done
	unset LD_PRELOAD
}

detect() { # ROOT
	"$hasten" detect --json --root "$1"
}

each_tree() { # COMMAND...: with a tree's path as its last argument; all are tried before it fails
	local tree bad=0
	for tree in "$machines"/synthetic/* "$machines"/captured/*; do
		[ -d "$tree" ] || continue
		"$@" "$tree" || bad=1
	done
	return $bad
}

@test "every document follows the schema" {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	cat >"$BATS_TEST_TMPDIR/valid.py" <<'END'
import json, jsonschema, subprocess, sys
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
for root in sys.argv[3:]:
    out = subprocess.run([sys.argv[2], "detect", "--json", "--root", root], capture_output=True)
    assert out.returncode == 0 and not out.stderr, (root, out)
    document = json.loads(out.stdout)
    jsonschema.validate(document, schema)
    # and it refuses what it should
    for change in ({"more": 1}, {"schema_version": 2}, {"nics": None}):
        try:
            jsonschema.validate(dict(document, **change), schema)
        except jsonschema.ValidationError:
            continue
        raise AssertionError("takes %r" % change)
END
	python3 "$BATS_TEST_TMPDIR/valid.py" "$top_srcdir/schema/detect.schema.json" "$hasten" / "$machines"/synthetic/* $(find "$machines/captured" -mindepth 1 -maxdepth 1)
	python3 - "$top_srcdir/schema/capture.schema.json" "$machines"/synthetic/*/hasten-capture.json <<'END'
import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
for name in sys.argv[2:]:
    jsonschema.validate(json.load(open(name)), schema)
END
}

oracle() {
	python3 "$top_srcdir/tests/machines/oracle.py" "$hasten" "$@"
}

@test "synthetic machines: facts worked out from the tree by another program" {
	oracle "$machines"/synthetic/*
}

@test "captured machines: facts worked out from the tree by another program" {
	need_captured
	oracle "$machines"/captured/*
}

@test "this machine: facts worked out from its files by another program" {
	oracle /
}

@test "synthetic machines: protection, families, roles, pairs as worked out by hand" {
	python3 "$top_srcdir/tests/machines/expect.py" "$hasten" "$machines/synthetic"
}

# lscpu itself does not start without /sys/devices/system/cpu/possible, which five of the old trees lack.
@test "CPU topology as lscpu --sysroot has it" {
	command -v lscpu >/dev/null || skip "lscpu is not installed"
	local tree theirs ours bad=0 n=0
	for tree in "$machines"/synthetic/* "$machines"/captured/*; do
		[ -e "$tree/sys/devices/system/cpu/possible" ] || continue
		theirs=$(lscpu --sysroot "$tree" -y -p=CPU,CORE,SOCKET,NODE | grep -v '^#' | sed 's/-//g' | sort -n)
		ours=$(detect "$tree" | jq -r '.cpus.list[] | select(.online) | [.id, .core // "", .package // "", .node // ""] | map(tostring) | join(",")' | sort -n)
		n=$((n + 1))
		[ "$theirs" = "$ours" ] || { bad=1 && echo "$tree:" && diff <(echo "$theirs") <(echo "$ours") | head -5; }
	done
	[ $bad = 0 ] && [ $n -ge 26 ]
}

# Where hwloc counts otherwise: s390 has no package numbers (hwloc takes the books), and it does not count Bulldozer's shared cores as threads.
@test "CPUs, cores, packages as hwloc has them" {
	command -v lstopo-no-graphics >/dev/null || skip "hwloc is not installed"
	local tree theirs ours xml bad=0
	for tree in "$machines"/synthetic/* "$machines"/captured/*; do
		[ -d "$tree" ] || continue
		case ${tree##*/} in 20s390-* | 64amd64-4s2n4ca2co) continue ;; esac
		xml=$(lstopo-no-graphics --input "$tree" --if fsroot --disallowed --no-io --of xml 2>/dev/null)
		theirs="$(grep -c 'type="PU"' <<<"$xml") $(grep -c 'type="Core"' <<<"$xml") $(grep -c 'type="Package"' <<<"$xml")"
		ours=$(detect "$tree" | jq -r '[.cpus.online_count, .cpus.cores, .cpus.packages] | map(tostring) | join(" ")')
		[ "$theirs" = "$ours" ] || { bad=1 && echo "${tree##*/}: hasten $ours, hwloc $theirs"; }
	done
	[ $bad = 0 ]
}

@test "control groups: the narrowest limit of ours and those above, version 1 and 2" {
	local tree=$BATS_TEST_TMPDIR/v2
	cp -a "$machines/synthetic/small-2cpu" "$tree"
	mkdir -p "$tree/sys/fs/cgroup/a/b"
	printf '0::/a/b\n' >"$tree/proc/self/cgroup"
	echo "150000 100000" >"$tree/sys/fs/cgroup/a/cpu.max"
	echo "max 100000" >"$tree/sys/fs/cgroup/a/b/cpu.max"
	echo 1073741824 >"$tree/sys/fs/cgroup/a/memory.max"
	echo max >"$tree/sys/fs/cgroup/a/b/memory.max"
	echo 1 >"$tree/sys/fs/cgroup/a/b/cpuset.cpus.effective"
	[ "$(detect "$tree" | jq -c '[.cpus.quota_millicpus, .memory.limit_kib, .cpus.allowed]')" = '[1500,1048576,"1"]' ]
	tree=$BATS_TEST_TMPDIR/v1
	cp -a "$machines/synthetic/small-2cpu" "$tree"
	rm -r "$tree/sys/fs/cgroup"
	mkdir -p "$tree/sys/fs/cgroup/cpu,cpuacct/x" "$tree/sys/fs/cgroup/memory/x"
	printf '4:memory:/x\n3:cpu,cpuacct:/x\n1:name=systemd:/\n' >"$tree/proc/self/cgroup"
	echo -1 >"$tree/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"
	echo 100000 >"$tree/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"
	echo 50000 >"$tree/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us"
	echo 100000 >"$tree/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us"
	echo 9223372036854771712 >"$tree/sys/fs/cgroup/memory/memory.limit_in_bytes"
	echo 536870912 >"$tree/sys/fs/cgroup/memory/x/memory.limit_in_bytes"
	[ "$(detect "$tree" | jq -c '[.cpus.quota_millicpus, .memory.limit_kib]')" = '[500,524288]' ]
}

@test "other owners of settings" {
	local tree=$BATS_TEST_TMPDIR/owners
	cp -a "$machines/synthetic/small-2cpu" "$tree"
	mkdir -p "$tree/usr/sbin" "$tree/usr/lib/tuned/profiles" "$tree/etc/tuned" "$tree/run/tuned" "$tree/proc/77" \
		"$tree"/sys/fs/cgroup/system.slice/{irqbalance,tlp,NetworkManager}.service
	touch "$tree/usr/sbin/irqbalance" "$tree/usr/sbin/tuned" "$tree/usr/bin/cloud-init" 2>/dev/null || mkdir -p "$tree/usr/bin" && touch "$tree/usr/bin/cloud-init" "$tree/usr/sbin/irqbalance" "$tree/usr/sbin/tuned"
	echo "populated 1" >"$tree/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.events"
	echo "populated 1" >"$tree/sys/fs/cgroup/system.slice/tlp.service/cgroup.events"
	echo "populated 0" >"$tree/sys/fs/cgroup/system.slice/NetworkManager.service/cgroup.events"
	echo 77 >"$tree/run/tuned/tuned.pid"
	echo tuned >"$tree/proc/77/comm"
	echo throughput-performance >"$tree/etc/tuned/active_profile"
	echo manual >"$tree/etc/tuned/profile_mode"
	[ "$(detect "$tree" | jq -c '.owners | [.irqbalance_running, .tuned_running, .tuned_profile, .tuned_mode, .tuned_new_layout, .networkmanager_running, .conflicts, .cloud_agents]')" = \
		'[true,true,"throughput-performance","manual",true,false,["tlp"],["cloud-init"]]' ]
	rm "$tree/run/tuned/tuned.pid"
	[ "$(detect "$tree" | jq .owners.tuned_running)" = false ]
}

@test "a card that is seen from nowhere is protected; links below a free one are not" {
	local tree=$BATS_TEST_TMPDIR/hidden
	cp -a "$machines/synthetic/policy-routing" "$tree"
	# moved to another name space: its function stays bound, its interface is gone
	rm -rf "$tree/sys/class/net/eth2" "$tree"/sys/devices/pci0000:00/0000:00:05.0/virtio2/net
	jq '(.links, .addresses, .routes) |= map(select(.ifindex != 4)) | del(.ethtool.eth2)' "$machines/synthetic/policy-routing/hasten-capture.json" >"$tree/hasten-capture.json"
	[[ $(detect "$tree" | jq -r '.nics[] | select(.path == "0000:00:05.0").protected_by') == *"another name space"* ]]
	# /sys of another name space: an eth0 there is not the one that netlink talks of
	cp "$machines/synthetic/policy-routing/hasten-capture.json" "$tree/hasten-capture.json"
	echo 99 >"$tree/sys/devices/pci0000:00/0000:00:04.0/virtio1/net/eth1/ifindex"
	[[ $(detect "$tree" | jq -r '.nics[] | select(.name == "eth1") | .protected_by') == *"not in this network name space"* ]]
	# a tree without answers of netlink: what is up may carry anything
	rm "$tree/hasten-capture.json"
	[ "$(detect "$tree" | jq -c '[.nics[] | select(.name) | .protected_by != null] | unique')" = '[true]' ]
}

@test "a NIC whose virtual function is in use is protected" {
	local tree=$BATS_TEST_TMPDIR/vf
	cp -a "$machines/synthetic/intel-ixgbe" "$tree"
	ln -s ../0000:18:00.1 "$tree/sys/devices/pci0000:18/0000:18:00.0/physfn"
	[[ $(detect "$tree" | jq -r '.nics[] | select(.path == "0000:18:00.1").protected_by') == "physical function of enp24s0f0"* ]]
}

@test "the table is for people: short lines, no control characters, colour on terminals only" {
	run each_tree sh -c '"$0" detect --root "$1" | LC_ALL=C grep -n "[[:cntrl:]]" && exit 1; exit 0' "$hasten"
	[ "$status" = 0 ]
	"$hasten" detect --root "$machines/synthetic/virtio-queues-1of4" | grep -q '1 of 4'
	"$hasten" detect --root "$machines/synthetic/virtio-queues-1of4" | grep -q 'carries the default route'
	if command -v script >/dev/null; then
		TERM=xterm script -qec "'$hasten' detect --root '$machines/synthetic/small-2cpu'" /dev/null </dev/null | grep -q $'\033\[1m'
		! NO_COLOR=1 TERM=xterm script -qec "'$hasten' detect --root '$machines/synthetic/small-2cpu'" /dev/null </dev/null | grep -q $'\033'
	fi
}

@test "usage and what cannot be looked at" {
	run "$hasten" detect --no-such
	[ "$status" = 64 ]
	run "$hasten" detect more
	[ "$status" = 64 ]
	run "$hasten" detect --root /no/such/folder
	[ "$status" = 64 ] && [[ $output == *"/no/such/folder"* ]]
	run "$hasten" detect --help
	[ "$status" = 0 ]
	cp -a "$machines/synthetic/small-2cpu" "$BATS_TEST_TMPDIR/cut"
	printf '{"hasten_capture": 1, "links": [' >"$BATS_TEST_TMPDIR/cut/hasten-capture.json"
	run "$hasten" detect --root "$BATS_TEST_TMPDIR/cut"
	[ "$status" = 1 ] && [[ $output == *"hasten-capture.json:1:"* ]]
	run bash -c '"$0" detect --json --root "$1" >/dev/full' "$hasten" "$machines/synthetic/small-2cpu"
	[ "$status" = 1 ]
	mkdir "$BATS_TEST_TMPDIR/empty"
	"$hasten" detect --root "$BATS_TEST_TMPDIR/empty" >/dev/null
}

# Loops, pipes, devices, holes of gigabytes, junk, odd names: an answer or one clear line, in no time.
@test "hostile trees: never a crash or a hang, and what is printed stays well-formed" {
	python3 "$top_srcdir/tests/machines/spoil.py" "$hasten" "$BATS_TEST_TMPDIR" 36 \
		"$machines"/synthetic/{alibaba-erdma,azure-mlx5,metal-mlx5-bond,policy-routing,virtio-queues-1of4,bridge-host}
}

@test "below 50 ms of CPU and 20 MB on the largest tree" {
	[ -z "${SANITIZERS:-}" ] || skip "measured without sanitizers only"
	cat >"$BATS_TEST_TMPDIR/cost.py" <<'END'
import os, subprocess, sys
costs, sizes = [], []
for _ in range(9):
    p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 0
    costs.append((usage.ru_utime + usage.ru_stime) * 1000)
    sizes.append(usage.ru_maxrss)
costs.sort()
print("CPU: median %.1f ms, least %.1f ms; memory: at most %d KiB" % (costs[4], costs[0], max(sizes)))
# Other work on the machine makes CPU time longer, never shorter: the least is what it needs.
sys.exit(not (costs[0] < 50 and max(sizes) < 20 * 1024))
END
	for form in --json ""; do
		run python3 "$BATS_TEST_TMPDIR/cost.py" "$hasten" detect $form --root "$machines/synthetic/huge-1024"
		echo "$output" >&3
		[ "$status" = 0 ]
	done
}
