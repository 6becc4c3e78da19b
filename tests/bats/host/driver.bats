#!/usr/bin/env bats
# hasten driver: a vendor's package that a signed manifest describes, from a real https server, built by the real dkms for a kernel whose
# headers are installed here. Everything that is written goes to overlays in a mount name space of the test's own.

setup_file() {
	[ "$(id -u)" = 0 ] || skip "needs root for a mount name space"
	export hasten=$top_builddir/hasten dir=$BATS_FILE_TMPDIR
	headers=$(find /lib/modules -mindepth 2 -maxdepth 2 -name build 2>/dev/null | sort -V | tail -1)
	export kernel=
	[ -z "$headers" ] || kernel=$(basename "$(dirname "$headers")")
	cd "$dir" || return 1
	openssl genpkey -algorithm ed25519 -out vendor.key 2>/dev/null
	openssl pkey -in vendor.key -pubout -out vendor.pem
	openssl genpkey -algorithm ed25519 -out other.key 2>/dev/null
	openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -days 2 -subj /CN=127.0.0.1 \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	mkdir -p files erdma-1.0
	cat >erdma-1.0/dkms.conf <<-'END'
		# a driver for the test
		PACKAGE_NAME="erdma"
		PACKAGE_VERSION="1.0"
		MAKE[0]="make -C ${kernel_source_dir} M=${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build modules"
		CLEAN="make -C ${kernel_source_dir} M=${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build clean"
		BUILT_MODULE_NAME[0]="erdma"
		DEST_MODULE_LOCATION[0]="/updates"
		AUTOINSTALL="yes"
	END
	echo 'obj-m := erdma.o' >erdma-1.0/Makefile
	cat >erdma-1.0/erdma.c <<-'END'
		#include <linux/module.h>
		static int __init begin(void) { return 0; }
		static void __exit end(void) { }
		module_init(begin);
		module_exit(end);
		MODULE_LICENSE("GPL");
		MODULE_VERSION("1.0");
	END
	tar -czf files/erdma-1.0.tar.gz erdma-1.0
	# Bytes enough to be cut in the middle of.
	head -c 300000 /dev/urandom >files/big.bin
	python3 "$top_srcdir/tests/bats/host/https.py" server.crt server.key files >port 2>requests & echo $! >server.pid
	python3 "$top_srcdir/tests/bats/host/https.py" - - files plain >plain.port 2>plain.requests & echo $! >plain.pid
	for _ in $(seq 100); do [ -s port ] && [ -s plain.port ] && break; sleep 0.1; done
}

teardown_file() {
	[ ! -e "$BATS_FILE_TMPDIR/server.pid" ] || kill "$(cat "$BATS_FILE_TMPDIR/server.pid")" "$(cat "$BATS_FILE_TMPDIR/plain.pid")"
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return 1
	port=$(cat port) plain_port=$(cat plain.port)
	[ -n "$kernel" ] || skip "no kernel headers are installed"
	mkdir -p "$BATS_TEST_TMPDIR/etc/hasten/"{keys,drivers}
	cp vendor.pem "$BATS_TEST_TMPDIR/etc/hasten/keys/"
	unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
}

