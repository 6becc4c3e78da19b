#!/usr/bin/env bats
# MariaDB: a thread a connection and its pool of threads, statements killed, answers and loads of megabytes compared.

load ../common

setup() {
	prepare
	need mariadbd mariadb mariadb-install-db ss
	count_bytes
	port=$(free_port)
	user=()
	if [ "$(id -u)" = 0 ]; then user=(--user=root); fi
	mariadb-install-db --no-defaults "${user[@]}" --datadir="$dir/data" --auth-root-authentication-method=normal --skip-test-db \
		--innodb-log-file-size=8M >"$dir/install" 2>&1 || { cat "$dir/install"; return 1; }
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

serve() { # both|server|client|neither [OPTION...]
	ends "$1"
	shift
	start "$server" "$(command -v mariadbd)" --no-defaults "${user[@]}" --datadir="$dir/data" --bind-address=127.0.0.1 --port="$port" \
		--socket="$dir/socket" --pid-file="$dir/pid" --innodb-log-file-size=8M --innodb-buffer-pool-size=32M --max-allowed-packet=64M "$@"
	wait_port "$port"
	for _ in $(seq 100); do
		! sql -e 'select 1' >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	return 1
}

sql() { # ARGUMENT...
	under "$client" timeout $(($(seconds 30) + 30)) mariadb --no-defaults --protocol=tcp -h 127.0.0.1 -P "$port" -u root -N -B --local-infile=1 \
		--max-allowed-packet=64M "$@"
}

worker() { # NUMBER SECONDS
	local i=0 until=$((SECONDS + $2))
	while [ $SECONDS -lt $until ]; do
		i=$((i + 1))
		{
			for k in $(seq 200); do echo "insert into t.w values ($1, $((i * 200 + k)), repeat('w$1-$k.', $((k * 17 % 300)))); select length(x) from t.w where a = $1 and b = $((i * 200 + k));"; done
		} >"$dir/statements-$1"
		sql <"$dir/statements-$1" >"$dir/answers-$1" || return 1
		for k in $(seq 200); do s=w$1-$k.; echo $((${#s} * (k * 17 % 300))); done | cmp - "$dir/answers-$1" || return 1
	done
	echo $((i * 200)) >"$dir/inserted-$1"
}

traffic() { # both|server|client|neither [OPTION...]
	serve "$@"
	sql -e 'create database t; create table t.rows (i int primary key, t text, n int); create table t.w (a int, b int, x text, primary key (a, b))'
	# A load from the client's file, and all of it back.
	awk 'BEGIN { for (i = 0; i < 50000; i++) { s = ""; for (k = 0; k < i % 11; k++) s = s "word" i "x" k; print i "\t" s "\t" i * 7919 % 1000003 } }' >"$dir/rows"
	sql -e "load data local infile '$dir/rows' into table t.rows"
	sql -e 'select i, t, n from t.rows order by i' | cmp - "$dir/rows"
	[ "$(sql -e 'select md5(group_concat(i, t order by i separator "")) from t.rows' --init-command='set group_concat_max_len = 100000000')" = \
		"$(cut -f1,2 "$dir/rows" | tr -d '\t\n' | md5sum | cut -d' ' -f1)" ]
	# One value of 16 MB.
	[ "$(sql -r -e "select repeat('0123456789abcdef', 1000000)" | md5sum)" = "$({ printf '0123456789abcdef%.0s' $(seq 1000000); echo; } | md5sum)" ]
	local i status=0 workers=() killed
	for i in 1 2 3 4; do
		worker "$i" "$(seconds 1)" &
		workers+=($!)
	done
	# A statement and a connection are killed meanwhile.
	for killed in "query" "connection"; do
		status=0
		sql -e "select sleep(50) /* $killed */" >"$dir/sleep" 2>&1 &
		local sleeper=$! id=
		for _ in $(seq 100); do
			id=$(sql -e "select id from information_schema.processlist where info like 'select sleep%' limit 1")
			[ -z "$id" ] || break
			sleep 0.05
		done
		sql -e "kill $killed $id"
		wait $sleeper || status=$?
		cat "$dir/sleep"
		[ "$(cat "$dir/sleep")" = 1 ] || grep -qE 'ERROR (2013|1317)' "$dir/sleep"
	done
	for i in "${workers[@]}"; do wait "$i"; done
	[ "$(sql -e 'select count(*) from t.w')" = "$(cat "$dir"/inserted-* | awk '{ n += $1 } END { print n }')" ]
	figure "$(cat "$dir"/inserted-* | awk '{ n += $1 } END { print n }') rows inserted and read back by four"
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "MariaDB: both ends accelerated" {
	traffic both
}

# bats test_tags=soak
@test "MariaDB with a pool of threads: both ends accelerated" {
	traffic both --thread-handling=pool-of-threads --thread-pool-size=2
}

@test "MariaDB: the server accelerated" {
	traffic server
}

@test "MariaDB: the client accelerated" {
	traffic client
}
