/* What the files of sysctl.d(5) set, and who wrote it: the administrator (/etc, /run) or the distribution (/usr). Files of one name: the
 * first folder's alone; then all by name, /etc/sysctl.conf last as sysctl --system reads it; the last assignment of a key wins, and an
 * assignment by name wins over one by pattern. */
#ifndef HASTEN_TUNE_SYSCTL_FILES_H
#define HASTEN_TUNE_SYSCTL_FILES_H
#include <stdbool.h>
#include <stddef.h>

struct sys;

struct sysctl_line {
	char *path;  /* below /proc/sys, by slashes: "net/core/somaxconn", or a pattern */
	char *value; /* canonical; NULL: "-pattern" that takes names out of patterns */
	const char *file;
	unsigned line;
	bool admin, pattern;
};
struct sysctl_files {
	struct sysctl_line *line; /* in the order of reading */
	size_t n_line;
	char **file; /* names that the lines borrow, NULL ended */
	size_t n_file;
};
/* Files that cannot be read and lines that are none are left out: systemd-sysctl goes on with the next too. */
int sysctl_files_read(struct sys *s, struct sysctl_files *ret);
void sysctl_files_free(struct sysctl_files *f);
/* The line that decides about a key (by slashes), or NULL. */
const struct sysctl_line *sysctl_files_find(const struct sysctl_files *f, const char *path);

/* "net.core.somaxconn" or "net/core/somaxconn" -> "net/core/somaxconn": whichever separator comes first is the separator, the other one
 * stands for itself in the other form (net.ipv4.conf.eth0/100.rp_filter). NULL: no memory, or not a name (empty parts, ".."). */
char *sysctl_path(const char *name);
/* One blank between numbers, none around. NULL: no memory. */
char *sysctl_canonical(const char *text);
#endif
