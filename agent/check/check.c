#include "agent/check/check.h"

#include "agent/check/checks.h"
#include "agent/detect/facts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct check checks[] = {
#define CHECK(symbol, id, group, title) {id, group, title, check_##symbol},
#include "agent/check/checks.def"
#undef CHECK
};
#define N_CHECKS (sizeof(checks) / sizeof(checks[0]))

const char *check_status_name(enum check_status s)
{
	static const char *const names[] = {
		[CHECK_OK] = "ok",
		[CHECK_WARNING] = "warning",
		[CHECK_CRITICAL] = "critical",
		[CHECK_UNKNOWN] = "unknown",
		[CHECK_SKIPPED] = "skipped",
	};
	return names[s];
}

const struct check *check_all(size_t *ret_n)
{
	*ret_n = N_CHECKS;
	return checks;
}

struct finding *finding_add(struct findings *f, const char *id, const char *subject, enum check_status status)
{
	struct finding *more = reallocarray(f->finding, f->n + 1, sizeof(*more));

	if (!more)
		return NULL;
	f->finding = more;
	more += f->n;
	*more = (struct finding){.id = id, .status = status};
	if (subject && !(more->subject = strdup(subject)))
		return NULL;
	f->n++;
	return more;
}

static int set_text(char **place, const char *format, va_list args)
{
	free(*place);
	if (vasprintf(place, format, args) < 0) {
		*place = NULL;
		return -ENOMEM;
	}
	return 0;
}

#define SETTER(field) \
	int finding_##field(struct finding *f, const char *format, ...) \
	{ \
		va_list args; \
		va_start(args, format); \
		int r = f ? set_text(&f->field, format, args) : -ENOMEM; \
		va_end(args); \
		return r; \
	}
SETTER(observed)
SETTER(expected)
SETTER(why)
SETTER(fix)

int finding_add_all(struct findings *f, const char *id, const char *subject, enum check_status status, const char *observed,
	const char *expected, const char *why, const char *fix)
{
	struct finding *n = finding_add(f, id, subject, status);
	int r = n ? 0 : -ENOMEM;

	if (!r && observed)
		r = finding_observed(n, "%s", observed);
	if (!r && expected)
		r = finding_expected(n, "%s", expected);
	if (!r && why)
		r = finding_why(n, "%s", why);
	if (!r && fix)
		r = finding_fix(n, "%s", fix);
	return r;
}

void findings_free(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->finding[i].subject);
		free(f->finding[i].observed);
		free(f->finding[i].expected);
		free(f->finding[i].why);
		free(f->finding[i].fix);
	}
	free(f->finding);
	*f = (struct findings){0};
}

static bool chosen(const struct check *c, const char *const names[])
{
	for (; names && *names; names++)
		if (!strcmp(*names, c->id) || !strcmp(*names, c->group))
			return true;
	return !names;
}

int check_run(struct sys *s, const struct facts *f, const char *const names[], struct findings *ret, const char **ret_unknown)
{
	for (const char *const *name = names; name && *name; name++) {
		const char *const one[] = {*name, NULL};
		size_t i = 0;

		while (i < N_CHECKS && !chosen(&checks[i], one))
			i++;
		if (i == N_CHECKS) {
			*ret_unknown = *name;
			return -EINVAL;
		}
	}
	struct findings all = {0};
	for (size_t i = 0; i < N_CHECKS; i++) {
		if (!chosen(&checks[i], names))
			continue;
		size_t before = all.n;
		int r = checks[i].run(s, f, &all);
		/* A check that could not look says so in the report, so that the others are still told. */
		if (r < 0 && r != -ENOMEM) {
			struct finding *n = finding_add(&all, checks[i].id, NULL, CHECK_UNKNOWN);
			r = finding_observed(n, "cannot be looked at: %s", strerror(-r));
		} else if (!r && all.n == before) {
			r = finding_add(&all, checks[i].id, NULL, CHECK_SKIPPED) ? 0 : -ENOMEM;
		}
		if (r < 0) {
			findings_free(&all);
			return r;
		}
	}
	*ret = all;
	return 0;
}

enum check_status check_worst(const struct findings *f)
{
	static const unsigned char weight[] = {
		[CHECK_SKIPPED] = 0, [CHECK_OK] = 0, [CHECK_WARNING] = 1, [CHECK_UNKNOWN] = 2, [CHECK_CRITICAL] = 3};
	enum check_status worst = CHECK_OK;

	for (size_t i = 0; i < f->n; i++)
		if (weight[f->finding[i].status] > weight[worst])
			worst = f->finding[i].status;
	return worst;
}
