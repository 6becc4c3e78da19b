#!/usr/bin/env bats
# memcached and a client that checks every value.

load ../common

setup() {
	prepare
	need memcached python3 ss
	count_bytes
	port=$(free_port)
	cat >"$dir/client.py" <<'END'
import socket, sys, threading

def value(i):
    return (b'%d:' % i) * (1 + i * 37 % 4000)

def work(base):
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 20)
    f = s.makefile('rb')
    for i in range(base, base + 300):
        v = value(i)
        s.sendall(b'set k%d 0 0 %d\r\n%s\r\n' % (i, len(v), v))
        assert f.readline() == b'STORED\r\n', i
    for i in range(base, base + 300):
        s.sendall(b'get k%d\r\n' % i)
        head = f.readline().split()
        assert head[:2] == [b'VALUE', b'k%d' % i], head
        assert f.read(int(head[3]) + 2) == value(i) + b'\r\n', i
        assert f.readline() == b'END\r\n'
    s.sendall(b''.join(b'get k%d\r\n' % i for i in range(base, base + 300)))
    for i in range(base, base + 300):
        f.readline()
        assert f.read(len(value(i)) + 2) == value(i) + b'\r\n', i
        f.readline()
    s.sendall(b'quit\r\n')
    assert f.read() == b''
    done.append(base)

done = []
threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(done), 'clients done')
END
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

traffic() {
	ends "$1"
	local -a user=()
	[ "$(id -u)" != 0 ] || user=(-u root)
	start "$server" memcached -l 127.0.0.1 -p "$port" -U 0 -t 4 -m 64 "${user[@]}"
	wait_port "$port"
	run under "$client" timeout 60 python3 "$dir/client.py" "$port"
	echo "$output"
	[ "$output" = "4 clients done" ]
	stop_all
	by_lane "$1" 60
}

@test "memcached: both ends accelerated" {
	traffic both
}

@test "memcached: the server accelerated" {
	traffic server
}

@test "memcached: the client accelerated" {
	traffic client
}

@test "memcached: neither accelerated" {
	traffic neither
}

# bats test_tags=soak
@test "memcached: 10,000 connections, every answer checked" {
	[ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 10500 ] || skip "10,000 connections need as many descriptors; the limit is $(ulimit -Hn)"
	ulimit -Sn 10500
	local -a user=()
	[ "$(id -u)" != 0 ] || user=(-u root)
	start accelerated memcached -l 127.0.0.1 -p "$port" -U 0 -t 4 -m 256 -c 10300 -b 4096 "${user[@]}"
	wait_port "$port"
	run under accelerated timeout $(($(seconds 8) + 120)) python3 "$BATS_TEST_DIRNAME/memcached.py" "$port" 10000 "$(seconds 2)"
	echo "$output"
	figure "$output"
	[ "$status" -eq 0 ]
	[[ $output == "10000 connections, "* ]]
	stop_all
	by_lane both 20
}
