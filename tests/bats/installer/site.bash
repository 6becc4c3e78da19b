# A release of this tree, signed with keys of the test, and a second version of it; a view of the machine in which it is installed.
# Load it with ". site.bash". Everything that is written in a view goes to memory and is gone afterwards.

# HASTEN_SITE: a folder to keep it in, for a second run of the same commit.
site=${HASTEN_SITE:-$BATS_RUN_TMPDIR/site}

# $site/files: both versions; $site/install.sh: the first version's script. Made once a run, whichever file asks first.
site_make() {
	[ ! -e "$site/made" ] || return 0
	mkdir -p "$site/keys" "$site/out" "$site/files"
	openssl genpkey -algorithm ed25519 -out "$site/next.key" && openssl genpkey -algorithm ed25519 -out "$site/now.key" &&
		openssl genpkey -algorithm ed25519 -out "$site/foreign.key" || return 1
	openssl pkey -in "$site/next.key" -pubout -out "$site/keys/1.pem" && openssl pkey -in "$site/now.key" -pubout -out "$site/keys/2.pem" || return 1
	site_release "$site/out" || return 1
	version=$(basename "$(find "$site/out" -mindepth 1 -maxdepth 1 -type d)")
	echo "$version" >"$site/version"
	cp "$site/out/install.sh" "$site/"
	cp "$site/out/$version"/* "$site/files/"
	site_second "$version" "$version.1" || return 1
	(cd "$site/files" && sha256sum hasten* >SHA256SUMS) && site_sign "$site/files"
	# Other packages may come and go on this machine meanwhile; an overlay does not bear that.
	rm -rf "$site/dpkg" && cp -a /var/lib/dpkg "$site/dpkg" && rm -f "$site"/dpkg/updates/* || return 1
	: >"$site/made"
}

site_release() { # OUT: about a minute of compiler time
	"$top_srcdir/installer/release" --out "$1" --arch "$(uname -m)" --no-rpm --keys "$site/keys" --sign "$site/now.key" \
		--mirror https://127.0.0.1:1/nowhere >"$site/release.log" 2>&1 || { cat "$site/release.log"; return 1; }
}

site_sign() { # FOLDER [KEY]
	openssl pkeyutl -sign -rawin -inkey "${2:-$site/now.key}" -in "$1/SHA256SUMS" -out "$1/SHA256SUMS.sig"
}

# The same programs under a later version, and a library that is another file.
site_second() { # FIRST SECOND
	local arch package name work=$site/second
	arch=$(dpkg --print-architecture)
	mkdir -p "$work"
	for package in hasten hasten-preload; do
		dpkg-deb -R "$site/files/${package}_$1_$arch.deb" "$work/$package" || return 1
		sed -i "s/^Version: .*/Version: $2/; s/hasten-preload (= $1)/hasten-preload (= $2)/" "$work/$package/DEBIAN/control"
		[ $package = hasten ] || printf 'later' >>"$work/$package/usr/lib/hasten/libhasten.so"
		(cd "$work/$package" && find usr lib -type f 2>/dev/null | xargs md5sum >DEBIAN/md5sums)
		dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/$package" "$site/files/${package}_$2_$arch.deb" >/dev/null || return 1
	done
	name=hasten-$2-linux-$(uname -m)
	tar -C "$work" -xzf "$site/files/hasten-$1-linux-$(uname -m).tar.gz" && mv "$work/hasten-$1-linux-$(uname -m)" "$work/$name"
	printf 'later' >>"$work/$name/lib/hasten/libhasten.so"
	rm "$work/$name/share/doc/hasten/README.md.gz"
	tar -C "$work" -czf "$site/files/$name.tar.gz" "$name"
}

# The script as root sees this machine, with an overlay over its root file system: nothing of the machine is changed. $site is /run/site, the test's
# folder /run/test; /run/up holds what was written, /run/lower the machine as it is. In a name space of processes too; settings of the kernel are read-only.
view() { # SHELL-TEXT
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -c '
		top=$1/view && mount --make-rprivate / && mkdir -p "$top" && mount -t tmpfs tmpfs "$top" && mkdir "$top/up" "$top/work" "$top/root" &&
			mount -t overlay -o "lowerdir=/,upperdir=$top/up,workdir=$top/work" overlay "$top/root" || exit 99
		root=$top/root
		mkdir "$top/dpkg" "$top/dpkg-work" &&
			mount -t overlay -o "lowerdir=$2/dpkg,upperdir=$top/dpkg,workdir=$top/dpkg-work" overlay "$root/var/lib/dpkg" || exit 99
		mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && mount --bind /sys "$root/sys" && mount -o remount,bind,ro "$root/sys" &&
			mount --bind "$root/proc/sys" "$root/proc/sys" && mount -o remount,bind,ro "$root/proc/sys" && mount -t tmpfs tmpfs "$root/run" &&
			mount -t tmpfs tmpfs "$root/tmp" && mkdir "$root/run/site" "$root/run/test" "$root/run/up" "$root/run/lower" &&
			mount --bind "$2" "$root/run/site" && mount --bind "$1" "$root/run/test" && mount --bind "$top/up" "$root/run/up" &&
			mount --bind / "$root/run/lower" || exit 99
		cp "$3/view.sh" "$root/run/view.sh"
		exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/tmp HOME=/root ca="$ca" mirror="$mirror" plain="$plain" version="$version" \
			bash -c ". /run/view.sh; cd /; $4"' view "$BATS_TEST_TMPDIR" "$site" "$BATS_TEST_DIRNAME" "$1" 3>&-
}
