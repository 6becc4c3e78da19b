#include "agent/cli/bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static double number_or_nan(const char *text)
{
	char *end;
	double v = strtod(text, &end);

	return end != text ? v : NAN;
}

/* The word before the first blank; a second test of that name ("LPUSH (needed to benchmark LRANGE)") gets a number. */
static struct bench_test *add_test(struct bench_run *run, const char *name)
{
	unsigned same = 1;

	if (run->n_tests == TESTS_MAX)
		return NULL;
	struct bench_test *t = &run->tests[run->n_tests];
	size_t n = strcspn(name, " ");
	if (!n)
		return NULL;
	if (n > sizeof(t->id) - 8)
		n = sizeof(t->id) - 8;
	*t = (struct bench_test){.rate = NAN, .avg_ms = NAN, .p50_ms = NAN, .p99_ms = NAN, .max_ms = NAN};
	memcpy(t->id, name, n);
	for (unsigned i = 0; i < run->n_tests; i++)
		if (!strncmp(run->tests[i].id, t->id, n) && (!run->tests[i].id[n] || run->tests[i].id[n] == '#'))
			same++;
	if (same > 1)
		snprintf(t->id + n, sizeof(t->id) - n, "#%u", same);
	run->n_tests++;
	return t;
}

/* Takes one quoted or bare field and moves on; NULL at the end of the line. */
static char *next_field(char **at)
{
	char *p = *at, *field, *end;

	if (!p)
		return NULL;
	if (*p == '"') {
		field = p + 1;
		end = strchr(field, '"');
		if (!end)
			return NULL;
		*end++ = 0;
	} else {
		field = p;
		end = p + strcspn(p, ",");
	}
	*at = *end == ',' ? end + 1 : NULL;
	*end = 0;
	return field;
}

static double *column(struct bench_test *t, const char *name)
{
	if (!strcmp(name, "rps"))
		return &t->rate;
	if (!strcmp(name, "avg_latency_ms"))
		return &t->avg_ms;
	if (!strcmp(name, "p50_latency_ms"))
		return &t->p50_ms;
	if (!strcmp(name, "p99_latency_ms"))
		return &t->p99_ms;
	if (!strcmp(name, "max_latency_ms"))
		return &t->max_ms;
	return NULL;
}

int parse_csv(char *text, struct bench_run *run)
{
	/* Before 6.2 there is no header and the rate is the only column. */
	const char *names[16] = {"test", "rps"};
	unsigned n_names = 2;

	for (char *save, *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		char *at = line, *field;

		if (*line != '"')
			continue;
		char *name = next_field(&at);
		if (!name)
			continue;
		if (!strcmp(name, "test")) {
			for (n_names = 1; n_names < 16 && (field = next_field(&at)); n_names++)
				names[n_names] = field;
			continue;
		}
		struct bench_test *t = add_test(run, name);
		if (!t)
			continue;
		for (unsigned i = 1; i < n_names && (field = next_field(&at)); i++) {
			double *to = column(t, names[i]);

			if (to)
				*to = number_or_nan(field);
		}
	}
	return run->n_tests ? 0 : -EBADMSG;
}

int parse_quiet(char *text, struct bench_run *run)
{
	/* "SET: 86206.90 requests per second, p50=0.295 msec"; what stands before a CR is progress. */
	for (char *save, *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		char *says = strstr(line, " requests per second"), *colon, *p50;

		if (!says)
			continue;
		line += strspn(line, " ");
		colon = strstr(line, ": ");
		if (!colon || colon > says)
			continue;
		*colon = 0;
		struct bench_test *t = add_test(run, line);
		if (!t)
			continue;
		t->rate = number_or_nan(colon + 2);
		p50 = strstr(says, "p50=");
		if (p50)
			t->p50_ms = number_or_nan(p50 + 4);
	}
	return run->n_tests ? 0 : -EBADMSG;
}

int parse_latency(char *text, struct bench_run *run)
{
	double total = 0, samples = 0, highest = 0;

	/* --latency says "min max avg samples" into a pipe; --latency-history, which never ends and keeps its words in
	 * a buffer there, runs on a terminal and says "min: 0, max: 1, avg: 0.17 (97 samples) -- 1.00 seconds range",
	 * each range written over and over before its line ends. */
	for (char *save, *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		double min, max, avg, n;
		bool found = sscanf(line, "%lf %lf %lf %lf", &min, &max, &avg, &n) == 4;

		if (!found && strstr(line, "seconds range")) {
			char *last = NULL;

			for (char *p = line; (p = strstr(p, "min: ")); p++)
				last = p;
			found = last &&
				sscanf(last, "min: %lf, max: %lf, avg: %lf (%lf samples", &min, &max, &avg, &n) == 4;
		}
		if (!found)
			continue;
		total += avg * n;
		samples += n;
		highest = max > highest ? max : highest;
	}
	if (samples < 1)
		return -EBADMSG;
	struct bench_test *t = add_test(run, "PING");
	t->avg_ms = total / samples;
	t->max_ms = highest;
	return 0;
}

int parse_intrinsic(char *text, struct bench_run *run)
{
	double max_us = NAN, ns = NAN;

	for (char *save, *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		char *p = strstr(line, "Max latency so far: ");

		if (p)
			max_us = number_or_nan(p + strlen("Max latency so far: "));
		p = strstr(line, " microseconds / ");
		if (p)
			ns = number_or_nan(p + strlen(" microseconds / "));
	}
	if (isnan(ns))
		return -EBADMSG;
	struct bench_test *t = add_test(run, "LOOP");
	t->avg_ms = ns / 1e6;
	t->max_ms = max_us / 1e3;
	return 0;
}

int parse_memtier(char *text, struct bench_run *run)
{
	char header[512] = "";

	for (char *save, *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		char *words, *titles, *inner, *outer;

		if (!strncmp(line, "Type", 4)) {
			/* Titles of two words become one, so that titles and numbers can be paired. */
			snprintf(header, sizeof(header), "%s", line);
			for (char *p; (p = strcasestr(header, " Latency"));)
				*p = '_';
			continue;
		}
		if (strncmp(line, "Totals", 6) || !header[0])
			continue;
		struct bench_test *t = add_test(run, "Totals");
		if (!t)
			continue;
		titles = strtok_r(header, " \t", &outer);
		words = strtok_r(line, " \t", &inner);
		while ((titles = strtok_r(NULL, " \t", &outer)) && (words = strtok_r(NULL, " \t", &inner))) {
			double v = number_or_nan(words);

			if (!strcasecmp(titles, "Ops/sec"))
				t->rate = v;
			else if (!strcasecmp(titles, "Avg._Latency") || !strcasecmp(titles, "_Latency"))
				t->avg_ms = v;
			else if (!strcasecmp(titles, "p50_Latency"))
				t->p50_ms = v;
			else if (!strcasecmp(titles, "p99_Latency"))
				t->p99_ms = v;
		}
		return isnan(t->rate) ? -EBADMSG : 0;
	}
	return -EBADMSG;
}
