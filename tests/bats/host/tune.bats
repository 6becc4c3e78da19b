#!/usr/bin/env bats
# hasten plan, apply, verify, revert on a small tree: nothing but what plan showed is written, and everything goes back.

setup() {
	hasten=$top_builddir/hasten
	dir=$BATS_TEST_TMPDIR
	[ ! -w /dev/shm ] || dir=$(mktemp -d /dev/shm/hasten-tune-XXXXXX)
	m=$dir/m
	export HASTEN_PROFILE_DIR=$dir/profiles
	mkdir -p "$m"/proc/sys/{net/core,net/ipv4,vm,kernel/random} "$m"/sys/devices/system/cpu "$m"/etc/sysctl.d "$m"/usr/lib/sysctl.d "$dir/profiles"
	echo 128 >"$m/proc/sys/net/core/somaxconn"
	printf '4096\t131072\t6291456\n' >"$m/proc/sys/net/ipv4/tcp_rmem"
	echo 60 >"$m/proc/sys/vm/swappiness"
	echo 20 >"$m/proc/sys/vm/dirty_ratio"
	echo 0 >"$m/proc/sys/vm/dirty_bytes"
	echo boot-1 >"$m/proc/sys/kernel/random/boot_id"
	echo machine-1 >"$m/etc/machine-id"
	for f in online possible present; do echo 0-3 >"$m/sys/devices/system/cpu/$f"; done
	profile one 'sysctl.net.core.somaxconn: {at-least: 4096, why: backlog, source: s}' \
		'sysctl.net.ipv4.tcp_rmem: {at-least: "4096 131072 16777216", why: windows, source: s}' \
		'sysctl.vm.swappiness: {value: 10, why: swap, source: s}'
	profile two 'sysctl.net.core.somaxconn: {at-least: 1024, why: less, source: s}' \
		'sysctl.vm.dirty_bytes: {value: 67108864, why: write back early, source: s}'
	tree >"$dir/before"
}

