#include "agent/driver/driver.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 20000
#define DEPTH_MAX 32

static void free_archive(struct archive **a)
{
	archive_read_free(*a);
}

/* "./a//b/" -> "a/b". NULL: absolute, "..", empty part names are fine, too deep. */
static char *clean_name(const char *name)
{
	char *clean = calloc(1, strlen(name) + 1), *to = clean;
	unsigned depth = 0;

	if (!clean)
		return NULL;
	if (*name == '/')
		goto refused;
	while (*name) {
		size_t n = strcspn(name, "/");
		if (n == 2 && name[0] == '.' && name[1] == '.')
			goto refused;
		if (n && !(n == 1 && *name == '.')) {
			if (++depth > DEPTH_MAX || n > 255)
				goto refused;
			if (to > clean)
				*to++ = '/';
			to = mempcpy(to, name, n);
		}
		name += n;
		name += *name == '/';
	}
	return clean;
refused:
	free(clean);
	return NULL;
}

/* Makes the folders on the way and opens the one that the last part lies in. Nothing in the tree is a link: we made all of it. */
static int open_parent(int top, const char *name, const char **ret_last)
{
	int at = dup(top);

	while (at >= 0) {
		const char *slash = strchr(name, '/');
		char part[256];
		if (!slash)
			break;
		snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
		if (mkdirat(at, part, 0755) < 0 && errno != EEXIST) {
			close(at);
			return -errno;
		}
		int next = openat(at, part, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(at);
		at = next;
		name = slash + 1;
	}
	*ret_last = name;
	return at < 0 ? -errno : at;
}

static int copy_data(struct archive *a, int fd, uint64_t *left)
{
	static char block[65536];

	for (;;) {
		la_ssize_t n = archive_read_data(a, block, sizeof(block));
		if (n == 0)
			return 0;
		if (n < 0)
			return -EBADMSG;
		if ((uint64_t)n > *left)
			return -EFBIG;
		*left -= (uint64_t)n;
		for (la_ssize_t done = 0; done < n;) {
			ssize_t w = write(fd, block + done, (size_t)(n - done));
			if (w < 0)
				return -errno;
			done += w;
		}
	}
}

static int one_entry(struct archive *a, struct archive_entry *entry, int top, const char *name, uint64_t *left)
{
	const char *last;
	_cleanup_close_ int parent = open_parent(top, name, &last);
	_cleanup_close_ int fd = -1;
	bool is_program = archive_entry_perm(entry) & 0111;

	if (parent < 0)
		return parent;
	if (archive_entry_filetype(entry) == AE_IFDIR)
		return mkdirat(parent, last, 0755) < 0 && errno != EEXIST ? -errno : 0;
	fd = openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, is_program ? 0755 : 0644);
	return fd < 0 ? -errno : copy_data(a, fd, left);
}

/* A common first folder ("erdma-1.0/") is taken away: dkms wants dkms.conf at the top. */
static int strip_first(const char *folder)
{
	char from[4096], to[4096];
	_cleanup_free_ char *only = NULL;
	_cleanup_closedir_ DIR *d = opendir(folder);

	if (!d)
		return -errno;
	for (struct dirent *entry; (entry = readdir(d));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (only)
			return 0;
		if (!(only = strdup(entry->d_name)))
			return -ENOMEM;
	}
	snprintf(from, sizeof(from), "%s/%s", folder, only ? only : "");
	struct stat st;
	if (!only || lstat(from, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	/* By a name that nothing inside it has. */
	snprintf(to, sizeof(to), "%s/.first-folder", folder);
	if (rename(from, to) < 0)
		return -errno;
	_cleanup_closedir_ DIR *inside = opendir(to);
	if (!inside)
		return -errno;
	for (struct dirent *entry; (entry = readdir(inside));) {
		char target[4096];
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(target, sizeof(target), "%s/%s", folder, entry->d_name);
		if (renameat(dirfd(inside), entry->d_name, AT_FDCWD, target) < 0)
			return -errno;
	}
	return rmdir(to) < 0 ? -errno : 0;
}

int unpack_archive(const char *archive, const char *folder, uint64_t size_max, struct error *e)
{
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	_cleanup_close_ int top = open(folder, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct archive_entry *entry;
	uint64_t left = size_max;
	int r, state;

	if (!a)
		return -ENOMEM;
	if (top < 0)
		return error_set(e, -errno, "%s: %s", folder, strerror(errno));
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_format_tar(a);
	if (archive_read_open_filename(a, archive, 65536) != ARCHIVE_OK)
		return error_set(e, -EBADMSG, "%s: is no tar archive, or cut: %s", archive, archive_error_string(a));
	for (unsigned n = 0; (state = archive_read_next_header(a, &entry)) == ARCHIVE_OK; n++) {
		const char *raw = archive_entry_pathname(entry);
		_cleanup_free_ char *name = raw ? clean_name(raw) : NULL;
		mode_t type = archive_entry_filetype(entry);

		if (n >= ENTRIES_MAX)
			return error_set(e, -EFBIG, "%s: more than %d entries", archive, ENTRIES_MAX);
		if (!name)
			return error_set(e, -EPERM, "%s: \"%s\" would lie outside of its folder; nothing of the archive is used", archive, raw ? raw : "");
		if (!*name)
			continue;
		if ((type != AE_IFREG && type != AE_IFDIR) || archive_entry_hardlink(entry) || archive_entry_symlink(entry))
			return error_set(e, -EPERM, "%s: \"%s\" is a link or a device; only files and folders are taken; nothing of the archive is used", archive, raw);
		if (archive_entry_perm(entry) & 06000)
			return error_set(e, -EPERM, "%s: \"%s\" is set-uid or set-gid; nothing of the archive is used", archive, raw);
		r = one_entry(a, entry, top, name, &left);
		if (r == -EFBIG)
			return error_set(e, r, "%s: unpacks to more than %llu bytes", archive, (unsigned long long)size_max);
		if (r < 0)
			return error_set(e, r, "%s: \"%s\": %s", archive, raw, strerror(-r));
	}
	if (state != ARCHIVE_EOF)
		return error_set(e, -EBADMSG, "%s: is cut or damaged: %s", archive, archive_error_string(a));
	r = strip_first(folder);
	return r < 0 ? error_set(e, r, "%s: %s", folder, strerror(-r)) : 0;
}
