#!/usr/bin/env bats
# nginx as it runs in production: reloads and new binaries under load, upstreams over TCP and unix sockets, TLS.
# Its workers are not nobody: that user is everybody whose number cannot be shown, and gets no lane (libhasten(7)).

load ../common

setup() {
	prepare
	need nginx wrk python3 openssl ss
	count_bytes
	port=$(free_port) upstream=$(free_port) secure=$(free_port)
	mkdir -p "$dir/www" "$dir/tmp"
	chmod 755 "$dir" "$dir/www" && chmod 777 "$dir/tmp"
	local size
	for size in 1 100 4000 17000 70000 300000 3000000; do head -c $size /dev/urandom >"$dir/www/$size"; done
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
		-keyout "$dir/key" -out "$dir/certificate" 2>/dev/null
	local folder=$dir
	while [ "$folder" != / ] && [ "$(id -u)" = 0 ]; do
		chmod o+x "$folder" 2>/dev/null || true
		folder=$(dirname "$folder")
	done
	configure front "
		upstream mixed { server 127.0.0.1:$upstream max_fails=0; server unix:$dir/upstream max_fails=0; keepalive 8; }
		server {
			listen 127.0.0.1:$port;
			listen 127.0.0.1:$secure ssl;
			ssl_certificate $dir/certificate;
			ssl_certificate_key $dir/key;
			root $dir/www;
			location /mixed { proxy_pass http://mixed/; proxy_http_version 1.1; proxy_set_header Connection \"\"; }
			location /whole { proxy_pass http://mixed/; proxy_buffering off; }
		}"
	configure back "
		server {
			listen 127.0.0.1:$upstream;
			listen unix:$dir/upstream;
			root $dir/www;
		}"
}

teardown() {
	dump_log
	tail -n 5 "$dir"/*.log
	local file
	for file in "$dir"/*.pid; do
		[ ! -e "$file" ] || cat "$file" >>"$started"
	done
	stop_all
	nothing_left
}

configure() { # NAME SERVERS
	cat >"$dir/$1.conf" <<END
$([ "$(id -u)" != 0 ] || echo "user www-data www-data;")
worker_processes 2;
pid $dir/$1.pid;
error_log $dir/$1.log warn;
env HASTEN_COUNTERS;
events { worker_connections 512; }
http {
	access_log off;
	sendfile on;
	keepalive_requests 1000000;
	client_body_temp_path $dir/tmp; proxy_temp_path $dir/tmp; fastcgi_temp_path $dir/tmp;
	uwsgi_temp_path $dir/tmp; scgi_temp_path $dir/tmp;
	$2
}
END
}

nginx_start() { # accelerated|plain NAME PORT
	under "$1" "$(command -v nginx)" -c "$dir/$2.conf" >>"$dir/log" 2>&1 3>&-
	wait_port "$3"
}

ask() { # accelerated|plain SECONDS URL...: sets $asking
	local how=$1 for=$2
	shift 2
	start "$how" timeout $((for + 60)) python3 "$BATS_TEST_DIRNAME/get.py" "$dir/www" "$for" 8 "$@"
	asking=$started_pid
}

answered() {
	local status=0
	wait "$asking" || status=$?
	cat "$dir/log"
	figure "$(grep 'bytes compared' "$dir/log")"
	[ $status = 0 ]
	none_of 'alert|emerg|crit' <(cat "$dir"/*.log)
}

traffic() {
	ends "$1"
	nginx_start "$server" back "$upstream"
	nginx_start "$server" front "$port"
	ask "$client" 1 "http://127.0.0.1:$port" "https://127.0.0.1:$secure" "http://127.0.0.1:$port/mixed" "https://127.0.0.1:$secure/whole"
	answered
}

# Processes that are told to go: workers end when they have answered.
ended() {
	cat "$dir"/*.pid >"$dir/masters"
	local pid
	while read -r pid; do kill -QUIT "$pid"; done <"$dir/masters"
	for _ in $(seq 100); do
		[ "$(ls "$dir" | grep -c 'pid$')" != 0 ] || return 0
		sleep 0.1
	done
	return 1
}

@test "nginx, TLS and mixed upstreams: both ends accelerated" {
	traffic both
	ended
	by_lane both 50
}

@test "nginx, TLS and mixed upstreams: the server accelerated" {
	# Its own upstream is accelerated too, and bytes between the two go by lane.
	traffic server
	ended
	by_lane both 10
}

@test "nginx, TLS and mixed upstreams: the client accelerated" {
	traffic client
	by_lane client
}

@test "nginx, TLS and mixed upstreams: neither accelerated" {
	traffic neither
	by_lane neither
}

# bats test_tags=soak
@test "nginx: reloaded each second under load" {
	local i
	nginx_start accelerated back "$upstream"
	nginx_start accelerated front "$port"
	ask accelerated "$(seconds 4)" "http://127.0.0.1:$port" "https://127.0.0.1:$secure" "http://127.0.0.1:$port/mixed" "http://127.0.0.1:$port/whole"
	start accelerated wrk -t 1 -c 8 -d "$(seconds 3)s" "http://127.0.0.1:$port/mixed/4000"
	for i in $(seq "$(seconds 3)"); do
		sleep 1
		kill -HUP "$(cat "$dir/front.pid")"
	done
	answered
	none_of 'Non-2xx' "$dir/log"
	ended
	by_lane both 30
}

# bats test_tags=soak
@test "nginx: a new binary each second under load" {
	local i old
	nginx_start accelerated back "$upstream"
	nginx_start accelerated front "$port"
	ask accelerated "$(seconds 4)" "http://127.0.0.1:$port" "https://127.0.0.1:$secure" "http://127.0.0.1:$port/mixed"
	for i in $(seq "$(seconds 3)"); do
		sleep 0.7
		old=$(cat "$dir/front.pid")
		kill -USR2 "$old"
		for _ in $(seq 100); do
			[ ! -s "$dir/front.pid.oldbin" ] || [ ! -s "$dir/front.pid" ] || break
			sleep 0.05
		done
		kill -QUIT "$old"
		for _ in $(seq 200); do
			[ -e "$dir/front.pid.oldbin" ] || break
			sleep 0.05
		done
		[ "$(cat "$dir/front.pid")" != "$old" ]
	done
	answered
	ended
	by_lane both 30
}
