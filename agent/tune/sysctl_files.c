#include "agent/tune/sysctl_files.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

/* sysctl.d(5), and /usr/local/lib of systemd 256. */
static const struct {
	const char *path;
	bool admin;
} folders[] = {
	{"/etc/sysctl.d", true},
	{"/run/sysctl.d", true},
	{"/usr/local/lib/sysctl.d", false},
	{"/usr/lib/sysctl.d", false},
	{"/lib/sysctl.d", false},
};
#define N_FOLDERS (sizeof(folders) / sizeof(folders[0]))
#define LINES_MAX 65536

char *sysctl_canonical(const char *text)
{
	char *ret = malloc(strlen(text) + 1), *to = ret;

	if (!ret)
		return NULL;
	for (const char *c = text; *c; c++) {
		if (!strchr(" \t\r\n", *c))
			*to++ = *c;
		else if (to != ret && to[-1] != ' ')
			*to++ = ' ';
	}
	if (to != ret && to[-1] == ' ')
		to--;
	*to = 0;
	return ret;
}

char *sysctl_path(const char *name)
{
	_cleanup_free_ char *path = strdup(name);
	size_t first = strcspn(name, "./");

	if (!path)
		return NULL;
	if (name[first] == '.')
		for (char *c = path; *c; c++)
			*c = *c == '.' ? '/' : *c == '/' ? '.' : *c;
	for (const char *part = path;; part++) {
		size_t n = strcspn(part, "/");

		if (!n || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
			return NULL;
		part += n;
		if (!*part)
			return take_ptr(path);
	}
}

static int add_line(struct sysctl_files *f, const char *name, size_t name_len, const char *value, const char *file, unsigned line, bool admin)
{
	_cleanup_free_ char *key = strndup(name, name_len), *path = NULL;
	struct sysctl_line *to;

	if (!key)
		return -ENOMEM;
	path = sysctl_path(key);
	if (!path || f->n_line >= LINES_MAX)
		return 0;
	if (!(f->n_line & (f->n_line - 1))) {
		to = reallocarray(f->line, f->n_line ? f->n_line * 2 : 1, sizeof(*to));
		if (!to)
			return -ENOMEM;
		f->line = to;
	}
	to = &f->line[f->n_line];
	*to = (struct sysctl_line){.file = file, .line = line, .admin = admin, .pattern = strpbrk(path, "*?[") != NULL};
	if (value && !(to->value = sysctl_canonical(value)))
		return -ENOMEM;
	to->path = take_ptr(path);
	f->n_line++;
	return 0;
}

static int read_file(struct sys *s, struct sysctl_files *f, const char *file, bool admin)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	unsigned line = 0;

	if (sys_read(s, file, &text, &len) || memchr(text, 0, len))
		return 0;
	for (char *at = text, *next; at; at = next) {
		char *equals, *end;
		int r;

		next = strchr(at, '\n');
		if (next)
			*next++ = 0;
		line++;
		at += strspn(at, " \t\r");
		if (!*at || *at == '#' || *at == ';')
			continue;
		bool minus = *at == '-';
		if (minus)
			at += 1 + strspn(at + 1, " \t");
		equals = strchr(at, '=');
		if (!equals && !minus)
			continue;
		end = equals ? equals : at + strlen(at);
		while (end > at && strchr(" \t\r", end[-1]))
			end--;
		r = add_line(f, at, (size_t)(end - at), equals ? equals + 1 : NULL, file, line, admin);
		if (r)
			return r;
	}
	return 0;
}

struct place {
	char *name;
	unsigned folder;
};

static int by_name(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (int)x->folder - (int)y->folder;
}

static int add_file(struct sys *s, struct sysctl_files *f, const char *path, bool admin)
{
	_cleanup_free_ char *to = NULL;
	char *name;

	/* A link to /dev/null masks the file of that name: it counts, with nothing in it. */
	if (!sys_readlink(s, &to, "%s", path) && !strcmp(to, "/dev/null"))
		return 0;
	name = strdup(path);
	if (!name)
		return -ENOMEM;
	f->file[f->n_file++] = name;
	return read_file(s, f, name, admin);
}

int sysctl_files_read(struct sys *s, struct sysctl_files *ret)
{
	struct sysctl_files f = {0};
	struct place *place = NULL;
	size_t n_place = 0;
	int r = 0;

	for (unsigned i = 0; i < N_FOLDERS && !r; i++) {
		char **names = NULL;

		if (sys_list(s, &names, "%s", folders[i].path))
			continue;
		for (size_t k = 0; names[k] && !r; k++) {
			size_t n = strlen(names[k]);
			struct place *grown;

			if (n < 6 || strcmp(names[k] + n - 5, ".conf"))
				continue;
			grown = reallocarray(place, n_place + 1, sizeof(*place));
			if (!grown) {
				r = -ENOMEM;
				break;
			}
			place = grown;
			place[n_place] = (struct place){strdup(names[k]), i};
			if (!place[n_place].name)
				r = -ENOMEM;
			else
				n_place++;
		}
		sys_list_free(names);
	}
	if (!r && !(f.file = calloc(n_place + 2, sizeof(*f.file))))
		r = -ENOMEM;
	if (!r && n_place)
		qsort(place, n_place, sizeof(*place), by_name);
	for (size_t i = 0; i < n_place && !r; i++) {
		_cleanup_free_ char *path = NULL;

		if (i && !strcmp(place[i].name, place[i - 1].name))
			continue;
		if (asprintf(&path, "%s/%s", folders[place[i].folder].path, place[i].name) < 0) {
			path = NULL;
			r = -ENOMEM;
		} else {
			r = add_file(s, &f, path, folders[place[i].folder].admin);
		}
	}
	if (!r)
		r = add_file(s, &f, "/etc/sysctl.conf", true);
	for (size_t i = 0; i < n_place; i++)
		free(place[i].name);
	free(place);
	if (r) {
		sysctl_files_free(&f);
		return r;
	}
	*ret = f;
	return 0;
}

void sysctl_files_free(struct sysctl_files *f)
{
	for (size_t i = 0; i < f->n_line; i++) {
		free(f->line[i].path);
		free(f->line[i].value);
	}
	free(f->line);
	for (size_t i = 0; i < f->n_file; i++)
		free(f->file[i]);
	free(f->file);
	*f = (struct sysctl_files){0};
}

const struct sysctl_line *sysctl_files_find(const struct sysctl_files *f, const char *path)
{
	const struct sysctl_line *by_pattern = NULL;

	for (size_t i = f->n_line; i-- > 0;) {
		const struct sysctl_line *line = &f->line[i];

		if (!line->pattern && !strcmp(line->path, path))
			return line->value ? line : NULL; /* "-name": taken out of the patterns, set by nobody */
		if (line->pattern && line->value && !by_pattern && !fnmatch(line->path, path, FNM_PATHNAME))
			by_pattern = line;
	}
	return by_pattern;
}
