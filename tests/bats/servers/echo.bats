#!/usr/bin/env bats
# Languages with event loops of their own: Python's asyncio and threads, node, the JVM, Erlang. Every answer is compared.

load ../common

setup() {
	prepare
	need python3 ss
	count_bytes
	port=$(free_port) second=$(free_port)
}

teardown() {
	dump_log
	stop_all
	nothing_left
}

ask() { # HOW PORT CONNECTIONS SECONDS
	run under "$client" timeout $(($4 + 60)) python3 "$BATS_TEST_DIRNAME/echo.py" ask "$@"
	echo "$1: $output"
	[ "$status" -eq 0 ]
	[[ $output == *" bytes each way compared" ]]
	figure "$1: $output"
}

python() { # both|server|client|neither
	ends "$1"
	start "$server" python3 "$BATS_TEST_DIRNAME/echo.py" serve asyncio "$port"
	start "$server" python3 "$BATS_TEST_DIRNAME/echo.py" serve threads "$second"
	wait_port "$port"
	wait_port "$second"
	ask asyncio "$port" 50 $(($(seconds 4) / 4))
	[ "$1" != both ] || ask asyncio "$second" 20 $(($(seconds 4) / 4))
	ask threads "$port" 8 $(($(seconds 4) / 4))
	[ "$1" != both ] || ask files "$second" 8 $(($(seconds 4) / 4))
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "Python's asyncio and threads: both ends accelerated" {
	python both
}

@test "Python's asyncio and threads: the server accelerated" {
	python server
}

@test "Python's asyncio and threads: the client accelerated" {
	python client
}

javascript() { # both|server|client|neither
	need node
	ends "$1"
	start "$server" node "$BATS_TEST_DIRNAME/echo.js" "$port" "$second"
	wait_port "$port"
	wait_port "$second"
	run under "$client" timeout $(($(seconds 2) / 2 + 60)) node "$BATS_TEST_DIRNAME/echo_client.js" "$port" "$second" $(($(seconds 2) / 2))
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *" bytes each way compared" ]]
	figure "node: $output"
	ask asyncio "$port" 20 $(($(seconds 2) / 2))
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "node's net and http: both ends accelerated" {
	javascript both
}

@test "node's net and http: the server accelerated" {
	javascript server
}

@test "node's net and http: the client accelerated" {
	javascript client
}

jvm() { # both|server|client|neither
	need javac java
	ends "$1"
	env -u LD_PRELOAD javac -d "$dir" "$BATS_TEST_DIRNAME/Echo.java"
	start "$server" java -cp "$dir" Echo "$port" "$second"
	wait_port "$port"
	wait_port "$second"
	ask threads "$port" 8 $(($(seconds 2) / 2))
	ask asyncio "$second" 20 $(($(seconds 2) / 2))
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "a JVM server: both ends accelerated" {
	jvm both
}

@test "a JVM server: the server accelerated" {
	jvm server
}

@test "a JVM server: the client accelerated" {
	jvm client
}

erlang() { # both|server|client|neither
	need escript
	ends "$1"
	start "$server" escript "$BATS_TEST_DIRNAME/echo.erl" "$port"
	wait_port "$port"
	ask asyncio "$port" 20 $(($(seconds 2) / 2))
	ask threads "$port" 8 $(($(seconds 2) / 2))
	stop_all
	by_lane "$1" 50
}

# bats test_tags=soak
@test "an Erlang server: both ends accelerated" {
	erlang both
}

@test "an Erlang server: the server accelerated" {
	erlang server
}

@test "an Erlang server: the client accelerated" {
	erlang client
}
