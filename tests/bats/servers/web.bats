#!/usr/bin/env bats
# nginx with wrk and curl.

load ../common

setup() {
	prepare
	need nginx wrk curl ss
	# Not nobody: that user is everybody whose number cannot be shown, and gets no lane (libhasten(7)).
	port=$(free_port)
	mkdir -p "$dir/www" "$dir/tmp"
	chmod 755 "$dir" "$dir/www" && chmod 777 "$dir/tmp"
	head -c 10000000 /dev/urandom >"$dir/www/large"
	printf 'small\n' >"$dir/www/small"
	cat >"$dir/nginx.conf" <<END
$([ "$(id -u)" != 0 ] || echo "user www-data www-data;")
worker_processes 2;
pid $dir/nginx.pid;
error_log $dir/log warn;
daemon off;
events { worker_connections 512; }
http {
	access_log off;
	sendfile on;
	keepalive_requests 1000000;
	client_body_temp_path $dir/tmp; proxy_temp_path $dir/tmp; fastcgi_temp_path $dir/tmp;
	uwsgi_temp_path $dir/tmp; scgi_temp_path $dir/tmp;
	client_max_body_size 50m;
	server {
		listen 127.0.0.1:$port;
		root $dir/www;
		location /mirror { proxy_pass http://127.0.0.1:$port/; }
	}
}
END
	# The folder above the test's own must be passable for the workers' user.
	local folder=$dir
	while [ "$folder" != / ] && [ "$(id -u)" = 0 ]; do
		chmod o+x "$folder" 2>/dev/null || true
		folder=$(dirname "$folder")
	done
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

traffic() {
	ends "$1"
	start "$server" nginx -c "$dir/nginx.conf"
	wait_port "$port"
	local i
	for i in 1 2 3; do
		under "$client" curl -sS --max-time 20 "http://127.0.0.1:$port/large" | cmp - "$dir/www/large"
	done
	# Many requests over one connection.
	printf "url = http://127.0.0.1:$port/small\noutput = -\n%.0s" $(seq 200) >"$dir/urls"
	[ "$(under "$client" curl -sS --max-time 20 -K "$dir/urls" | sort | uniq -c | tr -s ' ')" = " 200 small" ]
	# nginx as its own upstream: client and server in one process.
	under "$client" curl -sS --max-time 20 "http://127.0.0.1:$port/mirror/large" | cmp - "$dir/www/large"
	under "$client" wrk -t 2 -c 20 -d 2s --latency "http://127.0.0.1:$port/small" >"$dir/wrk" 2>&1
	cat "$dir/wrk"
	none_of 'Socket errors|Non-2xx' "$dir/wrk"
	[ "$(sed -nE 's/^ *([0-9]+) requests in.*/\1/p' "$dir/wrk")" -gt 1000 ]
	under "$client" wrk -t 1 -c 10 -d 1s -H 'Connection: close' "http://127.0.0.1:$port/small" >"$dir/wrk" 2>&1
	cat "$dir/wrk"
	none_of 'Non-2xx' "$dir/wrk"
}

@test "nginx, wrk and curl: both ends accelerated" {
	traffic both
}

@test "nginx, wrk and curl: the server accelerated" {
	traffic server
}

@test "nginx, wrk and curl: the client accelerated" {
	traffic client
}

@test "nginx, wrk and curl: neither accelerated" {
	traffic neither
}

@test "nginx: workers replaced under load lose no request" {
	start accelerated nginx -c "$dir/nginx.conf"
	local nginx=$started_pid
	wait_port "$port"
	start accelerated wrk -t 1 -c 8 -d 3s "http://127.0.0.1:$port/small"
	local wrk=$started_pid i
	for i in 1 2 3; do
		sleep 0.7
		kill -HUP "$nginx"
	done
	wait "$wrk"
	none_of 'Non-2xx' "$dir/log"
	under accelerated curl -sS --max-time 20 "http://127.0.0.1:$port/large" | cmp - "$dir/www/large"
}
