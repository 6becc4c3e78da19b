#include "agent/cli/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at s, 0 where there is none. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n;
	uint32_t c, least;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2, c = s[0] & 0x1f, least = 0x80;
	else if ((s[0] & 0xf0) == 0xe0)
		n = 3, c = s[0] & 0x0f, least = 0x800;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4, c = s[0] & 0x07, least = 0x10000;
	else
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c >= least && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? n : 0;
}

static void write_string(FILE *to, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	putc('"', to);
	while (*s) {
		size_t n = 0;

		while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
			n++;
		if (n) {
			fwrite(s, 1, n, to);
			s += n;
			continue;
		}
		n = utf8_length(s);

		if (!n) {
			fputs("\\ufffd", to);
			s++;
			continue;
		}
		if (*s == '"' || *s == '\\')
			fprintf(to, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(to, "\\u%04x", *s);
		else
			fwrite(s, 1, n, to);
		s += n;
	}
	putc('"', to);
}

static void begin_member(struct json *j, const char *key)
{
	if (!j->depth)
		return;
	if (j->filled[j->depth - 1])
		putc(',', j->to);
	j->filled[j->depth - 1] = true;
	fprintf(j->to, "\n%*s", 2 * (int)j->depth, "");
	if (key && !j->array[j->depth - 1]) {
		write_string(j->to, key);
		fputs(": ", j->to);
	}
}

static bool begun;

bool json_begun(void)
{
	return begun;
}

static void begin(struct json *j, const char *key, bool array)
{
	begun |= j->to == stdout;
	begin_member(j, key);
	assert(j->depth < JSON_DEPTH_MAX);
	putc(array ? '[' : '{', j->to);
	j->filled[j->depth] = false;
	j->array[j->depth++] = array;
}

void json_object_begin(struct json *j, const char *key)
{
	begin(j, key, false);
}

void json_array_begin(struct json *j, const char *key)
{
	begin(j, key, true);
}

void json_end(struct json *j)
{
	assert(j->depth);
	j->depth--;
	if (j->filled[j->depth])
		fprintf(j->to, "\n%*s", 2 * (int)j->depth, "");
	putc(j->array[j->depth] ? ']' : '}', j->to);
	if (!j->depth)
		putc('\n', j->to);
}

void json_string(struct json *j, const char *key, const char *value)
{
	begin_member(j, key);
	write_string(j->to, value);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	begin_member(j, key);
	fprintf(j->to, "%" PRIu64, value);
}

void json_number(struct json *j, const char *key, double value, int decimals)
{
	if (!isfinite(value)) {
		json_null(j, key);
		return;
	}
	begin_member(j, key);
	fprintf(j->to, "%.*f", decimals, value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	begin_member(j, key);
	fputs(value ? "true" : "false", j->to);
}

void json_null(struct json *j, const char *key)
{
	begin_member(j, key);
	fputs("null", j->to);
}