# manifest HOW FILE [LINE...]: a signed one for a file as the server's path HOW serves it; later lines win over earlier ones of the same key.
manifest() {
	local how=$1 file=$2 out=$BATS_TEST_TMPDIR/etc/hasten/drivers/erdma.yaml line
	shift 2
	declare -gA value=([schema]=1 [name]=erdma [version]=1.0 [module]=erdma [serial]=5 [url]="https://127.0.0.1:$port/$how/$file"
		[sha256]=$(sha256sum "files/$file" | cut -d' ' -f1) [size]=$(stat -c %s "files/$file")
		[distributions]="[$(. /etc/os-release && echo "$ID")]" [architectures]="[$(uname -m)]")
	for line in "$@"; do value[${line%%:*}]=${line#*: }; done
	for line in "${!value[@]}"; do echo "$line: ${value[$line]}"; done >"$out"
	sign "$out"
}

sign() { # FILE [KEY]
	openssl pkeyutl -sign -rawin -inkey "${2:-vendor.key}" -in "$1" -out "$1.sig"
}

# In a view of the machine where all that hasten and dkms write goes to the test's folder.
view() {
	# shellcheck disable=SC2016
	unshare -m bash -c '
		top=$1; shift
		mkdir -p "$top/over" && mount -t tmpfs tmpfs "$top/over" || exit 99
		for at in /usr/src /lib/modules /var/lib/dkms; do
			mkdir -p "$at" "$top/over/u$at" "$top/over/w$at"
			mount -t overlay -o "lowerdir=$at,upperdir=$top/over/u$at,workdir=$top/over/w$at" overlay "$at" || exit 99
		done
		mkdir -p /etc/hasten /var/lib/hasten "$top/state"
		mount --bind "$top/etc/hasten" /etc/hasten && mount --bind "$top/state" /var/lib/hasten || exit 99
		"$@"' view "$BATS_TEST_TMPDIR" "$@"
}

install_it() {
	run view "$hasten" driver install erdma -k "$kernel" --ca-file "$PWD/server.crt" "$@"
}

nothing_left() {
	[ -z "$(find "$BATS_TEST_TMPDIR/state" -type f ! -name lock ! -name '*.part' 2>/dev/null)" ]
}

@test "a signed package is fetched, built by dkms, listed, and removed again" {
	manifest good erdma-1.0.tar.gz
	run view sh -c "
		'$hasten' driver install erdma -k $kernel --ca-file '$PWD/server.crt' || exit 1
		dkms status; find /lib/modules/$kernel/updates -name 'erdma.ko*' | grep . || exit 1
		'$hasten' driver status erdma -k $kernel --json || exit 1
		'$hasten' driver install erdma -k $kernel || exit 1
		'$hasten' driver remove erdma -k $kernel || exit 1
		echo after:; dkms status; find /lib/modules/$kernel/updates -name 'erdma.ko*'; ls /usr/src"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"erdma/1.0, $kernel, $(uname -m): installed"* ]]
	[[ $output == *'"source": "vendor"'* ]]
	[[ $output == *"erdma is there: vendor, version 1.0"* ]]
	after=${output#*after:}
	[[ $after != *erdma* ]]
}

@test "--dry-run names each step and does nothing" {
	manifest good erdma-1.0.tar.gz
	before=$(wc -l <requests)
	install_it --dry-run
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"would: fetch https://127.0.0.1:$port/good/erdma-1.0.tar.gz"* ]]
	[[ $output == *"would: dkms add, build, install erdma 1.0"* ]]
	[ "$(wc -l <requests)" = "$before" ]
	[ -z "$(ls -A "$BATS_TEST_TMPDIR/state")" ]
}

@test "a broken transfer is resumed, also where the server knows no ranges" {
	for how in cut norange busy; do
		manifest $how big.bin
		install_it
		echo "$how: $output"
		# It arrived whole: what is wrong with it is that it is no archive.
		[ "$status" -eq 1 ]
		[[ $output == *"is no tar archive"* ]]
	done
	grep -q '^/cut/big.bin .*bytes=150000-' requests
	nothing_left
}

@test "root fetches as the user _hasten" {
	cp /etc/passwd "$BATS_TEST_TMPDIR/passwd"
	echo '_hasten:x:4242:4242::/:/usr/sbin/nologin' >>"$BATS_TEST_TMPDIR/passwd"
	manifest stall big.bin
	# shellcheck disable=SC2016
	run view sh -c 'mount --bind "$0/passwd" /etc/passwd
		"$1" driver install erdma -k "$2" --ca-file "$3" --stall 4 & sleep 2
		for child in $(cat /proc/$!/task/$!/children); do echo child: $(grep ^Uid /proc/$child/status) $(grep NoNewPrivs /proc/$child/status); done; wait' \
		"$BATS_TEST_TMPDIR" "$hasten" "$kernel" "$PWD/server.crt"
	echo "$output"
	[[ $output == *"child: Uid: 4242 4242 4242 4242 NoNewPrivs: 1"* ]]
	[[ $output == *"no bytes for 4 s"* ]]
}

