#!/usr/bin/env bats
# hasten enable and disable in an image; with a running systemd they are tested in the machines of tests/vm.

setup() {
	hasten=$top_builddir/hasten
	image=$BATS_TEST_TMPDIR/image
	mkdir -p "$image/etc"
	echo 'ID=debian' >"$image/etc/os-release"
	# Where this build installs it, as the command itself says.
	library=$("$hasten" enable x --root "$image" 2>&1 | sed -n "s|^hasten enable: $image\(.*\) is not installed$|\1|p")
	[ -n "$library" ]
	mkdir -p "$image$(dirname "$library")"
	: >"$image$library"
	drop_in=$image/etc/systemd/system/redis-server.service.d/60-hasten.conf
}

@test "enable writes a drop-in, twice is once, disable takes it away" {
	run "$hasten" enable redis-server --root "$image"
	[ "$status" -eq 0 ]
	[[ $output == "redis-server.service is enabled: $drop_in" ]]
	grep -qx "Environment=\"LD_PRELOAD=$library\"" "$drop_in"
	[ "$(stat -c %a "$drop_in")" = 644 ]
	before=$(stat -c %i "$drop_in")
	run "$hasten" enable redis-server.service --root "$image"
	[[ $status = 0 && $output == *"is enabled already"* ]]
	[ "$(stat -c %i "$drop_in")" = "$before" ]
	run "$hasten" disable redis-server --root "$image"
	[ "$status" -eq 0 ]
	[ ! -e "$(dirname "$drop_in")" ]
	run "$hasten" disable redis-server --root "$image"
	[[ $status = 0 && $output == *"is not enabled"* ]]
}

@test "the administrator's own drop-ins stay" {
	mkdir -p "$(dirname "$drop_in")"
	echo '[Service]' >"$(dirname "$drop_in")/10-own.conf"
	"$hasten" enable redis-server --root "$image"
	"$hasten" disable redis-server --root "$image"
	[ "$(cat "$(dirname "$drop_in")/10-own.conf")" = '[Service]' ]
}

@test "several services at once; the user's own" {
	run "$hasten" enable redis-server nginx@1 --root "$image"
	[ "$status" -eq 0 ]
	[ -e "$image/etc/systemd/system/nginx@1.service.d/60-hasten.conf" ]
	XDG_CONFIG_HOME=/home/a/.config run "$hasten" enable --user foo --root "$image"
	[ "$status" -eq 0 ]
	[ -e "$image/home/a/.config/systemd/user/foo.service.d/60-hasten.conf" ]
}

@test "names that are none, a library that is not there, wrong use" {
	for name in ../x /etc/passwd a/b .x 'a b' redis.socket ''; do
		run "$hasten" enable "$name" --root "$image"
		[[ $status = 1 && $output == *"is no name of a service"* ]]
	done
	[ ! -e "$image/etc/systemd" ]
	rm "$image$library"
	run "$hasten" enable redis-server --root "$image"
	[[ $status = 1 && $output == *"$image$library is not installed"* ]]
	[ ! -e "$drop_in" ]
	run "$hasten" enable --root "$image"
	[ "$status" -eq 64 ]
	run "$hasten" disable --frobnicate
	[ "$status" -eq 64 ]
}
