#!/usr/bin/env bats
# hasten enable: Redis as Debian ships it, restarted, reinstalled, disabled; a user's service; sandboxes; a container beside the host.
# In the core run.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	machine_start one smp=2 mem=1536 qemu="-virtfs local,path=$vm_image/apt,mount_tag=apt,security_model=none,readonly=on"
	machine_install one
	in_machine one 'useradd -m visitor; find /etc/systemd /usr/lib/systemd/system -type f -exec sha256sum {} + | sort -k2 >/root/units'
}

teardown_file() {
	machines_stop
}

vm() {
	in_machine one -t 300 "$@"
}

library() { # yes|no: whether the service's process has the library
	vm "pid=\$(systemctl show -P MainPID ${2:-redis-server}); [ \$pid -gt 1 ] && if grep -q libhasten /proc/\$pid/maps; then echo yes; else echo no; fi"
}

# Whether a client of ours really reached the server on PORT by shared memory, while it ran.
by_shared_memory() { # PORT
	vm "hasten run redis-benchmark -p $1 -n 100000000 -c 4 -t set -q >/dev/null 2>&1 & pid=\$!
		for i in \$(seq 40); do sleep 0.5; hasten ss -s sock >/tmp/ss 2>/dev/null; grep -A2 ':$1 ' /tmp/ss | grep -q 'tx shm' && break; done
		kill \$pid; grep -A2 ':$1 ' /tmp/ss | grep -q 'tx shm' || { cat /tmp/ss; exit 1; }"
}

@test "enable --now: Redis runs accelerated, and clients reach it by shared memory" {
	vm 'systemctl start redis-server'
	[ "$(library)" = no ]
	run vm 'hasten enable --now redis-server'
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"has the library mapped"* ]]
	[ "$(library)" = yes ]
	run vm 'systemctl status redis-server --no-pager'
	[[ $output == *60-hasten.conf* ]]
	by_shared_memory 6379
	# A client without the library is served as before.
	[ "$(vm 'redis-cli ping')" = PONG ]
}

@test "it survives daemon-reload, a crash, and the package installed again" {
	vm 'systemctl daemon-reload; systemctl restart redis-server'
	[ "$(library)" = yes ]
	vm 'kill -9 $(systemctl show -P MainPID redis-server); for i in $(seq 30); do sleep 1; redis-cli ping 2>/dev/null | grep -q PONG && break; done'
	[ "$(library)" = yes ]
	before=$(vm 'systemctl show -P MainPID redis-server')
	run vm 'mkdir -p /mnt/apt && mount -t 9p -o trans=virtio,ro apt /mnt/apt && DEBIAN_FRONTEND=noninteractive dpkg -i /mnt/apt/redis-server_*.deb; umount /mnt/apt'
	echo "$output"
	[ "$(vm 'systemctl show -P MainPID redis-server')" != "$before" ]
	[ "$(library)" = yes ]
	by_shared_memory 6379
}

@test "disable restores it: the process, the units, nothing left" {
	run vm 'hasten disable --now redis-server'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(library)" = no ]
	vm 'systemctl stop redis-server; find /etc/systemd /usr/lib/systemd/system -type f -exec sha256sum {} + | sort -k2 | diff /root/units -'
	[ -z "$(vm 'find /etc/systemd -name "*hasten*"; find /etc/systemd -type d -name "redis-server.service.d"')" ]
}

