/* The readiness checks: each looks at facts (and files), says what it saw, what it expected, why it matters, and the command that mends it.
 * One row in checks.def and one function; groups of related ones share a file. Checks never write. */
#ifndef HASTEN_CHECK_CHECK_H
#define HASTEN_CHECK_CHECK_H
#include <stddef.h>

struct sys;
struct facts;

/* The values are the exit status of hasten check (monitoring plug-ins' scheme). */
enum check_status { CHECK_OK = 0, CHECK_WARNING = 1, CHECK_CRITICAL = 2, CHECK_UNKNOWN = 3, CHECK_SKIPPED /* does not apply here */ };
const char *check_status_name(enum check_status s);

struct finding {
	const char *id;      /* of the row: stable, "queues" */
	char *subject;       /* what it is about: "eth0"; NULL the machine */
	enum check_status status;
	char *observed, *expected, *why, *fix; /* fix: a command, or NULL */
};
struct findings {
	struct finding *finding;
	size_t n;
};
/* Appends; the strings are formatted by the caller and owned by the finding. */
struct finding *finding_add(struct findings *f, const char *id, const char *subject, enum check_status status);
void findings_free(struct findings *f);

struct check {
	const char *id, *group, *title;
	int (*run)(struct sys *s, const struct facts *f, struct findings *ret);
};
const struct check *check_all(size_t *ret_n);
/* names: ids or groups, NULL ended; NULL all. -EINVAL: *ret_unknown names the one that is neither. */
int check_run(struct sys *s, const struct facts *f, const char *const names[], struct findings *ret, const char **ret_unknown);
/* The worst: critical over unknown over warning over OK. */
enum check_status check_worst(const struct findings *f);
#endif
