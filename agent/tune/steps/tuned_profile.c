#include "agent/tune/steps/tuned_profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/ports.h"
#include "agent/tune/sysctl_files.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define DEPTH_MAX 8

static char *trimmed(char *text)
{
	text += strspn(text, " \t\r");
	size_t n = strlen(text);
	while (n && strchr(" \t\r", text[n - 1]))
		text[--n] = 0;
	return text;
}

/* The section's type stands anywhere in it, so it is looked for before its keys are handed out. */
static void type_of(const char *body, char *ret, size_t size)
{
	_cleanup_free_ char *copy =
	    strndup(body, strstr(body, "\n[") ? (size_t)(strstr(body, "\n[") - body) : strlen(body));
	for (char *rest = copy, *line; rest && (line = strsep(&rest, "\n"));) {
		line = trimmed(line);
		if (strncmp(line, "type", 4) == 0 && line[4 + strspn(line + 4, " \t")] == '=')
			snprintf(ret, size, "%s", trimmed(strchr(line, '=') + 1));
	}
}

int tuned_each(const char *text, tuned_visit visit, void *arg)
{
	char type[64] = "";
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "\n");
		_cleanup_free_ char *copy = strndup(at, n);
		if (!copy)
			return -ENOMEM;
		at += n + (at[n] == '\n');
		/* tuned takes "#" for a comment wherever it stands after a blank. */
		for (char *hash = strchr(copy, '#'); hash; hash = strchr(hash + 1, '#'))
			if (hash == copy || strchr(" \t", hash[-1])) {
				*hash = 0;
				break;
			}
		char *line = trimmed(copy), *equals;
		if (*line == '[' && strchr(line, ']')) {
			snprintf(type, sizeof(type), "%.*s", (int)strcspn(line + 1, "]"), line + 1);
			type_of(at, type, sizeof(type));
			continue;
		}
		equals = strchr(line, '=');
		if (!equals || *line == ';')
			continue;
		*equals = 0;
		int r = visit(arg, type, trimmed(line), trimmed(equals + 1));
		if (r)
			return r;
	}
	return 0;
}

/* Caller frees; NULL: not a setting whose file we know. */
static char *path_of(const char *type, const char *key)
{
	if (strcmp(type, "sysctl") == 0) {
		_cleanup_free_ char *path =
		    strcmp(key, "type") == 0 || strcmp(key, "replace") == 0 || strcmp(key, "priority") == 0
			? NULL
			: sysctl_path(key);
		return path ? step_text("/proc/sys/%s", path) : NULL;
	}
	if (strcmp(type, "vm") == 0 &&
	    (strcmp(key, "transparent_hugepages") == 0 || strcmp(key, "transparent_hugepage") == 0))
		return strdup(THP "enabled");
	if (strcmp(type, "vm") == 0 && strcmp(key, "transparent_hugepage.defrag") == 0)
		return strdup(THP "defrag");
	return NULL;
}

void tuned_attrs_free(struct tuned_attrs *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->attr[i].path);
		free(a->attr[i].value);
	}
	free(a->attr);
	*a = (struct tuned_attrs){};
}

static int attr_value(struct sys *s, const char *path, char **ret)
{
	if (strncmp(path, THP, strlen(THP)) == 0)
		return step_thp.read(s, &(struct op){.key = (char *)path}, ret);
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "%s", path);
	if (r)
		return r;
	*ret = sysctl_canonical(text);
	return *ret ? 0 : -ENOMEM;
}

struct reading {
	struct sys *s;
	struct tuned_attrs *to;
	unsigned depth;
	char *include; /* of the text that is being read */
};

