#!/usr/bin/env bats
# hasten profile: the shipped profiles on every machine, what is shown, and every bad file in one line.

setup() {
	hasten=$top_builddir/hasten
	dir=$BATS_TEST_TMPDIR
	export HASTEN_PROFILE_DIR=$top_srcdir/profiles
	root=$dir/root
	mkdir -p "$root/proc"
	: >"$root/proc/cpuinfo"
	admin=$(sed -n 's/^sysconfdir = //p' "$top_builddir/Makefile" | sed "s|\${prefix}|$(sed -n 's/^prefix = //p' "$top_builddir/Makefile")|")
	admin=$root$admin/hasten/profiles
	mkdir -p "$admin"
}

machine() { # NAME: makes it once for all tests of this file
	[ -d "$BATS_FILE_TMPDIR/$1" ] || "$top_srcdir/tests/machines/make" "$BATS_FILE_TMPDIR" "$1"
	root=$BATS_FILE_TMPDIR/$1
}

every_machine() { # makes those that are missing, prints their roots
	local name
	while read -r name; do
		machine "$name" && echo "$root"
	done < <("$top_srcdir/tests/machines/make" --list)
}

show() { # PROFILE [ARGUMENT...]: the document
	"$hasten" profile show --json --root "$root" "$@"
}

# Value of a key, for a NIC by the name of its interface or for a node; nothing where it is not set.
value() { # KEY [NAME] <document
	jq -r --arg key "$1" --arg name "${2:-}" '.values[] | select(.key == $key and ((.name // "") == $name)) | .value'
}

@test "every shipped profile is in order and works out on every machine" {
	every_machine >"$dir/machines"
	n=0
	while read -r tree; do
		run "$hasten" profile check --root "$tree"
		[ "$status" -eq 0 ] || { echo "${tree##*/}: $output" >&2; return 1; }
		[ "${#lines[@]}" -eq "$(ls "$top_srcdir"/profiles/*.yaml | wc -l)" ]
		n=$((n + 1))
	done <"$dir/machines"
	[ "$n" -gt 20 ]
}

@test "each shipped file is in order by itself" {
	run "$hasten" profile check "$top_srcdir"/profiles/*.yaml
	[ "$status" -eq 0 ]
	for line in "${lines[@]}"; do [[ $line == *": in order, "*" settings" ]]; done
}

@test "packet-rate on a NIC with 1 of 4 queues: all of them, their interrupts spread" {
	machine virtio-queues-1of4
	show packet-rate >"$dir/out"
	[ "$(value nic.channels.combined eth0 <"$dir/out")" = 4 ]
	[ "$(value nic.irq.cpus eth0 <"$dir/out")" = 0-3 ]
	[ "$(value nic.xps eth0 <"$dir/out")" = spread ]
	[ -z "$(value nic.rps.cpus eth0 <"$dir/out")" ]
	[ "$(jq -r '.skipped[] | select(.key == "nic.rps.cpus") | .why' "$dir/out")" = \
		"does not hold here: nic.queues.now > 0 and max(nic.queues.now, nic.queues.max) * 2 <= cpus.local" ]
	jq -e '.values | all((.why | length > 0) and (.source | test("^https://")) and .line > 0)' "$dir/out"
}

@test "RPS where queues are at most half as many as CPUs, and not elsewhere" {
	machine gce-gvnic # 8 queues, 16 CPUs
	show packet-rate >"$dir/out"
	[ "$(value nic.rps.cpus ens4 <"$dir/out")" = 0-15 ]
	[ "$(value nic.rps.flows ens4 <"$dir/out")" = 32768 ]
	[ "$(value sysctl.net.core.rps_sock_flow_entries <"$dir/out")" = 32768 ]
	for name in aws-ena-efa small-2cpu; do # 32 of 36, 2 of 2
		machine $name
		show packet-rate >"$dir/out"
		[ "$(jq '[.values[] | select(.key | test("rps"))] | length' "$dir/out")" = 0 ]
	done
}

@test "small machines are spared what costs a CPU" {
	machine small-2cpu
	[ -z "$(show latency | value sysctl.net.core.busy_poll)" ]
	machine alibaba-erdma
	[ "$(show latency | value sysctl.net.core.busy_poll)" = 50 ]
	machine intel-ice # 32 CPUs, an idle NIC, an IOMMU
	show dpdk >"$dir/out"
	[ "$(value boot.isolated_cpus <"$dir/out")" = 1-8,17-24 ]
	[ "$(value boot.irqaffinity <"$dir/out")" = 0,9-16,25-31 ]
	[ "$(value nic.driver ens785f1 <"$dir/out")" = vfio-pci ]
	[ -z "$(value nic.driver ens785f0 <"$dir/out")" ]
}

@test "dpdk takes no NIC that is in use, nor one whose driver stays" {
	every_machine >"$dir/machines"
	n=0
	while read -r root; do
		show dpdk-noiommu >"$dir/out"
		"$hasten" detect --json --root "$root" >"$dir/facts"
		for taken in $(jq -r '.values[] | select(.key == "nic.driver") | .name' "$dir/out"); do
			jq -e --arg name "$taken" '[.. | objects | select(.name? == $name and has("protected_by"))] | length > 0 and all(.[]; .protected_by == null)' \
				"$dir/facts" >/dev/null || { echo "${root##*/}: $taken" >&2; return 1; }
		done
		n=$((n + $(jq '[.values[] | select(.key == "nic.driver")] | length' "$dir/out")))
		# a node's pages are at most half of its memory
		jq -e --slurpfile facts "$dir/facts" '[.values[] | select(.key == "hugepages.2048kb") | . as $v |
			($facts[0].memory.nodes[] | select("node\(.id)" == $v.target) | .total_kib) >= ($v.value | tonumber) * 2048 * 2] | all' \
			"$dir/out" >/dev/null
	done <"$dir/machines"
	[ "$n" -gt 2 ] # some are taken at all
}

