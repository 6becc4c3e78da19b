#!/usr/bin/env bats
# PostgreSQL with pgbench. The server refuses root, so it and its clients run as postgres (not as nobody, who gets no lane).

load ../common

setup_file() {
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
	export bin
	[ -n "$bin" ] || return 0
	export PGDATA=$BATS_FILE_TMPDIR/data
	mkdir "$PGDATA"
	if [ "$(id -u)" = 0 ]; then
		chown postgres "$PGDATA"
		local folder=$PGDATA
		while [ "$folder" != / ]; do
			chmod o+x "$folder"
			folder=$(dirname "$folder")
		done
	fi
	as_user "$bin/initdb" -D "$PGDATA" -U bench -A trust --no-sync >"$BATS_FILE_TMPDIR/initdb" 2>&1 || {
		cat "$BATS_FILE_TMPDIR/initdb" >&2
		return 1
	}
}

as_user() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid postgres --regid postgres --clear-groups env HOME=/ "$@"
	else
		"$@"
	fi
}

setup() {
	prepare
	[ -n "$bin" ] || skip "PostgreSQL is not installed"
	need setpriv ss
	count_bytes
	port=$(free_port)
	chmod o+x "$dir"
	touch "$dir/log"
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

launch() { # accelerated|plain: what stands before a command
	[ "$1" != accelerated ] || echo "$hasten run"
}

serve() { # both|server|client|neither [OPTION...]
	ends "$1"
	shift
	local -a before_server
	read -ra before_server <<<"$(launch "$server")"
	read -ra before_client <<<"$(launch "$client")"
	as_user "${before_server[@]}" "$bin/postgres" -D "$PGDATA" -p "$port" -k "" -h 127.0.0.1 -F "$@" >>"$dir/log" 2>&1 </dev/null 3>&- &
	echo $! >>"$started"
	wait_port "$port"
	for _ in $(seq 100); do
		"$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break
		sleep 0.1
	done
	export PGHOST=127.0.0.1 PGPORT=$port PGUSER=bench PGDATABASE=postgres
}

sql() { # ARGUMENT...
	as_user "${before_client[@]}" timeout $(($(seconds 30) + 30)) "$bin/psql" -X -At "$@"
}

traffic() {
	serve "$1"
	as_user "${before_client[@]}" "$bin/pgbench" -i -s 1 -q
	run as_user "${before_client[@]}" timeout 60 "$bin/pgbench" -c 4 -j 2 -t 150
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"number of transactions actually processed: 600/600"* ]]
	[[ $output != *"number of failed transactions: "[1-9]* ]]
	# What went in comes out: 20 MB in one answer.
	[ "$(as_user "${before_client[@]}" "$bin/psql" -Atc "select string_agg(md5(i::text), '') from generate_series(1, 600000) i" | md5sum)" = \
		"$(as_user "$bin/psql" -Atc "select string_agg(md5(i::text), '') from generate_series(1, 600000) i" | md5sum)" ]
	[ "$(as_user "${before_client[@]}" "$bin/psql" -Atc 'select sum(tbalance) = (select sum(bbalance) from pgbench_branches) from pgbench_tellers')" = t ]
	stop_all
	by_lane "$1" 50
}

