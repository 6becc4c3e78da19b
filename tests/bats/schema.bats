#!/usr/bin/env bats
# Every document that "--json" prints against its schema in schema/, and that the schemas refuse what they should.

load common

setup() {
	prepare
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	cat >"$dir/valid.py" <<'END'
import json, jsonschema, sys
with open(sys.argv[1]) as f:
    schema = json.load(f)
jsonschema.Draft7Validator.check_schema(schema)
jsonschema.validate(json.load(sys.stdin), schema)
END
}

teardown() {
	[ -z "${writer_in:-}" ] || exec {writer_in}>&-
	dump_log
	stop_all
}

valid() { # NAME <document
	python3 "$dir/valid.py" "$top_srcdir/schema/$1.schema.json"
}

# A document with one thing changed is refused.
refused() { # NAME FILTER <document
	local changed
	changed=$(jq "$2")
	! valid "$1" <<<"$changed" 2>/dev/null || { echo "the schema $1 takes: $2" >&2; return 1; }
}

@test "every schema is one, and is installed" {
	for schema in "$top_srcdir"/schema/*.schema.json; do
		python3 -c 'import json, jsonschema, sys; jsonschema.Draft7Validator.check_schema(json.load(open(sys.argv[1])))' "$schema"
		grep -q "^dist_schema_DATA += .*schema/${schema##*/}" "$top_srcdir/schema/local.mk"
	done
}

@test "hasten ss --json" {
	coproc writer { exec "$top_builddir/tests/unit/state_writer" "$dir"; }
	read -r pid <&"${writer[0]}"
	writer_in=${writer[1]}
	"$hasten" ss --dir "$dir" --json | valid ss
	"$hasten" ss --dir "$dir" --json -s all | valid ss
	for section in cfg cnt mem qp sock; do
		"$hasten" ss --dir "$dir" --json -s $section "$pid" | valid ss
	done
	"$hasten" ss --dir "$dir" --json -s all >"$dir/all"
	refused ss 'del(.processes[0].pid)' <"$dir/all"
	refused ss '.processes[0].cnt.more = 1' <"$dir/all"
	refused ss '.processes[0].sock.connections[0].tx.transport = "tcp"' <"$dir/all"
	refused ss '.id = "hasten.config"' <"$dir/all"
	mkdir "$dir/empty"
	"$hasten" ss --dir "$dir/empty" --json | valid ss
	"$hasten" ss --dir "$dir/empty" --clear --json | valid ss-clear
}

@test "hasten ss --json of a process that talks" {
	port=$(free_port)
	start plain "$hasten" run python3 "$top_srcdir/tests/bats/talk.py" serve 127.0.0.1 "$port"
	wait_port "$port"
	"$hasten" run python3 "$top_srcdir/tests/bats/talk.py" ask 127.0.0.1 "$port" 2 >"$dir/talk" 2>&1 </dev/null 3>&- &
	echo $! >>"$started"
	for _ in $(seq 100); do
		! grep -q talked "$dir/talk" || break
		sleep 0.05
	done
	"$hasten" ss --json -s all >"$dir/live"
	[ "$(jq '[.processes[].sock.connections[]] | length' "$dir/live")" -ge 4 ]
	valid ss <"$dir/live"
}

@test "hasten config --json" {
	"$hasten" config --json | valid config
	mkdir -p "$dir/etc/hasten"
	printf 'spin_us = 70\nno_such = 1\nrule = kernel port=22\n' >"$dir/etc/hasten/hasten.conf"
	HASTEN_CONF_DIR=$dir/etc "$hasten" config --json >"$dir/config" || [ $? -eq 1 ]
	[ "$(jq -c '[(.complaints | length), (.rules | length)]' "$dir/config")" = '[1,1]' ]
	valid config <"$dir/config"
	refused config '.options[0].source = "here"' <"$dir/config"
	refused config '.options = []' <"$dir/config"
	refused config '.rules[0] = {"rule": ""}' <"$dir/config"
}

@test "hasten bench redis --json" {
	"$hasten" bench redis --list --json >"$dir/list"
	valid bench-list <"$dir/list"
	refused bench-list '.scenarios[0].default = "yes"' <"$dir/list"
	need redis-server redis-benchmark
	"$hasten" bench redis --scenario netacc1,limit,single,memtier --requests 2000 --rounds 2 --no-progress --json >"$dir/bench" 2>>"$dir/log" || true
	[ "$(jq '.scenarios | length' "$dir/bench")" -eq 4 ]
	valid bench <"$dir/bench"
	refused bench '.scenarios[0].status = "good"' <"$dir/bench"
	refused bench '.scenarios[0].tests[0].plain.p50_ms = 3' <"$dir/bench"
}

@test "hasten driver status --json" {
	"$hasten" driver --help >/dev/null 2>&1 || skip "this build has no hasten driver"
	"$hasten" driver status --json >"$dir/driver"
	valid driver <"$dir/driver"
	refused driver '.drivers = [{"name": "x"}]' <"$dir/driver"
}

@test "no document is without a schema" {
	local id
	for id in $(grep -rhoE 'json_string\([^,]*, "id", "hasten\.[a-z.-]+"' "$top_srcdir/agent" | grep -oE 'hasten\.[a-z.-]+' | sort -u); do
		grep -qF "\"const\": \"$id\"" "$top_srcdir"/schema/*.schema.json || missing+=" $id"
	done
	[ -z "${missing:-}" ] || { echo "no schema for:$missing" >&2; return 1; }
}