@test "detect and the profiles agree about which card may be taken, and say the same reason" {
	every_machine >"$dir/machines"
	while read -r root; do
		show dpdk-noiommu >"$dir/out"
		"$hasten" detect --json --root "$root" | jq -r '.nics[] | select(.name and .bus != "virtual") | [.name, .dpdk.takeable, .dpdk.not_takeable_why] | @tsv' >"$dir/cards"
		while IFS=$'\t' read -r name takeable why; do
			taken=$(jq --arg n "$name" '[.values[] | select(.key == "nic.driver" and .name == $n)] | length > 0' "$dir/out")
			[ "$taken" = "$takeable" ] || { echo "${root##*/} $name: $takeable, $taken" >&2; return 1; }
			[ "$takeable" = true ] || "$hasten" plan dpdk-noiommu --root "$root" | grep -Eq "(nic.driver|all settings) of $name: ($why|another NIC has the same)" ||
				{ echo "${root##*/} $name: $why" >&2; return 1; }
		done <"$dir/cards"
	done <"$dir/machines"
}

@test "where no NIC can be taken, dpdk keeps no CPU and no memory for it, and says which NIC stays and why" {
	machine intel-iavf # idle ens1, no IOMMU
	"$hasten" plan dpdk --root "$root" >"$dir/out"
	grep -q 'nic.driver of ens0: carries the default route' "$dir/out"
	grep -q 'nic.driver of ens1: .*platform.iommu.*dpdk-noiommu' "$dir/out"
	! grep -q 'change' "$dir/out"
	show dpdk-noiommu >"$dir/out"
	[ "$(value boot.isolated_cpus <"$dir/out")" = 1-8,17-24 ]
	machine azure-mlx5
	"$hasten" plan packet-rate --root "$root" >"$dir/out"
	grep -q 'all settings of eth0: another NIC has the same identity or address' "$dir/out"
	grep -q 'all settings of enP30832s1: another NIC' "$dir/out"
}

@test "list and recommend: by what is installed" {
	machine small-2cpu
	run "$hasten" profile recommend --root "$root"
	[ "$status" -eq 0 ]
	[[ $output != *redis* ]]
	cp -r "$root" "$dir/machine"
	mkdir -p "$dir/machine/usr/bin"
	: >"$dir/machine/usr/bin/redis-server"
	run "$hasten" profile recommend --root "$dir/machine"
	[[ $output == *"redis "*"redis-server is installed"* ]]
	[ "$("$hasten" profile list --json --root "$dir/machine" | jq -r '.profiles[] | select(.name == "redis") | .why')" = "redis-server is installed" ]
	machine alibaba-erdma
	[ "$("$hasten" profile recommend --json --root "$root" | jq '[.profiles[] | select(.name == "erdma")] | length')" = 1 ]
	run "$hasten" profile list --root "$root"
	[ "$status" -eq 0 ]
	[[ $output == *"profiles/throughput.yaml"* ]]
}

