#!/usr/bin/env bats
# make release: what it consists of, and that two builds are the same bytes.

. "$BATS_TEST_DIRNAME/site.bash"

setup_file() {
	command -v dh >/dev/null && command -v dpkg-buildpackage >/dev/null || skip "debhelper is not installed"
	site_make
}

setup() {
	[ -e "$site/made" ] || skip "no release was built"
	version=$(cat "$site/version") arch=$(uname -m) debian=$(dpkg --print-architecture)
	out=$site/out/$version
}

unpacked() { # once
	[ -d "$site/unpacked" ] || { mkdir "$site/unpacked" && tar -C "$site/unpacked" -xzf "$out/hasten-$version-linux-$arch.tar.gz" --strip-components=1; }
	cd "$site/unpacked"
}

@test "the list names each file and nothing else, and its signature fits the second of two pinned keys" {
	cd "$out"
	sha256sum --quiet -c SHA256SUMS
	[ "$(find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | sort)" = "$(awk '{ print $2 }' SHA256SUMS | sort)" ]
	openssl pkeyutl -verify -rawin -pubin -inkey "$site/keys/2.pem" -sigfile SHA256SUMS.sig -in SHA256SUMS
	for key in "$site"/keys/*.pem; do grep -q "$(grep -v -- ---- "$key")" "$site/out/install.sh"; done
	grep -qx "release_version='$version'" "$site/out/install.sh"
}

@test "a second build gives the same bytes" {
	site_release "$BATS_TEST_TMPDIR/again"
	diff -r "$site/out" "$BATS_TEST_TMPDIR/again"
}

@test "programs and library: position independent, relocations read-only, bound at start, stack checked, branches marked, no run path" {
	unpacked
	for file in bin/hasten sbin/hastend lib/hasten/hasten-* lib/hasten/libhasten.so; do
		echo "$file"
		readelf -hW $file | grep -q 'Type: *DYN'
		readelf -lW $file | grep -q GNU_RELRO
		readelf -lW $file | grep GNU_STACK | grep -qv RWE
		readelf -dW $file | grep -q BIND_NOW
		[ -z "$(readelf -dW $file | grep -E 'R(UN)?PATH|TEXTREL')" ]
		readelf --dyn-syms -W $file | grep -q __stack_chk_fail
		# endbr64, or paciasp. The linker's mark is missing on Debian 12, whose own start files carry none.
		case $arch in x86_64) mark='\xf3\x0f\x1e\xfa' ;; aarch64) mark='\x3f\x23\x03\xd5' ;; esac
		[ "$(LC_ALL=C grep -aoP "$mark" $file | wc -l)" -gt 40 ]
	done
	for file in bin/hasten sbin/hastend; do
		[ "$(readelf --dyn-syms -W $file | grep -c '_chk@')" -gt 5 ]
		readelf -dW $file | grep -q 'FLAGS_1.*PIE'
	done
}

@test "the promised glibc is enough; an older one would not be" {
	unpacked
	"$top_srcdir/installer/symbols" --max 2.34 bin/hasten sbin/hastend lib/hasten/hasten-* lib/hasten/libhasten.so
	run "$top_srcdir/installer/symbols" --max 2.17 bin/hasten
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"promised is 2.17"* ]]
}

@test "a 32-bit program is refused in clear words" {
	command -v python3 >/dev/null
	unpacked
	# The head of an ELF32 program for i386 is all that is looked at.
	python3 - "$BATS_TEST_TMPDIR/small" <<-'PY'
		import struct, sys
		interp = b'/lib/ld-linux.so.2\0'
		head = b'\x7fELF\x01\x01\x01' + bytes(9) + struct.pack('<HHIIIIIHHHHHH', 2, 3, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0)
		ph = struct.pack('<8I', 3, 84, 0, 0, len(interp), len(interp), 4, 1)
		open(sys.argv[1], 'wb').write(head + ph + interp)
	PY
	chmod 755 "$BATS_TEST_TMPDIR/small"
	run bin/hasten run --explain "$BATS_TEST_TMPDIR/small"
	echo "$output"
	[[ $output == *"another architecture"* ]]
}

@test "lintian has nothing to say" {
	command -v lintian >/dev/null || skip "lintian is not installed"
	run lintian --fail-on warning "$out"/*.deb
	echo "$output"
	[ "$status" -eq 0 ]
	[ -z "$(grep -E '^[EW]:' <<<"$output")" ]
}

@test "the scripts are clean for shellcheck and parse in dash, busybox and bash" {
	command -v shellcheck >/dev/null || skip "shellcheck is not installed"
	cd "$top_srcdir/installer"
	shellcheck -s sh install.sh before-removal preloaded symbols
	shellcheck release
	for shell in dash "busybox ash" "bash --posix"; do
		command -v ${shell%% *} >/dev/null || continue
		$shell -n install.sh
	done
}

@test "the RPM spec builds" {
	command -v rpmbuild >/dev/null || skip "rpmbuild is not installed"
	top=$BATS_TEST_TMPDIR/rpm
	mkdir -p "$top/SOURCES" "$top/SPECS"
	cp "$out/hasten-$version.tar.xz" "$top/SOURCES/"
	sed "s/@VERSION@/$version/" "$top_srcdir/installer/hasten.spec" >"$top/SPECS/hasten.spec"
	# Not as fast as a release: what counts is that it builds and what it holds. Folders that distributions' own macros name.
	rpmbuild --quiet --define "_topdir $top" --define '_unitdir /usr/lib/systemd/system' --define 'optflags -O1 -g' --define 'debug_package %{nil}' \
		--nodeps -bb "$top/SPECS/hasten.spec" >"$top/log" 2>&1 || { tail -30 "$top/log"; false; }
	run rpm -qpl --nosignature "$top"/RPMS/*/hasten-"$version"-*.rpm
	echo "$output"
	[[ $output == */usr/bin/hasten*/usr/sbin/hastend* ]]
	run rpm -qpl --nosignature "$top"/RPMS/*/hasten-preload-*.rpm
	[[ $output == */usr/lib/hasten/libhasten.so* ]]
	run rpm -qp --nosignature --scripts "$top"/RPMS/*/hasten-"$version"-*.rpm
	[[ $output == *"if [ \$1 = 0 ]"*before-removal* ]]
}
