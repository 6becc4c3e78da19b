/* Files that a step makes whole, and the administrator's files that it only looks at. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

int step_file_key(struct sys *s, const char *path, char **ret)
{
	unsigned missing = 0;
	_cleanup_free_ char *folder = strdup(path);
	if (!folder)
		return -ENOMEM;
	for (char *slash = strrchr(folder, '/'); slash && slash != folder; slash = strrchr(folder, '/')) {
		*slash = 0;
		if (sys_exists(s, "%s", folder))
			break;
		missing++;
	}
	char *key = step_text("%s\t%u", path, missing);
	if (!key)
		return -ENOMEM;
	*ret = key;
	return 0;
}

char *step_file_path(const struct op *op)
{
	return strndup(op->key, strcspn(op->key, "\t"));
}

int step_file_read(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_free_ char *path = step_file_path(op);
	if (!path)
		return -ENOMEM;
	char *text = NULL;
	size_t len = 0;
	int r = sys_read(s, path, &text, &len);
	if (r == -ENOENT || r == -ENOTDIR) {
		*ret = NULL;
		return 0;
	}
	if (r)
		return r;
	if (strlen(text) != len) {
		free(text);
		return -EINVAL;
	}
	*ret = text;
	return 0;
}

int step_file_write(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_free_ char *path = step_file_path(op);
	if (!path)
		return -ENOMEM;
	if (value) {
		size_t n = strlen(path);
		bool script = n > 3 && strcmp(path + n - 3, ".sh") == 0;
		return sys_write_file(s, path, value, strlen(value),
				      sys_exists(s, "%s", path) ? 0
				      : script                  ? 0755
								: 0644);
	}
	int r = sys_unlink(s, path);
	if (r && r != -ENOENT)
		return r;
	const char *tab = strchr(op->key, '\t');
	for (unsigned made = tab ? strtoul(tab + 1, NULL, 10) : 0; made; made--) {
		char *slash = strrchr(path, '/');
		if (!slash || slash == path)
			break;
		*slash = 0;
		r = sys_rmdir_empty(s, path);
		if (r && r != -ENOENT)
			return r;
	}
	return 0;
}

int step_add_file(struct sys *s, struct plan *p, struct op_spec *spec, const char *path, struct op **ret)
{
	_cleanup_free_ char *key = NULL, *current = NULL;
	int r = step_file_key(s, path, &key);
	if (r)
		return r;
	r = step_file_read(s, &(struct op){.key = key}, &current);
	spec->key = key;
	spec->current = current;
	_cleanup_free_ char *why = NULL;
	if (r) {
		why = step_text("%s%s: %s", sys_root(s), path, strerror(-r));
		spec->status = OP_FAILED;
		spec->status_text = why;
	}
	return step_add(p, spec, ret);
}

static int lines_of(struct sys *s, const char *path, step_line visit, void *arg)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r = sys_read(s, path, &text, &len);
	if (r)
		return r == -ENOENT || r == -ENOTDIR || r == -EISDIR ? 0 : r;
	unsigned number = 0;
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		number++;
		line += strspn(line, " \t\r");
		size_t n = strlen(line);
		while (n && strchr(" \t\r", line[n - 1]))
			line[--n] = 0;
		if (!n || *line == '#' || *line == ';')
			continue;
		r = visit(arg, path, number, line);
		if (r)
			return r;
	}
	return 0;
}

static void free_list(char ***names)
{
	if (*names)
		sys_list_free(*names);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int step_lines(struct sys *s, const char *path, const char *suffix, step_line visit, void *arg)
{
	if (!suffix)
		return lines_of(s, path, visit, arg);
	_cleanup_(free_list) char **names = NULL;
	int r = sys_list(s, &names, "%s", path);
	if (r)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	size_t n = 0;
	while (names[n])
		n++;
	/* Drop-ins are read in the order of their bytes, not in version order. */
	qsort(names, n, sizeof(*names), by_bytes);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(names[i]), tail = strlen(suffix);
		if (len <= tail || strcmp(names[i] + len - tail, suffix) != 0 || strstr(names[i], "hasten"))
			continue;
		_cleanup_free_ char *file = step_text("%s/%s", path, names[i]);
		if (!file)
			return -ENOMEM;
		r = lines_of(s, file, visit, arg);
		if (r)
			return r;
	}
	return 0;
}
