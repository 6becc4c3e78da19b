#include "agent/sys/cpumask.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64

static int reserve(struct cpumask *m, unsigned n_words)
{
	if (n_words <= m->n_words)
		return 0;
	uint64_t *words = realloc(m->words, n_words * sizeof(*words));

	if (!words)
		return -ENOMEM;
	memset(words + m->n_words, 0, (n_words - m->n_words) * sizeof(*words));
	m->words = words;
	m->n_words = n_words;
	return 0;
}

static const char *skip_space(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

/* A decimal number. Too large ones are read to their end, so that the caller can tell a wrong text from a large number. */
static int take_number(const char **p, unsigned *ret)
{
	unsigned long value = 0;

	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	for (; isdigit((unsigned char)**p); (*p)++)
		if (value < CPUMASK_MAX)
			value = value * 10 + (unsigned)(**p - '0');
	*ret = value < CPUMASK_MAX ? (unsigned)value : CPUMASK_MAX;
	return 0;
}

/* "FIRST", "FIRST-LAST", "FIRST-LAST:USED/GROUP": of each GROUP numbers the first USED. */
static int take_range(const char **p, struct cpumask *m)
{
	unsigned first, last, used = 1, group = 1;
	int r;

	r = take_number(p, &first);
	if (r < 0)
		return r;
	last = first;
	if (**p == '-') {
		(*p)++;
		r = take_number(p, &last);
		if (r < 0)
			return r;
		if (**p == ':') {
			(*p)++;
			r = take_number(p, &used);
			if (r < 0)
				return r;
			if (**p != '/')
				return -EINVAL;
			(*p)++;
			r = take_number(p, &group);
			if (r < 0)
				return r;
			if (!used || !group || used > group)
				return -EINVAL;
		}
	}
	if (first > last)
		return -EINVAL;
	if (last >= CPUMASK_MAX)
		return -ERANGE;
	for (unsigned cpu = first; cpu <= last; cpu++)
		if ((cpu - first) % group < used) {
			r = cpumask_set(m, cpu);
			if (r < 0)
				return r;
		}
	return 0;
}

int cpumask_parse_list(const char *text, struct cpumask *ret)
{
	struct cpumask m = {0};
	const char *p = skip_space(text);
	int r = 0;

	while (*p) {
		r = take_range(&p, &m);
		if (r < 0)
			break;
		if (*p == ',') {
			p++;
			if (isdigit((unsigned char)*p))
				continue;
			r = -EINVAL;
			break;
		}
		p = skip_space(p);
		r = *p ? -EINVAL : 0;
		break;
	}
	if (r < 0) {
		cpumask_free(&m);
		return r;
	}
	*ret = m;
	return 0;
}

int cpumask_parse_hex(const char *text, struct cpumask *ret)
{
	const char *begin = skip_space(text), *end = begin + strlen(begin);
	struct cpumask m = {0};
	unsigned bit = 0, digits = 0;
	int r = 0;

	while (end > begin && isspace((unsigned char)end[-1]))
		end--;
	if (begin == end) {
		*ret = m;
		return 0;
	}
	/* From the lowest digit up: a group that is written with fewer than eight digits still takes 32 bits. */
	for (const char *p = end; p-- > begin && !r;) {
		if (*p == ',') {
			if (!digits || p == begin) {
				r = -EINVAL;
				break;
			}
			bit += 32 - 4 * digits;
			digits = 0;
			continue;
		}
		if (!isxdigit((unsigned char)*p) || digits == 8) {
			r = -EINVAL;
			break;
		}
		if (*p == '0') { /* most are, of a thousand CPUs */
			bit += 4;
			digits++;
			continue;
		}
		int c = tolower((unsigned char)*p);
		unsigned value = (unsigned)(isdigit(c) ? c - '0' : c - 'a' + 10);

		for (unsigned i = 0; i < 4 && !r; i++)
			if (value & 1u << i)
				r = cpumask_set(&m, bit + i);
		bit += 4;
		digits++;
	}
	if (r < 0) {
		cpumask_free(&m);
		return r;
	}
	*ret = m;
	return 0;
}

int cpumask_format_list(const struct cpumask *m, char **ret)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return -ENOMEM;
	for (int first = cpumask_next(m, -1); first >= 0;) {
		int last = first, next;

		while ((next = cpumask_next(m, last)) == last + 1)
			last = next;
		fprintf(f, "%d", first);
		if (last > first)
			fprintf(f, "-%d", last);
		if (next >= 0)
			fputc(',', f);
		first = next;
	}
	if (fclose(f) != 0) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}

