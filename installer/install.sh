#!/bin/sh
# shellcheck disable=SC2015,SC2317
{ # One group: the shell reads it to its end before it runs any of it, so that a cut transfer does nothing.
# Installs, upgrades and removes hasten: curl -fsSL https://HOST/install.sh | sudo sh    (see usage below, and hasten-install(7))

# Put in by installer/release.
release_version=''
release_mirror=''
release_key_1=''
release_key_2=''

min_kernel=5.14 min_glibc=2.34
need_kib=40960     # below the prefix
need_temp_kib=20480
state=/var/lib/hasten-install

usage() {
	cat <<'TEXT'
Usage: curl -fsSL https://HOST/install.sh | sudo sh -s -- [OPTION...]
       sudo sh install.sh [OPTION...]

Installs hasten, or brings it to the script's version; a second run changes nothing. Never asks.

  --dry-run          print each step, change nothing, fetch nothing (needs no root)
  --version V        another version than the script's
  --prefix DIR       the plain archive below DIR, not the distribution's packages
  --mirror URL       fetch from there: https://..., a folder, or http:// in your own network; signatures are checked all the same
  --offline DIR      nothing from the network: packages, SHA256SUMS and SHA256SUMS.sig lie in DIR
  --ca-file FILE     certificates that vouch for the mirror
  --no-start         start nothing now (from the next boot on it runs)
  --profile NAMES    tune for these profiles: hasten apply NAMES (comma between them)
  --driver NAME      install a driver: hasten driver install NAME
  --enable SERVICE   let SERVICE start accelerated: hasten enable SERVICE (may be repeated)
  --uninstall        put every setting back, then remove hasten; configuration stays
  --purge            with --uninstall: configuration goes too
  -h, --help         print this

Each option is a variable too, which sudo drops unless it is named behind it: --no-start is HASTEN_INSTALL_NO_START=1, --profile redis is
HASTEN_INSTALL_PROFILE=redis, as in: curl -fsSL https://HOST/install.sh | sudo HASTEN_INSTALL_PROFILE=redis sh
A proxy is taken from https_proxy, else from /etc/environment and the package manager's settings.

Exit status: 0 done, 1 not done (nothing was left half-way, or the message says what), 2 installed, and a later step (start, --profile,
--driver, --enable) did not succeed, 64 wrong usage.
TEXT
}

say() {
	echo "hasten: $*"
}

# MESSAGE [REMEDY]
fail() {
	echo "hasten: $1" >&2
	[ -z "${2:-}" ] || echo "hasten: $2" >&2
	exit 1
}

wrong() {
	echo "hasten: $1" >&2
	echo "hasten: --help shows the options" >&2
	exit 64
}

on() { # VALUE: is a switch's variable on?
	case $1 in '' | 0 | no | false) return 1 ;; esac
}

options() {
	dry=${HASTEN_INSTALL_DRY_RUN:-} version=${HASTEN_INSTALL_VERSION:-} prefix=${HASTEN_INSTALL_PREFIX:-}
	mirror=${HASTEN_INSTALL_MIRROR:-} offline=${HASTEN_INSTALL_OFFLINE:-} ca_file=${HASTEN_INSTALL_CA_FILE:-}
	no_start=${HASTEN_INSTALL_NO_START:-} profile=${HASTEN_INSTALL_PROFILE:-} driver=${HASTEN_INSTALL_DRIVER:-}
	services=$(echo "${HASTEN_INSTALL_ENABLE:-}" | tr ',' ' ')
	uninstall=${HASTEN_INSTALL_UNINSTALL:-} purge=${HASTEN_INSTALL_PURGE:-}
	while [ $# -gt 0 ]; do
		flag=$1
		case $flag in
		--*=*) value=${flag#*=} flag=${flag%%=*} given=1 ;;
		*) value=${2:-} given=0 ;;
		esac
		case $flag in
		--dry-run | --no-start | --uninstall | --purge | -h | --help)
			[ $given = 0 ] || wrong "$flag takes no value"
			;;
		--version | --prefix | --mirror | --offline | --ca-file | --profile | --driver | --enable)
			[ -n "$value" ] || wrong "$flag needs a value"
			[ $given = 1 ] || shift
			;;
		*) wrong "no option \"$flag\"" ;;
		esac
		case $flag in
		--dry-run) dry=1 ;;
		--no-start) no_start=1 ;;
		--uninstall) uninstall=1 ;;
		--purge) purge=1 ;;
		--version) version=$value ;;
		--prefix) prefix=$value ;;
		--mirror) mirror=$value ;;
		--offline) offline=$value ;;
		--ca-file) ca_file=$value ;;
		--profile) profile=$value ;;
		--driver) driver=$value ;;
		--enable) services="$services $value" ;;
		-h | --help) usage; exit 0 ;;
		esac
		shift
	done
	version_given=$version
	version=${version:-$release_version}
	case $version in *[!0-9A-Za-z.+~-]* | -*) wrong "--version \"$version\" is none" ;; esac
	case $prefix in
	'') ;;
	/) wrong "--prefix /: the plain archive goes below a folder such as /opt/hasten" ;;
	*[!0-9A-Za-z./_+-]* | *..*) wrong "--prefix \"$prefix\": letters, digits, / . _ + - are allowed" ;;
	/*) prefix=${prefix%/} ;;
	*) wrong "--prefix needs an absolute folder, not \"$prefix\"" ;;
	esac
	profile=$(echo "$profile" | tr ',' ' ')
	case $profile$driver$services in *[!0-9A-Za-z\ @._-]*) wrong "names in --profile, --driver and --enable are letters, digits, @ . _ -" ;; esac
	case " $profile $driver $services" in *' -'*) wrong "a name begins with \"-\"" ;; esac
	on "$purge" && ! on "$uninstall" && wrong "--purge goes with --uninstall"
	[ -z "$offline" ] || [ -z "$mirror" ] || wrong "--offline and --mirror exclude each other"
	[ -z "$offline" ] || [ -d "$offline" ] || wrong "--offline $offline: no such folder"
	mirror=${mirror:-${offline:-$release_mirror}}
	mirror=${mirror%/}
	case $mirror in
	'' | https://*) ;;
	file:///*) mirror=${mirror#file://} ;;
	http://127.* | http://localhost | http://localhost[:/]* | http://\[::1\]* | http://10.* | http://192.168.* | \
		http://172.1[6-9].* | http://172.2[0-9].* | http://172.3[01].* | http://\[f[cd]*) ;;
	http://*) wrong "--mirror $mirror: http:// is for a mirror in your own network (loopback, 10/8, 172.16/12, 192.168/16, fc00::/7); use https://" ;;
	*) [ -d "$mirror" ] || wrong "--mirror \"$mirror\": https://... or a folder is wanted" ;;
	esac
}

# Does version $1 come before $2?
older() {
	[ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$1" ]
}

numbers() { # the leading numbers of a version
	echo "$1" | sed 's/^\([0-9.]*\).*/\1/; s/\.$//'
}

