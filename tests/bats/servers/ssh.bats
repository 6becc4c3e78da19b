#!/usr/bin/env bats
# ssh and rsync: sshd forks, executes itself, drops its rights and confines itself for each connection; rsync's daemon forks.

load ../common

setup() {
	prepare
	need_root
	need sshd ssh ssh-keygen rsync ss
	count_bytes
	port=$(free_port)
	mkdir -p /run/sshd && chmod 755 /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f "$dir/host"
	ssh-keygen -q -t ed25519 -N '' -f "$dir/user"
	cp "$dir/user.pub" "$dir/authorized"
	cat >"$dir/sshd_config" <<END
ListenAddress 127.0.0.1
Port $port
HostKey $dir/host
AuthorizedKeysFile $dir/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
AcceptEnv HASTEN_COUNTERS
Subsystem sftp internal-sftp
END
	ssh=(ssh -F none -p "$port" -i "$dir/user" -o StrictHostKeyChecking=no -o "UserKnownHostsFile=$dir/known" -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=20)
	local i
	mkdir -p "$dir/tree/deep"
	for i in $(seq 100); do head -c $((i * i * 37)) /dev/urandom >"$dir/tree/$((i % 10))-$i"; done
	head -c 20000000 /dev/urandom >"$dir/tree/deep/large"
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

shell() { # both|server|client|neither
	ends "$1"
	start "$server" "$(command -v sshd)" -D -e -f "$dir/sshd_config"
	wait_port "$port"
	[ "$(under "$client" timeout 20 "${ssh[@]}" 127.0.0.1 'echo said; exit 7' || echo $?)" = "said
7" ]
	local until=$((SECONDS + $(seconds 1))) times=0
	while [ $times = 0 ] || [ $SECONDS -lt $until ]; do
		# Through and back.
		under "$client" timeout 60 "${ssh[@]}" 127.0.0.1 cat <"$dir/tree/deep/large" | cmp - "$dir/tree/deep/large"
		rm -rf "$dir/copy"
		under "$client" timeout 60 rsync -a -e "${ssh[*]}" "$dir/tree" "127.0.0.1:$dir/copy"
		diff -r "$dir/tree" "$dir/copy/tree"
		# Only what differs.
		head -c 1000 /dev/urandom | dd of="$dir/copy/tree/deep/large" bs=1000 seek=9 conv=notrunc status=none
		under "$client" timeout 60 rsync -a --checksum --no-whole-file -e "${ssh[*]}" "$dir/tree" "127.0.0.1:$dir/copy"
		diff -r "$dir/tree" "$dir/copy/tree"
		under "$client" timeout 60 sftp -q -b - -F none -P "$port" -i "$dir/user" -o StrictHostKeyChecking=no -o "UserKnownHostsFile=$dir/known" 127.0.0.1 \
			<<<"get $dir/tree/deep/large $dir/got" >/dev/null
		cmp "$dir/got" "$dir/tree/deep/large"
		times=$((times + 1))
	done
	figure "$times times 20 MB through cat, two runs of rsync, one of sftp"
	stop_all
	# sshd reads the first bytes in a process that confines its own system calls: such a connection stays on the kernel.
	by_lane kernel
}

# bats test_tags=soak
@test "ssh and rsync over ssh: both ends accelerated" {
	shell both
}

@test "ssh and rsync over ssh: the server accelerated" {
	shell server
}

@test "ssh and rsync over ssh: the client accelerated" {
	shell client
}

daemon() { # both|server|client|neither
	ends "$1"
	cat >"$dir/rsyncd.conf" <<END
use chroot = no
uid = root
gid = root
[tree]
path = $dir/tree
[into]
path = $dir/into
read only = no
END
	mkdir "$dir/into"
	start "$server" rsync --daemon --no-detach --address=127.0.0.1 --port="$port" --config="$dir/rsyncd.conf" --log-file="$dir/log"
	wait_port "$port"
	local until=$((SECONDS + $(seconds 1))) times=0
	while [ $times = 0 ] || [ $SECONDS -lt $until ]; do
		rm -rf "$dir/copy" "$dir/into/"*
		under "$client" timeout 60 rsync -a "rsync://127.0.0.1:$port/tree/" "$dir/copy"
		diff -r "$dir/tree" "$dir/copy"
		under "$client" timeout 60 rsync -a -z "$dir/tree/" "rsync://127.0.0.1:$port/into"
		diff -r "$dir/tree" "$dir/into"
		times=$((times + 1))
	done
	figure "$times times down and up"
	stop_all
	by_lane "$1" 30
}

# bats test_tags=soak
@test "rsync's daemon: both ends accelerated" {
	daemon both
}

@test "rsync's daemon: the server accelerated" {
	daemon server
}

@test "rsync's daemon: the client accelerated" {
	daemon client
}