teardown() {
	[[ $dir != /dev/shm/* ]] || rm -rf "$dir"
}

profile() { # NAME SETTING...
	local name=$1
	shift
	{ printf 'schema: 1\nname: %s\nsummary: test\nsettings:\n' "$name"; printf '  %s\n' "$@"; } >"$HASTEN_PROFILE_DIR/$name.yaml"
}

tree() {
	(cd "$m" && find . -printf '%y %m %p %l\n' | LC_ALL=C sort && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
}

as_before() {
	diff "$dir/before" <(tree)
}

hasten() {
	"$hasten" "$@" --root "$m"
}

status_of() { # ID <json
	jq -r ".operations[] | select(.id == \"$1\") | .status"
}

exits() { # STATUS COMMAND...
	local want=$1 got=0
	shift
	"$@" || got=$?
	[ $got = "$want" ] || { echo "exit $got, not $want: $*" >&2; return 1; }
}

valid() {
	python3 -c 'import jsonschema' 2>/dev/null || { cat >/dev/null; return 0; }
	python3 -c 'import json, jsonschema, sys; jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])))' "$top_srcdir/schema/$1.schema.json"
}

@test "plan changes nothing; apply, verify, revert leave every byte as it was" {
	hasten plan one >"$dir/plan"
	as_before
	grep -q 'net.core.somaxconn: 128 -> 4096' "$dir/plan"
	grep -q 'backlog' "$dir/plan"
	exits 2 hasten plan one --detailed-exitcode
	hasten apply one
	[ "$(cat "$m/proc/sys/net/core/somaxconn")" = 4096 ]
	exits 0 hasten plan one --detailed-exitcode
	tree >"$dir/applied"
	hasten apply one
	diff "$dir/applied" <(tree)
	hasten verify
	hasten revert
	as_before
	hasten revert
	as_before
}

@test "documents fit their schemas" {
	for command in plan apply; do hasten $command one two --json | valid plan; done
	hasten verify --json | valid plan
	hasten status --json | valid status
	hasten revert --json | valid plan
	hasten status --json | valid status
	hasten plan one two --json >"$dir/json"
	[ "$(jq .changes "$dir/json")" = 4 ]
	[ "$(jq -r '.conflicts[0].key' "$dir/json")" = sysctl.net.core.somaxconn ]
}

@test "a later set replaces the first; what it does not want goes back to the first original" {
	hasten apply one
	hasten plan two | grep -q 'vm.swappiness: 10 -> 60'
	hasten apply two
	[ "$(cat "$m/proc/sys/vm/swappiness")" = 60 ]
	[ "$(cat "$m/proc/sys/net/core/somaxconn")" = 1024 ] # raise-only compares with what was there before hasten
	[ "$(cat "$m/proc/sys/vm/dirty_bytes")" = 67108864 ]
	hasten verify
	hasten revert
	as_before
}

@test "two forms of one setting go back as one" {
	hasten apply two
	hasten revert
	as_before
	echo 0 >"$m/proc/sys/vm/dirty_ratio"
	echo 1000000 >"$m/proc/sys/vm/dirty_bytes"
	tree >"$dir/before"
	profile three 'sysctl.vm.dirty_ratio: {value: 5, why: w, source: s}'
	hasten apply three
	[ "$(cat "$m/proc/sys/vm/dirty_ratio")" = 5 ]
	hasten verify
	hasten revert
	as_before
	exits 1 hasten plan two three 2>"$dir/error"
	grep -q 'two forms of one setting' "$dir/error"
}

@test "what the administrator set is theirs, with file and line" {
	printf '# ours\n\nvm.swappiness = 30\n' >"$m/etc/sysctl.d/50-admin.conf"
	printf 'net/core/somaxconn=512\nnet.ipv4.tcp_rmem=1 2 3\n' >"$m/usr/lib/sysctl.d/10-vendor.conf"
	tree >"$dir/before"
	hasten plan one --json >"$dir/json"
	[ "$(status_of sysctl/vm.swappiness <"$dir/json")" = admin ]
	grep -q '/etc/sysctl.d/50-admin.conf:3' "$dir/json"
	[ "$(status_of sysctl/net.core.somaxconn <"$dir/json")" = planned ]
	hasten apply one
	[ "$(cat "$m/proc/sys/vm/swappiness")" = 60 ]
	hasten verify
	hasten revert
	# A file of the same name in /etc takes the vendor's place; patterns give way to names; a link to /dev/null masks.
	printf -- '-net.core.*\nnet.ipv4.tcp_*mem = 5 6 7\n' >"$m/etc/sysctl.d/10-vendor.conf"
	ln -s /dev/null "$m/etc/sysctl.d/50-admin.conf.off"
	hasten plan one --json >"$dir/json"
	[ "$(status_of sysctl/net.ipv4.tcp_rmem <"$dir/json")" = admin ]
	[ "$(status_of sysctl/net.core.somaxconn <"$dir/json")" = planned ]
}

@test "what somebody else changed is kept, reported, and forced back" {
	hasten apply one
	echo 77 >"$m/proc/sys/vm/swappiness"
	exits 1 hasten verify >"$dir/out"
	grep -q 'hasten set 10, somebody else 77' "$dir/out"
	exits 1 hasten revert >"$dir/out"
	grep -q 'drift' "$dir/out"
	[ "$(cat "$m/proc/sys/vm/swappiness")" = 77 ]
	[ "$(cat "$m/proc/sys/net/core/somaxconn")" = 128 ]
	hasten revert --force
	as_before
}

@test "another boot, another machine, newer profiles" {
	hasten apply one
	echo boot-2 >"$m/proc/sys/kernel/random/boot_id"
	echo 128 >"$m/proc/sys/net/core/somaxconn"
	exits 1 hasten verify >/dev/null
	hasten apply --boot
	hasten verify
	profile one 'sysctl.net.core.somaxconn: {at-least: 8192, why: more, source: s}'
	hasten status | grep -q 'Newer values exist'
	[ "$(cat "$m/proc/sys/net/core/somaxconn")" = 4096 ]
	hasten apply
	[ "$(cat "$m/proc/sys/net/core/somaxconn")" = 8192 ]
	hasten status --json | jq -e '.newer_values == false'
	echo machine-2 >"$m/etc/machine-id"
	hasten revert
	[ "$(cat "$m/proc/sys/net/core/somaxconn")" = 8192 ]
	[ ! -e "$m/var" ]
}

@test "a damaged journal: one line with file and line, nothing changed" {
	hasten apply one
	sed -i '3s/128/129/' "$m/var/lib/hasten/journal"
	tree >"$dir/damaged"
	for command in "plan two" "apply two" verify revert status; do
		status=0
		hasten $command >/dev/null 2>"$dir/error" || status=$?
		[ $status != 0 ]
		[ "$(wc -l <"$dir/error")" = 1 ]
		grep -q 'journal:3: damaged' "$dir/error"
		diff "$dir/damaged" <(tree)
	done
}

@test "every change fails once, in every way, and the tree is as it was" {
	local how n
	for how in EIO EPERM EINVAL ENOSPC EOVERFLOW ERANGE EBUSY EAGAIN ENODEV EROFS short; do
		for n in $(seq 22); do
			status=0
			HASTEN_SYS_FAULT=$n=$how hasten apply one two >"$dir/out" 2>&1 || status=$?
			[ $status -le 1 ] || { cat "$dir/out"; return 1; }
			hasten revert >"$dir/out" 2>&1 || { echo "$n=$how"; cat "$dir/out"; return 1; }
			as_before || { echo "$n=$how"; return 1; }
		done
	done
}

@test "killed after every change, the next command recovers" {
	local n status
	for n in $(seq 100); do
		status=0
		HASTEN_SYS_FAULT=$n=kill "$hasten" apply one two --root "$m" >/dev/null 2>&1 || status=$?
		hasten revert >"$dir/out" 2>&1 || { echo "kill at $n"; cat "$dir/out"; return 1; }
		as_before || { echo "kill at $n"; return 1; }
		[ $status = 137 ] || break
	done
	[ $status = 0 ] && [ "$n" -gt 12 ]
}

@test "two writers: the second waits, then names the holder" {
	hasten apply one
	exec {lock}<>"$m/var/lib/hasten/lock"
	python3 - "$m/var/lib/hasten/lock" 3>&- <<-'END' &
		import fcntl, os, struct, sys, time
		f = open(sys.argv[1], 'r+')
		fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
		f.write('4711 hasten apply other\n'); f.flush()
		open(sys.argv[1] + 'ed', 'w').close()
		time.sleep(30)
	END
	holder=$!
	for _ in $(seq 100); do [ ! -e "$m/var/lib/hasten/locked" ] || break; sleep 0.05; done
	status=0
	hasten apply two 2>"$dir/error" || status=$?
	kill $holder
	[ $status = 1 ]
	grep -q 'process 4711 (hasten apply other)' "$dir/error"
	rm "$m/var/lib/hasten/locked"
	hasten revert
	as_before
}

@test "only some steps; wrong use" {
	exits 64 hasten plan one --only nosuch 2>"$dir/error"
	grep -q 'no step "nosuch"; there are:.* sysctl' "$dir/error"
	exits 64 hasten plan 2>/dev/null
	exits 64 hasten plan one --nic eth9 2>/dev/null
	exits 64 hasten apply --boot one 2>/dev/null
	exits 64 hasten verify more 2>/dev/null
	exits 64 hasten apply one --confirm-within 1 2>/dev/null
	for name in ../x . .. "" "a b" ü $'a\nb' $'\e[31m'; do
		exits 1 hasten plan "$name" 2>"$dir/error"
		[ "$(wc -l <"$dir/error")" = 1 ]
		grep -q "is not a profile's name" "$dir/error"
		! grep -q $'\e' "$dir/error"
	done
	exits 64 hasten plan one --nic $'eth9\nx' 2>"$dir/error"
	[ "$(wc -l <"$dir/error")" = 1 ]
	exits 1 hasten plan nosuch 2>"$dir/error"
	grep -q 'no profile "nosuch"; "hasten profile list"' "$dir/error"
	HASTEN_PROFILE_DIR=$dir/none exits 1 hasten plan one 2>"$dir/error"
	grep -q "the folder of profiles $dir/none is not there" "$dir/error"
	exits 1 hasten confirm 2>/dev/null
	hasten apply one --only thp
	as_before 2>/dev/null || [ "$(cat "$m/proc/sys/net/core/somaxconn")" = 128 ]
	hasten revert
	as_before
}

@test "an image: runtime settings wait for its boot" {
	echo 'ID=debian' >"$m/etc/os-release"
	tree >"$dir/before"
	hasten apply one --json >"$dir/json"
	[ "$(status_of sysctl/vm.swappiness <"$dir/json")" = at-boot ]
	[ "$(cat "$m/proc/sys/vm/swappiness")" = 60 ]
	[ -e "$m/var/lib/hasten/set.json" ]
	hasten revert
	as_before
}

@test "an image with an empty /proc and /sys: every runtime setting waits, and its boot works the names out for what it finds" {
	local image=$dir/image
	mkdir -p "$image"/{etc,proc,sys,var/lib,boot}
	printf 'ID=debian\nVERSION_ID=12\n' >"$image/etc/os-release"
	echo machine-1 >"$image/etc/machine-id"
	export HASTEN_PROFILE_DIR=$top_srcdir/profiles
	(cd "$image" && find . | sort) >"$dir/image-before"
	"$hasten" apply latency redis --root "$image" --json >"$dir/json"
	[ "$(jq -r '[.operations[] | select(.step == "sysctl" or .step == "thp" or .step == "cpufreq") | .status] | unique | .[]' "$dir/json")" = at-boot ]
	"$hasten" apply latency redis --root "$image" >"$dir/out"
	! grep -q 'not there\|does not hold' "$dir/out"
	"$hasten" verify --root "$image" >"$dir/out"
	# It boots, with the same machine id.
	rm "$image/etc/os-release"
	mkdir -p "$image"/proc/sys/{kernel/random,net/core,vm} "$image"/sys/devices/system/cpu
	for f in online possible present; do echo 0-3 >"$image/sys/devices/system/cpu/$f"; done
	echo boot-1 >"$image/proc/sys/kernel/random/boot_id"
	echo 128 >"$image/proc/sys/net/core/somaxconn"
	echo 0 >"$image/proc/sys/net/core/busy_read" # only where cpus.count > 2
	"$hasten" apply --boot --root "$image"
	[ "$(cat "$image/proc/sys/net/core/somaxconn")" = 4096 ]
	[ "$(cat "$image/proc/sys/net/core/busy_read")" = 50 ]
	"$hasten" verify --root "$image"
	"$hasten" revert --root "$image"
	[ "$(cat "$image/proc/sys/net/core/busy_read")" = 0 ]
	[ ! -e "$image/var/lib/hasten" ]
}

@test "closed and full outputs: what is printed never lands in a file of ours, and a loss is said" {
	exits 0 hasten apply one >&-
	hasten verify
	grep -q . "$m/var/lib/hasten/journal"
	! grep -rq 'in order\|changed' "$m/var" "$m/proc"
	exits 0 hasten revert <&- >&- 2>&-
	as_before
	[ ! -e /dev/full ] || exits 1 hasten plan one >/dev/full 2>"$dir/error"
	[ ! -e /dev/full ] || grep -q 'did not arrive: No space left' "$dir/error"
	as_before
}

@test "a full disk: either nothing is changed, or revert has room" {
	[ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || skip "needs root and name spaces of its own"
	cat >"$dir/full" <<-'END'
		m=$1 hasten=$2 dir=$3
		mkdir -p "$m/var/lib/hasten"
		for size in 4 8 12 16 20 24 28 32 48 64 128; do
			mount -t tmpfs -o size=${size}k,mode=755 none "$m/var/lib/hasten" || exit 99
			status=0
			"$hasten" apply one two --root "$m" >"$dir/out" 2>&1 || status=$?
			echo "$size $status $(cat "$m/proc/sys/vm/swappiness")"
			dd if=/dev/zero of="$m/var/lib/hasten/fill" bs=4k 2>/dev/null
			[ $status != 0 ] || "$hasten" revert --root "$m" >"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
			[ "$(cat "$m/proc/sys/vm/swappiness")" = 60 ] || { echo "$size: not put back"; exit 1; }
			umount "$m/var/lib/hasten"
		done
	END
	unshare -m bash "$dir/full" "$m" "$hasten" "$dir" >"$dir/sizes" || { cat "$dir/sizes"; return 1; }
	! grep -E '^[0-9]+ [1-9][0-9]* 10' "$dir/sizes" # failed, and changed all the same
	grep -q ' 0 10$' "$dir/sizes"                   # the larger ones do
	grep -q ' 1 60$' "$dir/sizes"
	rmdir -p "$m/var/lib/hasten" 2>/dev/null || true
	as_before
}

@test "a first set that died before the machine went down: the boot unit starts for it and puts it back" {
	# Up to the write of swappiness: originals and the pending set are on disk.
	for n in $(seq 40); do
		HASTEN_SYS_FAULT=$n=kill "$hasten" apply one --root "$m" >/dev/null 2>&1 || true
		[ "$(cat "$m/proc/sys/vm/swappiness")" != 10 ] || break
		hasten revert >/dev/null 2>&1
	done
	[ ! -e "$m/var/lib/hasten/set.json" ]
	started=no
	while read -r path; do [ ! -e "$m$path" ] || started=yes; done < <(sed -n 's/^ConditionPathExists=|*//p' "$top_srcdir/units/hasten-apply.service.in")
	[ $started = yes ]
	echo boot-2 >"$m/proc/sys/kernel/random/boot_id"
	echo 60 >"$m/proc/sys/vm/swappiness"
	hasten apply --boot
	echo boot-1 >"$m/proc/sys/kernel/random/boot_id"
	[ "$(cat "$m/proc/sys/vm/swappiness")" = 60 ]
	[ ! -e "$m/var/lib/hasten/set-pending.json" ]
}
