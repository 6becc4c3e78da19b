#!/usr/bin/env bats
# What the commands on the host's settings say: on a terminal, to another program, and where they are used wrongly.

load machines

setup_file() {
	[ ! -w /dev/shm ] || export BATS_FILE_TMPDIR=$(mktemp -d /dev/shm/hasten-messages-XXXXXX)
	mkdir -p "$BATS_FILE_TMPDIR/machines"
	python3 "$top_srcdir/tests/machines/make" "$BATS_FILE_TMPDIR/machines"
}

teardown_file() {
	[[ $BATS_FILE_TMPDIR != /dev/shm/* ]] || rm -rf "$BATS_FILE_TMPDIR"
}

setup() {
	export HASTEN_PROFILE_DIR=$top_srcdir/profiles
	m=$BATS_FILE_TMPDIR/machines
}

words() {
	tr -s ' \n' '\n\n' | grep .
}

@test "a terminal's width is kept, and no word is lost" {
	for width in 24 40 80 200; do
		for command in "detect --root $m/aws-ena-efa" "check --root $m/alibaba-erdma-compat" "plan redis erdma --all --root $m/intel-ixgbe" "profile show latency" \
			"profile list" "status --root $m/small-2cpu"; do
			# shellcheck disable=SC2086
			TERM=dumb python3 "$BATS_TEST_DIRNAME/terminal.py" $width "$hasten" $command >"$BATS_TEST_TMPDIR/terminal" || true
			# shellcheck disable=SC2086
			"$hasten" $command >"$BATS_TEST_TMPDIR/pipe" || true
			diff <(words <"$BATS_TEST_TMPDIR/pipe") <(words <"$BATS_TEST_TMPDIR/terminal")
			# A word that is wider than half of the terminal, a line of a file and a command stay whole.
			awk -v w=$width -v c="$command" 'length > w && !/^ *(\| |to mend: )/ { n = split($0, word, " "); longest = 0
				for (i = 1; i <= n; i++) if (length(word[i]) > longest) longest = length(word[i])
				if (longest <= w / 2) { print w, c ": " $0; bad = 1 } } END { exit bad }' "$BATS_TEST_TMPDIR/terminal"
		done
	done
}

@test "colours: on a terminal that knows them, and there only" {
	on=(python3 "$BATS_TEST_DIRNAME/terminal.py" 80)
	TERM=xterm "${on[@]}" "$hasten" check --root "$m/small-2cpu" | grep -q $'\033\[32m'
	! NO_COLOR=1 TERM=xterm "${on[@]}" "$hasten" check --root "$m/small-2cpu" | grep -q $'\033'
	! TERM=dumb "${on[@]}" "$hasten" check --root "$m/small-2cpu" | grep -q $'\033'
	! TERM=xterm "$hasten" check --root "$m/small-2cpu" | grep -q $'\033'
	TERM=xterm "${on[@]}" "$hasten" plan redis --json --root "$m/small-2cpu" | jq -e .changes >/dev/null
}

@test "with --json a failure is a document too" {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	cp -a "$m/small-2cpu" "$BATS_TEST_TMPDIR/m"
	"$hasten" apply redis --root "$BATS_TEST_TMPDIR/m" >/dev/null
	sed -i '3s/a/b/' "$BATS_TEST_TMPDIR/m/var/lib/hasten/journal"
	printf 'schema: 1\nname: bad\nsummary: x\nsetings: {}\n' >"$BATS_TEST_TMPDIR/bad.yaml"
	d=$BATS_TEST_TMPDIR/m
	while IFS='|' read -r want command; do
		got=0
		# shellcheck disable=SC2086
		"$hasten" $command >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/error" || got=$?
		[ $got = "$want" ] || { echo "exit $got, not $want: $command"; cat "$BATS_TEST_TMPDIR/error"; return 1; }
		python3 -c 'import json, jsonschema, sys; jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' \
			"$BATS_TEST_TMPDIR/out" "$top_srcdir/schema/error.schema.json" || { echo "$command"; cat "$BATS_TEST_TMPDIR/out"; return 1; }
		[ "$(jq .exit_status "$BATS_TEST_TMPDIR/out")" = "$want" ]
		# What it says is what stands on standard error.
		jq -r .error "$BATS_TEST_TMPDIR/out" | diff - "$BATS_TEST_TMPDIR/error"
	done <<-END
		64|plan --json
		64|plan redis --nosuch --json
		64|plan redis --json --only nosuch --root $d
		1|plan nosuch -j
		1|plan redis --json --root $d
		1|apply redis --json --root $d
		1|revert --json --root $d
		3|verify --json --root $d
		1|status --json --root $d
		1|confirm --json --root $m/small-2cpu
		64|detect --json --root $d/nosuch
		64|detect --json more
		64|check --json nosuch
		64|check --json --root $d/etc/machine-id/x
		64|driver --json nosuch
		64|ss --json nosuch
		64|config --json more
		64|profile --json
		1|profile show --json nosuch
		64|profile show --json
	END
	# A document of its own is all that is printed, whatever the status.
	"$hasten" check --json --root "$m/alibaba-erdma-compat" >"$BATS_TEST_TMPDIR/out" && return 1
	[ "$(jq -s length "$BATS_TEST_TMPDIR/out")" = 1 ]
	[ "$(jq -r .id "$BATS_TEST_TMPDIR/out")" = hasten.check ]
}

@test "wrong use: the command's name, what is wrong, where to read on; status 64" {
	while read -r command; do
		got=0
		# shellcheck disable=SC2086
		"$hasten" $command >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/error" || got=$?
		[ $got = 64 ] && [ ! -s "$BATS_TEST_TMPDIR/out" ] || { echo "$got: $command"; return 1; }
		[ "$(wc -l <"$BATS_TEST_TMPDIR/error")" -le 2 ] && grep -q "^hasten ${command%% *}" "$BATS_TEST_TMPDIR/error" &&
			grep -q -- '--help' "$BATS_TEST_TMPDIR/error" || { echo "$command"; cat "$BATS_TEST_TMPDIR/error"; return 1; }
	done <<-END
		plan -x
		plan --only
		apply -x
		verify more
		verify -x
		revert more
		revert -x
		status more
		status -x
		confirm a b
		confirm -x
		detect more
		detect -x
		check -x
		profile
		profile -x
		profile more
		driver -x
		driver more
		enable
		enable -x
		disable -x
		capture -x
		capture
	END
}

@test "every mend that is a command of hasten's mends" {
	mends=0
	for machine in "$m"/*; do
		"$hasten" check --json --root "$machine" >"$BATS_TEST_TMPDIR/before" || true
		fix=$(jq -r '.findings[] | .fix // empty | select(startswith("sudo hasten apply ")) | split("   #")[0]' "$BATS_TEST_TMPDIR/before" | sort -u)
		[ -n "$fix" ] || continue
		rm -rf "$BATS_TEST_TMPDIR/m"
		cp -a "$machine" "$BATS_TEST_TMPDIR/m"
		while read -r command; do
			# shellcheck disable=SC2086
			"$hasten" ${command#sudo hasten } --root "$BATS_TEST_TMPDIR/m" >"$BATS_TEST_TMPDIR/out" || true # another card's may still wait
		done <<<"$fix"
		"$hasten" check --json --root "$BATS_TEST_TMPDIR/m" >"$BATS_TEST_TMPDIR/after" || true
		jq -c '.findings[] | select(.fix // "" | startswith("sudo hasten apply "))' "$BATS_TEST_TMPDIR/after" >"$BATS_TEST_TMPDIR/left"
		[ ! -s "$BATS_TEST_TMPDIR/left" ] || { echo "$machine after \"$fix\":"; cat "$BATS_TEST_TMPDIR/left"; return 1; }
		mends=$((mends + 1))
	done
	[ $mends -ge 6 ]
}

@test "many settings that differ in a number are one line; --all and --json have each" {
	"$hasten" plan packet-rate --root "$m/aws-ena-efa" >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c . "$BATS_TEST_TMPDIR/out")" -lt 50 ]
	grep -q 'and 29 more like these, to ens6 send queue 31 xps_cpus -> 32; --all shows each' "$BATS_TEST_TMPDIR/out"
	[ "$("$hasten" plan packet-rate --all --root "$m/aws-ena-efa" | grep -c 'pending-consent ens. send queue')" = 64 ]
	[ "$("$hasten" plan packet-rate --json --root "$m/aws-ena-efa" | jq '[.operations[] | select(.status == "pending-consent")] | length')" = 130 ]
	# A card's settings stand together.
	[ "$(grep -c '^ens' "$BATS_TEST_TMPDIR/out")" = 2 ]
}
