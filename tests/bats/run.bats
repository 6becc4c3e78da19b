#!/usr/bin/env bats
# hasten run: options, what is handed on, exit statuses, programs that cannot be accelerated.

setup() {
	hasten=$top_builddir/hasten
	library=$top_builddir/.libs/libhasten.so
	dir=$BATS_TEST_TMPDIR
	mkdir -p "$dir/etc/hasten"
	export HASTEN_CONF_DIR=$dir/etc
	# A build with sanitizers also checks the programs that it is loaded into: their leaks are not ours.
	[ -z "${SANITIZERS:-}" ] || export ASAN_OPTIONS=detect_leaks=0
	for name in $(compgen -e | grep -E '^(HASTEN_RUN_|NACC_)'); do unset "$name"; done
	unset HASTEN_PROMOTE LD_PRELOAD
}

setting() { # NAME: its value and place as --explain shows them, of "${args[@]}"
	"$hasten" run "${args[@]}" --explain true | awk -v name="$1" '$1 == name { $1 = ""; print substr($0, 2) }'
}

compile() { # OUTPUT FLAG...: a program that prints "ran"
	printf '#include <stdio.h>\nint main(void) { puts("ran"); return 0; }\n' >"$dir/p.c"
	cc "${@:2}" -o "$1" "$dir/p.c" 2>"$dir/cc.log" || skip "cc ${*:2} does not work here: $(tail -1 "$dir/cc.log")"
}

