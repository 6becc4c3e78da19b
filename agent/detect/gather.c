#include "agent/detect/gather.h"
#include "config.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

/* Linux 5.15-rc1 showed zero bytes behind these texts: what stands before them counts. */
int gather_set(struct sys *s, int (*parse)(const char *, struct cpumask *), struct cpumask *ret, const char *format,
	       ...)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(path, sizeof(path), format, args);

	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	int r = sys_read(s, path, &text, NULL);

	return r ? r : parse(text, ret);
}

int gather_chosen(const char *text, char **ret)
{
	const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
	char *word;

	if (close)
		word = strndup(open + 1, (size_t)(close - open - 1));
	else if (*text && !strpbrk(text, " \t\n[]"))
		word = strdup(text);
	else
		return -EINVAL;
	if (!word)
		return -ENOMEM;
	*ret = word;
	return 0;
}

/* The beginning of the value of key, or NULL. */
static const char *find_value(const char *text, const char *key, char separator)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *p = line;

		if (strncmp(p, key, len) != 0)
			continue;
		p += len;
		while (*p == ' ' || *p == '\t')
			p++;
		if (*p == separator)
			return p + 1;
	}
	return NULL;
}

int gather_key(const char *text, const char *key, uint64_t *ret)
{
	const char *value = find_value(text, key, ':');
	char *end;

	if (!value)
		return -ENOENT;
	while (*value == ' ' || *value == '\t')
		value++;
	if (!isdigit((unsigned char)*value))
		return -EINVAL;
	errno = 0;
	unsigned long long n = strtoull(value, &end, 10);

	if (errno)
		return -errno;
	*ret = n;
	return 0;
}

int gather_value(const char *text, const char *key, char separator, char **ret)
{
	const char *value = find_value(text, key, separator);

	if (!value)
		return -ENOENT;
	size_t len = strcspn(value, "\n");

	while (len && isspace((unsigned char)*value))
		value++, len--;
	while (len && isspace((unsigned char)value[len - 1]))
		len--;
	/* os-release quotes as a shell does. */
	if (len >= 2 && (*value == '"' || *value == '\'') && value[len - 1] == *value)
		value++, len -= 2;
	char *copy = strndup(value, len);

	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}

bool gather_has(char *const *list, const char *text)
{
	for (; list && *list; list++)
		if (!strcmp(*list, text))
			return true;
	return false;
}

int gather_add(char ***list, const char *text)
{
	size_t n = 0;

	if (gather_has(*list, text))
		return 0;
	while (*list && (*list)[n])
		n++;
	char **more = realloc(*list, (n + 2) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	*list = more;
	more[n] = strdup(text);
	more[n + 1] = NULL;
	return more[n] ? 0 : -ENOMEM;
}

void gather_list_free(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

int gather_trailing(const char *text)
{
	size_t len = strlen(text), at = len;
	int n = 0;

	while (at && isdigit((unsigned char)text[at - 1]))
		at--;
	if (at == len || len - at > 9)
		return -1;
	for (; at < len; at++)
		n = n * 10 + (text[at] - '0');
	return n;
}

/* "ID:CONTROLLERS:PATH" lines of /proc/self/cgroup; version 2 has no controllers and the id 0. */
static int cgroup_path(const char *text, const char *controller, char **ret_path, char **ret_controllers)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		size_t len = strcspn(line, "\n");
		const char *names = memchr(line, ':', len),
			   *path = names ? memchr(names + 1, ':', len - (size_t)(names + 1 - line)) : NULL;

		if (!path)
			continue;
		names++;
		bool found = !controller && names == path;

		for (const char *p = names; controller && p < path; p += strcspn(p, ",:") + 1) {
			found = found || (strlen(controller) == strcspn(p, ",:") && !strncmp(p, controller, strlen(controller)));
		}
		if (!found)
			continue;
		path++;
		*ret_controllers = strndup(names, (size_t)(path - 1 - names));
		*ret_path = strndup(path, len - (size_t)(path - line));
		if (!*ret_controllers || !*ret_path) {
			free(*ret_controllers);
			free(*ret_path);
			return -ENOMEM;
		}
		return 0;
	}
	return -ENOENT;
}

int gather_cgroup(struct sys *s, const char *controller, char **ret, size_t *ret_mount_len, bool *ret_v2)
{
	_cleanup_free_ char *text = NULL, *path = NULL, *controllers = NULL, *mount = NULL;
	int r = sys_read(s, "/proc/self/cgroup", &text, NULL);
	bool v2 = sys_exists(s, "/sys/fs/cgroup/cgroup.controllers");

	if (r < 0)
		return r;
	r = cgroup_path(text, v2 ? NULL : controller, &path, &controllers);
	if (r < 0)
		return r;
	if (v2)
		mount = strdup("/sys/fs/cgroup");
	/* cpu and cpuacct are mounted together, under the order of the kernel's, with a link for each */
	else if (asprintf(&mount, "/sys/fs/cgroup/%s", controllers) < 0)
		mount = NULL;
	if (mount && !v2 && !sys_is_dir(s, "%s", mount)) {
		free(mount);
		if (asprintf(&mount, "/sys/fs/cgroup/%s", controller) < 0)
			mount = NULL;
	}
	if (!mount)
		return -ENOMEM;
	if (!sys_is_dir(s, "%s", mount))
		return -ENOENT;
	/* Inside a container the path may be the host's, which is not mounted here: the mount's top is then ours. */
	bool outside = strstr(path, "..") || !sys_is_dir(s, "%s%s", mount, path);

	if (asprintf(ret, "%s%s", mount, outside || !strcmp(path, "/") ? "" : path) < 0)
		return -ENOMEM;
	*ret_mount_len = strlen(mount);
	*ret_v2 = v2;
	return 0;
}

bool gather_parent(char *path, size_t mount_len)
{
	char *slash = strrchr(path, '/');

	if (!slash || (size_t)(slash - path) < mount_len)
		return false;
	*slash = '\0';
	return true;
}

static bool populated(struct sys *s, const char *format, const char *service)
{
	_cleanup_free_ char *path = NULL, *text = NULL;

	if (asprintf(&path, format, service) < 0)
		return false;
	return !sys_read(s, path, &text, NULL) && strstr(text, "populated 1");
}

bool gather_service(struct sys *s, const char *service, const char *pid_file, const char *comm)
{
	_cleanup_free_ char *name = NULL;
	uint64_t pid;

	if (populated(s, "/sys/fs/cgroup/system.slice/%s.service/cgroup.events", service) ||
	    populated(s, "/sys/fs/cgroup/unified/system.slice/%s.service/cgroup.events", service))
		return true;
	return pid_file && !sys_read_u64(s, &pid, "%s", pid_file) &&
	       !sys_read_line(s, &name, "/proc/%llu/comm", (unsigned long long)pid) && !strcmp(name, comm);
}

struct nic_facts *gather_nic(struct facts *f, const char *name)
{
	for (size_t i = 0; i < f->n_nic; i++)
		if (f->nic[i].name && !strcmp(f->nic[i].name, name))
			return &f->nic[i];
	return NULL;
}
