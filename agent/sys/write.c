/* Changing the machine or a tree: attributes, files, folders, links. */
#include "agent/sys/cleanup.h"
#include "agent/sys/model.h"
#include "agent/sys/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* ---- attributes ---- */

static int write_live(struct sys *s, const char *path, const char *value)
{
	size_t len = strlen(value);
	_cleanup_free_ char *line = malloc(len + 2);
	struct stat st;

	if (!line)
		return -ENOMEM;
	memcpy(line, value, len);
	memcpy(line + len, "\n", 2);
	_cleanup_close_ int fd = root_open(s, path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW, 0);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	/* One write: the kernel takes each as a value of its own, and says here, not at close, what is wrong with it. */
	ssize_t n = write(fd, line, len + 1);

	if (n < 0)
		return -errno;
	return (size_t)n == len + 1 ? 0 : -EIO;
}

static int write_tree(struct sys *s, const char *path, const char *value, const struct change *c)
{
	_cleanup_free_ char *content = NULL;
	struct stat st;
	int r = sys_stat(s, path, &st);

	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -ENXIO;
	/* kernfs and procfs refuse even root where there is no write function (fs/kernfs/file.c, kernfs_fop_open). */
	if (!(st.st_mode & 0222))
		return -EACCES;
	if (c->short_write)
		return 0;
	r = model_write(s, path, value, &content);
	if (!r && content)
		r = tree_put(s, path, content);
	return r;
}

int sys_write_attr(struct sys *s, const char *path, const char *value)
{
	struct change c;

	if (s->kind == SYS_IMAGE)
		return -ENOTCONN;
	int r = change_begin(s, &c);

	if (r < 0)
		return r;
	return change_end(&c, s->kind == SYS_LIVE ? write_live(s, path, value) : write_tree(s, path, value, &c));
}

/* ---- ordinary files ---- */

static int write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!n)
			return -EIO;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* The SELinux label and the access list of the file that is replaced; where they cannot be kept the folder's defaults hold. */
static void keep_attributes(int from, int to)
{
	static const char *const names[] = {"security.selinux", "system.posix_acl_access"};
	char value[4096];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		ssize_t n = fgetxattr(from, names[i], value, sizeof(value));

		if (n > 0 && fsetxattr(to, names[i], value, (size_t)n, 0) < 0)
			continue;
	}
}

/* A link in the place of a file keeps pointing: what it points to is replaced. */
static int replace_target(struct sys *s, const char *path, char **ret)
{
	struct stat st;
	_cleanup_close_ int fd = root_open_path(s, path, O_NOFOLLOW);

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return 0;
	if (!S_ISLNK(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
	int r = sys_realpath(s, ret, "%s", path);

	/* A link that leads nowhere is replaced itself. */
	return r == -ENOENT ? 0 : r;
}

int file_replace(struct sys *s, const char *path, const void *data, size_t len, mode_t mode, bool sync)
{
	_cleanup_free_ char *target = NULL;
	char temporary[NAME_MAX + 1];
	const char *name;
	struct stat st;
	int r = replace_target(s, path, &target);

	if (r < 0)
		return r;
	_cleanup_close_ int folder = root_open_parent(s, target ? target : path, true, &name);

	if (folder < 0)
		return folder;
	if (snprintf(temporary, sizeof(temporary), ".%s.hasten-%d", name, (int)getpid()) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	_cleanup_close_ int old = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool keep = old >= 0 && !fstat(old, &st) && S_ISREG(st.st_mode);

	/* Of a process with this number that died at it. */
	unlinkat(folder, temporary, 0);
	_cleanup_close_ int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	r = write_all(fd, data, len);
	if (!r && keep) {
		if (fchown(fd, st.st_uid, st.st_gid) < 0 && errno != EPERM)
			r = -errno;
		keep_attributes(old, fd);
	}
	if (!r && fchmod(fd, mode ? mode : keep ? st.st_mode & 07777 : 0644) < 0)
		r = -errno;
	if (!r && sync && fsync(fd) < 0)
		r = -errno;
	if (!r && renameat(folder, temporary, folder, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(folder, temporary, 0);
		return r;
	}
	return sync && fsync(folder) < 0 ? -errno : 0;
}

int sys_write_file(struct sys *s, const char *path, const void *data, size_t len, mode_t mode)
{
	struct change c;
	int r = change_begin(s, &c);

	return r < 0 ? r : change_end(&c, file_replace(s, path, data, len, mode, true));
}

int sys_append(struct sys *s, int fd, const void *data, size_t len)
{
	struct change c;
	int r = change_begin(s, &c);

	if (r < 0)
		return r;
	/* Half of a record: what a full disk leaves. */
	if (c.short_write) {
		r = write_all(fd, data, len / 2);
		return change_end(&c, r < 0 ? r : -ENOSPC);
	}
	return change_end(&c, write_all(fd, data, len));
}

/* Makes a name durable that was put into or taken out of a folder. */
static int sync_folder(int folder, int r)
{
	if (r < 0)
		return -errno;
	return fsync(folder) < 0 ? -errno : 0;
}

int sys_unlink(struct sys *s, const char *path)
{
	const char *name;
	struct change c;
	_cleanup_close_ int folder = root_open_parent(s, path, false, &name);

	if (folder < 0)
		return folder;
	int r = change_begin(s, &c);

	return r < 0 ? r : change_end(&c, sync_folder(folder, unlinkat(folder, name, 0)));
}

int sys_rename(struct sys *s, const char *from, const char *to)
{
	const char *name, *new_name;
	struct change c;
	_cleanup_close_ int folder = root_open_parent(s, from, false, &name);

	if (folder < 0)
		return folder;
	_cleanup_close_ int new_folder = root_open_parent(s, to, false, &new_name);

	if (new_folder < 0)
		return new_folder;
	int r = change_begin(s, &c);

	return r < 0 ? r : change_end(&c, sync_folder(new_folder, renameat(folder, name, new_folder, new_name)));
}

int sys_reserve(int fd, off_t offset, off_t len)
{
	if (!fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, len))
		return 0;
	return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ? 0 : -errno;
}

int sys_rmdir_empty(struct sys *s, const char *path)
{
	const char *name;
	struct change c;
	_cleanup_close_ int folder = root_open_parent(s, path, false, &name);

	if (folder < 0)
		return folder;
	_cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int r = change_begin(s, &c);

	if (r < 0)
		return r;
	r = sync_folder(folder, unlinkat(folder, name, AT_REMOVEDIR));
	return change_end(&c, r == -ENOTEMPTY || r == -EEXIST ? 0 : r);
}

int sys_mkdir(struct sys *s, const char *path, mode_t mode)
{
	const char *name;
	struct change c;

	if (sys_is_dir(s, "%s", path))
		return 0;
	int r = change_begin(s, &c);

	if (r < 0)
		return r;
	_cleanup_close_ int folder = root_open_parent(s, path, true, &name);

	if (folder < 0)
		return change_end(&c, folder);
	if (mkdirat(folder, name, mode) < 0)
		return change_end(&c, -errno);
	/* Whatever the umask is. */
	_cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fchmod(fd, mode) < 0)
		return change_end(&c, -errno);
	return change_end(&c, sync_folder(folder, 0));
}

int sys_symlink(struct sys *s, const char *to, const char *path)
{
	const char *name;
	struct change c;
	int r = change_begin(s, &c);

	if (r < 0)
		return r;
	_cleanup_close_ int folder = root_open_parent(s, path, true, &name);

	if (folder < 0)
		return change_end(&c, folder);
	return change_end(&c, sync_folder(folder, symlinkat(to, folder, name)));
}