@test "the exit status is that of the command" {
	run "$hasten" run sh -c 'exit 7'
	[ "$status" -eq 7 ]
	run "$hasten" run true
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "a signal ends the launcher as it ends the command" {
	run "$hasten" run sh -c 'kill -TERM $$'
	[ "$status" -eq 143 ]
}

@test "the command has the launcher's process id" {
	"$hasten" run sh -c 'echo $$' >"$dir/pid" &
	pid=$!
	wait "$pid"
	[ "$(cat "$dir/pid")" = "$pid" ]
}

@test "options behind the command are the command's" {
	run "$hasten" run -d echo -t 9 --strict -x
	[ "$status" -eq 0 ]
	[ "$output" = "-t 9 --strict -x" ]
	run "$hasten" run -- echo a
	[ "$output" = a ]
}

@test "the library is put before what LD_PRELOAD had, once" {
	run "$hasten" run sh -c 'echo "$LD_PRELOAD"'
	[[ $output == *"$library" ]]
	# Built with sanitizers the launcher itself insists on the runtime.
	runtime=$(ldd "$hasten" | awk '$1 ~ /^lib[at]san/ { print $1 ":" }')
	run env LD_PRELOAD="${runtime}libc.so.6" "$hasten" run sh -c 'echo "$LD_PRELOAD"'
	[[ $output == *"$library:libc.so.6" ]]
	run "$hasten" run "$hasten" run sh -c 'echo "$LD_PRELOAD" | tr : "\n" | grep -c hasten.so'
	[ "$output" = 1 ]
}

@test "127 not found, 126 not to be run" {
	run "$hasten" run "$dir/none"
	[ "$status" -eq 127 ]
	[[ $output == *"$dir/none: no such command"* ]]
	PATH=/usr/bin:/bin run "$hasten" run no-such-command-anywhere
	[ "$status" -eq 127 ]
	echo text >"$dir/text"
	run "$hasten" run "$dir/text"
	[ "$status" -eq 126 ]
	run "$hasten" run "$dir"
	[ "$status" -eq 126 ]
	printf '\0\1\2' >"$dir/binary"
	chmod +x "$dir/binary"
	run env "$dir/binary"
	expected=$status
	run "$hasten" run "$dir/binary"
	[ "$status" -eq "$expected" ]
	[[ $output == *"$dir/binary: neither an ELF program nor a script"* ]]
}

@test "64 wrong usage" {
	run "$hasten" run
	[ "$status" -eq 64 ]
	run "$hasten" run --no-such-option true
	[ "$status" -eq 64 ]
	[[ $output == *--no-such-option* ]]
	run "$hasten" run -t
	[ "$status" -eq 64 ]
	[[ $output == *"value is missing"* ]]
	run "$hasten" run -f "$dir/none" true
	[ "$status" -eq 64 ]
	[[ $output == *"$dir/none"* ]]
}

@test "every option of netacc_run is taken, with its long name too" {
	args=(-p 2 -t 3 -s 32768 -F 50 -d -T -P 10 -A 1-3 -i 4)
	[ "$(setting conn_per_qp)" = "2 hasten run" ]
	[ "$(setting io_threads)" = "3 hasten run" ]
	[ "$(setting msg_size)" = "32768 hasten run" ]
	[ "$(setting fast_connect)" = "50 hasten run" ]
	[ "$(setting debug)" = "1 hasten run" ]
	[ "$(setting tcp_first)" = "1 hasten run" ]
	[ "$(setting poll_ms)" = "10 hasten run" ]
	[ "$(setting affinity)" = "1-3 hasten run" ]
	[ "$(setting comp_vector)" = "4 hasten run" ]
	args=(--conn-per-qp=5 --tcp-first=0 --promote=eager --spin-us 0)
	[ "$(setting conn_per_qp)" = "5 hasten run" ]
	[ "$(setting tcp_first)" = "0 hasten run" ]
	[ "$(setting promote)" = "eager hasten run" ]
	[ "$(setting spin_us)" = "0 hasten run" ]
}

@test "an option that is not given changes nothing" {
	args=()
	[ "$(setting io_threads)" = "4 built-in" ]
	printf '[netacc]\nNACC_SOR_IO_THREADS=1\n' >"$dir/etc/netacc.conf"
	[ "$(setting io_threads)" = "1 $dir/etc/netacc.conf:2" ]
	export NACC_SOR_IO_THREADS=6
	[ "$(setting io_threads)" = "6 environment NACC_SOR_IO_THREADS" ]
	export HASTEN_IO_THREADS=7
	[ "$(setting io_threads)" = "7 environment HASTEN_IO_THREADS" ]
	args=(-t 8)
	[ "$(setting io_threads)" = "8 hasten run" ]
}

@test "-f takes the place of the standard files, in either style" {
	echo 'spin_us = 11' >"$dir/etc/hasten/hasten.conf"
	printf '[netacc]\nNACC_SOR_IO_THREADS = 9\n' >"$dir/own.conf"
	args=(-f "$dir/own.conf")
	[ "$(setting io_threads)" = "9 $dir/own.conf:2" ]
	[ "$(setting spin_us)" = "50 built-in" ]
	echo 'spin_us = 12' >"$dir/own.conf"
	cd "$dir"
	args=(-f own.conf)
	[ "$(setting spin_us)" = "12 $dir/own.conf:1" ]
	run "$hasten" run -f own.conf sh -c 'echo "$HASTEN_RUN_FILE"'
	[ "$output" = "$dir/own.conf" ]
}

@test "a wrong value starts nothing and is named with the allowed range" {
	run "$hasten" run -t 65 sh -c "touch $dir/started"
	[ "$status" -eq 64 ]
	[[ $output == *"option -t: io_threads = 65: "*"allowed is 1 to 64"* ]]
	run "$hasten" run --promote=sometimes true
	[ "$status" -eq 64 ]
	[[ $output == *"--promote"*"auto, eager or off"* ]]
	HASTEN_SPIN_US=-1 run "$hasten" run sh -c "touch $dir/started"
	[ "$status" -eq 125 ]
	[[ $output == *"environment HASTEN_SPIN_US"*"-1"*"0 to 1000000"* ]]
	printf '[netacc]\n# percent\nNACC_CONNECT_RDMA_PERCENT=150\n' >"$dir/etc/netacc.conf"
	run "$hasten" run sh -c "touch $dir/started"
	[ "$status" -eq 125 ]
	[[ $output == *"$dir/etc/netacc.conf:3: NACC_CONNECT_RDMA_PERCENT = 150: "*"allowed is 0 to 100"* ]]
	[[ $output != *using* ]]
	[ ! -e "$dir/started" ]
}

@test "sizes that do not fit together are refused" {
	run "$hasten" run -s 32768 --mr-min-inc=49152 true
	[ "$status" -eq 64 ]
	[[ $output == *"mr_min_inc = 49152"*"msg_size (32768) times a power of two"* ]]
	run "$hasten" run -s 32768 true
	[ "$status" -eq 0 ]
}

@test "--explain says what would be done and does not do it" {
	run "$hasten" run --explain sh -c "touch $dir/started"
	[ "$status" -eq 0 ]
	[[ $output == *"accelerated  yes"* ]]
	[[ $output == *"library      $library"* ]]
	[ ! -e "$dir/started" ]
}

@test "a static program is named and run unaccelerated, with --strict not run" {
	compile "$dir/p" -static
	run "$hasten" run "$dir/p"
	[ "$status" -eq 0 ]
	[[ $output == *"$dir/p: statically linked"*"unaccelerated"*ran ]]
	run "$hasten" run --strict "$dir/p"
	[ "$status" -eq 125 ]
	[[ $output == *"statically linked"* && $output != *ran ]]
	run "$hasten" run --explain "$dir/p"
	[ "$status" -eq 0 ]
	[[ $output == *"accelerated  no"*"reason       static: "* ]]
	run "$hasten" run --strict --explain "$dir/p"
	[ "$status" -eq 125 ]
}

@test "a static interpreter is found behind its script" {
	compile "$dir/p" -static
	printf '#!%s\n' "$dir/p" >"$dir/script"
	chmod +x "$dir/script"
	run "$hasten" run "$dir/script"
	[ "$status" -eq 0 ]
	[[ $output == *"$dir/p: statically linked"*ran ]]
}

@test "a program with a shared sanitizer runtime is named and still starts" {
	[ -z "${SANITIZERS:-}" ] || skip "this build brings the runtime itself"
	compile "$dir/p" -fsanitize=address
	ldd "$dir/p" | grep -q libasan || skip "cc links its sanitizer statically"
	run "$hasten" run "$dir/p"
	[ "$status" -eq 0 ]
	[[ $output == *"libasan.so"*ran ]]
}

@test "a set-user-id program is named and not preloaded" {
	compile "$dir/p"
	chmod u+s "$dir/p"
	run "$hasten" run "$dir/p"
	[ "$status" -eq 0 ]
	[[ $output == *"set-user-id"*"mode 4755"*ran ]]
}

@test "acceleration switched off by a file is named with its place" {
	echo 'enable = 0' >"$dir/etc/hasten/hasten.conf"
	run "$hasten" run sh -c 'echo "preload:$LD_PRELOAD"'
	[ "$status" -eq 0 ]
	[[ $output == *"$dir/etc/hasten/hasten.conf:1"*"preload:" ]]
	run "$hasten" run --enable sh -c 'echo "$LD_PRELOAD"'
	[[ $output == *"$library" ]]
}

@test "root's first run makes /run/hasten for everybody" {
	unshare -m mount -t tmpfs none /run 2>"$dir/err" || skip "no mount namespace here: $(cat "$dir/err")"
	run unshare -m sh -c "umask 077; mount -t tmpfs none /run && '$hasten' run true && stat -c '%a %u' /run/hasten"
	[ "$status" -eq 0 ]
	[ "$output" = "1777 0" ]
}

@test "netacc_run is the same program" {
	ln -s "$hasten" "$dir/netacc_run"
	run "$dir/netacc_run" -t 2 sh -c 'echo "$HASTEN_RUN_IO_THREADS"'
	[ "$output" = 2 ]
	run "$dir/netacc_run" -t none true
	[ "$status" -eq 64 ]
	[[ $output == "netacc_run: option -t: "* ]]
	run "$dir/netacc_run" -v
	[[ $output == "netacc_run "* ]]
	run "$dir/netacc_run" -h
	[ "$status" -eq 0 ]
	[[ $output == "Usage: netacc_run "* ]]
}

@test "help shows every row with its default" {
	run "$hasten" run --help
	[ "$status" -eq 0 ]
	while IFS= read -r row; do
		key=$(sed -E 's/^OPT\([a-z_]+, *[A-Z_]+, *"([a-z_]+)".*/\1/' <<<"$row")
		[[ $output == *"--${key//_/-}"* ]]
	done < <(grep '^OPT(' "$top_srcdir/common/options.def")
}
