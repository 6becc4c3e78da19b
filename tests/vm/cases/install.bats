#!/usr/bin/env bats
# install.sh on a real machine: the one line, again, through sudo, upgrade under load, first boot from user-data, uninstall.

. "$BATS_TEST_DIRNAME/../machine.bash"
. "$BATS_TEST_DIRNAME/../../bats/installer/site.bash"

setup_file() {
	export top_srcdir=$vm_source
	command -v dh >/dev/null && command -v dpkg-buildpackage >/dev/null || skip "debhelper is not installed: no release can be built"
	site_make || return 1
	cd "$site"
	# To the machine the host's loopback is 10.0.2.2.
	openssl req -x509 -newkey rsa:2048 -nodes -keyout vm.key -out vm.crt -days 2 -subj /CN=mirror -addext subjectAltName=IP:10.0.2.2 2>/dev/null
	cp install.sh files/
	python3 "$vm_source/tests/bats/host/https.py" vm.crt vm.key files >vm.port 2>vm.requests 3>&- & echo $! >vm.pid
	for _ in $(seq 100); do [ -s vm.port ] && break; sleep 0.1; done
	# The image has neither curl nor wget.
	(apt-get -q download curl && dpkg-deb -x curl_*.deb curl) >curl.log 2>&1 || true
	machine_start one smp=2 mem=1536 \
		qemu="-netdev user,id=n0 -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01 -virtfs local,path=$site,mount_tag=site,security_model=none,readonly=on"
	in_machine one 'mkdir -p /mnt/site && mount -t 9p -o trans=virtio,ro site /mnt/site
		useradd -m visitor; echo "visitor ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/visitor'
}

teardown_file() {
	[ ! -e "$site/vm.pid" ] || kill "$(cat "$site/vm.pid")"
	machines_stop
}

setup() {
	version=$(cat "$site/version") port=$(cat "$site/vm.port")
}

vm() {
	in_machine one -t 300 "$@"
}

# What an installation may change, without the exceptions that hasten-install(7) names.
files() {
	vm 'cd /; { find bin boot etc home lib lib64 opt root sbin srv usr var -xdev -type f -exec sha256sum {} +; find etc usr var -xdev ! -type f -printf "%y %p %l\n"; } |
		grep -vE " (\./)?(var/lib/(dpkg|apt)/|var/cache/|var/log/|var/lib/systemd/|etc/(passwd|shadow|group|gshadow)-?$|etc/.pwd.lock|etc/ld.so.cache|var/tmp/|root/\.)" |
		grep -vE "var/lib/(redis|logrotate)|etc/machine-id|etc/resolv.conf|etc/adjtime" | sort -k2'
}

@test "the one line, from an https server, through sudo" {
	files >"$site/before"
	[ -x "$site/curl/usr/bin/curl" ] || skip "curl could not be fetched for the machine"
	vm 'cp /mnt/site/curl/usr/bin/curl /usr/local/bin/curl; for f in /mnt/site/curl/usr/lib/*/lib*; do [ ! -e "$f" ] || cp -P "$f" /usr/local/lib/; done; ldconfig
		mkdir -p /usr/local/share/ca-certificates; cp /mnt/site/vm.crt /usr/local/share/ca-certificates/; update-ca-certificates >/dev/null 2>&1'
	files >"$site/before"
	run vm "su visitor -c 'curl -fsSL https://10.0.2.2:$port/good/install.sh | sudo sh -s -- --mirror https://10.0.2.2:$port/good --dry-run'"
	echo "$output"
	[[ $status = 0 && $output == *"nothing was changed (--dry-run)" ]]
	files | diff "$site/before" -
	run vm "su visitor -c 'curl -fsSL https://10.0.2.2:$port/good/install.sh | sudo sh -s -- --mirror https://10.0.2.2:$port/good'"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"the signature of the list of version $version is good"*"acceleration"*"version $version is installed"*"next: hasten profile list"* ]]
	[ "$(vm 'systemctl is-active hastend')" = active ]
	[ "$(vm 'systemctl is-enabled hastend hasten-apply' | tr '\n' ' ')" = "enabled enabled " ]
}

@test "a second run changes nothing, and hastend goes on" {
	vm 'sh /mnt/site/install.sh --offline /mnt/site/files' # where the first test could not
	pid=$(vm 'systemctl show -P MainPID hastend')
	run vm 'sh /mnt/site/install.sh --offline /mnt/site/files'
	[[ $status = 0 && $output == *"is installed already"* ]]
	[ "$(vm 'systemctl show -P MainPID hastend')" = "$pid" ]
}

@test "upgrade under load: a profile stays applied, an accelerated Redis goes on, old and new work together" {
	run vm 'hasten apply --yes redis && hasten verify >/dev/null && systemctl start redis-server; hasten enable --now redis-server'
	echo "$output"
	[ "$status" -eq 0 ]
	vm 'hasten run redis-benchmark -n 100000000 -c 10 -q >/tmp/load 2>&1 & echo $! >/tmp/load.pid'
	vm 'sleep 3; hasten ss | grep -q redis'
	server=$(vm 'systemctl show -P MainPID redis-server')
	run vm "sh /mnt/site/install.sh --offline /mnt/site/files --version $version.1"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(vm 'systemctl show -P MainPID redis-server')" = "$server" ]
	vm 'kill -0 $(cat /tmp/load.pid)'
	vm 'hasten verify && [ $(sysctl -n vm.overcommit_memory) = 1 ]'
	vm 'hasten run redis-benchmark -n 2000 -c 5 -t set -q' # the new library, to the server with the old one
	vm 'kill $(cat /tmp/load.pid); systemctl restart redis-server && hasten run redis-benchmark -n 2000 -c 5 -t set -q'
	[ "$(vm 'systemctl is-active hastend')" = active ]
}

@test "uninstall: settings and the service back first, the files as before" {
	run vm 'sh /mnt/site/install.sh --uninstall --purge'
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"these processes keep the library"*"redis-server"* ]]
	[ "$(vm 'sysctl -n vm.overcommit_memory')" = 0 ]
	vm 'systemctl restart redis-server; redis-cli ping; systemctl stop redis-server'
	files | diff "$site/before" -
}

@test "from user-data at first boot: the boot ends, the profile is applied" {
	# As cloud-init orders its last stage, and with the files by which it is known.
	vm 'cat >/etc/systemd/system/cloud-final.service <<-END
			[Unit]
			After=network-online.target
			Wants=network-online.target
			[Service]
			Type=oneshot
			TimeoutStartSec=600
			ExecStart=/bin/sh -c "mkdir -p /run/cloud-init /mnt/site; mount -t 9p -o trans=virtio,ro site /mnt/site; HASTEN_INSTALL_PROFILE=redis sh /mnt/site/install.sh --offline /mnt/site/files >/root/said 2>&1; echo ended with \$? >>/root/said; touch /run/cloud-init/result.json"
			[Install]
			WantedBy=multi-user.target
		END
		systemctl enable cloud-final.service'
	machine_reboot one
	vm 'for i in $(seq 100); do grep -q "ended with" /root/said 2>/dev/null && break; sleep 1; done; cat /root/said'
	[ "$(vm 'tail -n 1 /root/said')" = "ended with 0" ]
	[ "$(vm 'systemctl is-system-running --wait')" != starting ]
	vm 'for i in $(seq 30); do [ "$(systemctl is-active hastend)" = active ] && exit 0; sleep 1; done; exit 1'
	vm 'hasten verify && [ $(sysctl -n vm.overcommit_memory) = 1 ]'
}
