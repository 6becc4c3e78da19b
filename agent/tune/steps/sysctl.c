/* Files of /proc/sys. Runtime settings: the boot unit applies the set again, no file of sysctl.d is written. What the administrator set
 * in sysctl.d stays theirs. */
#include "agent/tune/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"
#include "agent/tune/steps/ports.h"
#include "agent/tune/steps/step.h"
#include "agent/tune/sysctl_files.h"

#define PREFIX "sysctl."

/* Two forms of one setting: writing one makes the kernel set the other to 0, and a 0 cannot be written back to it
 * (mm/page-writeback.c, dirty_bytes_handler and dirty_ratio_handler; dirty_bytes_min). So each pair is one operation, whose value names the
 * form that is in force: "vm.dirty_ratio=20". */
static const char *const pairs[][2] = {
	{"vm/dirty_ratio", "vm/dirty_bytes"},
	{"vm/dirty_background_ratio", "vm/dirty_background_bytes"},
};
#define N_PAIRS (sizeof(pairs) / sizeof(pairs[0]))

static const char *const *pair_of(const char *path)
{
	for (size_t i = 0; i < N_PAIRS; i++)
		if (!strcmp(path, pairs[i][0]) || !strcmp(path, pairs[i][1]))
			return pairs[i];
	return NULL;
}

static int read_path(struct sys *s, const char *path, char **ret)
{
	_cleanup_free_ char *text = NULL;
	char *canonical;
	int r = sys_read_line(s, &text, "/proc/sys/%s", path);

	if (r)
		return r;
	canonical = sysctl_canonical(text);
	if (!canonical)
		return -ENOMEM;
	*ret = canonical;
	return 0;
}

static int pair_text(const char *path, const char *value, char **ret)
{
	_cleanup_free_ char *name = strdup(path);

	if (!name)
		return -ENOMEM;
	for (char *c = name; *c; c++)
		*c = *c == '/' ? '.' : *c;
	return asprintf(ret, "%s=%s", name, value) < 0 ? -ENOMEM : 0;
}

static int sysctl_read(struct sys *s, const struct op *op, char **ret)
{
	const char *const *pair = pair_of(op->key);
	_cleanup_free_ char *value = NULL;
	int r;

	if (!pair)
		return read_path(s, op->key, ret);
	r = read_path(s, pair[1], &value);
	if (!r && strcmp(value, "0"))
		return pair_text(pair[1], value, ret);
	free(take_ptr(value));
	r = read_path(s, pair[0], &value);
	return r ? r : pair_text(pair[0], value, ret);
}

static int sysctl_write(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_free_ char *path = NULL;
	const char *equals;

	if (!value)
		return -EINVAL; /* the kernel's files are never absent while they have a value */
	if (!pair_of(op->key))
		return asprintf(&path, "/proc/sys/%s", op->key) < 0 ? -ENOMEM : sys_write_attr(s, path, value);
	equals = strchr(value, '=');
	if (!equals)
		return -EINVAL;
	_cleanup_free_ char *name = strndup(value, (size_t)(equals - value)), *form = name ? sysctl_path(name) : NULL;
	if (!form || pair_of(form) != pair_of(op->key))
		return form ? -EINVAL : -ENOMEM;
	return asprintf(&path, "/proc/sys/%s", form) < 0 ? -ENOMEM : sys_write_attr(s, path, equals + 1);
}

/* The next number of a list of them; false at its end, or where something else stands there. */
static bool next_number(const char **at, long long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(*at, &end, 10);
	if (end == *at || errno || (*end && *end != ' '))
		return false;
	*at = *end ? end + 1 : end;
	return true;
}

static bool sysctl_same(const struct op *op, const char *a, const char *b)
{
	(void)op;
	for (;;) {
		long long x, y;
		const char *from_a = a, *from_b = b;

		if (!*a || !*b || !next_number(&a, &x) || !next_number(&b, &y))
			return !strcmp(from_a, from_b);
		if (x != y)
			return false;
	}
}

/* Number by number the larger (or smaller) one. Texts, and lists of another length, are taken as they are wanted. */
static int bounded(enum setting_mode mode, const char *path, const char *base, const char *wanted, char **ret)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_fclose_ FILE *to = NULL;
	const char *a = base, *b = wanted;
	size_t len;

	if (mode == SETTING_EXACT || !base)
		goto exact;
	if (mode == SETTING_AT_LEAST && !strcmp(path, "net/ipv4/ip_local_reserved_ports")) {
		int r = ports_both(base, wanted, ret);

		if (r != -EINVAL)
			return r;
		goto exact;
	}
	to = open_memstream(&text, &len);
	if (!to)
		return -ENOMEM;
	while (*a && *b) {
		long long x, y;

		if (!next_number(&a, &x) || !next_number(&b, &y))
			goto exact;
		fprintf(to, "%s%lld", ftell(to) ? " " : "", (mode == SETTING_AT_LEAST) == (x > y) ? x : y);
	}
	if (*a || *b || fflush(to))
		goto exact;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
exact:
	*ret = strdup(wanted);
	return *ret ? 0 : -ENOMEM;
}

