# Machines for BATS: load it with ". machine.bash". A machine is a folder below $machines with its disk (copy on write over the image), sockets and logs.
# Environment from tests/vm/run: vm_image (folder of tests/vm/image), vm_tree (folder with what make install puts into a system).

vm_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
machines=${machines:-$BATS_FILE_TMPDIR/machines}

# machine_start NAME [KEY=VALUE...]: boots it, waits until systemd is done, installs nothing. Keys: smp=2 mem=2048 boot=grub|direct append="words"
# qemu="more words" keep=1 (its earlier disk) wait=240 netns=NAME (QEMU itself runs in it: its taps are there).
machine_start() {
	local name=$1 smp=2 mem=2048 boot=grub append='' qemu='' keep='' wait=240 netns=''
	shift
	local pair
	for pair in "$@"; do
		case ${pair%%=*} in
		smp) smp=${pair#*=} ;; mem) mem=${pair#*=} ;; boot) boot=${pair#*=} ;; append) append=${pair#*=} ;;
		qemu) qemu=${pair#*=} ;; keep) keep=${pair#*=} ;; netns) netns=${pair#*=} ;; wait) wait=${pair#*=} ;;
		*) echo "machine_start: no key ${pair%%=*}" >&2; return 1 ;;
		esac
	done
	local at=$machines/$name
	mkdir -p "$at"
	[ -n "$keep" ] && [ -f "$at/disk.qcow2" ] || { rm -f "$at/disk.qcow2"; qemu-img create -q -f qcow2 -b "$vm_image/disk.raw" -F raw "$at/disk.qcow2"; }
	# QEMU gives the first place to a kernel that it loads itself.
	[ "$boot" = grub ] && local first=,bootindex=0 || local first=
	local -a words=(qemu-system-x86_64 -nodefaults -no-user-config -display none -machine q35 -accel tcg,thread=multi,tb-size=512 -cpu max
		-smp "$smp" -m "$mem" -drive "id=d0,if=none,file=$at/disk.qcow2,format=qcow2,cache=unsafe" -device "virtio-blk-pci,drive=d0$first"
		-chardev "file,id=console,path=$at/console.log,append=on" -serial chardev:console
		-chardev "socket,id=agent,path=$at/agent,server=on,wait=off" -device virtio-serial-pci -device virtserialport,chardev=agent,name=org.qemu.guest_agent.0
		-virtfs "local,path=$vm_tree,mount_tag=tree,security_model=none,readonly=on" -device virtio-rng-pci -pidfile "$at/pid")
	[ "$boot" = grub ] || words+=(-kernel "$vm_image/vmlinuz" -initrd "$vm_image/initrd" -append "root=/dev/vda2 rw console=ttyS0 $append")
	# shellcheck disable=SC2206 # words
	words+=($qemu)
	rm -f "$at/agent" "$at/pid"
	[ -z "$netns" ] || words=(ip netns exec "$netns" "${words[@]}")
	setsid "${words[@]}" >"$at/qemu.log" 2>&1 </dev/null 3>&- &
	local i
	for i in $(seq 100); do [ -s "$at/pid" ] && [ -S "$at/agent" ] && break; sleep 0.1; done
	[ -s "$at/pid" ] || { echo "qemu did not start:" >&2; cat "$at/qemu.log" >&2; return 1; }
	machine_wait "$name" "$wait"
}

# Until the agent answers and systemd has started what it starts.
machine_wait() { # NAME [SECONDS]
	python3 "$vm_here/guest.py" "$machines/$1/agent" wait "${2:-240}" || { machine_log "$1" >&2; return 1; }
	in_machine "$1" -t "${2:-240}" 'systemctl is-system-running --wait >/dev/null; true'
}

in_machine() { # NAME [-t SECONDS] [-i] COMMAND
	local name=$1
	shift
	python3 "$vm_here/guest.py" "$machines/$name/agent" run "$@"
}

# Puts what make install installed into the machine, as a package would.
machine_install() { # NAME
	in_machine "$1" 'mkdir -p /mnt/tree && mount -t 9p -o trans=virtio,ro tree /mnt/tree && cp -a /mnt/tree/. / && umount /mnt/tree && ldconfig &&
		systemd-sysusers && systemd-tmpfiles --create hasten.conf && systemctl daemon-reload && udevadm control --reload'
}

machine_reboot() { # NAME [SECONDS]
	local before
	before=$(in_machine "$1" 'cat /proc/sys/kernel/random/boot_id')
	python3 "$vm_here/guest.py" "$machines/$1/agent" reboot
	local end=$((SECONDS + ${2:-300}))
	while [ $SECONDS -lt $end ]; do
		sleep 2
		python3 "$vm_here/guest.py" "$machines/$1/agent" wait 5 2>/dev/null || continue
		[ "$(in_machine "$1" 'cat /proc/sys/kernel/random/boot_id' 2>/dev/null)" != "$before" ] || continue
		machine_wait "$1" 240
		return
	done
	echo "machine $1 did not come back; its console:" >&2
	machine_log "$1" >&2
	return 1
}

machine_stop() { # NAME
	local pid at=$machines/$1
	pid=$(cat "$at/pid" 2>/dev/null) || return 0
	kill "$pid" 2>/dev/null || return 0
	local i
	for i in $(seq 50); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
	kill -9 "$pid"
}

machines_stop() {
	local at
	for at in "$machines"/*; do [ ! -d "$at" ] || machine_stop "$(basename "$at")"; done
}

# A network name space of the test's own with a tap, 10.0.2.2/24: the other end of a machine's first card.
network_make() { # NAME [multi_queue]
	ip netns add "$1" && ip -n "$1" link set lo up && ip netns exec "$1" ip tuntap add dev t0 mode tap ${2:+"$2"} &&
		ip -n "$1" address add 10.0.2.2/24 dev t0 && ip -n "$1" link set t0 up
}

network_remove() { # NAME
	ip netns del "$1" 2>/dev/null || true
}

machine_log() { # NAME
	echo "--- end of $machines/$1/console.log"
	tail -40 "$machines/$1/console.log"
}