field() { # KEY: of os-release
	sed -n "s/^$1=//p" /etc/os-release 2>/dev/null | tr -d "\"'" | head -n 1
}

free_kib() { # FOLDER
	df -Pk "$1" 2>/dev/null | awk 'NR == 2 { print $4 }'
}

# The nearest folder above that is there.
existing() {
	at=$1
	while [ ! -d "$at" ]; do at=$(dirname "$at"); done
	echo "$at"
}

read_only() { # FOLDER
	point=$(df -P "$1" 2>/dev/null | awk 'NR == 2 { print $6 }')
	awk -v point="$point" '$2 == point { options = $4 } END { exit options !~ /(^|,)ro(,|$)/ }' /proc/mounts 2>/dev/null ||
		{ [ "$(id -u)" = 0 ] && ! [ -w "$1" ]; }
}

machine() {
	[ "$(uname -s)" = Linux ] || fail "hasten runs on Linux, this is $(uname -s)"
	case $(uname -m) in
	x86_64 | amd64) arch=x86_64 deb_arch=amd64 ;;
	aarch64 | arm64) arch=aarch64 deb_arch=arm64 ;;
	*) fail "this machine is $(uname -m); hasten is built for x86_64 and aarch64" ;;
	esac
	# A 64-bit kernel below 32-bit programs: the library could be loaded into none of them.
	bits=$(dd if=/bin/sh bs=1 skip=4 count=1 2>/dev/null | od -An -tu1 | tr -d ' ')
	[ "$bits" != 1 ] || fail "the programs of this system are 32-bit ones; hasten is built for 64 bits"
	libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)
	case $libc in
	*[Mm]usl*) fail "this system uses musl; hasten needs glibc $min_glibc or newer" ;;
	esac
	glibc=$(echo "$libc" | sed -n 's/.*[^0-9.]\([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p')
	if [ -z "$glibc" ]; then
		for loader in /lib/ld-musl-*; do
			[ ! -e "$loader" ] || fail "this system uses musl; hasten needs glibc $min_glibc or newer"
		done
		fail "the C library of this system is not known ($libc); hasten needs glibc $min_glibc or newer"
	fi
	! older "$glibc" "$min_glibc" || fail "this system has glibc $glibc; hasten needs $min_glibc or newer"
	kernel=$(uname -r)
	! older "$(numbers "$kernel")" "$min_kernel" || fail "kernel $kernel is running; hasten needs $min_kernel or newer"
	id=$(field ID) like=" $id $(field ID_LIKE) "
	family=other
	case $like in
	*' debian '* | *' ubuntu '*) ! command -v apt-get >/dev/null || family=debian ;;
	*' rhel '* | *' fedora '* | *' centos '* | *' alinux '* | *' anolis '* | *' openEuler '* | *' openeuler '* | *' suse '* | *' opensuse '* | *' sles '*)
		! command -v rpm >/dev/null || family=rpm
		;;
	esac
	# What an earlier run installed as an archive stays one.
	record_prefix=$(cat "$state/prefix" 2>/dev/null)
	[ -n "$prefix" ] || on "$uninstall" || prefix=$record_prefix
	way=$family
	[ -z "$prefix" ] || way=archive
	[ "$way" != other ] || way=archive
	[ -n "$prefix" ] || [ $way != archive ] || prefix=/usr/local
	distribution=$(field PRETTY_NAME)
}

room() {
	target=$(existing "${prefix:-/usr}")
	if read_only "$target"; then
		fail "$target is read-only" "choose a folder that can be written: --prefix /opt/hasten"
	fi
	! read_only "$(existing /etc)" || fail "/etc is read-only: units and settings could not be put there"
	! read_only "$(existing /var/lib)" || fail "/var/lib is read-only: the originals of settings could not be kept"
	have=$(free_kib "$target")
	[ "${have:-$need_kib}" -ge $need_kib ] || fail "$target has $have KiB free, $need_kib are needed"
}

# Where packages are fetched to and looked at: not a folder whose programs may not run.
temporary() {
	work=
	for at in "${TMPDIR:-/tmp}" /var/tmp /tmp "$(existing "${prefix:-/usr}")"; do
		[ -d "$at" ] || continue
		have=$(free_kib "$at")
		[ "${have:-0}" -ge $need_temp_kib ] || continue
		work=$(mktemp -d "$at/hasten-install.XXXXXX" 2>/dev/null) || { work= && continue; }
		echo "$$" >"$work/pid"
		{ echo '#!/bin/sh' && echo 'exit 0'; } >"$work/probe" && chmod 755 "$work/probe" && "$work/probe" 2>/dev/null && break
		rm -rf "$work"
		work=
	done
	[ -n "$work" ] || fail "no folder for temporary files: $need_temp_kib KiB are needed in ${TMPDIR:-/tmp} or /var/tmp" "name one: TMPDIR=/folder"
	# apt reads packages as a user of its own.
	chmod 755 "$work"
	# What a killed run left.
	for at in "$(dirname "$work")"/hasten-install.*; do
		[ "$at" != "$work" ] && [ -f "$at/pid" ] && [ -n "$(find "$at" -prune -user root)" ] || continue
		kill -0 "$(cat "$at/pid")" 2>/dev/null || rm -rf "$at"
	done
}

