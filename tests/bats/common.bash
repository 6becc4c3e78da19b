# Shared by tests/bats/servers/*.bats: real servers and clients, each accelerated or not.
#
# tests/run.sh gives them a /run, /dev/shm and process ids of their own; started by hand they use the machine's.

hasten=$top_builddir/hasten
library=$top_builddir/.libs/libhasten.so

# bats keeps descriptor 3 open for its own output: a server that inherits it would keep bats waiting.
prepare() {
	dir=$BATS_TEST_TMPDIR
	started=$dir/started
	: >"$started"
	[ -d /run/hasten ] || [ "$(id -u)" != 0 ] || mkdir -p -m 1777 /run/hasten
	for name in $(compgen -e | grep -E '^(HASTEN_|NACC_)'); do unset "$name"; done
	unset LD_PRELOAD
	[ -z "${SANITIZERS:-}" ] || skip "servers do not start behind a library that is built with sanitizers"
}

need() { # PROGRAM...
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

need_root() {
	[ "$(id -u)" = 0 ] || skip "needs root"
}

# under accelerated|plain COMMAND...: runs it so.
under() {
	local how=$1
	shift
	if [ "$how" = accelerated ]; then
		"$hasten" run "$@"
	else
		env -u LD_PRELOAD "$@"
	fi
}

# Which end is accelerated where: sets $server and $client.
ends() { # both|server|client|neither
	server=plain client=plain
	case $1 in
	both) server=accelerated client=accelerated ;;
	server) server=accelerated ;;
	client) client=accelerated ;;
	esac
}

# How long a load lasts: N seconds, or as long as tests/soak/servers says.
seconds() { # N
	echo "${SOAK_SECONDS:-$1}"
}

# From here on every process that ends by exit says in $counters what it moved.
count_bytes() {
	counters=$dir/counters
	: >"$counters"
	chmod 666 "$counters"
	export HASTEN_COUNTERS=$counters
}

# Bytes of the processes that have ended: "LANE KERNEL", both directions.
moved() {
	awk '{ lane += $(NF - 5) + $(NF - 4); kernel += $(NF - 3) + $(NF - 2) } END { printf "%d %d\n", lane, kernel }' "$counters"
}

# Both ends accelerated: at least PERCENT of the bytes went by lane. Else: not one did.
by_lane() { # both|server|client|neither PERCENT
	local lane kernel
	read -r lane kernel < <(moved)
	figure "$lane bytes by lane, $kernel by the kernel"
	if [ "$1" != both ]; then
		[ "$lane" = 0 ] || { echo "$lane bytes by lane with one end accelerated" >&2; return 1; }
	elif [ "$lane" = 0 ] || [ $((lane * 100)) -lt $(((lane + kernel) * $2)) ]; then
		echo "$lane bytes by lane, $kernel by the kernel: less than $2 %" >&2
		cat "$counters" >&2
		return 1
	fi
}

# What a load did, for tests/soak/servers.
figure() { # TEXT...
	[ -z "${SOAK_FIGURES:-}" ] || printf '%s|%s\n' "$BATS_TEST_DESCRIPTION" "$*" >>"$SOAK_FIGURES"
}

# Starts a command in the background; $started_pid is its process, which the launcher becomes.
start() { # accelerated|plain COMMAND...
	local how=$1
	shift
	if [ "$how" = accelerated ]; then
		"$hasten" run "$@" >>"$dir/log" 2>&1 </dev/null 3>&- &
	else
		env -u LD_PRELOAD "$@" >>"$dir/log" 2>&1 </dev/null 3>&- &
	fi
	started_pid=$!
	echo $started_pid >>"$started"
}

# Ends what the test started, by process id, with its children.
stop_all() {
	local pid child
	[ -f "${started:-}" ] || return 0
	while read -r pid; do
		for child in $(pgrep -P "$pid") "$pid"; do kill "$child" 2>/dev/null || :; done
	done <"$started"
	while read -r pid; do
		for _ in $(seq 100); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.05
		done
		for child in $(pgrep -P "$pid") "$pid"; do kill -9 "$child" 2>/dev/null || :; done
		wait "$pid" 2>/dev/null || :
	done <"$started"
	: >"$started"
	return 0
}

