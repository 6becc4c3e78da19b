/* The names in a folder, bounded and in an order that a user expects. */
#include "agent/sys/cleanup.h"
#include "agent/sys/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

void sys_list_free(char **names)
{
	if (!names)
		return;
	for (char **p = names; *p; p++)
		free(*p);
	free(names);
}

static int list_folder(DIR *dir, char ***ret)
{
	size_t n = 0, room = 32;
	char **names = calloc(room, sizeof(*names));
	int r = names ? 0 : -ENOMEM;

	while (!r) {
		errno = 0;
		struct dirent *entry = readdir(dir);

		if (!entry) {
			r = -errno;
			break;
		}
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (n == SYS_LIST_MAX) {
			r = -EOVERFLOW;
			break;
		}
		if (n + 1 == room) {
			char **more = realloc(names, room * 2 * sizeof(*names));

			if (!more) {
				r = -ENOMEM;
				break;
			}
			names = more;
			room *= 2;
		}
		names[n] = strdup(entry->d_name);
		if (!names[n]) {
			r = -ENOMEM;
			break;
		}
		names[++n] = NULL;
	}
	if (r < 0) {
		sys_list_free(names);
		return r;
	}
	qsort(names, n, sizeof(*names), by_version);
	*ret = names;
	return 0;
}

int sys_list(struct sys *s, char ***ret, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(path, sizeof(path), format, args);

	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	/* Who lists looks anew: a process that stays sees folders that others replaced. */
	root_forget(s);
	int fd = root_open(s, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);

	if (fd < 0)
		return fd;
	_cleanup_closedir_ DIR *dir = fdopendir(fd);

	if (!dir) {
		int r = -errno;

		close(fd);
		return r;
	}
	return list_folder(dir, ret);
}
