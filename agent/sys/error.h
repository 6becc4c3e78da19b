/* What went wrong, in one line for the user: the thing, the value, the remedy. Functions of the agent return 0 or -errno and, where
 * errno alone would not tell, fill a struct error that the caller gave. Only cli/ and daemon/ print it. */
#ifndef HASTEN_SYS_ERROR_H
#define HASTEN_SYS_ERROR_H
#include <stdarg.h>

struct error {
	char *file;    /* where, or NULL; with line where it has one */
	unsigned line; /* from 1; 0: the whole file */
	char *message; /* no line end, no trailing full stop */
};

/* Fills an empty error (the first message stays: the innermost knows best), and returns err, so that a failing function says
 * return error_set(e, -EINVAL, "..."). e may be NULL. */
int error_set(struct error *e, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
int error_set_at(struct error *e, int err, const char *file, unsigned line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* "FILE:LINE: MESSAGE", "FILE: MESSAGE" or "MESSAGE"; where nothing was set, strerror of -err. Caller frees. */
char *error_text(const struct error *e, int err);
void error_clear(struct error *e); /* frees and empties; NULL is fine */
#endif
