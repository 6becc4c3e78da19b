/* The functions behind the rows of checks.def, and how they write a finding. Each appends what it found about each subject; none at all
 * means that there is nothing of the kind here (shown as skipped). 0, or -errno where it could not look. */
#ifndef HASTEN_CHECK_CHECKS_H
#define HASTEN_CHECK_CHECKS_H
#include "agent/check/check.h"

#define CHECK(symbol, id, group, title) int check_##symbol(struct sys *s, const struct facts *f, struct findings *ret);
#include "agent/check/checks.def"
#undef CHECK

/* By printf; f NULL (no memory) is -ENOMEM. */
int finding_observed(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
int finding_expected(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
int finding_why(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
int finding_fix(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with texts; NULL leaves one out. */
int finding_add_all(struct findings *f, const char *id, const char *subject, enum check_status status, const char *observed,
	const char *expected, const char *why, const char *fix);
#endif
