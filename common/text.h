/* Building text in a fixed buffer: no allocation, no locale, usable from a signal handler.
 * len counts what the whole would take; the buffer is always terminated where size > 0. */
#ifndef HASTEN_TEXT_H
#define HASTEN_TEXT_H
#include <stddef.h>
#include <stdint.h>

struct text {
	char *buf;
	size_t size, len;
};

static inline struct text text_begin(char *buf, size_t size)
{
	if (size)
		buf[0] = 0;
	return (struct text){.buf = buf, .size = size};
}

static inline void text_char(struct text *t, char c)
{
	if (t->len + 1 < t->size) {
		t->buf[t->len] = c;
		t->buf[t->len + 1] = 0;
	}
	t->len++;
}

static inline void text_add(struct text *t, const char *s)
{
	while (*s)
		text_char(t, *s++);
}

/* Bytes of unknown origin, for a message: what is not printable ASCII becomes '?'. */
static inline void text_foreign(struct text *t, const char *s)
{
	for (; *s; s++)
		text_char(t, *s >= ' ' && *s <= '~' ? *s : '?');
}

static inline void text_uint(struct text *t, uint64_t v)
{
	char digits[20];
	unsigned n = 0;

	do
		digits[n++] = '0' + v % 10;
	while (v /= 10);
	while (n)
		text_char(t, digits[--n]);
}

static inline void text_int(struct text *t, int64_t v)
{
	if (v < 0)
		text_char(t, '-');
	text_uint(t, v < 0 ? -(uint64_t)v : (uint64_t)v);
}
#endif
