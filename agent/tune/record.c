#include "agent/tune/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sys/cleanup.h"

#define CHILDREN_MAX (1u << 20)

struct reader {
	const char *at, *end;
	const char *why;
	unsigned line;
};

static int bad(struct reader *r, const char *why)
{
	if (!r->why)
		r->why = why;
	return -EBADMSG;
}

static void skip_blanks(struct reader *r)
{
	for (; r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n'); r->at++)
		r->line += *r->at == '\n';
}

static int hex4(struct reader *r, unsigned *ret)
{
	unsigned value = 0;

	if (r->end - r->at < 4)
		return bad(r, "cut inside of an escape");
	for (int i = 0; i < 4; i++) {
		char c = *r->at++;
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

		if (digit < 0)
			return bad(r, "an escape without four hexadecimal digits");
		value = value << 4 | (unsigned)digit;
	}
	*ret = value;
	return 0;
}

static char *put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	return to;
}

static int read_escape(struct reader *r, char **to)
{
	static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
	const char *simple;
	unsigned c, low;
	int err;

	if (r->at >= r->end)
		return bad(r, "cut inside of an escape");
	if (*r->at != 'u') {
		simple = *r->at ? strchr(from, *r->at) : NULL;
		if (!simple)
			return bad(r, "an unknown escape");
		r->at++;
		*(*to)++ = is[simple - from];
		return 0;
	}
	r->at++;
	if ((err = hex4(r, &c)))
		return err;
	if (!c)
		return bad(r, "a zero byte in a text");
	if (c >= 0xdc80 && c <= 0xdcff) {
		*(*to)++ = (char)(c - 0xdc00);
		return 0;
	}
	if (c >= 0xd800 && c <= 0xdbff) {
		if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
			return bad(r, "half of a surrogate pair");
		r->at += 2;
		if ((err = hex4(r, &low)))
			return err;
		if (low < 0xdc00 || low > 0xdfff)
			return bad(r, "half of a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (c >= 0xdc00 && c <= 0xdfff) {
		return bad(r, "half of a surrogate pair");
	}
	*to = put_utf8(*to, c);
	return 0;
}

static int read_text(struct reader *r, char **ret)
{
	_cleanup_free_ char *text = NULL;
	const char *close = ++r->at;
	char *to;
	int err;

	for (; close < r->end && *close != '"'; close++)
		if (*close == '\\' && close + 1 < r->end)
			close++;
	if (close >= r->end)
		return bad(r, "a text without its end");
	to = text = malloc((size_t)(close - r->at) + 1); /* an escape is longer than what it stands for */
	if (!text)
		return -ENOMEM;
	while (r->at < close) {
		if ((unsigned char)*r->at < 0x20)
			return bad(r, "a control character in a text");
		if (*r->at != '\\') {
			*to++ = *r->at++;
			continue;
		}
		r->at++;
		if ((err = read_escape(r, &to)))
			return err;
	}
	r->at = close + 1;
	*to = 0;
	*ret = take_ptr(text);
	return 0;
}

static int read_value(struct reader *r, unsigned depth, struct record *ret);

static int read_children(struct reader *r, unsigned depth, struct record *ret)
{
	bool map = ret->kind == RECORD_MAP;
	char close = map ? '}' : ']';
	int err;

	if (depth >= RECORD_DEPTH_MAX)
		return bad(r, "nested too deep");
	r->at++;
	skip_blanks(r);
	if (r->at < r->end && *r->at == close) {
		r->at++;
		return 0;
	}
	for (;;) {
		struct record *child;

		if (ret->n_child >= CHILDREN_MAX)
			return bad(r, "too many values");
		if (!(ret->n_child & (ret->n_child - 1))) {
			child = reallocarray(ret->child, ret->n_child ? ret->n_child * 2 : 1, sizeof(*child));
			if (!child)
				return -ENOMEM;
			ret->child = child;
		}
		child = &ret->child[ret->n_child++];
		*child = (struct record){0};
		skip_blanks(r);
		if (map) {
			if (r->at >= r->end || *r->at != '"')
				return bad(r, "a name expected");
			if ((err = read_text(r, &child->key)))
				return err;
			skip_blanks(r);
			if (r->at >= r->end || *r->at++ != ':')
				return bad(r, "\":\" expected");
		}
		if ((err = read_value(r, depth + 1, child)))
			return err;
		skip_blanks(r);
		if (r->at >= r->end)
			return bad(r, "cut");
		if (*r->at == close) {
			r->at++;
			return 0;
		}
		if (*r->at++ != ',')
			return bad(r, "\",\" expected");
	}
}

static int read_value(struct reader *r, unsigned depth, struct record *ret)
{
	static const struct {
		const char *text;
		int kind;
	} words[] = {{"null", RECORD_NULL}, {"true", RECORD_TRUE}, {"false", RECORD_FALSE}};
	const char *from;

	skip_blanks(r);
	if (r->at >= r->end)
		return bad(r, "cut");
	switch (*r->at) {
	case '{':
		ret->kind = RECORD_MAP;
		return read_children(r, depth, ret);
	case '[':
		ret->kind = RECORD_LIST;
		return read_children(r, depth, ret);
	case '"':
		ret->kind = RECORD_TEXT;
		return read_text(r, &ret->text);
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].text);

		if ((size_t)(r->end - r->at) >= n && !memcmp(r->at, words[i].text, n)) {
			r->at += n;
			ret->kind = words[i].kind;
			return 0;
		}
	}
	from = r->at;
	while (r->at < r->end && *r->at && strchr("+-.0123456789eE", *r->at))
		r->at++;
	if (from == r->at)
		return bad(r, "not a value of JSON");
	ret->kind = RECORD_NUMBER;
	ret->text = strndup(from, (size_t)(r->at - from));
	return ret->text ? 0 : -ENOMEM;
}