alone() {
	lock=/run/hasten-install.lock
	[ -d /run ] || lock=/tmp/hasten-install.lock
	if ! mkdir "$lock" 2>/dev/null; then
		other=$(cat "$lock/pid" 2>/dev/null)
		[ -z "$other" ] || ! kill -0 "$other" 2>/dev/null || fail "another installation is running (process $other)"
		rm -rf "$lock"
		mkdir "$lock" || fail "$lock could not be made"
	fi
	echo "$$" >"$lock/pid"
}

clean() {
	[ -z "${work:-}" ] || rm -rf "$work"
	[ -z "${lock:-}" ] || rm -rf "$lock"
	work='' lock=''
}

stopped() {
	clean
	echo "hasten: stopped; run the same again, it goes on where it was" >&2
	exit 1
}

# sudo drops a proxy's variables; the machine has it written down elsewhere.
proxies() {
	case $mirror in https://* | http://*) ;; *) return 0 ;; esac
	[ -z "${https_proxy:-}${HTTPS_PROXY:-}${all_proxy:-}${ALL_PROXY:-}" ] || return 0
	from=/etc/environment
	found=$(sed -n "s/^ *\(export \)\{0,1\}[hH][tT][tT][pP][sS]_[pP][rR][oO][xX][yY]=//p" $from 2>/dev/null | tail -n 1)
	if [ -z "$found" ] && command -v apt-config >/dev/null; then
		from="apt's settings"
		found=$(apt-config dump Acquire 2>/dev/null | sed -n 's/^Acquire::https::[Pp]roxy "\(.*\)";$/\1/p' | tail -n 1)
		[ -n "$found" ] || found=$(apt-config dump Acquire 2>/dev/null | sed -n 's/^Acquire::http::[Pp]roxy "\(.*\)";$/\1/p' | tail -n 1)
	fi
	for file in /etc/dnf/dnf.conf /etc/yum.conf; do
		[ -z "$found" ] || break
		from=$file
		found=$(sed -n 's/^ *proxy *= *//p' $file 2>/dev/null | tail -n 1)
	done
	if [ -z "$found" ]; then
		from=/etc/sysconfig/proxy
		if grep -q '^PROXY_ENABLED="\{0,1\}yes' $from 2>/dev/null; then
			found=$(sed -n 's/^HTTPS_PROXY=//p' $from | tail -n 1)
		fi
	fi
	found=$(echo "$found" | tr -d "\"' ")
	case $found in
	http://* | https://* | socks5://* | socks5h://*) ;;
	*:*[0-9]) found=http://$found ;;
	*) return 0 ;;
	esac
	export https_proxy="$found" http_proxy="$found"
	none=$(sed -n "s/^ *\(export \)\{0,1\}[nN][oO]_[pP][rR][oO][xX][yY]=//p" /etc/environment 2>/dev/null | tail -n 1 | tr -d "\"' ")
	[ -z "$none" ] || [ -n "${no_proxy:-}" ] || export no_proxy="$none"
	say "by the proxy in $from: $(echo "$found" | sed 's,//[^/@]*@,//...@,')"
}

fetcher() {
	with=copy
	case $mirror in https://* | http://*) ;; *) return 0 ;; esac
	if command -v curl >/dev/null; then
		with=curl
	elif command -v wget >/dev/null; then
		with=wget
		! wget --help 2>&1 | grep -qi busybox ||
			fail "only busybox's wget is here, which checks no certificates" "install curl, or fetch the files elsewhere and use --offline DIR"
	else
		fail "neither curl nor wget is here" "install one of them, or fetch the files elsewhere and use --offline DIR"
	fi
}

with_curl() { # URL FILE: 0 done, 1 may be tried again, 2 not; sets reason
	set -- "$1" "$2" -f -L --max-redirs 5 --connect-timeout 15 --speed-limit 500 --speed-time "${HASTEN_INSTALL_STALL:-20}" -o "$2" -C -
	case $1 in https://*) set -- "$@" --proto '=https' --proto-redir '=https' --tlsv1.2 ;; *) set -- "$@" --proto '=http,https' ;; esac
	[ -z "$ca_file" ] || set -- "$@" --cacert "$ca_file"
	if [ -t 2 ]; then set -- "$@" --progress-bar; else set -- "$@" -sS; fi
	url=$1 file=$2
	shift 2
	if [ -t 2 ]; then
		(ulimit -f "$limit_blocks" && exec curl "$@" "$url")
	else
		(ulimit -f "$limit_blocks" && exec curl "$@" "$url") 2>"$work/fetch.log"
	fi
	code=$?
	case $code in
	0) return 0 ;;
	5 | 6) reason="the name of the server or proxy is not found" && return 1 ;;
	7) reason="no connection to the server" && return 1 ;;
	22)
		reason=$(sed -n 's/.*returned error: \([0-9]*\).*/the server answers \1/p' "$work/fetch.log" 2>/dev/null | head -n 1)
		case $reason in
		*' 416') rm -f "$file" ;;
		*' 4'*) return 2 ;;
		esac
		reason=${reason:-the server refuses}
		return 1
		;;
	23) reason="no room in $work" && return 2 ;;
	28) reason="no bytes for ${HASTEN_INSTALL_STALL:-20} s" && return 1 ;;
	# It knows no ranges, or has another file now: from the beginning.
	33 | 36) rm -f "$file" && reason="the server cannot go on where it stopped" && return 1 ;;
	1) reason="redirected to something else than https" && return 2 ;;
	35 | 51 | 60 | 77) reason="the server's certificate is not trusted (expired, of another name, or nobody here vouches for it)" && return 2 ;;
	47) reason="redirected in a circle" && return 2 ;;
	63 | 153) reason="more bytes than a release has" && return 2 ;;
	*) reason="curl: exit status $code" && return 1 ;;
	esac
}