@test "a user's own service" {
	vm 'loginctl enable-linger visitor; for i in $(seq 40); do [ -S /run/user/$(id -u visitor)/systemd/private ] && break; sleep 0.5; done
		install -d -o visitor -g visitor /home/visitor/.config/systemd/user
		printf "[Service]\nExecStart=/usr/bin/redis-server --port 7002 --save \"\"\n" >/home/visitor/.config/systemd/user/mine.service
		chown -R visitor: /home/visitor/.config'
	run vm 'setpriv --reuid visitor --regid visitor --init-groups env -i HOME=/home/visitor PATH=$PATH XDG_RUNTIME_DIR=/run/user/$(id -u visitor) sh -c "systemctl --user daemon-reload && systemctl --user start mine && hasten enable --user --now mine; systemctl --user show -P MainPID mine"'
	echo "$output"
	pid=${lines[-1]}
	vm "grep -q libhasten /proc/$pid/maps"
	vm 'setpriv --reuid visitor --regid visitor --init-groups hasten run redis-benchmark -p 7002 -n 500 -c 2 -t set -q'
	run vm 'setpriv --reuid visitor --regid visitor --init-groups env -i HOME=/home/visitor PATH=$PATH XDG_RUNTIME_DIR=/run/user/$(id -u visitor) sh -c "hasten disable --user --now mine; systemctl --user show -P MainPID mine"'
	echo "$output"
	vm "! grep -q libhasten /proc/${lines[-1]}/maps"
	vm 'loginctl disable-linger visitor; loginctl terminate-user visitor; true'
}

sandboxed() { # LINES: a service with them
	vm "cat >/etc/systemd/system/strict.service <<-END
		[Service]
		Type=notify
		ExecStart=/usr/bin/redis-server --port 7001 --save '' --supervised systemd
		DynamicUser=yes
		ProtectSystem=strict
		ProtectHome=yes
		PrivateTmp=yes
		PrivateDevices=yes
		ProtectProc=invisible
		ProcSubset=pid
		ProtectKernelTunables=yes
		ProtectKernelModules=yes
		ProtectControlGroups=yes
		NoNewPrivileges=yes
		CapabilityBoundingSet=
		RestrictNamespaces=yes
		MemoryDenyWriteExecute=yes
		LockPersonality=yes
		SystemCallArchitectures=native
		SystemCallFilter=@system-service
		$1
	END
	systemctl daemon-reload"
}

@test "a strictly sandboxed service works, accelerated or with the reason why not" {
	sandboxed 'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX'
	run vm 'hasten enable strict'
	echo "$output"
	[ "$status" -eq 0 ]
	vm 'systemctl start strict'
	[ "$(library yes strict)" = yes ]
	[ "$(vm 'redis-cli -p 7001 ping')" = PONG ]
	vm 'hasten run redis-benchmark -p 7001 -n 2000 -c 4 -t set -q'
	vm "hasten run redis-benchmark -p 7001 -n 100000000 -c 4 -t set -q >/dev/null 2>&1 & pid=\$!; sleep 6; hasten ss -s sock >/tmp/ss; kill \$pid; cat /tmp/ss; grep ':7001' /tmp/ss"
	vm 'systemctl stop strict; hasten disable strict'
}

@test "a sandbox without AF_UNIX is refused with the remedy; nothing is changed" {
	sandboxed 'RestrictAddressFamilies=AF_INET AF_INET6'
	run vm 'hasten enable strict'
	echo "$output"
	[ "$status" -eq 2 ]
	[[ $output == *"RestrictAddressFamilies"*"AF_UNIX"* ]]
	[ -z "$(vm 'find /etc/systemd -name 60-hasten.conf')" ]
}

@test "between a container that shares the network and the host: by shared memory with /run/hasten, else over TCP" {
	vm 'mkdir -p /srv/c && mount --bind / /srv/c'
	vm 'systemd-run --unit=container systemd-nspawn --quiet --register=no --read-only -D /srv/c --tmpfs=/tmp --bind=/run/hasten hasten run redis-server --port 7003 --save "" --dir /tmp
		for i in $(seq 60); do sleep 1; redis-cli -p 7003 ping 2>/dev/null | grep -q PONG && exit 0; done; journalctl -u container --no-pager | tail; exit 1'
	by_shared_memory 7003
	vm 'systemctl stop container'
	vm 'systemd-run --unit=alone systemd-nspawn --quiet --register=no --read-only -D /srv/c --tmpfs=/tmp hasten run redis-server --port 7004 --save "" --dir /tmp
		for i in $(seq 60); do sleep 1; redis-cli -p 7004 ping 2>/dev/null | grep -q PONG && exit 0; done; journalctl -u alone --no-pager | tail; exit 1'
	vm 'hasten run redis-benchmark -p 7004 -n 500 -c 2 -t set -q; systemctl stop alone'
}