/* The administrator's line about one of the names, where it wants another value. */
static int admin_says(const struct sysctl_files *files, const char *const names[2], const char *path, const char *wanted, struct op *op)
{
	for (size_t i = 0; i < 2 && names[i]; i++) {
		const struct sysctl_line *line = sysctl_files_find(files, names[i]);
		const char *what = strrchr(names[i], '/');

		if (!line || !line->admin || (!strcmp(names[i], path) && sysctl_same(op, line->value, wanted)))
			continue;
		op->status = OP_ADMIN;
		if (asprintf(&op->status_text, "%s:%u sets %s to %s", line->file, line->line, what ? what + 1 : names[i], line->value) < 0) {
			op->status_text = NULL;
			return -ENOMEM;
		}
		return 0;
	}
	return 0;
}

static int copy(char **to, const char *text)
{
	*to = text ? strdup(text) : NULL;
	return text && !*to ? -ENOMEM : 0;
}

static int plan_one(struct sys *s, const struct sysctl_files *files, const struct resolved *v, const char *path, struct plan *p)
{
	const char *const *pair = pair_of(path), *const alone[2] = {path, NULL};
	_cleanup_free_ char *wanted = NULL, *value = NULL;
	struct op *op = plan_add(p);
	const char *base;
	int r;

	if (!op)
		return -ENOMEM;
	op->step = tune_step("sysctl");
	op->life = LIFE_BOOT;
	op->effect.effect = EFFECT_NONE;
	if (asprintf(&op->id, "sysctl/%s", pair ? pair[0] : path) < 0) {
		op->id = NULL;
		return -ENOMEM;
	}
	for (char *c = strchr(op->id, '/') + 1; *c; c++)
		*c = *c == '/' ? '.' : *c == '.' ? '/' : *c;
	if ((r = copy(&op->target, v->key + strlen(PREFIX))) || (r = copy(&op->key, pair ? pair[0] : path)) || (r = copy(&op->why, v->why)) ||
	    (r = copy(&op->source, v->source)) || (r = copy(&op->profile, v->profile)))
		return r;
	if (!(wanted = sysctl_canonical(v->value)))
		return -ENOMEM;
	r = sysctl_read(s, op, &op->current);
	if (r == -ENOMEM)
		return r;
	if (r == -ENOENT || r == -EOPNOTSUPP) {
		op->status = OP_UNSUPPORTED;
		if (asprintf(&op->status_text, "this kernel has no /proc/sys/%s", path) < 0)
			op->status_text = NULL;
	} else if (r) {
		op->status = OP_DENIED;
		if (asprintf(&op->status_text, "/proc/sys/%s: %s", path, strerror(-r)) < 0)
			op->status_text = NULL;
	}
	base = plan_base(p, op->id, op->current);
	if (pair) {
		/* A bound of one form says nothing about the other. */
		const char *equals = base ? strchr(base, '=') : NULL;
		_cleanup_free_ char *name = equals ? strndup(base, (size_t)(equals - base)) : NULL, *form = name ? sysctl_path(name) : NULL;

		r = bounded(v->mode, path, form && !strcmp(form, path) ? equals + 1 : NULL, wanted, &value);
		if (!r)
			r = pair_text(path, value, &op->desired);
	} else {
		r = bounded(v->mode, path, base, wanted, &value);
		if (!r)
			r = copy(&op->desired, value);
	}
	if (r || op->status != OP_PLANNED)
		return r;
	return admin_says(files, pair ? pair : alone, path, value, op);
}

static int sysctl_plan(struct sys *s, const struct facts *f, const struct resolved_set *set, struct plan *p, struct error *e)
{
	struct sysctl_files files = {0};
	int r = 0;
	bool any = false;

	for (size_t i = 0; i < set->n_value && !any; i++)
		any = !strcmp(set->value[i].field->step, "sysctl");
	if (!any)
		return 0;
	r = sysctl_files_read(s, &files);
	if (r)
		return r;
	for (size_t i = 0; i < set->n_value && !r; i++) {
		const struct resolved *v = &set->value[i];
		_cleanup_free_ char *path = NULL;
		const char *const *pair;

		if (strcmp(v->field->step, "sysctl") || strncmp(v->key, PREFIX, strlen(PREFIX)))
			continue;
		path = sysctl_path(v->key + strlen(PREFIX));
		if (!path) {
			r = error_set_at(e, -EINVAL, v->file, v->line, "%s: not the name of a file below /proc/sys", v->key);
			break;
		}
		pair = pair_of(path);
		for (size_t k = 0; pair && k < i && !r; k++) {
			_cleanup_free_ char *other = strncmp(set->value[k].key, PREFIX, strlen(PREFIX)) ? NULL : sysctl_path(set->value[k].key + strlen(PREFIX));

			if (other && pair_of(other) == pair)
				r = error_set_at(e, -EINVAL, v->file, v->line, "%s and %s are two forms of one setting; name one of them", v->key, set->value[k].key);
		}
		if (!r)
			r = plan_one(s, &files, v, path, p);
		if (!r && p->op[p->n_op - 1].status == OP_PLANNED && step_tuned_owns(f, set))
			r = step_status(&p->op[p->n_op - 1], OP_SKIPPED, "tuned sets it, by the profile that hasten makes for it");
	}
	sysctl_files_free(&files);
	return r;
}

const struct step step_sysctl = {
	.name = "sysctl",
	.title = "Kernel settings",
	.life = LIFE_BOOT,
	.under = "/proc/sys",
	.plan = sysctl_plan,
	.read = sysctl_read,
	.write = sysctl_write,
	.same = sysctl_same,
};