# Redirects by hand: wget would follow one to plain http.
with_wget() { # URL FILE, as with_curl
	url=$1 file=$2
	hops=0
	while :; do
		set -- -c -S --max-redirect=0 --tries=1 --connect-timeout=15 --read-timeout="${HASTEN_INSTALL_STALL:-20}" -O "$file"
		[ -z "$ca_file" ] || set -- "$@" --ca-certificate="$ca_file"
		(ulimit -f "$limit_blocks" && exec wget "$@" "$url") 2>"$work/fetch.log"
		code=$?
		next=$(sed -n 's/^ *[Ll]ocation: *\([^ ]*\).*/\1/p' "$work/fetch.log" | tail -n 1 | tr -d '\r')
		[ $code != 0 ] && [ -n "$next" ] || break
		hops=$((hops + 1))
		[ $hops -le 5 ] || { reason="redirected in a circle" && return 2; }
		case $next in
		https://*) url=$next ;;
		/*) url=$(echo "$url" | sed 's,^\([a-z]*://[^/]*\).*,\1,')$next ;;
		*) reason="redirected to something else than https" && return 2 ;;
		esac
	done
	case $code in
	0) return 0 ;;
	3) reason="no room in $work" && return 2 ;;
	4)
		reason="no connection, or no bytes for ${HASTEN_INSTALL_STALL:-20} s"
		return 1
		;;
	5) reason="the server's certificate is not trusted (expired, of another name, or nobody here vouches for it)" && return 2 ;;
	8)
		reason="the server answers $(sed -n 's,^ *HTTP/[0-9.]* \([0-9]*\).*,\1,p' "$work/fetch.log" | tail -n 1)"
		case $reason in
		*' 416') rm -f "$file" ;;
		*' 4'*) return 2 ;;
		esac
		return 1
		;;
	153) reason="more bytes than a release has" && return 2 ;;
	*) reason="wget: exit status $code" && return 1 ;;
	esac
}

# NAME LIMIT-KIB: to $work/NAME. Goes on where a broken transfer stopped.
fetch() {
	limit_blocks=$(($2 * 2))
	if [ $with = copy ]; then
		for at in "$mirror/$version/$1" "$mirror/$1"; do
			[ -f "$at" ] || continue
			cp "$at" "$work/$1" || fail "$at could not be copied to $work"
			return 0
		done
		fail "$1 is neither in $mirror nor in $mirror/$version"
	fi
	[ -t 2 ] || [ "$2" -lt 1000 ] || say "fetching $mirror/$version/$1"
	try=1
	while :; do
		if [ $with = curl ]; then with_curl "$mirror/$version/$1" "$work/$1"; else with_wget "$mirror/$version/$1" "$work/$1"; fi
		case $? in
		0) break ;;
		2) fail "$mirror/$version/$1: $reason" ;;
		esac
		[ $try -lt 5 ] || fail "$mirror/$version/$1: $reason (5 times)" "try again later; a proxy is named by https_proxy=http://HOST:PORT"
		say "$1: $reason; again in $try s ($try of 5)"
		sleep $try
		try=$((try + 1))
	done
	[ "$2" -lt 1000 ] || say "  $(($(wc -c <"$work/$1") / 1024)) KiB"
}

can_verify() {
	command -v openssl >/dev/null && openssl pkeyutl -help 2>&1 | grep -q -e -rawin
}

fits() { # KEY
	[ -n "$1" ] || return 1
	printf '%s\n%s\n%s\n' '-----BEGIN PUBLIC KEY-----' "$1" '-----END PUBLIC KEY-----' >"$work/key.pem"
	openssl pkeyutl -verify -rawin -pubin -inkey "$work/key.pem" -sigfile "$work/SHA256SUMS.sig" -in "$work/SHA256SUMS" >/dev/null 2>&1
}

# Before this nothing of a release is unpacked or run, and nothing that is not named in the list afterwards.
genuine_list() {
	fetch SHA256SUMS 64
	fetch SHA256SUMS.sig 4
	fits "$release_key_1" || fits "$release_key_2" ||
		fail "SHA256SUMS of $mirror/$version is not signed by hasten's key: altered, or not hasten's" "nothing was installed; take the script anew, or tell whoever runs the mirror"
	say "the signature of the list of version $version is good"
}

listed() { # NAME: its hash
	awk -v name="$1" '$2 == name && length($1) == 64 { print $1; n++ } END { exit n != 1 }' "$work/SHA256SUMS"
}

genuine() { # NAME: fetches and checks
	hash=$(listed "$1") || fail "version $version has no $1" "the list of $mirror/$version names what there is"
	fetch "$1" 102400
	[ "$(openssl dgst -sha256 -r "$work/$1" | cut -d' ' -f1)" = "$hash" ] || {
		rm -f "$work/$1"
		fail "$1 is not what the signed list says: altered or damaged on the way" "nothing was installed; try again, or another mirror"
	}
}

# Runs a package manager; while another program holds its lock, waits.
packages() {
	waited=0 repaired=0
	while :; do
		! LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 APT_LISTCHANGES_FRONTEND=none HASTEN_NO_START=1 \
			"$@" >"$work/packages.log" 2>&1 || return 0
		if grep -qE 'Could not get lock|Unable to (acquire|lock)|is another process using it|is locked by|management is locked|frontend lock' "$work/packages.log"; then
			[ $waited -lt "${HASTEN_INSTALL_LOCK_WAIT:-600}" ] || fail "the package manager is still in use after $waited s" "run this again when it is free"
			[ $((waited % 30)) != 0 ] || say "waiting: another program uses the package manager ($(grep -oE 'process [0-9]+[^.]*|pid [0-9]+' "$work/packages.log" | head -n 1)), $waited s"
			sleep 5
			waited=$((waited + 5))
		elif [ $repaired = 0 ] && grep -q 'dpkg was interrupted' "$work/packages.log"; then
			say "an earlier installation was interrupted: dpkg --configure -a"
			DEBIAN_FRONTEND=noninteractive HASTEN_NO_START=1 dpkg --configure -a >"$work/packages.log" 2>&1
			repaired=1
		else
			return 1
		fi
	done
}

packages_said() {
	grep -E '^(E|Error|error|dpkg: error)|nothing provides|[Nn]o space|not installable' "$work/packages.log" | head -n 5 | sed 's/^/hasten:   /' >&2
}

installed_debs() {
	# shellcheck disable=SC2016
	dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort
}

# Distribution packages that an --uninstall takes away again.
remember_packages() { # the list before
	mkdir -p "$state"
	{ cat "$state/packages" 2>/dev/null; installed_debs | comm -13 "$1" - | grep -vxE 'hasten|hasten-preload'; } | sort -u >"$work/packages.new"
	cmp -s "$work/packages.new" "$state/packages" || cp "$work/packages.new" "$state/packages"
}

apt() { # WORDS of apt-get
	packages apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}

# NAME...: of the distribution
distribution_packages() {
	[ -z "$offline" ] || return 1
	say "installing $* from $distribution"
	case $family in
	debian)
		installed_debs >"$work/before"
		apt install "$@" || { apt update && apt install "$@"; } || { packages_said; return 1; }
		remember_packages "$work/before"
		;;
	rpm)
		if command -v dnf >/dev/null; then
			packages dnf -q -y install "$@"
		elif command -v zypper >/dev/null; then
			packages zypper --non-interactive --quiet install "$@"
		else
			packages yum -q -y install "$@"
		fi || { packages_said; return 1; }
		;;
	*) return 1 ;;
	esac
}

need_openssl() {
	can_verify && return 0
	if ! command -v openssl >/dev/null; then
		distribution_packages openssl && can_verify && return 0
		fail "openssl is not here, and signatures cannot be checked without it" "install openssl, then run this again"
	fi
	fail "$(openssl version) cannot check Ed25519 signatures; OpenSSL 3.0 or newer is needed" "install hasten by hand from its source archive"
}

deb_version() { # PACKAGE: the version, where it is installed whole
	# shellcheck disable=SC2016
	dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null | sed -n 's/^installed //p'
}

hashes() { # of the archive's files
	# shellcheck disable=SC2046
	openssl dgst -sha256 -r $(cat "$state/files")
}

present() { # sets installed: the version that is there whole, or nothing
	installed=
	case $way in
	debian)
		installed=$(deb_version hasten)
		[ -n "$installed" ] && [ "$(deb_version hasten-preload)" = "$installed" ] || installed=
		# Minimal images leave documentation out.
		if [ -n "$installed" ] && dpkg --verify hasten hasten-preload 2>/dev/null | grep -vqE ' c |^missing .*/usr/share/(doc|man|locale)'; then
			say "files of the installed packages were altered; they are installed again"
			again=--reinstall
			installed=
		fi
		;;
	rpm)
		installed=$(rpm -q --qf '%{VERSION}' hasten 2>/dev/null) && rpm -q hasten-preload >/dev/null 2>&1 || installed=
		;;
	archive)
		if [ "$family" = debian ] && [ -n "$(deb_version hasten)" ] || { [ "$family" = rpm ] && rpm -q hasten >/dev/null 2>&1; }; then
			fail "the package hasten is installed; an archive beside it would hide it" "remove the package first, or leave --prefix out"
		fi
		[ -z "$record_prefix" ] || [ "$record_prefix" = "$prefix" ] ||
			fail "hasten is installed below $record_prefix" "leave --prefix out, or --uninstall first"
		[ "$record_prefix" != "$prefix" ] || installed=$(cat "$state/version" 2>/dev/null)
		[ -z "$installed" ] || hashes 2>/dev/null | cmp -s - "$state/sums" || installed=
		;;
	esac
}