@test "the admin's file, drop-in and mask" {
	printf 'schema: 1\nname: own\nsummary: ours\ninclude: [redis]\nsettings:\n  sysctl.vm.swappiness: 5\n' >"$admin/own.yaml"
	show own >"$dir/out"
	[ "$(value sysctl.vm.swappiness <"$dir/out")" = 5 ]
	[ "$(jq -r '.values[] | select(.key == "sysctl.vm.swappiness") | .why' "$dir/out")" = "set in $admin/own.yaml" ]
	mkdir "$admin/redis.yaml.d"
	printf 'schema: 1\nunset: [sysctl.vm.overcommit_memory]\n' >"$admin/redis.yaml.d/x.yaml"
	[ -z "$(show redis | value sysctl.vm.overcommit_memory)" ]
	ln -s /dev/null "$admin/nginx.yaml"
	run "$hasten" profile show nginx --root "$root"
	[ "$status" -eq 1 ]
	[ "$output" = 'hasten profile: no profile "nginx"; "hasten profile list" shows what there is' ]
	run "$hasten" profile list --root "$root"
	[[ $output == *"own "* && $output != *nginx* ]]
	# one that is wrong does not hide the others
	echo 'schema: 3' >"$admin/redis.yaml"
	run "$hasten" profile list --root "$root"
	[ "$status" -eq 1 ]
	[[ $output == *"hasten profile: $admin/redis.yaml:1: "* && $output == *throughput* ]]
}

bad() { # LINE PART: of $dir/bad.yaml
	run timeout 10 "$hasten" profile check "$dir/bad.yaml"
	[ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == "hasten profile: $dir/bad.yaml${1:+:$1}: "*"$2"* ]] ||
		{ echo "status $status: $output; wanted line $1: $2" >&2; return 1; }
}

@test "a bad file is one line with file and line number" {
	head='schema: 1\nname: bad\nsummary: s\nsettings:\n'
	printf "$head"'\tsysctl.a: 1\n' >"$dir/bad.yaml"; bad 5 tab
	printf "$head"'  sysctl.a: 1\n  sysctl.a: 2\n' >"$dir/bad.yaml"; bad 6 "stands here twice"
	printf "$head"'  sysctl.a: &x 1\n  sysctl.b: *x\n' >"$dir/bad.yaml"; bad 5 anchors
	printf "$head"'  nic.chanels.combined: 1\n' >"$dir/bad.yaml"; bad 5 'did you mean "nic.channels.combined"?'
	printf "$head"'  nic.rings.rx: "1 + (2"\n' >"$dir/bad.yaml"; bad 5 '")" is missing'
	printf "$head"'  sysctl.a: "\\e[2J"\n' >"$dir/bad.yaml"; bad 5 "control character"
	{ echo; head -c 65536 "$hasten"; } >"$dir/bad.yaml"; bad 2 "UTF-8"
	cp "$hasten" "$dir/bad.yaml"; bad "" "larger than 256 KiB"
	truncate -s 1T "$dir/bad.yaml"; bad "" "larger than 256 KiB"
	{ printf 'a: '; head -c 200000 /dev/zero | tr '\0' '['; } >"$dir/bad.yaml"; bad 1 "nested deeper than 8"
	{ printf 'schema: 1\nunset:\n'; yes -- '- a' | head -60000; } >"$dir/bad.yaml"; bad '20000' "more than 20000 values"
	{ printf "$head"'  nic.rings.rx: "'; head -c 1000 /dev/zero | tr '\0' '('; echo '"'; } >"$dir/bad.yaml"; bad 5 "nested deeper"
	rm "$dir/bad.yaml"; mkfifo "$dir/bad.yaml"; bad "" "not a file"
	rm "$dir/bad.yaml"; mkdir "$dir/bad.yaml"; bad "" "not a file"
	rmdir "$dir/bad.yaml"; ln -s bad.yaml "$dir/bad.yaml"; bad "" "symbolic links"
	rm "$dir/bad.yaml"; bad "" "No such file"
	[ "$(id -u)" != 0 ] || return 0
	: >"$dir/bad.yaml"; chmod 0 "$dir/bad.yaml"; bad "" "denied"
}

@test "faults as JSON; files are all looked at" {
	printf 'schema: 1\nname: bad\nsummary: s\nfrob: 1\n' >"$dir/bad.yaml"
	run "$hasten" profile check --json "$dir/bad.yaml" "$top_srcdir/profiles/redis.yaml"
	[ "$status" -eq 1 ]
	[ "$(jq -c '[.checked[] | [.ok, .line]]' <<<"$output")" = '[[false,4],[true,null]]' ]
}

