#include "agent/sys/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fill(struct error *e, int err, const char *file, unsigned line, const char *format, va_list args)
{
	char *message = NULL;

	if (!e || e->message)
		return err;
	/* Without memory for the text the number still goes up. */
	if (vasprintf(&message, format, args) < 0)
		return err;
	e->message = message;
	e->line = line;
	e->file = file ? strdup(file) : NULL;
	return err;
}

int error_set(struct error *e, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(e, err, NULL, 0, format, args);
	va_end(args);
	return err;
}

int error_set_at(struct error *e, int err, const char *file, unsigned line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(e, err, file, line, format, args);
	va_end(args);
	return err;
}

char *error_text(const struct error *e, int err)
{
	char *text = NULL;
	int r;

	if (!e || !e->message)
		return strdup(strerror(err < 0 ? -err : err));
	if (e->file && e->line)
		r = asprintf(&text, "%s:%u: %s", e->file, e->line, e->message);
	else if (e->file)
		r = asprintf(&text, "%s: %s", e->file, e->message);
	else
		r = asprintf(&text, "%s", e->message);
	return r < 0 ? NULL : text;
}

void error_clear(struct error *e)
{
	if (!e)
		return;
	free(e->file);
	free(e->message);
	*e = (struct error){0};
}