install_debian() {
	genuine "hasten_${version}_$deb_arch.deb"
	genuine "hasten-preload_${version}_$deb_arch.deb"
	# shellcheck disable=SC2086
	set -- install $again --allow-downgrades "$work/hasten-preload_${version}_$deb_arch.deb" "$work/hasten_${version}_$deb_arch.deb"
	if [ -n "$offline" ]; then
		needed=$(apt-get -s --no-install-recommends "$@" 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -vxE 'hasten|hasten-preload' | tr '\n' ' ')
		[ -z "$needed" ] || fail "hasten needs packages of $distribution that are not installed: $needed" "install them first; --offline fetches nothing"
	fi
	say "installing the packages hasten and hasten-preload"
	installed_debs >"$work/before"
	# Where the lists of packages are old or missing, once again with new ones.
	apt "$@" || { [ -z "$offline" ] && grep -qE 'unmet dependencies|not installable|Unable to fetch|404' "$work/packages.log" && say "apt-get update" && apt update && apt "$@"; } || {
		packages_said
		fail "apt-get could not install hasten $version" "what apt-get said is above; \"apt-get --fix-broken install\" completes or undoes what it began. Without packages: --prefix /usr/local"
	}
	remember_packages "$work/before"
}

install_rpm() {
	dist=$(rpm -E '%{?dist}')
	name=$(awk -v name="hasten-$version-" -v end="$dist.$arch.rpm" \
		'index($2, name) == 1 && substr($2, length($2) - length(end) + 1) == end { print $2 }' "$work/SHA256SUMS" | head -n 1)
	if [ -z "$name" ]; then
		say "version $version has no package for $distribution; taking the plain archive, below ${prefix:=/usr/local}"
		way=archive
		install_archive
		return
	fi
	genuine "$name"
	preload="hasten-preload-${name#hasten-}"
	genuine "$preload"
	say "installing the packages hasten and hasten-preload"
	if command -v dnf >/dev/null; then
		packages dnf -q -y install "$work/$name" "$work/$preload"
	elif command -v zypper >/dev/null; then
		packages zypper --non-interactive --quiet install --allow-unsigned-rpm "$work/$name" "$work/$preload"
	else
		packages yum -q -y install "$work/$name" "$work/$preload"
	fi || {
		packages_said
		fail "hasten $version could not be installed"
	}
}

