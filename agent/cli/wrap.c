#include "config.h"

#include "agent/cli/wrap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/sys/cleanup.h"

#define WIDTH_MIN 20

static unsigned width;

/* Bytes of the sign at text: a colour takes no column, a sequence of UTF-8 one. */
static size_t sign(const char *text, const char *end, unsigned *ret_columns)
{
	size_t n = 1;

	*ret_columns = 1;
	if (text[0] == '\033' && text + 1 < end && text[1] == '[') {
		*ret_columns = 0;
		for (n = 2; text + n < end && !(text[n] >= 0x40 && text[n] <= 0x7e);)
			n++;
		return text + n < end ? n + 1 : n;
	}
	while (text + n < end && (text[n] & 0xc0) == 0x80)
		n++;
	return n;
}

/* The column below which it goes on: the last that begins after two blanks in the first half, else a little further in than the line. */
static unsigned hang_of(const char *line, const char *end, unsigned to)
{
	unsigned column = 0, blanks = 0, indent = 0, hang = 0, columns;
	bool any = false;

	for (const char *at = line; at < end && column < to / 2; column += columns) {
		size_t n = sign(at, end, &columns);

		if (*at == ' ') {
			blanks++;
		} else if (columns) {
			if (!any)
				indent = column;
			if (blanks > 1)
				hang = column;
			any = true;
			blanks = 0;
		}
		at += n;
	}
	return hang ? hang : indent + 4 < to / 2 ? indent + 4 : 0;
}

static bool stays_whole(const char *line, const char *end)
{
	static const char *const starts[] = {"| ", "to mend: "};

	while (line < end && *line == ' ')
		line++;
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if ((size_t)(end - line) >= strlen(starts[i]) && !memcmp(line, starts[i], strlen(starts[i])))
			return true;
	return false;
}

char *wrap_line(const char *line, size_t len, unsigned to)
{
	_cleanup_free_ char *text = NULL;
	const char *end = line + len, *word = line;
	unsigned hang = hang_of(line, end, to), column = 0, columns;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	if (!out)
		return NULL;
	if (stays_whole(line, end))
		word = end, fwrite(line, 1, len, out);
	while (word < end) {
		const char *at = word;
		unsigned blanks = 0, here = 0;

		while (at < end && *at == ' ')
			at++, blanks++;
		const char *begin = at;
		for (; at < end && *at != ' '; here += columns)
			at += sign(at, end, &columns);
		/* A word that fits nowhere is broken by the terminal. */
		if (column + blanks + here > to && column > hang && here)
			fprintf(out, "\n%*s", (int)hang, ""), column = hang;
		else
			fprintf(out, "%*s", (int)blanks, ""), column += blanks;
		fwrite(begin, 1, (size_t)(at - begin), out);
		column += here;
		word = at;
	}
	if (fclose(out))
		return NULL;
	return take_ptr(text);
}

static bool put(const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

/* Whole lines, or a last one without its end: a question. */
static ssize_t wrapped(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;
		_cleanup_free_ char *lines = wrap_line(text + at, n, width);

		if (!put(lines ? lines : text + at, lines ? strlen(lines) : n) || (end && !put("\n", 1)))
			return 0;
		at += n + (end != NULL);
	}
	return (ssize_t)len;
}

void wrap_open(void)
{
	struct winsize size;
	FILE *to;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < WIDTH_MIN)
		return;
	width = size.ws_col;
	to = fopencookie(NULL, "w", (cookie_io_functions_t){.write = wrapped});
	if (!to)
		return;
	setvbuf(to, NULL, _IOLBF, BUFSIZ);
	stdout = to;
}
