/* Values: what a field takes as it is written, and the canonical text of what was worked out. */
#include "agent/profile/value.h"

#include "agent/profile/parse.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/cpumask.h"
#include "agent/sys/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 512

bool value_is_list(const char *text)
{
	return *text && !text[strspn(text, "0123456789,-")];
}

static bool is_integer(const char *text, int64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)*text) && !(*text == '-' && isdigit((unsigned char)text[1])))
		return false;
	errno = 0;
	*ret = strtoll(text, &end, 10);
	return !*end && !errno;
}

/* "4096 131072 16777216": numbers with blanks between. */
static bool is_integers(const char *text)
{
	char word[24];
	int n = 0, used;
	int64_t number;

	while (sscanf(text, "%23s%n", word, &used) == 1) {
		if (!is_integer(word, &number))
			return false;
		text += used;
		n++;
	}
	return n > 0;
}

int value_check_range(const struct field *field, int64_t value, struct error *e)
{
	if ((!field->low && !field->high) || (value >= field->low && value <= field->high))
		return 0;
	return error_set(e, -ERANGE, "%jd is not between %jd and %jd", (intmax_t)value, (intmax_t)field->low,
			 (intmax_t)field->high);
}

static bool is_word_of(const char *words, const char *text)
{
	size_t n = strlen(text);

	for (const char *w = words; w; w = strchr(w, '|') ? strchr(w, '|') + 1 : NULL)
		if (!strncmp(w, text, n) && (w[n] == '|' || !w[n]))
			return true;
	return false;
}

static bool is_ports(const char *text)
{
	while (isdigit((unsigned char)*text)) {
		char *end;
		unsigned long low = strtoul(text, &end, 10), high = low;

		if (*end == '-' && isdigit((unsigned char)end[1]))
			high = strtoul(end + 1, &end, 10);
		if (low > high || high > UINT16_MAX)
			return false;
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		text = end + 1;
	}
	return false;
}

/* What stands for ".*" goes into a path, a command or a request to the kernel. */
static int check_open_end(const struct field *field, const char *key, struct error *e)
{
	size_t fixed = strlen(field->key);
	const char *rest;
	bool fine = true;

	if (fixed < 2 || strcmp(field->key + fixed - 2, ".*"))
		return 0;
	rest = key + fixed - 1;
	if (!strcmp(field->key, "hugepages.*")) {
		size_t digits = strspn(rest, "0123456789");

		fine = digits && digits <= 10 && *rest != '0' && !strcmp(rest + digits, "kb");
		return fine ? 0 : error_set(e, -EINVAL, "a page size as hugepages.2048kb must stand in the key");
	}
	for (const char *c = rest; *c; c++)
		fine = fine && (isalnum((unsigned char)*c) || *c == '_' || *c == '-' ||
				((*c == '.' || *c == '/') && !strcmp(field->key, "sysctl.*") && c != rest && c[1] &&
				 c[1] != '.' && c[1] != '/'));
	return fine ? 0 : error_set(e, -EINVAL, "the key has a character that no such name has");
}

static int check_expression(const struct field *field, const char *value, int wanted, const char *what, struct error *e)
{
	int kind = wanted, r = expr_check(value, field->scope, &kind, e);

	if (!r && kind != wanted && !(wanted == EXPR_CPUS && kind == EXPR_WORD))
		return error_set(e, -EINVAL, "\"%s\" is not %s", value, what);
	return r;
}

int setting_value_check(const struct field *field, const char *key, enum setting_mode mode, const char *value,
			struct error *e)
{
	_cleanup_(cpumask_free) struct cpumask set = {0};
	int64_t number;
	int r = check_open_end(field, key, e);

	if (r)
		return r;
	if (strlen(value) > EXPR_LENGTH_MAX)
		return error_set(e, -E2BIG, "a value longer than %d characters", EXPR_LENGTH_MAX);
	switch (field->type) {
	case FIELD_INT:
		return is_integer(value, &number) ? value_check_range(field, number, e)
						  : check_expression(field, value, EXPR_INT, "a number", e);
	case FIELD_TEXT:
	case FIELD_INTS:
		if (*value == '=')
			return check_expression(field, value + 1, EXPR_INT, "a number", e);
		if (strlen(value) > TEXT_MAX)
			return error_set(e, -E2BIG, "a value longer than %d characters", TEXT_MAX);
		if (mode == SETTING_AT_LEAST && !strcmp(key, "sysctl." SYSCTL_PORTS))
			return is_ports(value) ? 0 : error_set(e, -EINVAL, "\"%s\" is no list of ports as \"22,8000-8010\"", value);
		if ((mode != SETTING_EXACT || field->type == FIELD_INTS) && !is_integers(value))
			return error_set(e, -EINVAL, "\"%s\" is not a list of numbers, and %s", value,
					 mode == SETTING_EXACT ? "one must stand here"
							       : "only such can be raised or lowered");
		return 0;
	default:
		break;
	}
	if (mode != SETTING_EXACT)
		return error_set(e, -EINVAL, "at-least and at-most are for numbers");
	if (field->type == FIELD_BOOL)
		return check_expression(field, value, EXPR_BOOL, "true or false", e);
	if (field->type == FIELD_WORD)
		return is_word_of(field->words, value)
			   ? 0
			   : error_set(e, -EINVAL, "\"%s\" is none of %s", value, field->words);
	if (!value_is_list(value))
		return check_expression(field, value, EXPR_CPUS, "a set of CPUs", e);
	return cpumask_parse_list(value, &set) ? error_set(e, -EINVAL, "\"%s\" is not a list of CPUs", value) : 0;
}

static int one_blank(const char *text, char **ret)
{
	char *to = malloc(strlen(text) + 1);

	if (!to)
		return -ENOMEM;
	*ret = to;
	for (bool gap = false; *text; text++) {
		if (*text == ' ' || *text == '\t') {
			gap = to > *ret;
			continue;
		}
		if (gap)
			*to++ = ' ';
		gap = false;
		*to++ = *text;
	}
	*to = 0;
	return 0;
}

static int from_list(const char *text, char **ret)
{
	_cleanup_(cpumask_free) struct cpumask set = {0};
	int r = cpumask_parse_list(text, &set);

	return r ? r : cpumask_format_list(&set, ret);
}

int setting_work_out(const struct setting *s, const struct facts *f, const struct nic_facts *nic, int node, char **ret,
		     struct error *e)
{
	struct expr_value v = {0};
	const char *text = s->value;
	int64_t number;
	int r;

	if (s->field->type == FIELD_WORD || (s->field->type == FIELD_INT && is_integer(text, &number)) ||
	    ((s->field->type == FIELD_TEXT || s->field->type == FIELD_INTS) && *text != '='))
		r = one_blank(text, ret);
	else if (s->field->type == FIELD_CPUS && value_is_list(text))
		r = from_list(text, ret);
	else {
		r = expr_eval(*text == '=' ? text + 1 : text, f, nic, node, &v, e);
		if (r)
			return r;
		if (v.kind == EXPR_WORD)
			r = from_list(v.text, ret);
		else if (v.kind == EXPR_CPUS)
			*ret = take_ptr(v.text);
		else
			r = asprintf(ret, "%jd", (intmax_t)v.number) < 0 ? -ENOMEM : 0;
		free(v.text);
	}
	return r ? error_set(e, r, "\"%s\": %s", text, strerror(-r)) : 0;
}
