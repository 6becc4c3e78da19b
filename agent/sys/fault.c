/* HASTEN_SYS_FAULT: which change of a tree fails, and how. */
#include "agent/sys/error.h"
#include "agent/sys/root.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fault {
	unsigned number; /* of the change, from 1; 0: each */
	enum { FAULT_ERROR, FAULT_SHORT, FAULT_KILL } what;
	int err;
};

static int error_number(const char *name, size_t len)
{
	for (int err = 1; err < 134; err++) {
		const char *known = strerrorname_np(err);

		if (known && strlen(known) == len && !strncmp(known, name, len))
			return err;
	}
	return 0;
}

static int parse_one(const char *text, size_t len, struct fault *ret)
{
	const char *equals = memchr(text, '=', len);
	struct fault f = {0};
	char *end;

	if (!equals || equals == text)
		return -EINVAL;
	if (*text != '*') {
		if (*text < '1' || *text > '9')
			return -EINVAL;
		unsigned long number = strtoul(text, &end, 10);

		if (end != equals || number > 1000000)
			return -EINVAL;
		f.number = (unsigned)number;
	} else if (equals != text + 1) {
		return -EINVAL;
	}
	const char *what = equals + 1;
	size_t n = len - (size_t)(what - text);

	if (n == 5 && !strncmp(what, "short", n))
		f.what = FAULT_SHORT;
	else if (n == 4 && !strncmp(what, "kill", n))
		f.what = FAULT_KILL;
	else if (!(f.err = error_number(what, n)))
		return -EINVAL;
	*ret = f;
	return 0;
}

int faults_load(struct sys *s, const char *text, struct error *e)
{
	while (text && *text) {
		size_t len = strcspn(text, ",");
		struct fault *more = realloc(s->faults, (s->n_faults + 1) * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->faults = more;
		int r = parse_one(text, len, &more[s->n_faults]);

		if (r < 0)
			return error_set(e, r,
					 "HASTEN_SYS_FAULT: \"%.*s\" is none of N=ERRNO, N=short, N=kill, *=ERRNO (N from 1)",
					 (int)len, text);
		s->n_faults++;
		text += len + (text[len] == ',');
	}
	return 0;
}

int change_begin(struct sys *s, struct change *ret)
{
	struct change c = {0};

	s->changes++;
	for (size_t i = 0; i < s->n_faults; i++) {
		const struct fault *f = &s->faults[i];

		if (f->number && f->number != s->changes)
			continue;
		if (f->what == FAULT_ERROR)
			return -f->err;
		c.short_write |= f->what == FAULT_SHORT;
		c.kill |= f->what == FAULT_KILL;
	}
	*ret = c;
	return 0;
}

int change_end(const struct change *c, int r)
{
	if (c->kill)
		kill(getpid(), SIGKILL);
	return r;
}