static int read_key(void *arg, const char *type, const char *key, const char *value)
{
	struct reading *x = arg;
	if (strcmp(type, "main") == 0 && strcmp(key, "include") == 0) {
		free(x->include);
		x->include = strdup(value);
		return x->include ? 0 : -ENOMEM;
	}
	_cleanup_free_ char *path = path_of(type, key), *now = NULL;
	if (!path)
		return 0;
	for (size_t i = 0; i < x->to->n; i++)
		if (strcmp(x->to->attr[i].path, path) == 0)
			return 0;
	if (attr_value(x->s, path, &now))
		return 0;
	struct tuned_attr *more = reallocarray(x->to->attr, x->to->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	x->to->attr = more;
	more[x->to->n++] = (struct tuned_attr){take_ptr(path), take_ptr(now)};
	return 0;
}

static int read_profile(struct sys *s, const char *name, unsigned depth, struct tuned_attrs *to);

static int read_names(struct sys *s, const char *names, unsigned depth, struct tuned_attrs *to)
{
	_cleanup_free_ char *copy = strdup(names);
	char *save;
	if (!copy)
		return -ENOMEM;
	for (char *name = strtok_r(copy, " ,;\t", &save); name; name = strtok_r(NULL, " ,;\t", &save)) {
		int r = read_profile(s, name, depth, to);
		if (r)
			return r;
	}
	return 0;
}

static int read_profile(struct sys *s, const char *name, unsigned depth, struct tuned_attrs *to)
{
	static const char *const folders[] = {"/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles",
					      "/usr/lib/tuned", NULL};
	/* Names built of variables are not followed. */
	if (depth > DEPTH_MAX || strpbrk(name, "/$"))
		return 0;
	for (size_t i = 0; folders[i]; i++) {
		_cleanup_free_ char *path = step_text("%s/%s/tuned.conf", folders[i], name), *text = NULL;
		size_t len;
		if (!path)
			return -ENOMEM;
		if (sys_read(s, path, &text, &len))
			continue;
		struct reading x = {s, to, depth, NULL};
		int r = tuned_each(text, read_key, &x);
		if (!r && x.include)
			r = read_names(s, x.include, depth + 1, to);
		free(x.include);
		return r;
	}
	return 0;
}

int tuned_attrs_read(struct sys *s, const char *names, struct tuned_attrs *ret)
{
	return read_names(s, names, 0, ret);
}

int tuned_attrs_add(struct sys *s, const char *text, struct tuned_attrs *ret)
{
	struct reading x = {s, ret, 0, NULL};
	int r = tuned_each(text, read_key, &x);
	free(x.include);
	return r;
}

static int include_key(void *arg, const char *type, const char *key, const char *value)
{
	char **ret = arg;
	if (strcmp(type, "main") != 0 || strcmp(key, "include") != 0)
		return 0;
	*ret = strdup(value);
	for (char *c = *ret; c && *c; c++)
		if (*c == ',')
			*c = ' ';
	return 1;
}

char *tuned_included(const char *text)
{
	char *names = NULL;
	tuned_each(text, include_key, &names);
	return names;
}

struct search {
	const char *path, *value;
	struct tuned_holding found;
};

static int holds_key(void *arg, const char *type, const char *key, const char *wanted)
{
	struct search *x = arg;
	_cleanup_free_ char *path = path_of(type, key);
	if (!path || strcmp(path, x->path) != 0)
		return 0;
	bool bound = *wanted == '>' || *wanted == '<';
	x->found.names = true;
	x->found.exact = strcmp(wanted + bound, x->value) == 0;
	x->found.holds = x->found.exact;
	if (bound) {
		long long now = strtoll(x->value, NULL, 10), limit = strtoll(wanted + 1, NULL, 10);
		x->found.holds = *wanted == '>' ? now >= limit : now <= limit;
	}
	return 0;
}

struct tuned_holding tuned_holds(const char *text, const char *path, const char *value)
{
	struct search x = {.path = path, .value = value};
	tuned_each(text, holds_key, &x);
	return x.found;
}

/* ---- the generated profile ---- */

/* tuned compares single numbers only (">", "<"); of several, the larger or smaller of each is worked out here. */
static int bounded(const struct resolved *v, const char *wanted, const char *now, FILE *to)
{
	if (v->mode == SETTING_EXACT) {
		fputs(wanted, to);
		return 0;
	}
	/* tuned takes a text of one character as it is, so a bound of one digit still has its sign before it. */
	if (!strchr(wanted, ' ')) {
		fprintf(to, "%c%s", v->mode == SETTING_AT_LEAST ? '>' : '<', wanted);
		return 0;
	}
	for (bool first = true; *wanted; first = false) {
		char *a, *b;
		long long x = strtoll(wanted, &a, 10), y = strtoll(now, &b, 10);
		if (a == wanted)
			return -EINVAL;
		if (b != now)
			x = (v->mode == SETTING_AT_LEAST) == (y > x) ? y : x;
		fprintf(to, "%s%lld", first ? "" : " ", x);
		wanted = a + strspn(a, " ");
		now = b + strspn(b, " ");
	}
	return 0;
}

static int add_sysctl(struct sys *s, const struct sysctl_files *files, const struct resolved *v, FILE *to, bool *any)
{
	const char *key = step_key_tail(v);
	_cleanup_free_ char *path = sysctl_path(key), *full = path ? step_text("/proc/sys/%s", path) : NULL,
			    *now = NULL;
	_cleanup_free_ char *wanted = sysctl_canonical(v->value);
	if (!wanted)
		return -ENOMEM;
	/* What this kernel lacks, and what the administrator's sysctl.d says (tuned itself lets that win), would only
	 * fail tuned's verify. */
	if (!full || attr_value(s, full, &now))
		return 0;
	const struct sysctl_line *line = sysctl_files_find(files, path);
	if (line && line->admin)
		return 0;
	/* "#" after a blank begins a comment for tuned. */
	if (strstr(wanted, " #"))
		return 0;
	fprintf(to, "%s%s=", *any ? "" : "\n[sysctl]\n", key);
	*any = true;
	_cleanup_free_ char *both = NULL;
	if (v->mode == SETTING_AT_LEAST && !strcmp(key, SYSCTL_PORTS) && !ports_both(now, wanted, &both)) {
		fprintf(to, "%s\n", both);
		return 0;
	}
	int r = bounded(v, wanted, now, to);
	fputc('\n', to);
	return r;
}

int tuned_generate(struct sys *s, const struct facts *f, const struct resolved_set *set, const char *include,
		   char **ret, struct error *e)
{
	struct sysctl_files files = {};
	char *text = NULL;
	size_t len;
	bool any = false;
	int r = sysctl_files_read(s, &files);
	if (r)
		return error_set(e, r, "the administrator's sysctl files cannot be read: %s", strerror(-r));
	FILE *to = open_memstream(&text, &len);
	if (!to) {
		sysctl_files_free(&files);
		return -ENOMEM;
	}
	fputs("# Made by hasten; hasten revert removes it and returns to the profile before.\n[main]\nsummary=The "
	      "profile before, and the settings of hasten\n",
	      to);
	if (*include) {
		fputs("include=", to);
		for (const char *c = include; *c; c++)
			fputc(*c == ' ' ? ',' : *c, to);
		fputc('\n', to);
	}
	step_each(v, set, &step_sysctl)
		if (!r)
			r = add_sysctl(s, &files, v, to, &any);
	const struct resolved *enabled = step_value(set, "thp.enabled", NULL),
			      *defrag = step_value(set, "thp.defrag", NULL);
	const struct resolved *governor = step_value(set, "cpufreq.governor", NULL);
	bool thp = sys_exists(s, THP "enabled") && (enabled || defrag);
	if (thp) {
		fputs("\n[vm]\n", to);
		if (enabled)
			fprintf(to, "transparent_hugepages=%s\n", enabled->value);
		if (defrag)
			fprintf(to, "transparent_hugepage.defrag=%s\n", defrag->value);
	}
	bool frequency = governor && f->cpus.governor;
	if (frequency)
		fprintf(to, "\n[cpu]\ngovernor=%s\n", governor->value);
	sysctl_files_free(&files);
	if (fclose(to) || r) {
		free(text);
		return r ?: -ENOMEM;
	}
	if (!any && !thp && !frequency) {
		free(text);
		text = NULL;
	}
	*ret = text;
	return 0;
}