@test "what the documents look like" {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	cat >"$dir/valid.py" <<'END'
import json, jsonschema, sys
jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])), cls=jsonschema.Draft7Validator)
END
	machine aws-ena-efa
	valid() { python3 "$dir/valid.py" "$top_srcdir/schema/profile.schema.json"; }
	"$hasten" profile list --json --root "$root" | valid
	"$hasten" profile recommend --json --root "$root" | valid
	for name in dpdk throughput; do show $name | valid; done
	"$hasten" profile check --json --root "$root" | valid
	"$hasten" profile check --json /nowhere | valid || [ "${PIPESTATUS[1]:-1}" -eq 0 ]
	show dpdk | jq '.values[0].more = 1' >"$dir/more"
	[ "$(jq '.values | length' "$dir/more")" -gt 0 ]
	! valid <"$dir/more" 2>/dev/null
}

@test "usage" {
	run "$hasten" profile; [ "$status" -eq 64 ]
	run "$hasten" profile frob; [ "$status" -eq 64 ]; [[ $output == *"is none of list, recommend, show, check"* ]]
	run "$hasten" profile show; [ "$status" -eq 64 ]
	run "$hasten" profile show a b; [ "$status" -eq 64 ]
	run "$hasten" profile list x; [ "$status" -eq 64 ]
	run "$hasten" profile list --nic eth0; [ "$status" -eq 64 ]
	run "$hasten" profile show redis --names; [ "$status" -eq 64 ]
	[ "$("$hasten" profile list --names --root "$root")" = "$(cd "$top_srcdir/profiles" && printf '%s\n' *.yaml | sed 's/\.yaml$//' | sort)" ]
	run "$hasten" profile list --root /nowhere; [ "$status" -eq 64 ]
	run "$hasten" profile --help; [ "$status" -eq 0 ]
	run "$hasten" profile show ../../etc/passwd; [ "$status" -eq 1 ]; [[ $output == *"is not a profile's name"* ]]
	machine small-2cpu
	run "$hasten" profile show balanced --nic eth9 --root "$root"
	[ "$status" -eq 1 ]
	[[ $output == 'hasten profile: no NIC "eth9"; there are: '* ]]
}

@test "files and folders that are named from where one stands" {
	mkdir -p "$dir/here/folder"
	printf 'schema: 1\nname: mine\nsummary: s\nsettings:\n  sysctl.vm.swappiness: {value: 1, why: w, source: s}\n' >"$dir/here/folder/mine.yaml"
	cd "$dir/here"
	"$hasten" profile check folder/mine.yaml | grep -qx 'folder/mine.yaml: in order, 1 settings'
	(cd folder && "$hasten" profile check ./mine.yaml mine.yaml)
	HASTEN_PROFILE_DIR=folder "$hasten" profile list --root "$root" | grep -q '^mine '
	sed -i s/value:/valeu:/ folder/mine.yaml
	run "$hasten" profile check folder/mine.yaml
	[ "$status" = 1 ]
	[[ $output == *"folder/mine.yaml:5: "* ]]
}

@test "reserved ports: at least is a set of ports" {
	mkdir -p "$dir/p"
	for value in 70000 1-2-3 5-4 a "1,,2" "" "1 2" 22, -1; do
		printf 'schema: 1\nname: x\nsummary: s\nsettings:\n  sysctl.net.ipv4.ip_local_reserved_ports: {at-least: "%s", why: w, source: s}\n' "$value" >"$dir/p/x.yaml"
		run "$hasten" profile check "$dir/p/x.yaml"
		[ "$status" = 1 ] && [[ $output == *"x.yaml:5: "* ]] && [ "${#lines[@]}" = 1 ] || { echo "$value: $output"; return 1; }
	done
	machine alibaba-erdma-compat
	cp -a "$root" "$dir/m"
	echo 22,40000 >"$dir/m/proc/sys/net/ipv4/ip_local_reserved_ports"
	"$hasten" apply erdma --root "$dir/m" >/dev/null
	[ "$(cat "$dir/m/proc/sys/net/ipv4/ip_local_reserved_ports")" = 22,30608-30623,40000 ]
	"$hasten" verify --root "$dir/m" >/dev/null
	"$hasten" revert --root "$dir/m" >/dev/null
	[ "$(cat "$dir/m/proc/sys/net/ipv4/ip_local_reserved_ports")" = 22,40000 ]
}
