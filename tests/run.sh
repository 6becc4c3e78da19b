#!/bin/bash
# Runs every test of this tree. See --help.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)

# name|time limit in seconds|what. In this order; a group that needs a built tree builds it first.
groups() {
	cat <<END
build|600|configure and make with warnings as errors
check|420|make check: unit tests, command line tests, lints, kept inputs of the fuzzers
conform|600|socket programs native, preloaded, eager and with faults, compared
soak|150|conversations between processes that come and go, are stopped and killed; memory and descriptors flat
suites|300|other people's test suites native, preloaded and eager, compared: those that are fast
servers|700|real servers and clients accelerated at both ends, one end and neither
host|480|tuning the host: machines from trees, the real kernel and tuned, drivers fetched and built
installer|900|a release built twice, packages, install.sh against servers and mishaps
model|600|the protocol model at small bounds
sanitizers|600|unit and command line tests built with AddressSanitizer and UBSan
host_sanitized|420|the quick tests of tuning the host with the commands built so
sanitized|600|the socket programs again, with the library built so and preloaded
fuzz|120|each fuzzer for a few seconds
distcheck|480|the release archive builds, passes, installs and uninstalls
vm|960|whole machines in QEMU: the core cases of tests/vm
END
}

usage() {
	cat <<END
Usage: [sudo] tests/run.sh [OPTION...] [FILTER]

Installs what the tests need (Debian and Ubuntu, by apt-get, only what is missing), copies this tree to a temporary
folder, builds it there and runs all tests. With FILTER, an extended regular expression, only the groups whose name
matches (and the build, where they need one). The last line is "N passed, N failed", and ", N skipped" where tests were
skipped. Exit status: 0 all passed, 1 something failed, 64 wrong usage.

$(groups | sed -E 's/^([^|]*)\|[^|]*\|(.*)/  \1\t\2/' | expand -t 14)

  --except FILTER  not the groups whose name matches this
  --list      print the names of the groups
  --keep      keep the temporary folder; it is kept anyway where something failed
  --no-install  do not install anything; what is missing fails or is skipped by name
  -h, --help  print this

Without root nothing can be installed, and tests that need name spaces or other users are skipped by name.
END
}

filter=. except='^$' keep=0 install=1
while [ $# -gt 0 ]; do
	case $1 in
	--list) groups | cut -d'|' -f1; exit 0 ;;
	--keep) keep=1 ;;
	--except)
		except=${2:-}
		[ -n "$except" ] || { usage >&2; exit 64; }
		shift
		;;
	--no-install) install=0 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 64 ;;
	*) filter=$1 ;;
	esac
	shift
done
chosen=$(groups | cut -d'|' -f1 | grep -E -- "$filter" | grep -vE -- "$except")
if [ -z "$chosen" ]; then
	echo "tests/run.sh: no group matches \"$filter\"; there are: $(groups | cut -d'|' -f1 | tr '\n' ' ')" >&2
	exit 64
fi

exec </dev/null
export LC_ALL=C.UTF-8
unset LD_PRELOAD MAKEFLAGS MAKELEVEL
for name in $(compgen -e | grep -E '^(HASTEN_|NACC_)' | grep -vxE 'HASTEN_(CASES|MACHINES)'); do unset "$name"; done
PATH=$PATH:/usr/sbin:/sbin
begin=$SECONDS
# Whatever hangs, the whole ends within this.
longest=3000
passed=0 failed=0 skipped=0 broken=()

say() {
	printf '[%4d s] %s\n' $((SECONDS - begin)) "$*"
}

# Starts of services in a package's scripts are refused while we install: nobody asked for a Redis on port 6379.
install_packages() {
	local -a packages=("$@")
	local policy=/usr/sbin/policy-rc.d ours=0 try
	# Nor does a machine that had no ssh server get one at its next boot: Debian's own switch for that.
	[[ " $* " != *" openssh-server "* ]] || { mkdir -p /etc/ssh && : >/etc/ssh/sshd_not_to_be_run; }
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && ours=1
	fi
	for try in 1 2 3 4 5; do
		if timeout -k 10 300 apt-get -o DPkg::Lock::Timeout=240 -qq update &&
			DEBIAN_FRONTEND=noninteractive timeout -k 10 480 apt-get -o DPkg::Lock::Timeout=240 -qq -y \
				--no-install-recommends install "${packages[@]}"; then
			try=finished
			break
		fi
		say "apt-get did not succeed (try $try of 5); again in 10 s"
		sleep 10
	done >>"$work/install.log" 2>&1
	[ $ours = 0 ] || rm -f $policy
	[ "$try" = finished ]
}