# Libraries that the archive's programs ask for and this system has not.
missing_libraries() {
	ldd "$work/$top/bin/hasten" "$work/$top/sbin/hastend" "$work/$top"/lib/hasten/hasten-* 2>/dev/null | awk '/not found/ { print $1 }' | sort -u
}

deb_of() { # SONAME...
	for library in "$@"; do
		case $library in
		libmnl.so.0) echo libmnl0 ;;
		libjson-c.so.5) echo libjson-c5 ;;
		libyaml-0.so.2) echo libyaml-0-2 ;;
		libkmod.so.2) echo libkmod2 ;;
		libcurl.so.4) echo libcurl4 ;;
		libcrypto.so.3 | libssl.so.3) echo libssl3 ;;
		libarchive.so.13) echo libarchive13 ;;
		libsystemd.so.0) echo libsystemd0 ;;
		*) return 1 ;;
		esac
	done
}

archive_libraries() {
	missing=$(missing_libraries)
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2046,SC2086
	case $family in
	debian) ! names=$(deb_of $missing) || distribution_packages $names ;;
	rpm) distribution_packages $(for library in $missing; do echo "$library()(64bit)"; done) ;;
	esac
	missing=$(missing_libraries)
	[ -z "$missing" ] || fail "hasten needs libraries that this system has not: $(echo "$missing" | tr '\n' ' ')" "install them, then run this again"
}

# Where a file of the archive goes. Below /usr/local the system finds units and rules by itself.
place() {
	case $prefix in
	/usr/local | /usr) echo "$prefix/$1" ;;
	*)
		case $1 in
		lib/systemd/system/*) echo "/etc/systemd/system/${1##*/}" ;;
		lib/udev/rules.d/*) echo "/etc/udev/rules.d/${1##*/}" ;;
		lib/tmpfiles.d/*) echo "/etc/tmpfiles.d/${1##*/}" ;;
		lib/sysusers.d/*) echo "/etc/sysusers.d/${1##*/}" ;;
		*) echo "$prefix/$1" ;;
		esac
		;;
	esac
}

same() { # FROM TO
	if [ -h "$1" ]; then
		[ -h "$2" ] && [ "$(readlink "$1")" = "$(readlink "$2")" ]
	else
		[ ! -h "$2" ] && cmp -s "$1" "$2"
	fi
}

nothing_changed() { # MESSAGE
	while read -r name; do rm -f "$(place "$name").hasten-new"; done <"$work/names"
	sort -r "$work/made" | while read -r at; do rmdir "$at" 2>/dev/null; done
	[ -e "$state/files" ] || rm -rf "$state"
	fail "$1; no file of hasten was changed" "is there room? df $prefix /var/lib"
}

