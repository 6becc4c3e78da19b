#!/usr/bin/env bats
# hasten config: effective values, where they came from, what is wrong.

setup() {
	hasten=$top_builddir/hasten
	dir=$BATS_TEST_TMPDIR
	mkdir -p "$dir/etc/hasten/hasten.conf.d"
	export HASTEN_CONF_DIR=$dir/etc
	for name in $(compgen -e | grep -E '^(HASTEN_RUN_|NACC_)'); do unset "$name"; done
	unset HASTEN_PROMOTE
}

@test "without files every value is built in" {
	run "$hasten" config
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq "$(grep -c '^OPT(' "$top_srcdir/common/options.def")" ]
	for line in "${lines[@]}"; do [[ $line == *built-in ]]; done
}

@test "each value stands with the place that it came from" {
	printf '[netacc]\nNACC_SOR_MSG_SIZE=32768\nNACC_SOR_CONN_PER_QP=8\n' >"$dir/etc/netacc.conf"
	printf '# ours\nspin_us = 20\nconn_per_qp = 9\nrule = kernel port=22\n' >"$dir/etc/hasten/hasten.conf"
	echo 'rule = accelerate program=nginx' >"$dir/etc/hasten/hasten.conf.d/web.conf"
	HASTEN_PROMOTE=eager run "$hasten" config
	[ "$status" -eq 0 ]
	flat=$(tr -s ' ' <<<"$output")
	[[ $flat == *"msg_size 32768 $dir/etc/netacc.conf:2"* ]]
	[[ $flat == *"conn_per_qp 9 $dir/etc/hasten/hasten.conf:3"* ]]
	[[ $flat == *"spin_us 20 $dir/etc/hasten/hasten.conf:2"* ]]
	[[ $flat == *"promote eager environment HASTEN_PROMOTE"* ]]
	[[ $flat == *"rule kernel port=22 $dir/etc/hasten/hasten.conf:4"*"rule accelerate program=nginx $dir/etc/hasten/hasten.conf.d/web.conf:1"* ]]
}

@test "complaints end with status 1 and say what is used" {
	printf 'msg_size = 1000\nspni_us = 1\n' >"$dir/etc/hasten/hasten.conf"
	run "$hasten" config
	[ "$status" -eq 1 ]
	[[ $output == *"$dir/etc/hasten/hasten.conf:1: msg_size = 1000: "*"a power of two; using 16384"* ]]
	[[ $output == *"$dir/etc/hasten/hasten.conf:2: spni_us: no such key"* ]]
}

@test "--json is one document with values, places, rules and complaints" {
	printf 'spin_us = 20\nrule = kernel port=22\nlog_path = /tmp/"x\nmsg_size = 1\n' >"$dir/etc/hasten/hasten.conf"
	run "$hasten" config --json
	[ "$status" -eq 1 ]
	[ "$(jq -r .id <<<"$output")" = hasten.config ]
	[ "$(jq .schema_version <<<"$output")" = 1 ]
	[ "$(jq '.options | length' <<<"$output")" -eq "$(grep -c '^OPT(' "$top_srcdir/common/options.def")" ]
	[ "$(jq -c '.options[] | select(.key == "spin_us") | [.value, .source, .lane]' <<<"$output")" = '[20,"file","shm"]' ]
	[ "$(jq -c '.options[] | select(.key == "enable") | .value' <<<"$output")" = true ]
	[ "$(jq -r '.options[] | select(.key == "log_path") | .value' <<<"$output")" = '/tmp/"x' ]
	[ "$(jq -c .rules <<<"$output")" = "[{\"rule\":\"kernel port=22\",\"place\":\"$dir/etc/hasten/hasten.conf:2\"}]" ]
	[ "$(jq -r '.complaints[0].place' <<<"$output")" = "$dir/etc/hasten/hasten.conf:4" ]
}

@test "what cannot be read is said" {
	rmdir "$dir/etc/hasten/hasten.conf.d"
	mkdir "$dir/etc/hasten/hasten.conf"
	run "$hasten" config
	[ "$status" -eq 1 ]
	[[ $output == *"$dir/etc/hasten/hasten.conf: not a regular file"* ]]
}

@test "the example file is right as it stands, and so are all its examples" {
	cp "$top_srcdir/preload/hasten.conf.example" "$dir/etc/hasten/hasten.conf"
	run "$hasten" config
	[ "$status" -eq 0 ]
	sed -E 's/^#([a-z_]+ =)/\1/' "$top_srcdir/preload/hasten.conf.example" >"$dir/etc/hasten/hasten.conf"
	run "$hasten" config
	[ "$status" -eq 0 ]
	while IFS= read -r key; do
		grep -q "^#$key =" "$top_srcdir/preload/hasten.conf.example"
	done < <(sed -nE 's/^OPT\([a-z_]+, *[A-Z_]+, *"([a-z_]+)".*/\1/p' "$top_srcdir/common/options.def")
}

@test "wrong usage" {
	run "$hasten" config --no-such
	[ "$status" -eq 64 ]
	run "$hasten" config extra
	[ "$status" -eq 64 ]
}
