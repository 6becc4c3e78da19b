#!/usr/bin/env bats
# The real irqbalance, started as hasten's drop-in says, leaves the interrupts alone that hasten placed. Name spaces of the test hold /etc, /run and
# the state; interrupts are the machine's own: each is put back by a trap whatever happens.

setup() {
	[ "$(id -u)" = 0 ] || skip "needs root for name spaces"
	command -v irqbalance >/dev/null || skip "irqbalance is not installed"
	[ "$(nproc)" -gt 1 ] || skip "irqbalance does nothing with one CPU"
	dir=$BATS_TEST_TMPDIR hasten=$top_builddir/hasten
	nic=$("$hasten" detect --json | jq -r '[.nics[] | select(.bus == "pci" and .name and (.ambiguous | not) and any(.interrupts[]; .role == "rx" or .role == "tx" or .role == "queue"))][0].name // empty')
	[ -n "$nic" ] || skip "no card of PCI has interrupts of queues here"
	mkdir -p "$dir/profiles"
	cat >"$dir/profiles/test.yaml" <<-'END'
		schema: 1
		name: test
		summary: for a test
		settings:
		  irqbalance.cooperate: {value: true, why: w, source: s}
		  nic.irq.cpus: {value: nic.cpus.local, why: w, source: s}
	END
	cat >"$dir/script" <<-'END'
		set -eE
		affinities() { for irq in /proc/irq/[0-9]*; do echo "$irq $(cat "$irq/smp_affinity_list")"; done; }
		affinities >"$dir/before"
		trap 'while read -r irq cpus; do echo "$cpus" >"$irq/smp_affinity_list" || true; done <"$dir/before" 2>/dev/null' EXIT
		trap 'echo "failed: $BASH_COMMAND"; tail -30 "$dir/out" "$dir/log"' ERR
		mount -t tmpfs none /run
		mkdir -p /var/lib/hasten
		mount -t tmpfs none /var/lib/hasten
		cp -a /etc /run/etc
		mount --bind /run/etc /etc
		mkdir -p /run/irqbalance
		export HASTEN_PROFILE_DIR=$dir/profiles
		rm -rf /etc/systemd/system/irqbalance.service.d
		(cd /etc && find . | sort) >"$dir/etc"
		irqs=$("$hasten" detect --json | jq -r --arg nic "$nic" '.nics[] | select(.name == $nic) | .interrupts[] | select(.role != "control") | .irq')
		# As the unit would start it, but with what it says about each interrupt; started anew it looks at all of them.
		balance() { # COMMAND of the unit, its variables empty
			timeout 3 ${1//'$IRQBALANCE_ARGS'/} --debug --interval=1 >"$dir/log" 2>&1 || [ $? = 124 ]
		}
		exec_of() { sed -n 's/^ExecStart=\(..*\)/\1/p' "$@" | tail -1; }
		unit=/lib/systemd/system/irqbalance.service
		balance "$(exec_of $unit)"
		for irq in $irqs; do grep -q "Adding IRQ $irq to database" "$dir/log"; done # without hasten they are irqbalance's
		"$hasten" apply test --yes >"$dir/out"
		for irq in $irqs; do cat /proc/irq/$irq/smp_affinity_list; done >"$dir/placed"
		balance "$(exec_of $unit /etc/systemd/system/irqbalance.service.d/*.conf)"
		for irq in $irqs; do
			grep -q "IRQ $irq was BANNED" "$dir/log"
			! grep -q "Adding IRQ $irq to database" "$dir/log"
		done
		grep -q 'Adding IRQ' "$dir/log" # the rest is still its own
		for irq in $irqs; do cat /proc/irq/$irq/smp_affinity_list; done | diff "$dir/placed" -
		"$hasten" verify >"$dir/out"
		"$hasten" revert >"$dir/out"
		(cd /etc && find . | sort) | diff "$dir/etc" -
		! [ -e /etc/hasten/irqbalance-policy.sh ]
	END
}

@test "irqbalance bans what hasten placed, keeps the rest, and has it all again after revert" {
	made=
	[ -d /var/lib/hasten ] || made=1
	run env dir="$dir" hasten="$hasten" nic="$nic" unshare --mount --propagation private bash "$dir/script"
	[ -z "$made" ] || rmdir /var/lib/hasten 2>/dev/null || true
	echo "$output"
	[ "$status" -eq 0 ]
}