# 20 MB in, out and compared, with answers of parallel workers between.
copying() {
	serve "$1" -c max_wal_size=100MB
	awk 'BEGIN { for (i = 0; i < 200000; i++) { s = ""; for (k = 0; k < i % 11; k++) s = s "word" i "x" k; print i "\t" s "\t" i * 7919 % 1000003 } }' >"$dir/rows"
	sql -c 'drop table if exists rows' -c 'create table rows (i int, t text, n int)'
	local until=$((SECONDS + $(seconds 1))) times=0
	while [ $times = 0 ] || [ $SECONDS -lt $until ]; do
		sql -c 'truncate rows' -c '\copy rows from pstdin' <"$dir/rows" | grep -qx 'COPY 200000'
		sql -c '\copy (select * from rows order by i) to pstdout' | cmp - "$dir/rows"
		sql -c 'copy rows to stdout' | sort -n | cmp - "$dir/rows"
		[ "$(sql -c 'set max_parallel_workers_per_gather = 4; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0' \
			-c 'select count(*), sum(n), sum(length(t)) from rows' | tail -1)" = "$(awk -F'\t' '{ n += $3; l += length($2) } END { printf "%d|%d|%d", NR, n, l }' "$dir/rows")" ]
		times=$((times + 1))
	done
	figure "$times times $(stat -c %s "$dir/rows") bytes in, and out twice"
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "PostgreSQL: COPY both ways and parallel workers, both ends accelerated" {
	copying both
}

@test "PostgreSQL: COPY both ways and parallel workers, the server accelerated" {
	copying server
}

@test "PostgreSQL: COPY both ways and parallel workers, the client accelerated" {
	copying client
}

# Waits until the server runs a statement that begins so; prints its process.
running() { # TEXT
	local pid
	for _ in $(seq 100); do
		pid=$(sql -c "select pid from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and query like '$1%' limit 1")
		[ -z "$pid" ] || { echo "$pid"; return; }
		sleep 0.05
	done
	return 1
}

@test "PostgreSQL: statements cancelled and connections terminated end as over TCP" {
	local how pid asking status
	for how in neither both; do
		serve $how
		: >"$dir/ends-$how"
		for what in cancel terminate interrupt; do
			# Some bytes first, so that the connection is on its lane.
			as_user "${before_client[@]}" timeout 60 "$bin/psql" -X -At -c 'select 1' -c 'select 2' -c 'select 3' -c "select repeat('x', 100000)" \
				-c "select pg_sleep(50), '$what'" -c 'select 4' >"$dir/said" 2>&1 </dev/null 3>&- &
			asking=$!
			pid=$(running 'select pg_sleep')
			case $what in
			cancel) [ "$(sql -c "select pg_cancel_backend($pid)")" = t ] ;;
			terminate) [ "$(sql -c "select pg_terminate_backend($pid)")" = t ] ;;
			interrupt) # psql, behind those that started it, asks for it by a connection of its own
				pid=$asking
				while pgrep -P "$pid" >/dev/null; do pid=$(pgrep -P "$pid"); done
				kill -INT "$pid"
				;;
			esac
			status=0
			wait $asking || status=$?
			{ echo "$what: $status"; md5sum <"$dir/said"; } >>"$dir/ends-$how"
			cat "$dir/said" | cut -c1-200
		done
		stop_all
		by_lane $how 30
	done
	diff "$dir/ends-neither" "$dir/ends-both"
}

# bats test_tags=soak
@test "PostgreSQL: pgbench while its connections are terminated" {
	serve both
	as_user "${before_client[@]}" "$bin/pgbench" -i -s 1 -q
	as_user "${before_client[@]}" timeout $(($(seconds 3) + 60)) "$bin/pgbench" -n -c 8 -j 4 -T "$(seconds 3)" >"$dir/bench" 2>&1 </dev/null 3>&- &
	local bench=$! status=0
	while kill -0 $bench 2>/dev/null; do
		# Connections of others beside it, each ended in the middle of a long answer.
		sql -c "select repeat('y', 1000) from generate_series(1, 3000000)" >/dev/null 2>&1 &
		sleep 0.3
		sql -c "select count(pg_terminate_backend(pid)) from pg_stat_activity where query like 'select repeat%' and pid <> pg_backend_pid()" >>"$dir/terminated"
		wait $! || :
	done
	wait $bench || status=$?
	cat "$dir/bench"
	[ $status = 0 ]
	grep -q 'number of failed transactions: 0' "$dir/bench"
	[ "$(awk '{ n += $1 } END { print n }' "$dir/terminated")" -ge 1 ]
	figure "$(sed -n 's/^number of transactions actually processed: //p' "$dir/bench") transactions, $(awk '{ n += $1 } END { print n }' "$dir/terminated") connections terminated"
	[ "$(sql -c 'select sum(tbalance) = (select sum(bbalance) from pgbench_branches) from pgbench_tellers')" = t ]
	stop_all
	by_lane both 50
}

@test "PostgreSQL: both ends accelerated" {
	traffic both
}

@test "PostgreSQL: the server accelerated" {
	traffic server
}

@test "PostgreSQL: the client accelerated" {
	traffic client
}

@test "PostgreSQL: neither accelerated" {
	traffic neither
}
