/* Which profiles suit this machine: by facts, and by the programs that are installed on it. */
#include "agent/profile/profile.h"

#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool installed(struct sys *s, const char *program)
{
	static const char *const folders[] = {"/usr/sbin",      "/usr/bin", "/usr/local/sbin",
					      "/usr/local/bin", "/sbin",    "/bin"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (sys_exists(s, "%s/%s", folders[i], program))
			return true;
	/* Debian keeps it where no PATH looks: /usr/lib/postgresql/15/bin */
	if (!strcmp(program, "postgres"))
		return sys_is_dir(s, "/usr/lib/postgresql");
	return false;
}

int profile_recommended(struct sys *s, const struct profile *p, const struct facts *f, const char **ret_why,
			struct error *e)
{
	*ret_why = NULL;
	for (size_t i = 0; i < p->n_recommend; i++) {
		const struct profile_recommend *c = &p->recommend[i];
		struct expr_value v = {0};
		struct error inner = {0};

		if (c->program && !installed(s, c->program))
			continue;
		if (c->condition) {
			int r = expr_eval(c->condition, f, NULL, -1, &v, &inner);

			free(v.text);
			if (r) {
				error_set_at(e, r, p->file, c->line, "recommend: %s",
					     inner.message ? inner.message : strerror(-r));
				error_clear(&inner);
				return r;
			}
			if (!v.number)
				continue;
		}
		*ret_why = c->why;
		return 0;
	}
	return 0;
}