install_missing() {
	local -a wanted=(gcc libc6-dev make autoconf automake libtool pkg-config libmnl-dev libjson-c-dev libkmod-dev libyaml-dev libcurl4-openssl-dev
		libssl-dev libarchive-dev libsystemd-dev libcmocka-dev bats jq file
		iproute2 procps util-linux curl python3-minimal python3) missing=()
	[[ $'\n'$chosen$'\n' != *$'\n'servers$'\n'* ]] ||
		wanted+=(redis-server redis-tools memcached nginx-light wrk postgresql openssl haproxy iperf3 sockperf wget openssh-server
			openssh-client rsync nodejs erlang-base mariadb-server-core mariadb-client-core bubblewrap systemd-container)
	[[ $'\n'$chosen$'\n' != *$'\n'check$'\n'* ]] || wanted+=(redis-server redis-tools shellcheck man-db
		python3-jsonschema hwloc-nox bzip2 strace libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 libfaketime)
	[[ $'\n'$chosen$'\n' != *$'\n'host_sanitized$'\n'* ]] || wanted+=(hwloc-nox openssl python3-jsonschema)
	[[ $'\n'$chosen$'\n' != *$'\n'host$'\n'* ]] || wanted+=(tuned dbus irqbalance ethtool hwloc-nox dkms linux-headers-amd64 openssl python3-jsonschema)
	[[ $'\n'$chosen$'\n' != *$'\n'installer$'\n'* ]] || wanted+=(debhelper dpkg-dev fakeroot binutils lintian rpm shellcheck busybox wget
		openssl faketime redis-server redis-tools)
	[[ $'\n'$chosen$'\n' != *$'\n'suites$'\n'* ]] || wanted+=(libpython3.11-testsuite)
	[[ $'\n'$chosen$'\n' != *$'\n'model$'\n'* ]] || wanted+=(spin)
	[[ $'\n'$chosen$'\n' != *$'\n'fuzz$'\n'* ]] || wanted+=(clang llvm libclang-rt-14-dev)
	[[ $'\n'$chosen$'\n' != *$'\n'vm$'\n'* ]] || wanted+=(qemu-system-x86 qemu-utils mmdebstrap fdisk e2fsprogs kmod iputils-ping linux-headers-amd64
		linux-source-6.1 libelf1 openssl)
	[[ $'\n'$chosen$'\n' != *$'\n'distcheck$'\n'* ]] || wanted+=(xz-utils)
	local package
	for package in "${wanted[@]}"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
	done
	# Any nginx will do, and a release that has no clang 14 has the runtime in the package of its own version.
	! command -v nginx >/dev/null || mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -v '^nginx-light$')
	mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep .)
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ $install = 0 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		say "not installed: ${missing[*]} (run as root on Debian or Ubuntu to have them installed)"
		return 0
	fi
	say "installing ${missing[*]}"
	if install_packages "${missing[@]}"; then
		return 0
	fi
	# One package that does not exist here must not take the others with it.
	for package in "${missing[@]}"; do
		DEBIAN_FRONTEND=noninteractive timeout -k 10 300 apt-get -o DPkg::Lock::Timeout=240 -qq -y \
			--no-install-recommends install "$package" >>"$work/install.log" 2>&1 ||
			say "could not be installed: $package: $(grep -E '^[EW]:' "$work/install.log" | tail -1)"
	done
}