@test "altered, too long, stalled, missing and redirected answers are refused, each with its reason" {
	refused() { # HOW WORDS
		manifest "$1" big.bin
		install_it --stall 2
		echo "$1: $output"
		[ "$status" -eq 1 ]
		[[ $output == *"$2"* ]]
		[ "$(grep -c '^hasten driver: ' <<<"$output")" = 1 ]
		nothing_left
	}
	refused altered "altered on the way"
	refused long "more than the 300000 bytes"
	refused missing "the server answers 404"
	refused http "something else than https"
	refused loop "edirect"
	refused stall "no bytes for"
}

@test "a server whose certificate nobody vouches for is refused" {
	manifest good erdma-1.0.tar.gz
	run view "$hasten" driver install erdma -k "$kernel"
	[ "$status" -eq 1 ]
	[[ $output == *"certificate is not trusted"* ]]
	# as on a minimal installation
	# shellcheck disable=SC2016
	run view bash -c 'mount -t tmpfs tmpfs /etc/ssl && exec "$@"' view "$hasten" driver install erdma -k "$kernel"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"certificate is not trusted"*"install the package ca-certificates"* ]]
}

@test "plain http is for a mirror that the command line names" {
	manifest good erdma-1.0.tar.gz "url: http://127.0.0.1:$plain_port/good/erdma-1.0.tar.gz"
	install_it
	[ "$status" -eq 1 ]
	[[ $output == *"https:// is wanted"* ]]
	manifest good big.bin
	install_it --mirror "http://127.0.0.1:$plain_port/good"
	echo "$output"
	[[ $output == *"is no tar archive"* ]]
	grep -q '^/good/big.bin' plain.requests
}

@test "a manifest that is not signed, altered, signed by another, or older than the last is refused" {
	out=$BATS_TEST_TMPDIR/etc/hasten/drivers/erdma.yaml
	manifest good erdma-1.0.tar.gz
	rm "$out.sig"
	install_it
	[[ $status = 1 && $output == *"erdma.yaml.sig"*"there is no signature"* ]]
	manifest good erdma-1.0.tar.gz
	echo '# altered' >>"$out"
	install_it
	[[ $status = 1 && $output == *"fits none of 1 keys"* ]]
	sign "$out" other.key
	install_it
	[[ $status = 1 && $output == *"fits none of 1 keys"* ]]
	rm "$BATS_TEST_TMPDIR/etc/hasten/keys/vendor.pem"
	install_it
	[[ $status = 1 && $output == *"no key to check its signature with"* ]]
	cp vendor.pem "$BATS_TEST_TMPDIR/etc/hasten/keys/"
	mkdir -p "$BATS_TEST_TMPDIR/state/drivers"
	echo '{"name":"erdma","module":"erdma","serial":6}' >"$BATS_TEST_TMPDIR/state/drivers/erdma.json"
	manifest good erdma-1.0.tar.gz
	install_it
	echo "$output"
	[[ $status = 1 && $output == *"serial 5, and 6 was installed here before"* ]]
}

@test "a manifest for another distribution, architecture or kernel is refused" {
	refused() { # LINE WORDS
		manifest good erdma-1.0.tar.gz "$1"
		install_it
		echo "$output"
		[[ $status = 1 && $output == *"$2"* ]]
	}
	refused "distributions: [openEuler-24.03]" "made for openEuler-24.03, this is"
	refused "architectures: [s390x]" "made for s390x"
	refused "kernel-max: 4.19" "made for kernels up to 4.19, this is $kernel"
	refused "kernel-min: 99.0" "needs kernel 99.0 or newer"
}