int record_parse(const char *text, size_t len, struct record *ret, const char **ret_why, unsigned *ret_line)
{
	struct reader r = {.at = text, .end = text + len, .line = 1};
	struct record value = {0};
	int err = read_value(&r, 0, &value);

	if (!err) {
		skip_blanks(&r);
		if (r.at != r.end)
			err = bad(&r, "something after the end");
	}
	if (err) {
		record_free(&value);
		if (ret_why)
			*ret_why = r.why ? r.why : "no memory";
		if (ret_line)
			*ret_line = r.line;
		return err;
	}
	*ret = value;
	return 0;
}

void record_free(struct record *r)
{
	for (size_t i = 0; i < r->n_child; i++)
		record_free(&r->child[i]);
	free(r->child);
	free(r->key);
	free(r->text);
	*r = (struct record){0};
}

const struct record *record_get(const struct record *map, const char *key)
{
	if (map->kind == RECORD_MAP)
		for (size_t i = 0; i < map->n_child; i++)
			if (!strcmp(map->child[i].key, key))
				return &map->child[i];
	return NULL;
}

const char *record_text(const struct record *map, const char *key)
{
	const struct record *r = record_get(map, key);

	return r && r->kind == RECORD_TEXT ? r->text : NULL;
}

bool record_true(const struct record *map, const char *key)
{
	const struct record *r = record_get(map, key);

	return r && r->kind == RECORD_TRUE;
}

int record_u64(const struct record *map, const char *key, uint64_t *ret)
{
	const struct record *r = record_get(map, key);
	char *end;

	if (!r)
		return -ENOENT;
	if (r->kind != RECORD_NUMBER || r->text[0] == '-')
		return -EINVAL;
	errno = 0;
	unsigned long long value = strtoull(r->text, &end, 10);
	if (errno)
		return -ERANGE;
	if (*end || end == r->text)
		return -EINVAL;
	*ret = value;
	return 0;
}

int record_texts(const struct record *map, const char *key, char ***ret)
{
	const struct record *r = record_get(map, key);
	char **texts;

	if (!r)
		return -ENOENT;
	if (r->kind != RECORD_LIST)
		return -EINVAL;
	texts = calloc(r->n_child + 1, sizeof(*texts));
	if (!texts)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_child; i++) {
		texts[i] = r->child[i].kind == RECORD_TEXT ? strdup(r->child[i].text) : NULL;
		if (!texts[i]) {
			int err = r->child[i].kind == RECORD_TEXT ? -ENOMEM : -EINVAL;

			texts_free(texts);
			return err;
		}
	}
	*ret = texts;
	return 0;
}

void texts_free(char **texts)
{
	for (size_t i = 0; texts && texts[i]; i++)
		free(texts[i]);
	free(texts);
}

int texts_copy(const char *const *texts, char ***ret)
{
	size_t n = 0;
	char **copy;

	while (texts && texts[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++)
		if (!(copy[i] = strdup(texts[i]))) {
			texts_free(copy);
			return -ENOMEM;
		}
	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}

bool texts_equal(const char *const *a, const char *const *b)
{
	for (;; a++, b++) {
		if (!*a || !*b)
			return *a == *b;
		if (strcmp(*a, *b))
			return false;
	}
}

/* Length of the valid UTF-8 sequence at s, 0 where there is none. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : s[0] >= 0xe0 && s[0] <= 0xef ? 3 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

void record_write(FILE *to, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	if (!s) {
		fputs("null", to);
		return;
	}
	putc('"', to);
	while (*s) {
		size_t n = utf8_length(s);

		if (!n)
			fprintf(to, "\\udc%02x", *s);
		else if (*s == '"' || *s == '\\')
			fprintf(to, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(to, "\\u%04x", *s);
		else
			fwrite(s, 1, n, to);
		s += n ? n : 1;
	}
	putc('"', to);
}

uint32_t record_crc(uint32_t crc, const void *data, size_t len)
{
	static uint32_t table[256];
	const unsigned char *p = data;

	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int k = 0; k < 8; k++)
				c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
			table[i] = c;
		}
	crc = ~crc;
	while (len--)
		crc = table[(crc ^ *p++) & 0xff] ^ crc >> 8;
	return ~crc;
}
