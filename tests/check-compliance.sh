#!/bin/bash
# COMPLIANCE.md against code and tests: every call of preload/calls.def, every flag, option, command and number that the
# library tells apart, and every name of tests/compliance.names (the manual pages) has a row; every row says one of four
# things and names tests that exist, are run, and contain its name.
# Usage: tests/check-compliance.sh [TREE]
set -u
tree=${1:-${top_srcdir:-$(dirname "$0")/..}}
table=$tree/COMPLIANCE.md
export LC_ALL=C
faults=0

fault() {
	echo "check-compliance: $*"
	faults=$((faults + 1))
}

# What the library compares or masks by name and the program never says or sees.
internal='F_OK F_SEAL_GROW F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_WRITE RWF_KNOWN CLONE_SETTLS CLONE_THREAD SO_GET_FILTER
	SO_RCVTIMEO_NEW SO_SNDTIMEO_NEW SYS_getdents64 SYS_gettid SYS_rt_sigprocmask SYS_rt_tgsigqueueinfo SO_COOKIE_NONE
	SOCK_ACCEPTED SOCK_BOUND SOCK_LISTENER SOCK_NEW SOCK_OFFERED SOCK_PLAIN SOCK_PUBLISHED SOCK_SETTLED'

rows=$(sed -n 's/^| `\([A-Za-z0-9_]*\)` | \([a-z ]*\) | .* | \([a-z0-9/, -]*\) |$/\1|\2|\3/p' "$table")
[ "$(grep -c '^| `' "$table")" = "$(grep -c . <<<"$rows")" ] ||
	fault "a row that is not \"| \`name\` | verdict | how | tests |\":" \
		"$(grep '^| `' "$table" | grep -vE '^\| `[A-Za-z0-9_]*` \| [a-z ]* \| .* \| [a-z0-9/, -]* \|$' | head -1)"
names=$(cut -d'|' -f1 <<<"$rows" | sort)
double=$(uniq -d <<<"$names")
[ -z "$double" ] || fault "two rows for" $double

missing() { # WHAT; names on standard input
	local lost
	lost=$(sort -u | comm -23 - <(sort -u <<<"$names"))
	[ -z "$lost" ] || fault "$1 without a row:" $lost
}

sed -n 's/^CALL([^,]*, *\([A-Za-z0-9_]*\),.*/\1/p' "$tree/preload/calls.def" | missing "calls of calls.def"
grep -v '^#' "$tree/tests/compliance.names" | tr -s ' \t' '\n' | grep . | missing "names of compliance.names"
cat "$tree"/preload/calls_*.c "$tree"/preload/{interpose,kernel_options,receive,io}.c \
	"$tree"/preload/wait/{epoll,poll,interest,waitset}.c "$tree"/preload/proc/*.c |
	grep -oE '(case|==|!=|[&|{,(]) *~?\(?(MSG_|SO_|TCP_|EPOLL|POLL|F_|FIO|SIOC|RWF_|SPLICE_F_|SHUT_|SYS_|CLOSE_RANGE_|SOCK_|O_ASYNC|O_NONBLOCK|RTLD_|CLONE_|SA_)[A-Za-z0-9_]*' |
	grep -oE '[A-Z]+[A-Za-z0-9_]*$' | grep -vxF "$(tr -s ' \t' '\n' <<<"$internal" | grep .)" |
	missing "what the library tells apart"

# The one with a slash is in tests/bats. A conform program that is not in its local.mk is not run.
file_of() {
	case $1 in
	bats/*) echo "$tree/tests/$1.bats" ;;
	*) echo "$tree/tests/conform/$1.c" ;;
	esac
}

tests=$(cut -d'|' -f3 <<<"$rows" | tr -s ', ' '\n' | grep . | sort -u)
for test in $tests; do
	[ -f "$(file_of "$test")" ] || fault "there is no test $test: $(grep -E "\|(.*, )?$test(,|\$)" <<<"$rows" | head -3 | cut -d'|' -f1 | tr '\n' ' ')"
	case $test in
	bats/*) ;;
	*) grep -q "^	tests/conform/$test\( \\\\\)\?\$" "$tree/tests/conform/local.mk" || fault "$test is not in tests/conform/local.mk" ;;
	esac
done
# One look at each test: its words.
words=$(for test in $tests; do
	[ ! -f "$(file_of "$test")" ] || grep -oE '[A-Za-z_][A-Za-z0-9_]*' "$(file_of "$test")" | sort -u | sed "s@\$@|$test@"
done)
while IFS='|' read -r name verdict by; do
	case $verdict in
	accelerated | 'passed through' | demotes | 'not supported') ;;
	*) fault "$name is \"$verdict\"" ;;
	esac
	[ -n "${by// /}" ] || fault "no test proves $name"
done <<<"$rows"
unproved=$(comm -23 <(awk -F'|' '{ n = split($3, t, /, */); for (i = 1; i <= n; i++) print $1 "|" t[i] }' <<<"$rows" | sort -u) <(sort -u <<<"$words"))
for pair in $unproved; do
	fault "${pair#*|} does not contain ${pair%|*}"
done

echo "check-compliance: $(grep -c . <<<"$rows") rows, $faults faults"
[ $faults -eq 0 ]
