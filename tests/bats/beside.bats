#!/usr/bin/env bats
# The library beside what else is preloaded or linked in: allocators, libfaketime, the address sanitizer, plug-ins.
# An echo program with both ends in one process, and Redis; most bytes have to travel by lane.

load common

setup() {
	prepare
	export HASTEN_PROMOTE=eager HASTEN_COUNTERS=$dir/counters
	: >"$HASTEN_COUNTERS"
	echo=$top_builddir/tests/conform/by-name
}

teardown() {
	dump_log
	stop_all
}

# Sets $beside to where the library lies.
find_library() { # NAME
	for beside in /usr/lib/*-linux-gnu/"$1" /usr/lib64/"$1" /usr/lib/"$1"; do
		[ ! -e "$beside" ] || return 0
	done
	skip "$1 is not installed"
}

# Sums of the processes that have ended: bytes by lane, by kernel.
mostly_by_lane() {
	local lane kernel
	read -r lane kernel < <(awk '{ l += $3 + $4; k += $5 + $6 } END { print l + 0, k + 0 }' "$HASTEN_COUNTERS")
	[ "$lane" -gt "$kernel" ] || { echo "$lane bytes by lane, $kernel by kernel" >&2; return 1; }
	: >"$HASTEN_COUNTERS"
}

echoes() { # PRELOAD PROGRAM...
	local preload=$1
	shift
	run timeout 20 env LD_PRELOAD="$preload" "$@"
	[ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
	[ "${lines[-1]}" = ok ]
	mostly_by_lane
}

in_both_orders() { # NAME
	find_library "$1"
	echoes "$library:$beside" "$echo"
	echoes "$beside:$library" "$echo"
}

redis_beside() { # NAME
	find_library "$1"
	need redis-server redis-benchmark redis-cli ss
	port=$(free_port)
	env LD_PRELOAD="$library:$beside" redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no \
		--dir "$dir" >>"$dir/log" 2>&1 </dev/null 3>&- &
	echo $! >>"$started"
	wait_port "$port"
	run timeout 30 env LD_PRELOAD="$library:$beside" redis-benchmark -p "$port" -q -c 10 -n 10000 -d 512 -t set,get
	[ "$status" -eq 0 ]
	none_of '[Ee]rror|reset|closed|refused' <(tr '\r' '\n' <<<"$output")
	[ "$(env LD_PRELOAD="$library:$beside" redis-cli -p "$port" dbsize)" -ge 1 ]
	env -u LD_PRELOAD redis-cli -p "$port" shutdown nosave
	wait "$(tail -1 "$started")"
	mostly_by_lane
}

@test "beside jemalloc" {
	in_both_orders libjemalloc.so.2
}

@test "beside mimalloc" {
	in_both_orders libmimalloc.so.2
}

@test "beside tcmalloc" {
	in_both_orders libtcmalloc_minimal.so.4
}

@test "beside libfaketime" {
	export FAKETIME=+3d
	in_both_orders faketime/libfaketime.so.1
	in_both_orders faketime/libfaketimeMT.so.1
}

@test "Redis beside jemalloc" {
	redis_beside libjemalloc.so.2
}

@test "Redis beside mimalloc" {
	redis_beside libmimalloc.so.2
}

@test "Redis beside tcmalloc" {
	redis_beside libtcmalloc_minimal.so.4
}

# Redis and libfaketime do not start together, with or without us: jemalloc asks for the time inside its first malloc.

compile_echo() { # OUTPUT FLAG...
	cc -O1 -g -w -D_GNU_SOURCE -pthread "${@:2}" -o "$1" "$top_srcdir/tests/conform/by-name.c" 2>"$dir/cc.log" ||
		skip "cc ${*:2} does not work here: $(tail -1 "$dir/cc.log")"
}

@test "a program with the address sanitizer inside" {
	compile_echo "$dir/echo" -fsanitize=address -static-libasan
	export ASAN_OPTIONS=detect_leaks=0
	echoes "$library" "$dir/echo"
}

@test "a program with a shared address sanitizer that is preloaded first" {
	compile_echo "$dir/echo" -fsanitize=address
	local runtime
	runtime=$(cc -print-file-name=libasan.so)
	[ -e "$runtime" ] || skip "no libasan.so"
	export ASAN_OPTIONS=detect_leaks=0
	echoes "$runtime:$library" "$dir/echo"
}

@test "a plug-in opened with RTLD_DEEPBIND, found by the RUNPATH of the program that opens it" {
	mkdir "$dir/plugins"
	cat >"$dir/plugin.c" <<'END'
#include <sys/socket.h>
#include <unistd.h>
ssize_t plugin_send(int fd, const void *p, size_t n) { return send(fd, p, n, 0); }
ssize_t plugin_read(int fd, void *p, size_t n) { return read(fd, p, n); }
END
	cat >"$dir/host.c" <<'END'
#include "conform.h"
#include <dlfcn.h>
int main(void)
{
	int c, s;
	char b[1000] = {0};
	void *h = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	CHECK(h, "%s", dlerror());
	ssize_t (*send_by)(int, const void *, size_t) = dlsym(h, "plugin_send");
	ssize_t (*read_by)(int, void *, size_t) = dlsym(h, "plugin_read");
	CHECK(send_by && read_by, "functions of the plug-in");
	pair(&c, &s);
	for (int i = 0; i < 100; i++) {
		CHECK(send_by(i & 1 ? c : s, b, sizeof(b)) == sizeof(b), "send");
		CHECK(read_by(i & 1 ? s : c, b, sizeof(b)) == sizeof(b), "read");
	}
	close(c);
	close(s);
	puts("ok");
	return 0;
}
END
	cc -shared -fPIC -o "$dir/plugins/libplugin.so" "$dir/plugin.c" 2>"$dir/cc.log" || skip "no compiler: $(tail -1 "$dir/cc.log")"
	cc -w -D_GNU_SOURCE -pthread -I"$top_srcdir/tests/conform" -Wl,-rpath,'$ORIGIN/plugins' -o "$dir/host" "$dir/host.c"
	echoes "$library" "$dir/host"
}

@test "starting a program that opens no socket makes no system call of ours" {
	need strace
	local bare ours
	printf '' >"$dir/empty.c"
	cc -shared -fPIC -o "$dir/empty.so" "$dir/empty.c" 2>"$dir/cc.log" || skip "no compiler: $(tail -1 "$dir/cc.log")"
	unset HASTEN_COUNTERS HASTEN_PROMOTE
	strace -o "$dir/bare" -E LD_PRELOAD="$dir/empty.so" true
	strace -o "$dir/ours" -E LD_PRELOAD="$library" true
	bare=$(wc -l <"$dir/bare")
	ours=$(wc -l <"$dir/ours")
	# the loader's mmap of our zeroed pages, and no more
	[ "$ours" -le $((bare + 1)) ] || { diff "$dir/bare" "$dir/ours" >&2; return 1; }
}
