#!/bin/bash
# From a fresh Debian 12 or Ubuntu machine to an accelerated Redis. See --help.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)

usage() {
	cat <<END
Usage: sudo installer/quickstart.sh [OPTION...]

Installs what the build needs by apt-get (only what is missing), builds hasten in a temporary folder, installs it, makes
/run/hasten, and measures an unmodified redis-server accelerated and over kernel TCP side by side. The measurement takes
under three minutes.

  --prefix DIR   where to install (default /usr/local)
  --no-measure   install only
  --uninstall    take out what this script installed to the prefix; packages stay
  -h, --help     print this

Exit status: 0 done, 1 something failed (the message says what and what to do), 64 wrong usage.
END
}

prefix=/usr/local measure=1 uninstall=0
while [ $# -gt 0 ]; do
	case $1 in
	--prefix)
		prefix=${2:-}
		case $prefix in /*) ;; *) echo "quickstart: --prefix needs an absolute folder, not \"$prefix\"" >&2; exit 64 ;; esac
		shift
		;;
	--no-measure) measure=0 ;;
	--uninstall) uninstall=1 ;;
	-h | --help) usage; exit 0 ;;
	*) usage >&2; exit 64 ;;
	esac
	shift
done

begin=$SECONDS
step=0
say() {
	printf '[%3d s] %s\n' $((SECONDS - begin)) "$*"
}

next() {
	step=$((step + 1))
	say "$step/5 $*"
}

fail() { # MESSAGE REMEDY
	echo "quickstart: $1" >&2
	[ -z "${2:-}" ] || echo "            $2" >&2
	if [ -n "${log:-}" ] && [ -s "$log" ]; then
		echo "            the last lines of $log:" >&2
		tail -15 "$log" | sed 's/^/            | /' >&2
		work=
	fi
	exit 1
}

[ "$(id -u)" = 0 ] || fail "installing to $prefix needs root" "run: sudo installer/quickstart.sh"
[ "$(uname -s)" = Linux ] || fail "hasten runs on Linux, this is $(uname -s)"
if [ $uninstall = 1 ] && "$prefix/bin/hasten" status 2>/dev/null | grep -q '^Applied:'; then
	fail "settings that hasten applied are in force, and only hasten can put them back" "run: sudo $prefix/bin/hasten revert"
fi
command -v apt-get >/dev/null ||
	fail "apt-get is not here: this script knows Debian and Ubuntu only" \
		"install gcc, make, autoconf, automake, libtool, pkg-config, libmnl, json-c, libyaml, libkmod, libcurl, OpenSSL, libarchive (with headers) and Redis by hand, then: autoreconf -fi && ./configure && make install"

exec </dev/null
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
unset LD_PRELOAD MAKEFLAGS MAKELEVEL
for name in $(compgen -e | grep -E '^(HASTEN_|NACC_)'); do unset "$name"; done
PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d "${TMPDIR:-/tmp}/hasten-quickstart.XXXXXX") || fail "no temporary folder" "is /tmp full?"
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
log=$work/log
: >"$log"

copy_tree() {
	mkdir -p "$work/source" || return 1
	if command -v git >/dev/null && git -c safe.directory='*' -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
		(cd "$top" && git -c safe.directory='*' ls-files -z -co --exclude-standard |
			tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -C "$work/source" -xf -
	else
		tar -C "$top" --exclude=./.git -cf - . | tar -C "$work/source" -xf -
	fi
}

# Compiler output goes to the log; a dot a second shows that it works.
quietly() {
	local pid
	"$@" >>"$log" 2>&1 &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		[ ! -t 1 ] || printf .
		sleep 1
	done
	[ ! -t 1 ] || printf '\r\033[K'
	wait $pid
}

next "looking for what the build needs"
wanted=(gcc libc6-dev make autoconf automake libtool pkg-config libmnl-dev libjson-c-dev libyaml-dev libkmod-dev
	libcurl4-openssl-dev libssl-dev libarchive-dev libsystemd-dev xz-utils)
if [ $measure = 1 ]; then
	wanted+=(redis-server redis-tools)
fi
missing=()
for package in "${wanted[@]}"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ] && [ $uninstall = 0 ]; then
	say "      installing ${missing[*]}"
	# The measurement starts a server of its own; a service on port 6379 that nobody asked for is not to be started.
	policy=/usr/sbin/policy-rc.d ours=0 installed=0
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && ours=1
	fi
	for try in 1 2 3; do
		if quietly timeout -k 10 300 apt-get -o DPkg::Lock::Timeout=240 -q update &&
			quietly timeout -k 10 600 apt-get -o DPkg::Lock::Timeout=240 -q -y --no-install-recommends install \
				"${missing[@]}"; then
			installed=1
			break
		fi
		[ "$try" = 3 ] || { say "      apt-get did not succeed (try $try of 3); again in 10 s" && sleep 10; }
	done
	[ $ours = 0 ] || rm -f $policy
	[ $installed = 1 ] || fail "apt-get could not install ${missing[*]}" "is the network reachable, and is \"apt-get update\" in order?"
	if [[ " ${missing[*]} " = *" redis-server "* ]] && [ -d /run/systemd/system ]; then
		systemctl disable redis-server >>"$log" 2>&1
		say "      redis-server was installed for the measurement; its service is not started and not enabled"
	fi
fi

next "building"
copy_tree || fail "$top could not be copied to $work" "is /tmp full?"
cd "$work/source" || fail "$work/source is not there"
quietly autoreconf -fi || fail "autoreconf failed"
quietly ./configure --prefix="$prefix" --sysconfdir=/etc || fail "configure failed"
if [ $uninstall = 1 ]; then
	quietly make uninstall || fail "make uninstall failed"
	for folder in lib libexec share share/doc; do # make uninstall leaves them empty
		[ ! -d "$prefix/$folder/hasten" ] || find "$prefix/$folder/hasten" -depth -type d -empty -delete
	done
	say "hasten is gone from $prefix; /etc/hasten and /run/hasten were left alone"
	exit 0
fi
quietly make -j"$(nproc)" || fail "make failed" "please report the lines below"

next "installing to $prefix"
quietly make install || fail "make install failed" "is $prefix writable?"
if command -v systemd-tmpfiles >/dev/null && [ "$prefix" = /usr/local ]; then
	systemd-tmpfiles --create "$prefix/lib/tmpfiles.d/hasten.conf" >>"$log" 2>&1
fi
[ -d /run/hasten ] || mkdir /run/hasten || fail "/run/hasten could not be made"
chmod 1777 /run/hasten || fail "/run/hasten could not be made writable for all users"
hasten=$prefix/bin/hasten
"$hasten" --version >>"$log" 2>&1 || fail "$hasten does not run"

next "checking that a program runs accelerated"
"$hasten" run --strict redis-server --version >>"$log" 2>&1 || [ $measure = 0 ] ||
	fail "redis-server cannot be accelerated here" "see: $hasten run --explain redis-server"

if [ $measure = 0 ]; then
	next "not measured (--no-measure)"
else
	next "measuring: redis-server under \"hasten run\" against the same server over kernel TCP, in turn, about a minute"
	# Below three minutes whatever happens.
	timeout -k 5 170 "$hasten" bench redis --scenario netacc1,netacc,single,knet --rounds 3 --duration 2 --timeout 20
	status=$?
	log=
	case $status in
	0) ;;
	124 | 137) fail "the measurement did not end within 170 s" "is the machine busy? try again: hasten bench redis --quick" ;;
	*) fail "the measurement failed (status $status)" "see above; try: hasten bench redis --quick" ;;
	esac
fi

cat <<END

hasten is installed. Accelerate both ends on this host:

    hasten run redis-server &
    hasten run redis-benchmark -c 100 -d 512 -t set
    hasten ss                  which connections are accelerated, and why others are not
    hasten bench redis         measure again, longer
END
