#!/usr/bin/env bats
# The seam to the machine, against programs that know the kernel too: ip, ethtool, ss. Name spaces of the tests' own; the machine's network is
# only looked at. And the write model: what a change of channels does to synthetic machines, and that changing back undoes it.

setup() {
	probe=$top_builddir/tests/unit/sys_probe
	dir=$BATS_TEST_TMPDIR
}

# in_namespace FUNCTION: in a new network name space with its own /sys, between two veth of four queues.
in_namespace() {
	[ "$(id -u)" = 0 ] || skip "needs root for a name space"
	export probe dir
	unshare --net --mount bash -euc "$(declare -f "$1")"'
		mount -t sysfs sysfs /sys
		ip link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1 numtxqueues 4 numrxqueues 4
		ip link set v0 up
		ip link set v1 up
		ip link set lo up
		'"$1"
}

links() {
	# Kernels differ in what they have; veth is there, or nothing of this file would run.
	ip link add link v0 name vlan7 type vlan id 7 2>/dev/null || true
	ip link add bond0 type bond 2>/dev/null || true
	ip link add dev ifb7 type ifb 2>/dev/null || true
	ip link add link v0 name mv7 type macvlan 2>/dev/null || true
	if ip link add br0 type bridge 2>/dev/null; then ip link set v1 master br0; fi
	"$probe" / links | jq -c '[.ifindex, .name, .kind, .address, .mtu, .master, .link]' | sort >"$dir/ours"
	ip -j -d link | jq -c '(map({(.ifname): .ifindex}) | add) as $index | .[] | [.ifindex, .ifname, .linkinfo.info_kind // "", .address, .mtu,
		(if .master then $index[.master] else 0 end), (if .link then $index[.link] else 0 end)]' | sort >"$dir/theirs"
	diff "$dir/ours" "$dir/theirs"
	[ "$(wc -l <"$dir/ours")" -ge 3 ]
}

@test "links with their kind, the device below and the one above, as ip has them" {
	in_namespace links
}

addresses() {
	ip address add 10.1.0.1/24 dev v0
	ip address add 10.2.0.1 peer 10.2.0.9/32 dev v1
	ip address add 2001:db8::1/64 dev v0 nodad
	"$probe" / addresses | jq -c '[.ifindex, .address, .prefix, .scope]' | sort >"$dir/ours"
	ip -j address | jq -c '.[] | .ifindex as $i | .addr_info[] | [$i, .local, .prefixlen, ({global: 0, link: 253, host: 254}[.scope])]' |
		sort >"$dir/theirs"
	diff "$dir/ours" "$dir/theirs"
	[ "$(wc -l <"$dir/ours")" -ge 7 ]
}

@test "addresses, also those with another end, as ip has them" {
	in_namespace addresses
}

