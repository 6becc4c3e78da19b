#!/bin/bash
# The option tables of the man pages are those of common/options.def, and the obstacles those of obstacles.def.
# Usage: tests/lint-options.sh [--write]    (--write puts the tables into the man pages)
set -u
tree=${top_srcdir:-$(dirname "$0")/..}
write=
[ "${1:-}" = --write ] && write=1
work=$(mktemp -d "${TMPDIR:-/tmp}/hasten-lint.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
faults=0

# TYPE KEY NACC FLAG DEFAULT MIN MAX SCOPE HELP, with tabs between
sed -nE 's/^OPT\([a-z_]+, *([A-Z_]+), *"([a-z_]+)", *(NULL|"[A-Z_]+"), *(0|'\''.'\''), *("[^"]*"|-?[0-9]+), *(-?[0-9]+), *(-?[0-9]+), *([A-Z]+), *"(.*)"\).*/\1\t\2\t\3\t\4\t\5\t\6\t\7\t\8\t\9/p' \
	"$tree/common/options.def" | tr -d "\"'" >"$work/rows"
if [ "$(wc -l <"$work/rows")" -ne "$(grep -c '^OPT(' "$tree/common/options.def")" ]; then
	echo "lint-options: a row of common/options.def is not on one line, or not as the others"
	faults=1
fi

roff='function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); return s }
function range(    r) {
	if ($1 == "BOOL") r = "0 or 1; default " $5
	else if ($1 == "ENUM_PROMOTE") r = "auto, eager or off; default auto"
	else if ($1 == "PATH") r = "an absolute path or nothing; default nothing"
	else if ($1 == "CPUS") r = "CPU numbers and ranges; default nothing"
	else r = $6 " to " $7 "; default " $5
	return roff(r)
}
function sentence(s) { if (s ~ /^[a-z]+:/) return roff(s) "."; return roff(toupper(substr(s, 1, 1)) substr(s, 2)) "." }'

# hasten.conf(5)
awk -F '\t' "$roff"'{
	print ".TP"
	printf ".BR %s \" (%s)\"\n%s\n", $2, range(), sentence($9)
	printf "Variable\n.BR HASTEN_%s", toupper($2)
	if ($3 != "NULL") printf " ,\nin NetACC\x27s file and as a variable\n.B %s", $3
	if ($4 != "0") printf "%s\noption\n.B \\-%s", ($3 != "NULL" ? ";" : " ;"), $4
	print ($8 == "RDMA" ? "\n(RDMA lanes only)" : "")
}' "$work/rows" | sed '/^$/d' >"$work/hasten.conf.5"

# hasten-run(1)
awk -F '\t' "$roff"'{
	long = $2; gsub(/_/, "-", long)
	value = $1 == "BOOL" ? "[=0|1]" : $1 == "INT" ? "=NUM" : $1 == "PATH" ? "=FILE" : $1 == "CPUS" ? "=LIST" : "=HOW"
	print ".TP"
	printf ".BR %s\"\\-\\-%s\" \"%s\"\n", ($4 != "0" ? "\\-" $4 " \", \" " : ""), roff(long), value
	printf "%s\n(%s%s)\n", sentence($9), range(), ($8 == "RDMA" ? "; RDMA lanes only" : "")
}' "$work/rows" >"$work/hasten-run.1"

# obstacles in hasten-run(1)
sed -nE 's/^OBSTACLE\([A-Z_]+, *"([a-z-]+)", *"(.*)"\).*/\1\t\2/p' "$tree/agent/cli/obstacles.def" |
	awk -F '\t' "$roff"'{ printf ".TP\n.B %s\n%s\n", roff($1), sentence($2) }' >"$work/obstacles"

block() { # PAGE NAME FILE: lines between the marks of NAME are FILE
	local page=$tree/man/$1
	if ! grep -q "^\\.\\\\\" begin $2\$" "$page"; then
		echo "lint-options: man/$1 has no table \"$2\""
		faults=1
		return
	fi
	if [ -n "$write" ]; then
		sed -i -e "/^\\.\\\\\" begin $2\$/,/^\\.\\\\\" end $2\$/{//!d}" -e "/^\\.\\\\\" begin $2\$/r $3" "$page"
	elif ! diff -u --label "man/$1" --label "the rows" \
		<(sed -n "/^\\.\\\\\" begin $2\$/,/^\\.\\\\\" end $2\$/{//!p}" "$page") "$3"; then
		echo "lint-options: man/$1 differs from its rows; tests/lint-options.sh --write mends it"
		faults=1
	fi
}

block hasten.conf.5 options "$work/hasten.conf.5"
block hasten-run.1 options "$work/hasten-run.1"
block hasten-run.1 obstacles "$work/obstacles"

# Every subcommand stands in hasten(1) and in its table.
while read -r name; do
	if ! grep -q "^\\.B[RI]* $name\\b" "$tree/man/hasten.1"; then
		echo "lint-options: man/hasten.1 does not name the command $name"
		faults=1
	fi
done < <(sed -nE 's/^COMMAND\(([a-z_]+),.*/\1/p' "$tree/agent/cli/commands.def")

echo "lint-options: $(wc -l <"$work/rows") rows, faults: $faults"
exit $faults
