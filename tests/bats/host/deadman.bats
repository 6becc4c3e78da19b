#!/usr/bin/env bats
# The timer that undoes what nobody confirms, in the form for machines without systemd, in name spaces of the test's own: a bridge with an
# address is a NIC in use whose changes count as a flap.

setup() {
	[ "$(id -u)" = 0 ] || skip "needs root for name spaces"
	dir=$BATS_TEST_TMPDIR
	mkdir "$dir/profiles"
	cat >"$dir/profiles/t.yaml" <<-'END'
		schema: 1
		name: t
		summary: offloads off
		settings:
		  nic.features.generic-receive-offload: {value: false, why: w, source: s}
		  nic.features.tx-gre-segmentation: {value: false, why: w, source: s}
		  nic.features.tx-udp_tnl-segmentation: {value: false, why: w, source: s}
		  nic.features.tx-vlan-hw-insert: {value: false, why: w, source: s}
	END
	cat >"$dir/lib" <<-'END'
		set -eu
		mount -t sysfs sysfs /sys
		mount -t tmpfs none /var/lib
		ip link set lo up
		ip link add br0 type bridge
		ip addr add 10.9.9.1/24 dev br0
		ip link set br0 up
		state() { ethtool -k br0 | sha256sum; }
		timer() { pgrep -f "hasten revert --transaction" || true; }
		timer_started() { # without a process of its own: the command is done within some ms
		  local file args
		  for file in /proc/[0-9]*/cmdline; do
		    mapfile -d '' args <"$file" || true
		    [ "${args[1]:-}" != revert ] || return 0
		  done
		  return 1
		} 2>/dev/null
		restored() {
		  for _ in $(seq 250); do
		    [ "$(state)" != "$before" ] || [ -n "$(ls -A /var/lib/hasten 2>/dev/null)" ] || return 0
		    sleep 0.1
		  done
		  echo "not restored"; ethtool -k br0; cat /var/lib/hasten/*; return 1
		}
		before=$(state)
		apply() { "$hasten" apply t --yes --allow-disruptive --nic br0 --confirm-within 5 "$@"; }
	END
}

# Runs standard input in new network, mount and process name spaces.
inside() {
	cat "$dir/lib" - >"$dir/script"
	hasten=$top_builddir/hasten HASTEN_PROFILE_DIR=$dir/profiles timeout 120 unshare -m -n -p --mount-proc -f --wd="$dir" bash "$dir/script" 3>&-
}

@test "without consent a NIC in use is left alone, and the plan says why" {
	inside <<-'END'
		"$hasten" plan t --nic br0 | grep -q 'carries the route to 10.9.9.0/24'
		status=0
		"$hasten" apply t --yes --nic br0 >out || status=$?
		[ $status = 1 ]
		grep -q 'needs --allow-disruptive' out
		[ "$(state)" = "$before" ]
	END
}

@test "confirmed, it stays and is stored; revert puts it back" {
	inside <<-'END'
		apply
		[ "$(state)" != "$before" ]
		[ ! -e /var/lib/hasten/set.json ]
		[ -n "$(timer)" ]
		! apply 2>/dev/null
		"$hasten" confirm
		[ -e /var/lib/hasten/set.json ]
		sleep 6.5
		[ -z "$(timer)" ]
		[ "$(state)" != "$before" ]
		"$hasten" verify
		"$hasten" revert
		[ "$(state)" = "$before" ]
		[ ! -e /var/lib/hasten ]
	END
}

@test "not confirmed, it is undone" {
	inside <<-'END'
		apply
		[ "$(state)" != "$before" ]
		restored
		! "$hasten" confirm
	END
}

# Sends a signal to the command at its Nth request to the kernel's network, for rising N, until that was after a write and before the commit.
middle='
		in_the_middle() { # SIGNAL
		  for n in $(seq 1 400); do
		    strace -qq -o /dev/null -e trace=sendto -e inject=sendto:signal="$1":when="$n" "$hasten" apply t --yes --allow-disruptive \
		      --nic br0 --confirm-within 5 >/dev/null & tracer=$!
		    if [ "$1" = KILL ]; then
		      wait $tracer 2>/dev/null || true
		    else
		      while [ -e /proc/$tracer ] && ! grep -qs "^State:.[Tt]" /proc/$(pgrep -P $tracer)/status; do sleep 0.02; done
		    fi
		    if [ "$(state)" != "$before" ] && ! grep -q "\"type\":\"commit\"" /var/lib/hasten/journal; then return 0; fi
		    kill -KILL $(pgrep -P $tracer) 2>/dev/null || true
		    wait $tracer 2>/dev/null || true
		    "$hasten" revert --allow-disruptive >/dev/null 2>&1 || true
		    while timer_started; do sleep 0.1; done
		  done
		  echo "never in the middle"
		  return 1
		}
'

@test "hastend is killed inside of the window" {
	top=$top_builddir dir=$dir inside <<-'END'
		"$top/hastend" --control "$dir/control" 2>"$dir/log" &
		daemon=$!
		for _ in $(seq 100); do [ ! -S "$dir/control" ] || break; sleep 0.05; done
		[ -S "$dir/control" ] || { cat "$dir/log"; exit 1; }
		apply >out
		kill -KILL $daemon
		[ "$(state)" != "$before" ]
		restored
		"$hasten" status | grep -q 'No set'
	END
}

@test "the command is killed in the middle" {
	{ echo "$middle"; cat <<-'END'; } | inside
		in_the_middle KILL
		restored
	END
}

@test "the command is stopped in the middle, with the lock in its hands" {
	{ echo "$middle"; cat <<-'END'; } | inside
		in_the_middle STOP
		stopped=$(pgrep -P $tracer)
		restored
		! [ -e /proc/$stopped ] || grep -q "^State:.Z" /proc/$stopped/status
	END
}

@test "the session of the command ends: its timer lives on" {
	inside <<-'END'
		setsid bash -c '"$hasten" apply t --yes --allow-disruptive --nic br0 --confirm-within 5; sleep 100' >/dev/null & session=$!
		for _ in $(seq 100); do [ -z "$(timer)" ] || break; sleep 0.05; done
		sleep 1
		kill -HUP -- -$session
		kill -KILL -- -$session 2>/dev/null || true # where SIGHUP has not ended all of it
		[ -n "$(timer)" ]
		restored
	END
}

@test "the machine starts anew inside of the window" {
	inside <<-'END'
		apply
		kill -9 $(timer)
		echo another-boot >boot_id
		mount --bind boot_id /proc/sys/kernel/random/boot_id
		ip link del br0
		ip link add br0 type bridge
		ip addr add 10.9.9.1/24 dev br0
		ip link set br0 up
		"$hasten" apply --boot
		[ "$(state)" = "$before" ]
		[ ! -e /var/lib/hasten ]
	END
}