# bats does not see a failing "! command".
none_of() { # PATTERN FILE
	if grep -E "$1" "$2" >&2; then
		return 1
	fi
}

free_port() {
	local port
	for _ in $(seq 50); do
		port=$((10000 + RANDOM % 12000)) # with 10000 more, Redis cluster's own, below the range of the kernel
		if ! ss -Htln "sport = :$port" | grep -q . && ! ss -Htln "sport = :$((port + 10000))" | grep -q .; then
			echo $port
			return
		fi
	done
	echo "no free port found" >&2
	return 1
}

wait_port() { # PORT
	for _ in $(seq 200); do
		! ss -Htln "sport = :$1" | grep -q . || return 0
		sleep 0.05
	done
	echo "nothing listens on port $1; the log says:" >&2
	tail -5 "$dir/log" >&2
	return 1
}

# Shows the end of the log where a test fails.
dump_log() {
	[ ! -s "${dir:-/nonexistent}/log" ] || { echo "log:"; tail -15 "$dir/log"; }
}

# Connections of a process on a lane now, as the monitor counts them.
on_lane() { # PID
	"$hasten" ss --json | jq "[.processes[] | select(.pid == $1) | .connections_on_lane] | add // 0"
}

# The reason names of a process's connections, each once.
reasons() { # PID
	"$hasten" ss --json -s sock -p "$1" | jq -r '.processes[].sock.connections[] | .tx.reason_name, .rx.reason_name' | sort -u
}

# State files of dead processes go by "hasten ss -c", and nothing else stays.
nothing_left() {
	"$hasten" ss -c >/dev/null
	local file pid
	for file in /run/hasten/proc-* /dev/shm/hasten-*/proc-*; do
		[ -e "$file" ] || continue
		pid=${file##*-}
		[ -d "/proc/$pid" ] || { echo "$file of a dead process stayed" >&2; return 1; }
	done
}

redis_start() { # accelerated|plain PORT [OPTION...]
	local how=$1 port=$2
	shift 2
	mkdir -p "$dir/redis-$port"
	start "$how" redis-server --port "$port" --bind 127.0.0.1 --dir "$dir/redis-$port" --save '' --appendonly no \
		--daemonize no --enable-debug-command yes --repl-diskless-sync-delay 0 "$@"
	wait_port "$port"
}

# Commands that write and their known answers, 300 keys of different sizes over one connection.
redis_fill() { # accelerated|plain PORT
	local i
	for i in $(seq 300); do
		printf 'SET key:%d %0*d\n' "$i" $((i * i % 9000 + 1)) "$i"
	done >"$dir/fill"
	[ "$(under "$1" redis-cli -p "$2" <"$dir/fill" | sort | uniq -c | tr -s ' ')" = " 300 OK" ]
}

redis_verify() { # accelerated|plain PORT
	local i
	for i in $(seq 300); do echo "GET key:$i"; done >"$dir/ask"
	for i in $(seq 300); do printf '%0*d\n' $((i * i % 9000 + 1)) "$i"; done >"$dir/want"
	under "$1" redis-cli -p "$2" <"$dir/ask" >"$dir/got"
	cmp "$dir/want" "$dir/got"
}

redis_load() { # accelerated|plain PORT ARGUMENT...: redis-benchmark, which must not report an error
	local how=$1 port=$2
	shift 2
	under "$how" timeout 60 redis-benchmark -p "$port" -q -d 512 -r 10000 "$@" >"$dir/benchmark" 2>&1 || {
		cat "$dir/benchmark" >&2
		return 1
	}
	none_of '[Ee]rror|reset|closed|refused' <(tr '\r' '\n' <"$dir/benchmark")
}
