#!/usr/bin/env bats
# The real tuned and a system bus of its own, in name spaces: its /run, /etc/tuned, /var/lib/hasten and network sysctls are the test's.
# The profile before ours sets settings of the network name space only, so nothing of the machine changes.

setup() {
	local program
	[ "$(id -u)" = 0 ] || skip "needs root for name spaces"
	for program in tuned tuned-adm dbus-daemon unshare; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
	dir=$BATS_TEST_TMPDIR
	mkdir -p "$dir/etc-tuned/site" "$dir/profiles" "$dir/state"
	cp -a /etc/tuned/. "$dir/etc-tuned/"
	cat >"$dir/etc-tuned/site/tuned.conf" <<-'END'
		[main]
		summary=The administrator's
		[sysctl]
		net.core.somaxconn=2048
		net.ipv4.tcp_fin_timeout=33
		net.ipv4.tcp_keepalive_time=1111
	END
	echo site >"$dir/etc-tuned/active_profile"
	echo manual >"$dir/etc-tuned/profile_mode"
	rm -f "$dir/etc-tuned/post_loaded_profile"
	cat >"$dir/profiles/test.yaml" <<-'END'
		schema: 1
		name: test
		summary: for a test
		settings:
		  tuned.cooperate: {value: true, why: w, source: s}
		  sysctl.net.core.somaxconn: {at-least: 4096, why: w, source: s}
		  sysctl.net.ipv4.tcp_fin_timeout: {value: 22, why: w, source: s}
		  sysctl.net.ipv4.tcp_rmem: {value: "4096 131072 7000000", why: w, source: s}
	END
	cat >"$dir/room" <<-'END'
		set -eE
		trap 'echo "failed: $BASH_COMMAND"; tail -20 /run/log' ERR
		trap '[ -z "$tuned" ] || kill $tuned; [ -z "$bus" ] || kill $bus; wait' EXIT
		export HASTEN_PROFILE_DIR=$dir/profiles
		mount -t tmpfs none /run
		mkdir -p /run/dbus /run/tuned /var/lib/hasten
		mount --bind $dir/etc-tuned /etc/tuned
		mount -t tmpfs none /var/lib/hasten
		value() { sysctl -n "$1" | tr '\t' ' '; }
		is() { [ "$(value "$1")" = "$2" ] || { echo "$1 is $(value "$1"), not $2"; false; }; }
		active() { cat /etc/tuned/active_profile /etc/tuned/profile_mode | tr '\n' ' '; }
		dbus-daemon --system --nofork --nopidfile >/run/log 2>&1 & bus=$!
		for i in $(seq 100); do [ ! -S /run/dbus/system_bus_socket ] || break; sleep 0.1; done
		tuned -P >>/run/log 2>&1 & tuned=$!
		for i in $(seq 200); do tuned-adm active 2>&1 | grep -q 'Current active profile' && break; sleep 0.1; done
		for i in $(seq 100); do [ "$(value net.core.somaxconn)" != 2048 ] || break; sleep 0.1; done
	END
	fin=$(cat /proc/sys/net/ipv4/tcp_fin_timeout)
}

room() { # commands from standard input, behind a running tuned
	cat "$dir/room" - >"$dir/script"
	made=
	[ -d /var/lib/hasten ] || made=1
	run env dir="$dir" hasten="$top_builddir/hasten" unshare --mount --net --propagation private bash "$dir/script"
	[ -z "$made" ] || rmdir /var/lib/hasten 2>/dev/null || true
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "tuned gets a profile that includes the one before, its own verify passes, and revert returns to it" {
	room <<-'END'
		is net.core.somaxconn 2048
		is net.ipv4.tcp_fin_timeout 33
		find /etc/tuned | sort >/run/before
		$hasten plan test | grep -q "tuned's profile"
		$hasten apply test
		[ "$(active)" = "hasten manual " ]
		grep -qx include=site /etc/tuned/hasten/tuned.conf
		grep -qx 'net.core.somaxconn=>4096' /etc/tuned/hasten/tuned.conf
		is net.core.somaxconn 4096
		is net.ipv4.tcp_fin_timeout 22
		is net.ipv4.tcp_keepalive_time 1111
		is net.ipv4.tcp_rmem "4096 131072 7000000"
		tuned-adm verify | grep -q succeeded
		$hasten verify
		$hasten apply test | tail -1 | grep -q 'in order'
		$hasten revert
		[ "$(active)" = "site manual " ]
		is net.core.somaxconn 2048
		is net.ipv4.tcp_fin_timeout 33
		is net.ipv4.tcp_keepalive_time 1111
		find /etc/tuned | sort | diff /run/before -
		tuned-adm verify | grep -q succeeded
	END
}

@test "what somebody else changed since stays, before the switch and after it" {
	room <<-'END'
		sysctl -qw net.ipv4.tcp_keepalive_time=2222 net.core.somaxconn=9000
		$hasten apply test
		is net.ipv4.tcp_keepalive_time 2222
		is net.core.somaxconn 9000
		is net.ipv4.tcp_fin_timeout 22
		sysctl -qw net.ipv4.tcp_fin_timeout=44
		run=0; $hasten verify >/run/verify || run=$?
		[ $run = 1 ]
		grep -q 'tcp_fin_timeout is 44' /run/verify
		$hasten revert
		[ "$(active)" = "site manual " ]
		is net.ipv4.tcp_fin_timeout 44
		is net.ipv4.tcp_keepalive_time 2222
		is net.core.somaxconn 9000
	END
}

@test "another profile that somebody chose since is theirs" {
	room <<-'END'
		mkdir /etc/tuned/other
		printf '[sysctl]\nnet.ipv4.tcp_fin_timeout=55\n' >/etc/tuned/other/tuned.conf
		$hasten apply test
		tuned-adm profile other
		run=0; $hasten revert >/run/revert || run=$?
		grep -q drift /run/revert
		[ "$(active)" = "other manual " ]
		is net.ipv4.tcp_fin_timeout 55
	END
}

@test "a tuned that was off is off again" {
	room <<-'END'
		tuned-adm off
		is net.core.somaxconn 4096 || true
		sysctl -qw net.core.somaxconn=1000
		$hasten apply test
		[ "$(active)" = "hasten manual " ]
		is net.core.somaxconn 4096
		$hasten revert
		[ -z "$(cat /etc/tuned/active_profile)" ]
		is net.core.somaxconn 1000
		[ ! -e /etc/tuned/hasten ]
	END
}

@test "automatic mode comes back" {
	mkdir -p "$dir/etc-tuned/recommend.d"
	echo '[site]' >"$dir/etc-tuned/recommend.d/10-test.conf"
	echo auto >"$dir/etc-tuned/profile_mode"
	room <<-'END'
		[ "$(active)" = "site auto " ]
		$hasten apply test
		[ "$(active)" = "hasten manual " ]
		$hasten revert
		[ "$(active)" = "site auto " ]
		is net.ipv4.tcp_fin_timeout 33
	END
}

@test "with tuned stopped its files are put back, for its next start" {
	room <<-'END'
		$hasten apply test
		kill $tuned
		wait $tuned || true
		tuned=
		$hasten revert
		[ "$(active)" = "site manual " ]
		[ ! -e /etc/tuned/hasten ]
		tuned -P >>/run/log 2>&1 & tuned=$!
		for i in $(seq 100); do [ "$(value net.ipv4.tcp_fin_timeout)" != 33 ] || break; sleep 0.1; done
		is net.ipv4.tcp_fin_timeout 33
		is net.core.somaxconn 2048
	END
}