routes() {
	ip address add 10.1.0.1/24 dev v0
	ip -6 address add 2001:db8::1/64 dev v0 nodad
	ip route add default via 10.1.0.254
	ip route add 10.9.0.0/16 via 10.1.0.2 table 777
	ip route add 10.8.0.0/16 nexthop via 10.1.0.3 nexthop dev v1
	ip route add 10.5.0.0/16 via inet6 2001:db8::9 dev v0
	ip route add blackhole 10.66.0.0/16
	ip -6 route add default via 2001:db8::2 table 5000
	ip -6 route add 2001:db8:8::/48 nexthop via 2001:db8::3 dev v0 nexthop via 2001:db8::4 dev v0
	"$probe" / routes | jq -c '[.destination, .prefix, .table, .ifindex, .gateway]' | sort >"$dir/ours"
	ip -j link | jq 'map({(.ifname): .ifindex}) | add' >"$dir/index"
	{ ip -j -4 route show table all; ip -j -6 route show table all; } | jq -c --slurpfile index "$dir/index" '
		.[] | select((.type // "unicast") == "unicast") |
		(if .dst == "default" then (if has("pref") or ((.gateway // "") | contains(":")) then ["::", 0] else ["0.0.0.0", 0] end)
		 else (.dst | split("/") | [.[0], (.[1] // "0" | tonumber)]) end) as $to |
		(.table // "main" | if . == "main" then 254 else tonumber end) as $table |
		(if .nexthops then .nexthops[] else . end) |
		$to + [$table, $index[0][.dev], .gateway // .via.host // ""]' | sort >"$dir/theirs"
	diff "$dir/ours" "$dir/theirs"
	[ "$(wc -l <"$dir/ours")" -ge 11 ]
}

@test "routes of every table, v4 and v6, each next hop, as ip has them" {
	in_namespace routes
}

by_object() {
	ip nexthop add id 5 dev v1
	ip nexthop add id 6 dev v0
	ip nexthop add id 9 group 5/6
	sysctl -qw net.ipv4.nexthop_compat_mode=0
	ip route add 10.6.0.0/16 nhid 5
	ip route add 10.7.0.0/16 nhid 9
	v0=$(cat /sys/class/net/v0/ifindex) v1=$(cat /sys/class/net/v1/ifindex)
	got=$("$probe" / routes | jq -c 'select(.destination | startswith("10.")) | [.destination, .ifindex]' | sort | tr '\n' ' ')
	[ "$got" = "[\"10.6.0.0\",$v1] $(printf '["10.7.0.0",%s]\n' "$v0" "$v1" | sort | tr '\n' ' ')" ]
}

@test "a route that names only a next hop object says the devices" {
	in_namespace by_object
}

permanent() {
	[ "$("$probe" / links | jq -r 'select(.name == "v0") | .permanent')" = "" ]
	[ "$("$probe" / links | jq 'select(.name == "v0") | .assigned')" = "$(cat /sys/class/net/v0/addr_assign_type)" ]
	ip link set v0 address 02:00:00:00:00:07
	[ "$("$probe" / links | jq -r 'select(.name == "v0") | .address')" = 02:00:00:00:00:07 ]
	[ "$("$probe" / links | jq 'select(.name == "v0") | .assigned')" = 3 ]
}

@test "an address that nobody burnt in is not permanent, and how it was assigned is told" {
	in_namespace permanent
}

@test "the permanent addresses of this machine are those that ethtool -P shows" {
	command -v ethtool >/dev/null || skip "ethtool is not installed"
	n=0
	while read -r name address; do
		theirs=$(ethtool -P "$name" 2>/dev/null | sed -n 's/^Permanent address: //p')
		case $theirs in '' | 'not set' | 00:00:00:00:00:00) theirs= ;; esac
		[ "$address" = "$theirs" ] || { echo "$name: ours \"$address\", ethtool's \"$theirs\"" >&2; return 1; }
		n=$((n + 1))
	done < <("$probe" / links | jq -r '[.name, .permanent] | join(" ")')
	[ $n -ge 1 ]
}

sockets() {
	ip address add 10.1.0.1/24 dev v0
	python3 - "$probe" <<-'END'
		import json, socket, subprocess, sys
		def pair(family, address):
		    server = socket.socket(family); server.bind((address, 0)); server.listen()
		    client = socket.socket(family); client.connect(server.getsockname())
		    return server, client, server.accept()[0]
		mapped = socket.socket(socket.AF_INET6); mapped.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0); mapped.bind(("::", 0)); mapped.listen()
		by4 = socket.socket(); by4.connect(("127.0.0.1", mapped.getsockname()[1])); other = mapped.accept()[0]
		pairs = [pair(socket.AF_INET, "10.1.0.1"), pair(socket.AF_INET6, "::1")]
		ends = [s for p in pairs for s in p[1:]] + [by4, other]
		want = sorted((s.getsockname()[0].replace("::ffff:", ""), s.getsockname()[1]) for s in ends)
		lines = subprocess.run([sys.argv[1], "/", "sockets"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
		got = sorted((e["local"], e["port"]) for e in map(json.loads, lines))
		assert got == want, (got, want)
	END
}

@test "established connections, not listeners, and IPv4 by an IPv6 socket is IPv4" {
	in_namespace sockets
}

channels() {
	text() { # v0 now|max NAME: what ethtool -l shows
		ethtool -l v0 | awk -v want="$1" -v name="$2:" '/^Pre-set/ { part = "max" } /^Current/ { part = "now" } part == want && $1 == name { print $2 }'
	}
	ours() { "$probe" / get v0 channels | jq "select(.name == \"$1\") | .$2"; }
	for name in RX TX; do
		[ "$(ours ${name,,} value)" = "$(text now $name)" ]
		[ "$(ours ${name,,} max)" = "$(text max $name)" ]
	done
	"$probe" / set v0 channels rx 2 tx 3
	[ "$(text now RX) $(text now TX)" = "2 3" ]
	[ "$(ours rx value) $(ours tx value)" = "2 3" ]
	[ "$("$probe" / list /sys/class/net/v0/queues | tr '\n' ' ')" = "rx-0 rx-1 tx-0 tx-1 tx-2 " ]
	ethtool -L v0 rx 1 tx 1
	[ "$(ours rx value) $(ours tx value)" = "1 1" ]
	[ "$("$probe" / set v0 channels rx 5 2>&1)" = EINVAL ]
	[ "$("$probe" / set v0 channels rx 0 2>&1)" = EINVAL ]
	[ "$("$probe" / set nosuch channels rx 1 2>&1)" = ENODEV ]
	[ "$("$probe" / set v0 channels nonsense 1 2>&1)" = EINVAL ]
	for kind in rings coalesce rss; do
		[ "$("$probe" / get v0 $kind 2>&1)" = EOPNOTSUPP ]
	done
}

@test "channels are read and set as ethtool does, and wrong ones refused as the kernel says" {
	command -v ethtool >/dev/null || skip "ethtool is not installed"
	in_namespace channels
}

features() {
	# The kernel's names of a feature and ethtool's differ for some: those with the same name are compared.
	ethtool --json -k v0 | jq -c '.[0] | to_entries[] | select(.key | test("^(tx|rx)-|^highdma$|^hw-tc")) |
		select(.key | test("checksumming|vlan-offload|-checksum-") | not) | [.key, (if .value.active then 1 else 0 end), .value.fixed]' | sort >"$dir/theirs"
	cut -d'"' -f2 "$dir/theirs" >"$dir/names"
	"$probe" / get v0 features | jq -c '[.name, .value, .fixed]' | grep -F -f <(sed 's/.*/["&",/' "$dir/names") | sort >"$dir/ours"
	diff "$dir/ours" "$dir/theirs"
	[ "$(wc -l <"$dir/ours")" -ge 30 ]
	"$probe" / set v0 features tx-generic-segmentation 0 rx-gro 1
	[[ $(ethtool -k v0) == *"generic-segmentation-offload: off"*"generic-receive-offload: on"* ]]
	"$probe" / set v0 features generic-segmentation-offload 1 generic-receive-offload 0
	[[ $(ethtool -k v0) == *"generic-segmentation-offload: on"*"generic-receive-offload: off"* ]]
	[ "$("$probe" / set v0 features nonsense 1 2>&1)" = EOPNOTSUPP ]
	# One that does not change is no error of the kernel's; reading back tells.
	"$probe" / set v0 features tx-vlan-stag-hw-insert 1
}

@test "features have the kernel's names and values, are set by them and by ethtool's names" {
	command -v ethtool >/dev/null || skip "ethtool is not installed"
	in_namespace features
}

attributes() {
	"$probe" / write /sys/class/net/v0/queues/rx-0/rps_cpus 1
	[[ $(cat /sys/class/net/v0/queues/rx-0/rps_cpus) =~ ^[0,]*1$ ]]
	"$probe" / write /sys/class/net/v0/queues/rx-0/rps_flow_cnt 1000
	[ "$(cat /sys/class/net/v0/queues/rx-0/rps_flow_cnt)" = 1024 ]
	"$probe" / write /proc/sys/net/ipv4/tcp_rmem '4096 131072 262144'
	[ "$("$probe" / read /proc/sys/net/ipv4/tcp_rmem)" = $'4096\t131072\t262144' ]
	[ "$("$probe" / write /proc/sys/net/core/somaxconn x 2>&1)" = EINVAL ]
	[ "$("$probe" / write /proc/sys/net/core/no_such 1 2>&1)" = ENOENT ]
	[ "$("$probe" / write /sys/class/net/v0/ifindex 1 2>&1)" = EACCES ]
	# What the model says of these is what this kernel does.
	for value in '500 400' '1 70000'; do
		[ "$("$probe" / write /proc/sys/net/ipv4/ip_local_port_range "$value" 2>&1)" = EINVAL ]
	done
}

@test "kernel attributes take one write and say their own error" {
	in_namespace attributes
}

# ---- the write model ----

agree() {
	tree=$dir/tree queues=/sys/class/net/v0/queues
	differences=0 asked=0
	copy() { mkdir -p "$tree$(dirname "$1")" && cat "$1" >"$tree$1"; }
	ask() { # PATH VALUE...: each is written to the kernel and to the tree, and what both say and show then is compared
		local path=$1 value real modelled
		shift
		[ -w "$path" ] || return 0
		copy "$path"
		for value; do
			real=$("$probe" / write "$path" "$value" 2>&1 || true; cat "$path")
			modelled=$("$probe" "$tree" write "$path" "$value" 2>&1 || true; cat "$tree$path")
			asked=$((asked + 1))
			[ "$real" = "$modelled" ] || { echo "$path, \"$value\": the kernel $real, the model $modelled" >&2; differences=$((differences + 1)); }
		done
	}
	for name in possible online; do copy /sys/devices/system/cpu/$name; done
	# All CPUs, none, one too many, and what is no mask.
	beyond=$(($(cut -d- -f2 /sys/devices/system/cpu/possible) + 1))
	mask=$(printf '%x' $((1 << (beyond < 62 ? beyond : 62))))
	ask $queues/rx-0/rps_cpus 1 0 "$(cat /proc/irq/default_smp_affinity)" 1 zz 0x1 "1 1" "$mask" 123456789 00000000,00000001
	ask $queues/tx-0/xps_cpus 1 0 "$(cat /proc/irq/default_smp_affinity)" 1 zz 0x1 "$mask" 00000000,00000001
	ask $queues/rx-0/rps_flow_cnt 0 1 2 3 4 5 1000 1024 1025 x -1 "1 2" 0
	net=/proc/sys/net
	ask $net/core/somaxconn 1 4096 -1 x "1 2" 0x10 99999999999 2147483647 2147483648 ""
	for name in tcp_rmem tcp_wmem; do
		ask $net/ipv4/$name "5000 6000 7000" "4096" "1 2" "0" "1 0 3" x "4096 131072 6291456 9"
	done
	ask $net/ipv4/ip_local_port_range "1024 65000" "500 400" "1 70000" "32768 60999" x "0 5"
	ask $net/ipv4/tcp_fin_timeout 15 60 x
	ask $net/ipv4/tcp_slow_start_after_idle 0 1 255 256 -1 x
	ask $net/ipv4/tcp_notsent_lowat 131072 4294967295 4294967296 -1
	ask $net/ipv4/tcp_max_syn_backlog 8192 -5 x
	ask $net/ipv4/tcp_fastopen 3 0 x
	copy $net/ipv4/tcp_available_congestion_control
	ask $net/ipv4/tcp_congestion_control reno nosuch "$(cat $net/ipv4/tcp_congestion_control)"
	[ $asked -ge 70 ]
	[ $differences = 0 ]
}

@test "the write model says and shows what this kernel does, for settings of a name space" {
	in_namespace agree
}


machine() { # NAME: $root is a copy, $pristine what it was
	command -v python3 >/dev/null || skip "python3 is not installed"
	"$top_srcdir/tests/machines/make" "$dir/machines" "$1"
	root=$dir/machines/$1 pristine=$dir/pristine
	cp -a "$root" "$pristine"
}

unchanged() {
	diff -r --no-dereference "$pristine" "$root"
}

@test "machines: channels to the maximum, to one and back leave the tree the same, but for affinity and XPS" {
	for name in virtio-queues-1of4 aws-ena-efa gce-gvnic huawei-hinic intel-i40e intel-iavf metal-mlx4 azure-mlx5; do
		rm -rf "$dir/pristine" "$dir/machines"
		machine $name
		for nic in $(jq -r '.ethtool | to_entries[] | select(.value.channels) | .key' "$root/hasten-capture.json"); do
			"$probe" "$root" get "$nic" channels >"$dir/before"
			for to in max one value; do
				# shellcheck disable=SC2046
				"$probe" "$root" set "$nic" channels $(jq -r --arg to $to 'select(.name != "other") | .name, (if $to == "one" then 1 else .[$to] end)' "$dir/before")
				queues=$(find "$root/sys/class/net/$nic/queues/" -maxdepth 1 -name 'rx-*' | wc -l)
				[ "$queues" = "$("$probe" "$root" get "$nic" channels | jq -s 'map(select(.name == "rx" or .name == "combined").value) | add')" ]
			done
		done
		while read -r line; do
			case $line in
			*/smp_affinity* | */effective_affinity* | */xps_cpus*) ;;
			*) echo "$name: $line" >&2; return 1 ;;
			esac
		done < <(diff -rq --no-dereference "$pristine" "$root")
	done
}

@test "machines: a channel change makes queues with nothing set, and interrupts with the default affinity" {
	machine intel-iavf
	"$probe" "$root" set ens0 channels combined 8
	[ "$("$probe" "$root" list /sys/class/net/ens0/queues | tr '\n' ' ')" = "$(printf '%s ' {rx,tx}-{0..7})" ]
	[ "$("$probe" "$root" get ens0 rss | jq '.rings')" = 8 ]
	[ "$("$probe" "$root" get ens0 rss | jq -c '.indirection[0:9]')" = "[0,1,2,3,4,5,6,7,0]" ]
	[ "$(find "$root/proc/irq" -name 'iavf-ens0-TxRx-*' | wc -l)" = 8 ]
	[ "$(grep -c 'iavf-ens0-TxRx-' "$root/proc/interrupts")" = 8 ]
	for file in "$root"/proc/irq/*/iavf-ens0-TxRx-*; do
		cmp "${file%/*}/smp_affinity" "$root/proc/irq/default_smp_affinity"
		[ -e "$root/sys/class/net/ens0/device/msi_irqs/$(basename "${file%/*}")" ]
	done
	# A table that somebody configured keeps queues alive.
	# shellcheck disable=SC2046
	"$probe" "$root" set ens0 rss $(jq -n "[range($("$probe" "$root" get ens0 rss | jq '.indirection | length')) | . % 2 + 6] | .[]")
	[ "$("$probe" "$root" set ens0 channels combined 4 2>&1)" = EINVAL ]
	"$probe" "$root" set ens0 rss default
	"$probe" "$root" set ens0 channels combined 4
	[ "$("$probe" "$root" set ens0 channels combined 4000 2>&1)" = EINVAL ]
	[ "$("$probe" "$root" set ens0 channels combined 0 2>&1)" = EINVAL ]
}

@test "machines: virtio spreads affinity and XPS itself" {
	machine virtio-queues-1of4
	"$probe" "$root" set eth0 channels combined 4
	[ "$(cat "$root"/sys/class/net/eth0/queues/tx-*/xps_cpus | sort -u | wc -l)" = 4 ]
	[ "$(cat "$root"/proc/irq/*/virtio*-input.2/../smp_affinity)" = "$(cat "$root/sys/class/net/eth0/queues/tx-2/xps_cpus")" ]
}

@test "machines: a driver goes and comes back" {
	machine intel-iavf
	device=$(basename "$(readlink -f "$root/sys/class/net/ens0/device")")
	mkdir -p "$root/sys/bus/pci/drivers/vfio-pci" "$pristine/sys/bus/pci/drivers/vfio-pci"
	for tree in "$root" "$pristine"; do touch "$tree"/sys/bus/pci/drivers/vfio-pci/{bind,unbind}; done
	d=/sys/bus/pci/devices/$device
	"$probe" "$root" write "$d/driver_override" vfio-pci
	[ "$("$probe" "$root" write /sys/bus/pci/drivers_probe "$device" 2>&1)" = "" ]
	[ "$(basename "$(readlink "$root$d/driver")")" = iavf ]
	[ "$("$probe" "$root" write /sys/bus/pci/drivers/vfio-pci/unbind "$device" 2>&1)" = ENODEV ]
	"$probe" "$root" write /sys/bus/pci/drivers/iavf/unbind "$device"
	[ ! -e "$root$d/driver" ]
	"$probe" "$root" write /sys/bus/pci/drivers_probe "$device"
	[ "$(basename "$(readlink "$root$d/driver")")" = vfio-pci ]
	[ "$(readlink -f "$root/sys/bus/pci/drivers/vfio-pci/$device")" = "$(readlink -f "$root$d")" ]
	[ "$("$probe" "$root" write /sys/bus/pci/drivers/vfio-pci/bind "$device" 2>&1)" = EBUSY ]
	"$probe" "$root" write /sys/bus/pci/drivers/vfio-pci/unbind "$device"
	"$probe" "$root" write "$d/driver_override" ''
	[ "$(cat "$root$d/driver_override")" = "(null)" ]
	"$probe" "$root" write /sys/bus/pci/drivers_probe "$device"
	unchanged
}

@test "machines: huge pages that there is memory for, counted everywhere, and given back" {
	machine intel-ice
	node=/sys/devices/system/node/node0/hugepages/hugepages-2048kB
	"$probe" "$root" write $node/nr_hugepages 1000
	[ "$(cat "$root/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages") $(cat "$root$node/free_hugepages")" = "1000 1000" ]
	[ "$(cat "$root/proc/sys/vm/nr_hugepages")" = 1000 ]
	"$probe" "$root" write $node/nr_hugepages 900000000
	free=$(awk '/MemFree/ { print $4 }' "$pristine/sys/devices/system/node/node0/meminfo")
	[ "$(cat "$root$node/nr_hugepages")" = $((free / 2048)) ]
	[ "$("$probe" "$root" write $node/nr_hugepages many 2>&1)" = EINVAL ]
	"$probe" "$root" write $node/nr_hugepages 0
	unchanged
	"$probe" "$root" write /proc/sys/vm/nr_hugepages 101
	[ "$(cat "$root/proc/sys/vm/nr_hugepages") $(cat "$root/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")" = "101 101" ]
	"$probe" "$root" write /proc/sys/vm/nr_hugepages 0
	unchanged
}

@test "the synthetic machines' captures fit the schema, and so does one that the model wrote" {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	machine intel-iavf
	"$probe" "$root" set ens0 channels combined 8
	"$probe" "$root" write /sys/bus/pci/drivers/iavf/unbind "$(basename "$(readlink -f "$root/sys/class/net/ens0/device")")"
	for file in "$root" "$pristine"; do
		python3 -c 'import json, jsonschema, sys; jsonschema.validate(json.load(open(sys.argv[2])), json.load(open(sys.argv[1])))' \
			"$top_srcdir/schema/capture.schema.json" "$file/hasten-capture.json"
	done
}
