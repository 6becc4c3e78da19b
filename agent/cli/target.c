#include "agent/cli/target.h"
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/cli.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

int target_failed(const char *command, struct error *e, int err)
{
	_cleanup_free_ char *text = error_text(e, err);

	fprintf(stderr, "%s: %s\n", command, text ? text : strerror(-err));
	error_clear(e);
	return 1;
}

int target_open(const struct target *t, const char *command, struct sys **ret)
{
	struct error e = {0};
	int r = sys_open(t->root, ret, &e);

	if (!r)
		return 0;
	if (!e.message && t->root)
		error_set(&e, r, "%s: %s", t->root, strerror(-r));
	target_failed(command, &e, r);
	return r == -ENOENT || r == -ENOTDIR ? EXIT_USAGE : 1;
}

int target_misused(const char *command, const char *surplus)
{
	_cleanup_free_ char *plain = surplus ? target_plain(surplus) : NULL;

	if (surplus)
		fprintf(stderr, "%s: %s: takes no argument; \"%s --help\" says more\n", command, plain ? plain : "", command);
	else
		fprintf(stderr, "Try \"%s --help\".\n", command);
	return EXIT_USAGE;
}

bool target_colour(FILE *to)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(to == stdout ? STDOUT_FILENO : fileno(to)) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

/* Length of the well-formed UTF-8 sequence at s that is no control character, 0 where there is none. */
static size_t plain_length(const unsigned char *s)
{
	size_t n;

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	if (s[0] == 0xc2 && s[1] < 0xa0)
		return 0; /* C1 controls */
	n = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

char *target_plain(const char *text)
{
	char *out = malloc(strlen(text) + 1), *to = out;

	if (!out)
		return NULL;
	while (*text) {
		size_t n = plain_length((const unsigned char *)text);

		if (!n) {
			*to++ = '?';
			text++;
			continue;
		}
		memcpy(to, text, n);
		to += n;
		text += n;
	}
	*to = '\0';
	return out;
}
