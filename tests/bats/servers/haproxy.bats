#!/usr/bin/env bats
# HAProxy with threads between accelerated clients and an accelerated upstream, reloaded with its listeners handed over.

load ../common

setup() {
	prepare
	need haproxy nginx python3 ss
	count_bytes
	port=$(free_port) raw=$(free_port) upstream=$(free_port)
	mkdir -p "$dir/www" "$dir/tmp"
	chmod 755 "$dir" "$dir/www" && chmod 777 "$dir/tmp"
	local size
	for size in 1 100 4000 17000 70000 300000 3000000; do head -c $size /dev/urandom >"$dir/www/$size"; done
	cat >"$dir/nginx.conf" <<END
$([ "$(id -u)" != 0 ] || echo "user root root;")
worker_processes 2;
pid $dir/nginx.pid;
error_log $dir/log warn;
daemon off;
env HASTEN_COUNTERS;
events { worker_connections 512; }
http {
	access_log off;
	sendfile on;
	keepalive_requests 1000000;
	client_body_temp_path $dir/tmp; proxy_temp_path $dir/tmp; fastcgi_temp_path $dir/tmp;
	uwsgi_temp_path $dir/tmp; scgi_temp_path $dir/tmp;
	server { listen 127.0.0.1:$upstream; root $dir/www; }
}
END
	cat >"$dir/haproxy.cfg" <<END
global
	nbthread 4
	maxconn 500
	stats socket $dir/admin mode 600 level admin expose-fd listeners
defaults
	timeout connect 10s
	timeout client 30s
	timeout server 30s
	option splice-auto
frontend web
	mode http
	bind 127.0.0.1:$port
	default_backend files
backend files
	mode http
	http-reuse always
	server a 127.0.0.1:$upstream
listen raw
	mode tcp
	bind 127.0.0.1:$raw
	server a 127.0.0.1:$upstream
END
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

traffic() { # both|server|client|neither SECONDS
	ends "$1"
	start "$server" nginx -c "$dir/nginx.conf"
	wait_port "$upstream"
	start "$server" haproxy -W -db -f "$dir/haproxy.cfg"
	haproxy=$started_pid
	wait_port "$port"
	wait_port "$raw"
	start "$client" timeout $(($2 + 60)) python3 "$BATS_TEST_DIRNAME/get.py" "$dir/www" "$2" 8 "http://127.0.0.1:$port" "http://127.0.0.1:$raw"
	asking=$started_pid
}

answered() {
	local status=0
	wait "$asking" || status=$?
	cat "$dir/log"
	figure "$(grep 'bytes compared' "$dir/log")"
	[ $status = 0 ]
}

@test "HAProxy: both ends accelerated" {
	traffic both 2
	answered
	stop_all
	by_lane both 50
}

@test "HAProxy: it and its upstream accelerated" {
	traffic server 1
	answered
	stop_all
	by_lane both 20
}

@test "HAProxy: the client accelerated" {
	traffic client 1
	answered
	stop_all
	by_lane client
}

@test "HAProxy: neither accelerated" {
	traffic neither 1
	answered
	stop_all
	by_lane neither
}

# bats test_tags=soak
@test "HAProxy: reloaded each second under load, its listeners handed over" {
	local i first
	traffic both "$(seconds 4)"
	first=$(pgrep -P "$haproxy")
	for i in $(seq "$(seconds 3)"); do
		sleep 1
		kill -USR2 "$haproxy"
	done
	answered
	none_of 'ALERT' "$dir/log"
	[ "$(pgrep -P "$haproxy" | tail -1)" != "$first" ]
	stop_all
	by_lane both 30
}
