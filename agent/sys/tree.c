/* What the kernel itself would change in a tree: the content of attributes, files that appear and go. */
#include "agent/sys/cleanup.h"
#include "agent/sys/root.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* In place, not by renaming: the file keeps its number, owner and mode as an attribute does. */
int tree_put(struct sys *s, const char *path, const char *content)
{
	size_t len = strlen(content), done = 0;
	struct stat st;
	_cleanup_close_ int fd = root_open(s, path, O_WRONLY | O_NONBLOCK, 0);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENXIO;
	while (done < len) {
		ssize_t n = pwrite(fd, content + done, len - done, (off_t)done);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		done += (size_t)n;
	}
	return st.st_size > (off_t)len && ftruncate(fd, (off_t)len) < 0 ? -errno : 0;
}

int tree_make(struct sys *s, const char *path, const char *content, mode_t mode)
{
	return file_replace(s, path, content, strlen(content), mode, false);
}

int tree_make_folder(struct sys *s, const char *path)
{
	const char *name;
	_cleanup_close_ int folder = root_open_parent(s, path, true, &name);

	if (folder < 0)
		return folder;
	return mkdirat(folder, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int tree_link(struct sys *s, const char *to, const char *path)
{
	const char *name;
	_cleanup_close_ int folder = root_open_parent(s, path, true, &name);

	if (folder < 0)
		return folder;
	if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return symlinkat(to, folder, name) < 0 ? -errno : 0;
}

/* A folder of attributes is flat but for its own folders: deeper than this is none that the kernel made. */
#define DEPTH_MAX 8

static int remove_at(int folder, const char *name, unsigned depth)
{
	if (!unlinkat(folder, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (!depth)
		return -ELOOP;
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	_cleanup_closedir_ DIR *dir = fdopendir(fd);

	if (!dir) {
		int r = -errno;

		close(fd);
		return r;
	}
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		int r = remove_at(fd, entry->d_name, depth - 1);

		if (r < 0)
			return r;
	}
	return unlinkat(folder, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int tree_remove(struct sys *s, const char *path)
{
	const char *name;
	_cleanup_close_ int folder = root_open_parent(s, path, false, &name);

	if (folder == -ENOENT)
		return 0;
	return folder < 0 ? folder : remove_at(folder, name, DEPTH_MAX);
}
