#!/usr/bin/env bats
# PostgreSQL with pgbench. The server refuses root, so it and its client run as nobody.

load ../common

setup_file() {
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
	export bin
	[ -n "$bin" ] || return 0
	export PGDATA=$BATS_FILE_TMPDIR/data
	mkdir "$PGDATA"
	if [ "$(id -u)" = 0 ]; then
		chown nobody "$PGDATA"
		local folder=$PGDATA
		while [ "$folder" != / ]; do
			chmod o+x "$folder"
			folder=$(dirname "$folder")
		done
	fi
	as_nobody "$bin/initdb" -D "$PGDATA" -U bench -A trust --no-sync >"$BATS_FILE_TMPDIR/initdb" 2>&1 || {
		cat "$BATS_FILE_TMPDIR/initdb" >&2
		return 1
	}
}

as_nobody() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/ "$@"
	else
		"$@"
	fi
}

setup() {
	prepare
	[ -n "$bin" ] || skip "PostgreSQL is not installed"
	need setpriv ss
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

traffic() {
	ends "$1"
	local -a before_server before_client
	read -ra before_server <<<"$(launch "$server")"
	read -ra before_client <<<"$(launch "$client")"
	as_nobody "${before_server[@]}" "$bin/postgres" -D "$PGDATA" -p "$port" -k "" -h 127.0.0.1 -F >>"$dir/log" 2>&1 </dev/null 3>&- &
	echo $! >>"$started"
	wait_port "$port"
	for _ in $(seq 100); do
		"$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break
		sleep 0.1
	done
	export PGHOST=127.0.0.1 PGPORT=$port PGUSER=bench PGDATABASE=postgres
	as_nobody "${before_client[@]}" "$bin/pgbench" -i -s 1 -q
	run as_nobody "${before_client[@]}" timeout 60 "$bin/pgbench" -c 4 -j 2 -t 150
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"number of transactions actually processed: 600/600"* ]]
	[[ $output != *"number of failed transactions: "[1-9]* ]]
	# What went in comes out: 20 MB in one answer.
	[ "$(as_nobody "${before_client[@]}" "$bin/psql" -Atc "select string_agg(md5(i::text), '') from generate_series(1, 600000) i" | md5sum)" = \
		"$(as_nobody "$bin/psql" -Atc "select string_agg(md5(i::text), '') from generate_series(1, 600000) i" | md5sum)" ]
	[ "$(as_nobody "${before_client[@]}" "$bin/psql" -Atc 'select sum(tbalance) = (select sum(bbalance) from pgbench_branches) from pgbench_tellers')" = t ]
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
