#!/bin/bash
# The tables of hasten-profile(5) are those of fields.def and facts.def; every profile is installed, and each of its values says why and
# after whom. Usage: tests/lint-profiles.sh [--write]    (--write puts the tables into the man page)
set -u
tree=${top_srcdir:-$(dirname "$0")/..}
write=
[ "${1:-}" = --write ] && write=1
work=$(mktemp -d "${TMPDIR:-/tmp}/hasten-lint.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
faults=0
fault() {
	echo "lint-profiles: $*"
	faults=$((faults + 1))
}

# KEY TYPE LOW HIGH WORDS SCOPE HELP, with tabs between
sed -nE 's/^FIELD\("([^"]+)", FIELD_([A-Z]+), ([^,]+), ([^,]+), (NULL|"[^"]*"), "[a-z]+", SCOPE_([A-Z]+), "(.*)"\)$/\1\t\2\t\3\t\4\t\5\t\6\t\7/p' \
	"$tree/agent/profile/fields.def" | tr -d '"' >"$work/fields"
[ "$(wc -l <"$work/fields")" -eq "$(grep -c '^FIELD(' "$tree/agent/profile/fields.def")" ] ||
	fault "a row of fields.def is not as the others"
# NAME KIND SCOPE MEANING
sed -nE 's/^NAME\("([^"]+)", EXPR_([A-Z]+), SCOPE_([A-Z]+), fact_[a-z_]+, "(.*)"\)$/\1\t\2\t\3\t\4/p' \
	"$tree/agent/profile/facts.def" >"$work/facts"
[ "$(wc -l <"$work/facts")" -eq "$(grep -c '^NAME(' "$tree/agent/profile/facts.def")" ] ||
	fault "a row of facts.def is not as the others"

roff='function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); return s }
function where(s) { return s == "NIC" ? "; for each NIC" : s == "NODE" ? "; for each memory node" : "" }
function kind(s) { return s == "INT" ? "a number" : s == "BOOL" ? "true or false" : s == "CPUS" ? "a set of CPUs" : s == "WORD" ? "a word" : "text" }
function number(s) { return s == "UINT32_MAX" ? "4294967295" : s == "1 << 30" ? "1073741824" : s == "1 << 22" ? "4194304" : s == "1 << 20" ? "1048576" : s }'

awk -F '\t' "$roff"'{
	range = kind($2)
	if ($2 == "WORD") { range = $5; gsub(/\|/, ", ", range) }
	else if ($2 == "INT" && $4 != "0") range = $4 ~ /INT64_MAX/ ? "a number from " $3 : $3 " to " number($4)
	printf ".TP\n.BR %s \" (%s%s)\"\n%s.\n", roff($1), roff(range), where($6), roff(toupper(substr($7, 1, 1)) substr($7, 2))
}' "$work/fields" >"$work/keys.roff"
awk -F '\t' "$roff"'{
	printf ".TP\n.BR %s \" (%s%s)\"\n%s.\n", roff($1), kind($2), where($3), roff(toupper(substr($4, 1, 1)) substr($4, 2))
}' "$work/facts" >"$work/names.roff"

block() { # NAME FILE: lines between the marks of NAME are FILE
	local page=$tree/man/hasten-profile.5
	if ! grep -q "^\\.\\\\\" begin $1\$" "$page"; then
		fault "man/hasten-profile.5 has no table \"$1\""
	elif [ -n "$write" ]; then
		sed -i -e "/^\\.\\\\\" begin $1\$/,/^\\.\\\\\" end $1\$/{//!d}" -e "/^\\.\\\\\" begin $1\$/r $2" "$page"
	elif ! diff -u --label man/hasten-profile.5 --label "the rows" \
		<(sed -n "/^\\.\\\\\" begin $1\$/,/^\\.\\\\\" end $1\$/{//!p}" "$page") "$2"; then
		fault "man/hasten-profile.5 differs from its rows; tests/lint-profiles.sh --write mends it"
	fi
}
block keys "$work/keys.roff"
block names "$work/names.roff"

n=0
for file in "$tree"/profiles/*.yaml; do
	name=${file##*/}
	n=$((n + 1))
	grep -q "profiles/$name\\b" "$tree/profiles/local.mk" || fault "profiles/local.mk does not install $name"
	# a value is a map with why and source, however short: what an admin may leave out we may not
	awk -v name="$name" '
		function finish() { if (key != "" && (!why || !source)) { print name ": " key " has no " (why ? "source" : "why"); bad = 1 } key = "" }
		/^[a-z]/ { finish(); inside = /^settings:/ }
		inside && /^  [a-z]/ { finish(); key = $1; why = source = 0; if (NF > 1) { print name ": " key " is not a map over several lines"; bad = 1 } }
		/^    why: ./ { why = 1 } /^    source: ./ { source = 1 }
		END { finish(); exit bad }' "$file" || fault "$name: see above"
	! grep -nE 'sysctl\.kernel\.sched_|mitigations|nosmt|spectre' "$file" || fault "$name: scheduler internals and mitigations are nobody's profile"
done
[ "$n" -gt 0 ] || fault "no profiles"
echo "lint-profiles: $(wc -l <"$work/fields") keys, $(wc -l <"$work/facts") names, $n profiles, faults: $faults"
[ "$faults" -eq 0 ]