# First everything beside its place, then renames: a full disk changes nothing, and a library that is in use is never written to.
install_archive() {
	top=hasten-$version-linux-$arch
	genuine "$top.tar.gz"
	(cd "$work" && gzip -dc "$top.tar.gz" | tar -xf - --no-same-owner 2>"$work/tar.log") && [ -x "$work/$top/bin/hasten" ] ||
		fail "$top.tar.gz could not be unpacked in $work: $(tail -n 1 "$work/tar.log")"
	archive_libraries
	"$work/$top/bin/hasten" --version >/dev/null || fail "hasten does not run on this system, see above; nothing was installed"
	for unit in "$work/$top"/lib/systemd/system/*; do
		sed -e "s,/usr/bin/,$prefix/bin/,g" -e "s,/usr/sbin/,$prefix/sbin/,g" "$unit" >"$work/unit" && cat "$work/unit" >"$unit"
	done
	(cd "$work/$top" && find . -type f -o -type l) | sed 's,^\./,,' | sort >"$work/names"
	while read -r name; do place "$name"; done <"$work/names" | sort >"$work/files"
	while read -r name; do
		at=$(dirname "$(place "$name")")
		while [ ! -d "$at" ]; do echo "$at" && at=$(dirname "$at"); done
	done <"$work/names" | sort -u >"$work/made"
	say "installing below $prefix"
	# --uninstall knows of each folder and file before it is made, whatever happens in between.
	mkdir -p "$state" && { cat "$work/made" "$state/folders" 2>/dev/null; } | sort -ru >"$work/folders" && cp "$work/folders" "$state/folders" &&
		cp "$work/files" "$state/incoming" && echo "$prefix" >"$state/prefix" || nothing_changed "$state could not be written"
	while read -r at; do
		mkdir "$at" || nothing_changed "$at could not be made"
	done <"$work/made"
	while read -r name; do
		to=$(place "$name")
		rm -f "$to.hasten-new"
		same "$work/$top/$name" "$to" || cp -P "$work/$top/$name" "$to.hasten-new" || nothing_changed "$to could not be written"
	done <"$work/names"
	{ cat "$state/files" 2>/dev/null; cat "$work/files"; } | sort -u >"$work/all"
	cp "$work/all" "$state/files" && rm -f "$state/version" || nothing_changed "$state could not be written"
	while read -r name; do
		to=$(place "$name")
		[ ! -e "$to.hasten-new" ] && [ ! -h "$to.hasten-new" ] || mv -f "$to.hasten-new" "$to" || fail "$to could not be replaced" "run this again"
	done <"$work/names"
	# What an earlier version had and this one has not.
	comm -23 "$work/all" "$work/files" | while read -r at; do rm -f "$at"; done
	cp "$work/files" "$state/files"
	rm -f "$state/incoming"
	hashes >"$state/sums"
	echo "$version" >"$state/version"
	# shellcheck disable=SC2046
	! command -v restorecon >/dev/null || restorecon -F $(cat "$state/files") 2>/dev/null
	! command -v systemd-sysusers >/dev/null || systemd-sysusers "$(place lib/sysusers.d/hasten-sysusers.conf)" >/dev/null 2>&1 ||
		say "the user _hasten could not be made; downloads of drivers run as root until it is there"
	! command -v systemd-tmpfiles >/dev/null || systemd-tmpfiles --create "$(place lib/tmpfiles.d/hasten.conf)" >/dev/null 2>&1 || true
	! has_systemd || systemctl daemon-reload
	! command -v udevadm >/dev/null || udevadm control --reload >/dev/null 2>&1 || true
}

has_systemd() {
	[ -d /run/systemd/system ] && command -v systemctl >/dev/null
}

# A unit that waits for the end of the boot would wait for us, and we for it.
first_boot() {
	[ -d /run/cloud-init ] && [ ! -e /run/cloud-init/result.json ]
}

later_failed() {
	echo "hasten: $1" >&2
	later=2
}

start() {
	# Where no systemd-tmpfiles made it. Later it is the boot's to make.
	[ -d /run/hasten ] || { mkdir /run/hasten && chmod 1777 /run/hasten; } || later_failed "/run/hasten could not be made"
	has_systemd || { left="$left no systemd runs here: start hastend by hand;" && return 0; }
	for unit in hasten-apply.service hastend.service; do
		systemctl --quiet is-enabled $unit 2>/dev/null || systemctl --quiet enable $unit || later_failed "$unit could not be enabled"
	done
	if on "$no_start"; then
		left="$left nothing was started (--no-start);"
	elif first_boot; then
		systemctl --no-block start hastend.service || later_failed "hastend could not be started: journalctl -u hastend"
	elif [ "$changed" = 1 ] || ! systemctl --quiet is-active hastend.service; then
		systemctl restart hastend.service || later_failed "hastend could not be started: journalctl -u hastend"
	fi
}

command_path() {
	case $way in
	archive) echo "$prefix/bin/hasten" ;;
	*) echo /usr/bin/hasten ;;
	esac
}

later_steps() {
	hasten=$(command_path)
	"$hasten" --version >/dev/null || fail "$hasten does not run, see above"
	# shellcheck disable=SC2086
	if [ -n "$driver" ]; then
		say "hasten driver install $driver"
		"$hasten" driver install $driver || later_failed "the driver $driver was not installed, see above"
	fi
	# shellcheck disable=SC2086
	if [ -n "$profile" ]; then
		say "hasten apply $profile"
		"$hasten" apply --yes $profile || later_failed "the profile was not applied as a whole, see above; hasten verify"
	fi
	for service in $services; do
		say "hasten enable $service"
		"$hasten" enable "$service" || later_failed "$service is not enabled, see above"
		restart="$restart $service"
	done
}

install() {
	[ -n "$release_key_1$release_key_2" ] ||
		fail "no key is pinned in this copy of the script: it is the source tree's" "take install.sh of a release, or use installer/quickstart.sh"
	[ -n "$version" ] || fail "no version is named: --version V"
	[ -n "$mirror" ] || fail "no place to fetch from is named: --mirror URL"
	room
	case $way in
	debian) what="the packages hasten_${version}_$deb_arch.deb and hasten-preload_${version}_$deb_arch.deb, by apt-get" ;;
	rpm) what="the packages of hasten $version for $distribution, else the plain archive below /usr/local" ;;
	archive) what="the files of hasten-$version-linux-$arch.tar.gz below $prefix" ;;
	esac
	say "hasten $version on ${distribution:-Linux}, $arch, kernel $kernel, glibc $glibc"
	again='' changed=0 left='' restart='' later=0
	if on "$dry"; then
		present
		if [ "$installed" = "$version" ]; then
			say "$version is installed already; would: leave it as it is"
		else
			proxies
			fetcher
			can_verify || say "would: install openssl, to check the signature with"
			say "would: fetch SHA256SUMS and SHA256SUMS.sig from $mirror/$version, check the signature"
			say "would: fetch, check and install $what"
			[ -z "$installed" ] || say "would: keep configuration and running programs; $installed is installed now"
		fi
		on "$no_start" || say "would: enable hasten-apply.service and hastend.service, start hastend$(first_boot && echo ' without waiting (cloud-init is running)')"
		[ -z "$driver" ] || say "would: hasten driver install $driver"
		[ -z "$profile" ] || say "would: hasten apply $profile"
		for service in $services; do say "would: hasten enable $service"; done
		say "nothing was changed (--dry-run)"
		return 0
	fi
	alone
	temporary
	! present || :
	if [ -n "$installed" ] && [ -z "$version_given" ] && older "$version" "$installed"; then
		say "$installed is installed, newer than $version; nothing was changed. --version $version goes back to it"
		return 0
	fi
	if [ "$installed" = "$version" ]; then
		say "$version is installed already"
	else
		[ -z "$installed" ] || say "$installed is installed; configuration and running programs stay as they are"
		proxies
		fetcher
		need_openssl
		genuine_list
		case $way in
		debian) install_debian ;;
		rpm) install_rpm ;;
		archive) install_archive ;;
		esac
		changed=1
	fi
	start
	later_steps
	report
	return $later
}

report() {
	hasten=$(command_path)
	command_name=hasten
	[ "$(command -v hasten 2>/dev/null)" = "$hasten" ] || command_name=$hasten
	if [ -z "$profile" ] && [ $changed = 1 ]; then
		echo
		"$hasten" check 2>/dev/null | head -n 40
		echo
	fi
	say "$([ $changed = 1 ] && echo "version $version is installed ($([ $way = archive ] && echo "below $prefix" || echo "packages hasten, hasten-preload"))" ||
		echo "nothing had to be installed")"
	[ ! -s "$state/packages" ] || say "packages of the distribution that came with it: $(tr '\n' ' ' <"$state/packages")"
	[ -z "$left" ] || say "not done:${left%;}"
	[ -z "$restart" ] || say "accelerated after their next start: systemctl restart$restart"
	if [ -n "$profile" ]; then
		say "next: $command_name verify        back: $command_name revert"
	else
		say "next: $command_name profile list, then $command_name plan NAME     a program: $command_name run PROGRAM"
	fi
}

remove_archive() {
	prefix=$record_prefix
	[ ! -x "$prefix/lib/hasten/before-removal" ] || "$prefix/lib/hasten/before-removal" || kept=1
	[ ! -x "$prefix/lib/hasten/preloaded" ] || "$prefix/lib/hasten/preloaded" || idle=1
	if has_systemd; then
		systemctl --quiet disable --now hasten-apply.service hastend.service 2>/dev/null
	fi
	cat "$state/files" "$state/incoming" 2>/dev/null | while read -r at; do rm -f "$at.hasten-new"; done
	[ ! -e "$state/files" ] || while read -r at; do rm -f "$at"; done <"$state/files"
	while read -r at; do rmdir "$at" 2>/dev/null; done <"$state/folders"
	! has_systemd || systemctl daemon-reload
}

# Those that came with hasten, where nothing else would go with them.
remembered_packages() {
	[ -s "$state/packages" ] || return 0
	# shellcheck disable=SC2046
	apt-get -s remove hasten hasten-preload $(cat "$state/packages") 2>/dev/null | sed -n 's/^Remv \([^ :]*\).*/\1/p' | sort -u >"$work/removed"
	{ echo hasten && echo hasten-preload && cat "$state/packages"; } | sort -u >"$work/ours"
	[ -n "$(comm -23 "$work/removed" "$work/ours")" ] || cat "$state/packages"
}

