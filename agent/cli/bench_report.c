#include "agent/cli/bench.h"

#include <math.h>
#include <string.h>

/* A number in eight places at most; "-" where there is none. */
static const char *figure(double v, int decimals, char buf[32])
{
	if (isnan(v))
		snprintf(buf, 32, "-");
	else
		snprintf(buf, 32, "%.*f", decimals, v);
	return buf;
}

static int decimals_of_ms(double v)
{
	return v >= 100 ? 0 : v >= 10 ? 1 : v >= 0.01 ? 2 : 6;
}

static void print_cpu(const struct bench *b, const struct bench_result *r, FILE *to)
{
	char buf[32];
	static const char *const who[] = {"server", "client"};
	static const enum bench_metric metrics[] = {METRIC_SERVER_CPU, METRIC_CLIENT_CPU};

	fputs("    CPU a run:", to);
	for (int i = 0; i < 2; i++) {
		struct bench_stat plain = bench_stat(b, r, SIDE_PLAIN, "", metrics[i]);
		struct bench_stat fast = bench_stat(b, r, SIDE_ACCELERATED, "", metrics[i]);

		fprintf(to, "%s %s %s s", i ? ";" : "", who[i], figure(plain.median, 2, buf));
		if (fast.n)
			fprintf(to, " plain, %s s accelerated", figure(fast.median, 2, buf));
	}
	struct bench_stat share = bench_stat(b, r, SIDE_ACCELERATED, "", METRIC_LANE_SHARE);
	if (share.n && r->scenario->kind != KIND_INTRINSIC)
		fprintf(to, "; by lane %.1f %%", share.median * 100);
	putc('\n', to);
}

static void print_test(const struct bench *b, const struct bench_result *r, const char *test, const char *name,
		       bool ratio_holds, FILE *to)
{
	bool rates = bench_stat(b, r, SIDE_PLAIN, test, METRIC_RATE).n ||
		     bench_stat(b, r, SIDE_ACCELERATED, test, METRIC_RATE).n;
	struct bench_stat ratio = bench_ratio(b, r, test);
	char buf[32];

	fprintf(to, "%-16s %-13s", name, test);
	if (rates) {
		static const struct {
			enum bench_metric metric;
			int width, decimals;
		} columns[] = {{METRIC_RATE, 11, 0}, {METRIC_P50, 9, 3}, {METRIC_P99, 9, 3}};

		for (int i = 0; i < 3; i++)
			for (int side = 0; side < SIDES; side++) {
				struct bench_stat s = bench_stat(b, r, (enum bench_side)side, test, columns[i].metric);

				fprintf(to, " %*s", columns[i].width, figure(s.median, columns[i].decimals, buf));
			}
	} else {
		/* Timed kinds: what they print is a latency. */
		struct bench_stat plain = bench_stat(b, r, SIDE_PLAIN, test, METRIC_AVG);
		struct bench_stat fast = bench_stat(b, r, SIDE_ACCELERATED, test, METRIC_AVG);
		struct bench_stat plain_max = bench_stat(b, r, SIDE_PLAIN, test, METRIC_MAX);
		struct bench_stat fast_max = bench_stat(b, r, SIDE_ACCELERATED, test, METRIC_MAX);
		char a[32], c[32], d[32], text[192];

		snprintf(text, sizeof(text), "ms: mean %s, %s accelerated; worst %s, %s accelerated",
			 figure(plain.median, decimals_of_ms(plain.median), buf),
			 figure(fast.median, decimals_of_ms(fast.median), a), figure(plain_max.median, 2, c),
			 figure(fast_max.median, 2, d));
		fprintf(to, " %-63s", text);
	}
	if (!ratio_holds)
		fprintf(to, "  NOT ACCELERATED\n");
	else if (ratio.n)
		fprintf(to, "  %6.2f  (%.2f - %.2f)\n", ratio.median, ratio.min, ratio.max);
	else
		putc('\n', to);
}

void bench_print_table(const struct bench *b, FILE *to)
{
	char reason[400];

	fprintf(to, "\n%u round%s, plain and accelerated in turn; medians. Redis %s, %u CPUs.\n\n", b->rounds_done,
		b->rounds_done == 1 ? "" : "s", b->server_version, b->cpus);
	fprintf(to, "%-16s %-13s %23s %19s %19s  %s\n", "", "", "requests/s", "p50 ms", "p99 ms",
		"accelerated / plain");
	fprintf(to, "%-16s %-13s %11s %11s %9s %9s %9s %9s  %s\n", "scenario", "test", "plain", "accelerated", "plain",
		"accel.", "plain", "accel.", "median  (range)");
	for (unsigned i = 0; i < b->n_results; i++) {
		const struct bench_result *r = &b->results[i];
		enum bench_status status = bench_status(b, r);
		const struct bench_run *sample = bench_sample(b, r);
		const char *why = bench_reason(b, r, reason, sizeof(reason));

		if (!sample) {
			fprintf(to, "%-16s %s: %s\n", r->scenario->id,
				status == STATUS_SKIPPED  ? "skipped"
				: status == STATUS_FAILED ? "FAILED"
							  : "not run",
				why);
			continue;
		}
		for (unsigned t = 0; t < sample->n_tests; t++)
			print_test(b, r, sample->tests[t].id, t ? "" : r->scenario->id,
				   status != STATUS_NOT_ACCELERATED, to);
		print_cpu(b, r, to);
		if (status != STATUS_OK)
			fprintf(to, "    %s: %s\n",
				status == STATUS_FAILED            ? "FAILED"
				: status == STATUS_NOT_ACCELERATED ? "NOT ACCELERATED"
				: status == STATUS_PARTLY          ? "PARTLY ACCELERATED"
								   : "not complete",
				why);
	}
	const struct bench_result *limit = bench_find(b, "limit"), *one = bench_find(b, "netacc1");
	if (limit && one && bench_status(b, one) == STATUS_OK) {
		struct bench_stat s = bench_of_limit(b, one, limit);

		if (s.n)
			fprintf(to, "\nnetacc1 accelerated reaches %.2f (%.2f - %.2f) of the pipelined limit.\n",
				s.median, s.min, s.max);
	}
}