copy_tree() {
	mkdir -p "$work/source" || return 1
	if command -v git >/dev/null && git -c safe.directory='*' -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
		(cd "$top" && git -c safe.directory='*' ls-files -z -co --exclude-standard |
			tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -C "$work/source" -xf -
	else
		tar -C "$top" --exclude=./.git -cf - . | tar -C "$work/source" -xf -
	fi
	(cd "$work/source" && find . -type f ! -name .gitignore -printf '%P\n' | sort) >"$work/files"
}

# What each group does; standard output and error go to its log.

make_jobs() {
	make -j"$(nproc)" "$@"
}

# With folders and process ids of its own: nothing of the machine's is touched, accelerated processes beside the tests
# do not show in them, and nothing outlives the group.
alone() { # COMMAND...
	local -a view=()
	if [ "$(id -u)" = 0 ] && unshare --mount --pid --fork --mount-proc true 2>/dev/null; then
		# shellcheck disable=SC2016
		view=(unshare --mount --pid --fork --kill-child --mount-proc bash -c 'mount -t tmpfs -o mode=755 tmpfs /run &&
			mkdir -m 1777 /run/hasten && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"' alone)
	fi
	"${view[@]}" "$@"
}

check_alone() {
	make_jobs all && alone env TMPDIR=/dev/shm make -j"$(nproc)" check && return 0
	cat test-suite.log
	return 1
}

configure_and_make() { # FOLDER OPTION...
	local folder=$1
	shift
	[ -x "$work/source/configure" ] || (cd "$work/source" && autoreconf -fi) || return 1
	mkdir -p "$folder" && cd "$folder" || return 1
	[ -e config.status ] || "$work/source/configure" --enable-werror "$@" || return 1
	make_jobs
}

group_build() {
	configure_and_make "$work/build"
}

group_check() {
	cd "$work/build" && check_alone
}

group_conform() {
	cd "$work/build" && make_jobs conform-programs || return 1
	"$work/source/tests/conform/run" -B "$work/build"
}

group_soak() {
	cd "$work/build" && make_jobs soak-program || return 1
	"$work/source/tests/soak/run" -B "$work/build"
}

group_suites() {
	"$work/source/tests/suites/run" -B "$work/build" --quick
}

group_servers() {
	cd "$work/build" && top_srcdir=$work/source top_builddir=$work/build \
		alone env TMPDIR=/dev/shm bats --tap --timing "$work/source"/tests/bats/servers/*.bats
}

group_host() {
	# Machines are ten thousands of small files: in memory.
	cd "$work/build" && make_jobs tests/unit/{hotplug_cycles,steps_driver,sys_probe} && top_srcdir=$work/source top_builddir=$work/build \
		alone env TMPDIR=/dev/shm bats --tap --timing "$work/source"/tests/bats/host/*.bats
}

group_installer() {
	top_srcdir=$work/source top_builddir=$work/build \
		alone bats --tap --timing "$work/source"/tests/bats/installer/*.bats
}

group_model() {
	if [ -x "$work/source/tests/model/run.sh" ]; then
		"$work/source/tests/model/run.sh" --quick
	else
		echo "ok 1 # skip tests/model/run.sh is not in this tree"
	fi
}

group_sanitizers() {
	configure_and_make "$work/sanitized" --enable-sanitizers && check_alone
}

group_host_sanitized() {
	(configure_and_make "$work/sanitized" --enable-sanitizers) || return 1
	cd "$work/sanitized" && make_jobs tests/unit/{hotplug_cycles,steps_driver,sys_probe} && top_srcdir=$work/source top_builddir=$work/sanitized \
		alone env TMPDIR=/dev/shm SANITIZERS=1 ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=halt_on_error=1:exitcode=99 \
		bats --tap --timing "$work/source"/tests/bats/host/{sys,detect,profile,tune,messages,hastend}.bats
}

group_sanitized() {
	(configure_and_make "$work/sanitized" --enable-sanitizers) || return 1
	cd "$work/build" && make_jobs conform-programs || return 1
	"$work/source/tests/conform/run" -B "$work/build" -S "$work/sanitized" -m auto,eager
}

group_fuzz() {
	top_builddir=$work/build "$work/source/tests/fuzz/run.sh" 5
}

group_distcheck() {
	# The tests of this group are those of "check": they ran. Here counts that the archive has what they need to be built.
	cd "$work/build" && make_jobs distcheck TESTS= || return 1
	tar -tf hasten-*.tar.xz | sed 's@^[^/]*/@@' | sort >archive
	if comm -23 "$work/files" archive | grep .; then
		echo "ERROR: the files above are in the tree and not in the archive: name them in EXTRA_DIST"
		return 1
	fi
}

group_vm() {
	# It builds for itself, as a package is built: for /usr.
	"$work/source/tests/vm/run" --core --no-install
}

# Adds up what a log says of its tests: automake's summaries, TAP, or a closing "N passed, N failed[, N skipped]".
count() { # LOG
	awk '
	/^# TOTAL: / { p = f = s = 0; a = 1 } # the summary comes again in test-suite.log
	/^# PASS: / { p += $3 } /^# (FAIL|ERROR|XPASS): / { f += $3 } /^# (SKIP|XFAIL): / { s += $3 }
	/^ok [0-9]+/ { if ($0 ~ /# *[Ss][Kk][Ii][Pp]/) ts++; else tp++ }
	/^not ok [0-9]+/ { tf++ }
	/^[0-9]+ passed, [0-9]+ failed/ { n = split($0, w, /[ ,]+/); lp = w[1]; lf = w[3]; ls = n > 5 ? w[5] : 0; l = 1 }
	END {
		if (l) print lp + 0, lf + 0, ls + 0
		else if (a) print p + 0, f + 0, s + 0
		else print tp + 0, tf + 0, ts + 0
	}' "$1"
}

run_group() { # NAME LIMIT
	local name=$1 limit=$2 from=$SECONDS status p f s left log=$work/$1.log
	left=$((longest - (SECONDS - begin)))
	[ "$limit" -lt "$left" ] || limit=$left
	if [ "$limit" -lt 10 ]; then
		say "$name: no time left of $longest s"
		broken+=("$name")
		failed=$((failed + 1))
		return
	fi
	say "$name ..."
	# bash -c in between: timeout runs a program, not a function.
	timeout -k 10 "$limit" bash -c "group_$name" </dev/null >"$log" 2>&1
	status=$?
	read -r p f s < <(count "$log")
	case $name in
	# These have no tests that are counted one by one.
	build | fuzz | distcheck) p=0 f=0 s=0 ;;
	esac
	if [ $status = 77 ]; then
		s=$((s + 1))
	elif [ $status != 0 ] && [ "$f" = 0 ]; then
		f=1
	elif [ $status = 0 ] && [ "$p" = 0 ] && [ "$f" = 0 ] && [ "$s" = 0 ]; then
		p=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	say "$name: $p passed, $f failed, $s skipped in $((SECONDS - from)) s$([ $status != 124 ] && [ $status != 137 ] || echo ", stopped at its limit of $limit s")"
	if grep -q '^SKIP:' "$log"; then
		grep '^SKIP:' "$log"
	else
		grep -E '^(ok [0-9]+ .*# *[Ss][Kk][Ii][Pp]|skip )' "$log"
	fi | sort -u | sed 's/^/         /'
	if [ "$f" != 0 ]; then
		broken+=("$name")
		{
			grep -E -A8 '^(FAIL |not ok )|^FAIL:|^ERROR:|: error:|: warning:|^make.*\*\*\*|^configure: error' "$log" | head -60
			echo "--- end of the log"
			tail -15 "$log"
		} | sed 's/^/         | /'
	fi
}

work=$(mktemp -d "${TMPDIR:-/tmp}/hasten-tests.XXXXXX") || exit 1
# Tests run some of it as another user.
chmod 755 "$work"
finish() {
	if [ $keep = 1 ] || [ ${#broken[@]} -gt 0 ]; then
		echo "logs and builds are in $work"
	else
		rm -rf "$work"
	fi
}
trap 'broken+=(stopped); finish; exit 1' INT TERM HUP

HASTEN_CASES=${HASTEN_CASES:-$(dirname "$top")/shared/cases}
HASTEN_MACHINES=${HASTEN_MACHINES:-$(dirname "$top")/shared/machines}
export work HASTEN_CASES HASTEN_MACHINES
export -f make_jobs alone check_alone configure_and_make group_build group_check group_conform group_soak group_suites group_servers group_host group_installer group_model group_sanitizers group_host_sanitized group_sanitized \
	group_fuzz group_distcheck group_vm
say "tests of $top, $(nproc) CPUs, $(uname -sr), log files in $work"
install_missing
copy_tree || { echo "tests/run.sh: $top could not be copied to $work" >&2; exit 1; }

built=0
while IFS='|' read -r name limit _; do
	grep -qx -- "$name" <<<"$chosen" || {
		case $name in
		build) grep -qxE 'check|conform|soak|suites|servers|host|sanitized|fuzz|distcheck' <<<"$chosen" || continue ;;
		*) continue ;;
		esac
	}
	case $name in
	check | conform | soak | suites | servers | host | sanitized | fuzz | distcheck)
		if [ $built = 0 ]; then
			say "$name: not run, the build failed"
			failed=$((failed + 1))
			continue
		fi
		;;
	esac
	run_group "$name" "$limit"
	[ "$name" != build ] || [ ${#broken[@]} -gt 0 ] || built=1
done < <(groups)

finish
[ ${#broken[@]} = 0 ] || echo "failed: ${broken[*]}"
echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ $failed = 0 ]
