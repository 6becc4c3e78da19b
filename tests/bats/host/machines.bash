# Captured and synthetic machines for --root. Load it, call make_machines in setup_file; machine NAME prints a tree's path.
#
# Captured trees come from the folder HASTEN_MACHINES (tests/run.sh looks beside the source tree); without it those tests are skipped by name.

hasten=$top_builddir/hasten
captured=${HASTEN_MACHINES:-}

make_machines() {
	export machines=$BATS_FILE_TMPDIR/machines
	mkdir -p "$machines/captured" "$machines/synthetic"
	python3 "$top_srcdir/tests/machines/make" "$machines/synthetic"
	[ -n "$captured" ] && [ -d "$captured" ] || return 0
	local archive
	for archive in "$captured"/*.tar.bz2; do
		[ -e "$archive" ] || continue
		tar -C "$machines/captured" --no-same-owner -xjf "$archive"
	done
	# Some came with folders that only their owner may enter.
	chmod -R u+rwX "$machines/captured"
}

need_captured() {
	[ -n "$(ls -A "$machines/captured")" ] || skip "no captured machines (HASTEN_MACHINES)"
	command -v bzip2 >/dev/null || skip "bzip2 is not installed"
}