@test "a package that would write elsewhere, link, run scripts or hide commands in dkms.conf is refused" {
	packed() { # NAME WORDS: the archive files/NAME
		manifest good "$1"
		install_it
		echo "$1: $output"
		[[ $status = 1 && $output == *"$2"* ]]
		nothing_left
	}
	python3 - <<-'END'
		import io, tarfile
		def make(name, entries):
		    with tarfile.open('files/' + name, 'w:gz') as t:
		        for path, kind, data in entries:
		            i = tarfile.TarInfo(path)
		            i.type, i.mode = kind, 0o644
		            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
		                i.linkname = data
		                t.addfile(i)
		            else:
		                i.size = len(data)
		                t.addfile(i, io.BytesIO(data.encode()))
		F = tarfile.REGTYPE
		conf = 'PACKAGE_NAME="erdma"\nPACKAGE_VERSION="1.0"\n'
		make('up.tgz', [('../evil', F, 'x')])
		make('abs.tgz', [('/tmp/evil', F, 'x')])
		make('sym.tgz', [('a', tarfile.SYMTYPE, '/etc'), ('a/evil', F, 'x')])
		make('hard.tgz', [('a', tarfile.LNKTYPE, '/etc/shadow')])
		make('fifo.tgz', [('a', tarfile.FIFOTYPE, '')])
		make('noconf.tgz', [('Makefile', F, 'all:\n')])
		make('hook.tgz', [('dkms.conf', F, conf + 'POST_INSTALL="evil.sh"\n')])
		make('sub.tgz', [('dkms.conf', F, conf + 'MAKE[0]="$(touch /tmp/evil)"\n')])
		make('two.tgz', [('dkms.conf', F, conf + 'A=b; touch /tmp/evil\n')])
		make('name.tgz', [('dkms.conf', F, 'PACKAGE_NAME="other"\nPACKAGE_VERSION="1.0"\n')])
		make('fill.tgz', [('dkms.conf', F, conf), ('zeros', F, '0' * 30000000)])
	END
	head -c 200 files/erdma-1.0.tar.gz >files/half.tgz
	packed up.tgz "would lie outside"
	packed abs.tgz "would lie outside"
	packed sym.tgz "is a link or a device"
	packed hard.tgz "is a link or a device"
	packed fifo.tgz "is a link or a device"
	packed noconf.tgz "holds no dkms.conf"
	packed hook.tgz "dkms.conf:3: POST_INSTALL would run"
	packed sub.tgz "dkms.conf:3: more than NAME="
	packed two.tgz "dkms.conf:3: more than NAME="
	packed name.tgz 'PACKAGE_NAME is "other"'
	packed fill.tgz "unpacks to more than"
	packed half.tgz "is no tar archive, or cut"
	[ ! -e /tmp/evil ]
}

@test "a package that does not build is undone" {
	mkdir -p bad && cp erdma-1.0/* bad/ && echo 'this is not C' >bad/erdma.c
	tar -czf files/bad.tar.gz bad
	manifest good bad.tar.gz
	run view sh -c "'$hasten' driver install erdma -k $kernel --ca-file '$PWD/server.crt'; echo ended with \$?; dkms status; ls /usr/src"
	echo "$output"
	[[ $output == *"undone: dkms remove erdma 1.0"* ]]
	[[ $output == *"dkms build: exit status"* ]]
	[[ $output == *"ended with 1"* ]]
	[[ ${output#*ended with} != *erdma* ]]
	nothing_left
}

@test "no headers, and wrong use, are said with the remedy" {
	manifest good erdma-1.0.tar.gz "kernel-min: 1.0"
	run view "$hasten" driver install erdma -k 6.1.0-none --ca-file "$PWD/server.crt"
	[[ $status = 1 && $output == *"no headers of kernel 6.1.0-none"*"apt-get install linux-headers"* ]]
	run "$hasten" driver install
	[ "$status" -eq 64 ]
	run "$hasten" driver frobnicate
	[[ $status = 64 && $output == *'no verb "frobnicate"'* ]]
	run view "$hasten" driver remove erdma -k "$kernel"
	[[ $status = 1 && $output == *"hasten installed no driver erdma"* ]]
	run view "$hasten" driver install nosuch
	[[ $status = 1 && $output == *"no driver \"nosuch\"; hasten knows erdma, "*vmxnet3* ]]
}