remove_debian() {
	verb=remove
	! on "$purge" || verb=purge
	/usr/lib/hasten/preloaded || idle=1
	names=$(remembered_packages)
	# shellcheck disable=SC2086
	apt $verb hasten hasten-preload $names || {
		packages_said
		fail "apt-get could not remove hasten"
	}
	# What revert and disable said.
	grep '^hasten' "$work/packages.log"
	! grep -q 'not every setting could be put back' "$work/packages.log" || kept=1
	if [ -n "$names" ] && on "$purge"; then say "removed too: $(echo "$names" | tr '\n' ' ')"; fi
}

remove_rpm() {
	/usr/lib/hasten/preloaded || idle=1
	packages rpm -e hasten hasten-preload || {
		packages_said
		fail "rpm could not remove hasten"
	}
	cat "$work/packages.log"
}

uninstall() {
	kept=0 idle=0
	if [ -n "$record_prefix" ]; then
		how=archive
	elif [ $family = debian ] && dpkg-query -W hasten-preload >/dev/null 2>&1; then
		how=debian
	elif [ $family = rpm ] && rpm -q hasten >/dev/null 2>&1; then
		how=rpm
	else
		say "hasten is not installed by this script or as a package; nothing was changed"
		return 0
	fi
	if on "$dry"; then
		say "would: hasten revert, hasten disable for each service that is enabled"
		case $how in
		archive) say "would: remove $(grep -c . "$state/files" 2>/dev/null) files below $record_prefix" ;;
		*) say "would: remove the packages hasten and hasten-preload$(! [ -s "$state/packages" ] || printf ' and %s' "$(tr '\n' ' ' <"$state/packages")")" ;;
		esac
		! on "$purge" || say "would: remove /etc/hasten and /var/lib/hasten"
		say "nothing was changed (--dry-run)"
		return 0
	fi
	alone
	temporary
	case $how in
	debian) remove_debian ;;
	rpm) remove_rpm ;;
	archive) remove_archive ;;
	esac
	rm -rf "$state"
	[ $idle = 0 ] || rm -rf /run/hasten
	if [ $kept = 1 ]; then
		say "hasten is removed; the originals of what could not be put back stay in /var/lib/hasten"
		return 1
	fi
	if on "$purge"; then
		rm -rf /etc/hasten /var/lib/hasten
	else
		rmdir /var/lib/hasten 2>/dev/null
		[ -z "$(ls /etc/hasten 2>/dev/null)" ] || say "configuration stays in /etc/hasten (--purge removes it)"
	fi
	say "hasten is removed$([ $idle = 1 ] || echo "; programs that run with its library keep it until they end")"
}

main() {
	# The script itself comes by standard input: nobody else may read it.
	exec </dev/null
	set -u
	umask 022
	PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin
	export PATH
	unset LD_PRELOAD CDPATH
	options "$@"
	machine
	if [ "$(id -u)" != 0 ] && ! on "$dry"; then
		fail "root is needed" "pipe it to: sudo sh    (what it would do: sh -s -- --dry-run)"
	fi
	trap clean EXIT
	trap stopped INT TERM HUP
	if on "$uninstall"; then
		uninstall
	else
		install
	fi
}

main "$@"
exit
}