int cpumask_format_hex(const struct cpumask *m, unsigned nr_cpu_ids, char **ret)
{
	int last = -1;
	char *text = NULL;
	size_t size;

	cpumask_each(cpu, m)
		last = cpu;
	if (nr_cpu_ids && last >= (int)nr_cpu_ids)
		return -EOVERFLOW;
	unsigned bits = nr_cpu_ids ? nr_cpu_ids : last < 0 ? 1 : (unsigned)last + 1;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return -ENOMEM;
	for (unsigned group = (bits + 31) / 32; group-- > 0;) {
		unsigned word = group / 2;
		uint32_t value = word < m->n_words ? (uint32_t)(m->words[word] >> (group % 2 * 32)) : 0;
		/* The first group is as wide as the bits that are left need. */
		unsigned left = bits - group * 32;

		fprintf(f, "%0*x%s", left >= 32 ? 8 : (int)(left + 3) / 4, value, group ? "," : "");
	}
	if (fclose(f) != 0) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}

void cpumask_free(struct cpumask *m)
{
	free(m->words);
	*m = (struct cpumask){0};
}

int cpumask_copy(const struct cpumask *m, struct cpumask *ret)
{
	struct cpumask copy = {0};
	int r = reserve(&copy, m->n_words);

	if (r < 0)
		return r;
	if (m->n_words)
		memcpy(copy.words, m->words, m->n_words * sizeof(*m->words));
	*ret = copy;
	return 0;
}

int cpumask_set(struct cpumask *m, unsigned cpu)
{
	if (cpu >= CPUMASK_MAX)
		return -ERANGE;
	int r = reserve(m, cpu / WORD_BITS + 1);

	if (r < 0)
		return r;
	m->words[cpu / WORD_BITS] |= UINT64_C(1) << cpu % WORD_BITS;
	return 0;
}

void cpumask_clear(struct cpumask *m, unsigned cpu)
{
	if (cpu / WORD_BITS < m->n_words)
		m->words[cpu / WORD_BITS] &= ~(UINT64_C(1) << cpu % WORD_BITS);
}

bool cpumask_test(const struct cpumask *m, unsigned cpu)
{
	return cpu / WORD_BITS < m->n_words && m->words[cpu / WORD_BITS] >> cpu % WORD_BITS & 1;
}

int cpumask_next(const struct cpumask *m, int after)
{
	unsigned cpu = (unsigned)(after + 1);

	for (unsigned word = cpu / WORD_BITS; word < m->n_words; word++, cpu = word * WORD_BITS) {
		uint64_t left = m->words[word] & ~UINT64_C(0) << cpu % WORD_BITS;

		if (left)
			return (int)(word * WORD_BITS) + __builtin_ctzll(left);
	}
	return -1;
}

unsigned cpumask_weight(const struct cpumask *m)
{
	unsigned n = 0;

	for (unsigned i = 0; i < m->n_words; i++)
		n += (unsigned)__builtin_popcountll(m->words[i]);
	return n;
}

bool cpumask_empty(const struct cpumask *m)
{
	return cpumask_next(m, -1) < 0;
}

static uint64_t word_of(const struct cpumask *m, unsigned i)
{
	return i < m->n_words ? m->words[i] : 0;
}

bool cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	return cpumask_subset(a, b) && cpumask_subset(b, a);
}

bool cpumask_subset(const struct cpumask *a, const struct cpumask *of)
{
	for (unsigned i = 0; i < a->n_words; i++)
		if (a->words[i] & ~word_of(of, i))
			return false;
	return true;
}

bool cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	for (unsigned i = 0; i < a->n_words; i++)
		if (a->words[i] & word_of(b, i))
			return true;
	return false;
}

void cpumask_and(struct cpumask *a, const struct cpumask *b)
{
	for (unsigned i = 0; i < a->n_words; i++)
		a->words[i] &= word_of(b, i);
}

void cpumask_andnot(struct cpumask *a, const struct cpumask *b)
{
	for (unsigned i = 0; i < a->n_words; i++)
		a->words[i] &= ~word_of(b, i);
}

int cpumask_or(struct cpumask *a, const struct cpumask *b)
{
	int r = reserve(a, b->n_words);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < b->n_words; i++)
		a->words[i] |= b->words[i];
	return 0;
}
