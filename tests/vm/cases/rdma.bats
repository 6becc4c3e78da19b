#!/usr/bin/env bats
# The ladder of hasten check with soft iWARP, soft RoCE and the erdma module without a card; a driver from a signed DKMS package.

. "$BATS_TEST_DIRNAME/../machine.bash"

setup_file() {
	export drivers=$BATS_FILE_TMPDIR/drivers
	mkdir -p "$drivers/debs"
	make_driver || return 1
	machine_start one smp=2 mem=2048 qemu="-netdev user,id=n0 -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01
		-virtfs local,path=$drivers,mount_tag=drivers,security_model=none,readonly=on"
	machine_install one
	in_machine one 'mkdir -p /mnt/drivers && mount -t 9p -o trans=virtio,ro drivers /mnt/drivers'
}

teardown_file() {
	machines_stop
}

vm() {
	in_machine one -t 300 "$@"
}

card() {
	vm 'basename "$(dirname "$(grep -l 52:54:00:00:00:01 /sys/class/net/*/address)")"'
}

# A vendor's package of erdma, from the source of Debian's kernel, with its signed manifest; the packages that building it needs, as far as this host gets them.
make_driver() {
	local source status=$BATS_FILE_TMPDIR/status kernel
	kernel=$(cat "$vm_image/version")
	source=$(find /usr/src -maxdepth 1 -name 'linux-source-[0-9]*.tar.xz' | sort -V | tail -1)
	[ -n "$source" ] || return 0
	mkdir -p "$drivers/erdma-6.1" && tar -xJf "$source" -C "$drivers/erdma-6.1" --strip-components=5 "$(basename "$source" .tar.xz)/drivers/infiniband/hw/erdma" || return 1
	cat >"$drivers/erdma-6.1/dkms.conf" <<-'END'
		PACKAGE_NAME="erdma"
		PACKAGE_VERSION="6.1"
		MAKE[0]="make -C ${kernel_source_dir} M=${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build CONFIG_INFINIBAND_ERDMA=m modules"
		CLEAN="make -C ${kernel_source_dir} M=${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build clean"
		BUILT_MODULE_NAME[0]="erdma"
		DEST_MODULE_LOCATION[0]="/updates"
		AUTOINSTALL="yes"
	END
	cd "$drivers" && tar -czf erdma-6.1.tar.gz erdma-6.1 && openssl genpkey -algorithm ed25519 -out vendor.key && openssl pkey -in vendor.key -pubout -out vendor.pem &&
		openssl genpkey -algorithm ed25519 -out foreign.key || return 1
	cat >erdma.yaml <<-END
		schema: 1
		name: erdma
		version: 6.1
		module: erdma
		serial: 1
		url: https://127.0.0.1:8000/erdma-6.1.tar.gz
		sha256: $(sha256sum erdma-6.1.tar.gz | cut -d' ' -f1)
		size: $(stat -c %s erdma-6.1.tar.gz)
		distributions: [debian]
		architectures: [x86_64]
	END
	openssl pkeyutl -sign -rawin -inkey vendor.key -in erdma.yaml -out erdma.yaml.sig && openssl pkeyutl -sign -rawin -inkey foreign.key -in erdma.yaml -out foreign.sig || return 1
	# What the machine lacks to build it, worked out from its own list of packages.
	tar -xOf "$(ls "$vm_image"/root.*.tar | head -1)" ./var/lib/dpkg/status >"$status"
	mkdir -p debs/partial
	apt-get -o Dir::State::status="$status" -o Dir::Cache::archives="$drivers/debs" -o Debug::NoLocking=1 -qq -y --no-install-recommends --download-only \
		install dkms "linux-headers-$kernel" gcc make libc6-dev >debs.log 2>&1 || rm -f debs/*.deb
	return 0
}

ladder() { # the rung CHECK's status for SUBJECT, as JSON has it
	vm 'hasten check rdma --json || true'
}

@test "no RDMA: the ladder says so and is no fault of the machine" {
	run vm 'hasten check rdma'
	echo "$output"
	[ "$status" -le 1 ]
	ladder | jq -e '.schema_version == 1'
}

@test "the erdma module without a card: loaded, and nothing is claimed of a device" {
	vm 'modinfo -n erdma && modprobe erdma' || skip "the image has no erdma module: linux-source and headers of the machine's kernel were not on the host"
	run vm 'hasten check rdma; hasten driver status erdma'
	echo "$output"
	[[ $output == *erdma* ]]
	ladder | jq -e '[.findings[] | select(.id == "rdma.device" and .status == "ok")] | length == 0'
	vm 'rmmod erdma'
}

rungs() { # TYPE MODULE
	local name
	name=$(card)
	vm "rdma link del soft0 2>/dev/null; modprobe $2 && modprobe rdma_ucm && modprobe ib_uverbs && rdma link add soft0 type $1 netdev $name && sleep 2"
	run vm 'hasten check rdma'
	echo "$output"
	ladder >"$BATS_TEST_TMPDIR/json"
	# A soft device has no function on the bus: the rungs below the port's do not apply to it.
	for rung in port nodes provider netdev; do
		jq -e --arg id "rdma.$rung" '[.findings[] | select(.id == $id) | .status] | length > 0 and all(. == "ok")' "$BATS_TEST_TMPDIR/json" ||
			{ jq --arg id "rdma.$rung" '.findings[] | select(.id == $id)' "$BATS_TEST_TMPDIR/json"; return 1; }
	done
	vm 'ibv_devices | grep soft0'
	# A rung taken away is said, with the remedy, and the ones above it do not claim to stand.
	vm "rmmod rdma_ucm; rmmod ib_uverbs 2>/dev/null; true"
	vm "ip link set $name down"
	run vm 'hasten check rdma.port'
	echo "$output"
	[ "$status" -ne 0 ]
	vm "ip link set $name up; rdma link del soft0; modprobe -r $2; true"
}

@test "soft iWARP: every rung stands; with the link down the port's does not" {
	vm 'modinfo -n siw' || skip "the image has no siw module: linux-source and headers of the machine's kernel were not on the host"
	rungs siw siw
}

@test "soft RoCE: the same" {
	rungs rxe rdma_rxe
}

@test "driver install: without headers it is refused, with the package that has them" {
	[ -s "$drivers/erdma.yaml" ] || skip "linux-source is not installed on the host"
	vm 'for i in $(find /lib/modules -name "erdma.ko*"); do mv $i /root/; done; depmod
		mkdir -p /etc/hasten/drivers /etc/hasten/keys && cp /mnt/drivers/erdma.yaml /mnt/drivers/erdma.yaml.sig /etc/hasten/drivers/ && cp /mnt/drivers/vendor.pem /etc/hasten/keys/
		(cd /mnt/drivers && exec setsid python3 -m http.server 8000 --bind 127.0.0.1) >/dev/null 2>&1 &'
	run vm 'hasten driver install erdma --mirror http://127.0.0.1:8000'
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *headers* || $output == *dkms* ]]
	[ -z "$(vm 'ls /var/lib/hasten/drivers 2>/dev/null | grep -vx lock; ls -d /usr/src/erdma* 2>/dev/null')" ]
}

@test "driver install: a manifest that another key signed is refused" {
	[ -s "$drivers/erdma.yaml" ] || skip "linux-source is not installed on the host"
	vm 'cp /mnt/drivers/foreign.sig /etc/hasten/drivers/erdma.yaml.sig'
	run vm 'hasten driver install erdma --mirror http://127.0.0.1:8000'
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *signature* || $output == *key* ]]
	[ -z "$(vm 'ls /var/lib/hasten/drivers 2>/dev/null | grep -vx lock; ls -d /usr/src/erdma* 2>/dev/null')" ]
	vm 'cp /mnt/drivers/erdma.yaml.sig /etc/hasten/drivers/erdma.yaml.sig'
}

@test "driver install: built by DKMS in the machine, loaded, used; removed again" {
	ls "$drivers"/debs/dkms_*.deb >/dev/null 2>&1 || skip "dkms and the headers of $(cat "$vm_image/version") could not be fetched: $(tail -1 "$drivers/debs.log")"
	# What dkms depends on before it is unpacked comes first.
	run in_machine one -t 600 'DEBIAN_FRONTEND=noninteractive dpkg -i /mnt/drivers/debs/lsb-release_*.deb >/dev/null; dpkg -i /mnt/drivers/debs/*.deb >/root/dpkg.log 2>&1 || grep -iE -A4 "error|depend" /root/dpkg.log'
	echo "$output"
	run in_machine one -t 900 'hasten driver install erdma --mirror http://127.0.0.1:8000'
	echo "$output"
	[ "$status" -eq 0 ]
	vm 'lsmod | grep -q "^erdma" && modinfo -n erdma && dkms status'
	run vm 'hasten driver status erdma'
	echo "$output"
	[[ $output == *vendor* ]]
	run vm 'hasten driver remove erdma'
	echo "$output"
	[ "$status" -eq 0 ]
	[ -z "$(vm 'dkms status | grep erdma; modinfo -n erdma 2>/dev/null')" ]
}
