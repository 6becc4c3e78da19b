# What runs inside a view (site.bash): for the tests' own text.

installer=/run/site/install.sh
shell=dash

# The list of all man pages is made anew after each package; here it would be most of the time.
rm -f /var/lib/man-db/auto-update

# As from the network: by standard input, with no terminal.
install() { # OPTION...
	setsid -w $shell -s -- "$@" <"$installer"
}

from_mirror() { # OPTION...
	install --mirror "$mirror/good" --ca-file "$ca" "$@"
}

here() { # OPTION...: from the folder
	install --offline /run/site/files "$@"
}

# Files, links and folders that are not as the machine has them, a line each. What package managers and the making of a user write by design is
# left out: these are the exceptions that hasten-install(7) names.
changed() {
	(cd /run/up && find . -mindepth 1 -printf '%y %P\n') | while read -r kind path; do
		case $path in
		var/lib/dpkg/* | var/lib/apt/* | var/cache/apt/* | var/cache/debconf/* | var/cache/man/* | var/lib/man-db/auto-update | var/log/apt/* | var/log/dpkg.log | var/log/alternatives.log) continue ;;
		var/lib/systemd/deb-systemd-helper-* | etc/ld.so.cache | var/cache/ldconfig/*) continue ;;
		etc/passwd | etc/passwd- | etc/shadow | etc/shadow- | etc/group | etc/group- | etc/gshadow | etc/gshadow- | etc/.pwd.lock) continue ;;
		# A machine on which hasten was used already.
		etc/hasten | var/lib/hasten) [ ! -d "/run/lower/$path" ] || continue ;;
		esac
		case $kind in
		d) [ -d "/run/lower/$path" ] || echo "new folder /$path" ;;
		c) [ ! -e "/run/lower/$path" ] && [ ! -h "/run/lower/$path" ] || echo "gone: /$path" ;;
		l) [ "$(readlink "/run/up/$path")" = "$(readlink "/run/lower/$path")" ] || echo "other link /$path" ;;
		*) cmp -s "/run/up/$path" "/run/lower/$path" || echo "other file /$path" ;;
		esac
	done
}

# Also without what the exceptions allow.
written() {
	(cd /run/up && find . -mindepth 1 ! -type d ! -path ./var/lib/man-db/auto-update -printf '%P\n')
}
