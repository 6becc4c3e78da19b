#include "agent/cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void summarise(struct bench_stat *s, unsigned rounds)
{
	double sorted[ROUNDS_MAX];

	s->n = 0;
	for (unsigned i = 0; i < rounds; i++)
		if (isfinite(s->values[i]))
			sorted[s->n++] = s->values[i];
	if (!s->n) {
		s->median = s->min = s->max = NAN;
		return;
	}
	qsort(sorted, s->n, sizeof(sorted[0]), by_value);
	s->min = sorted[0];
	s->max = sorted[s->n - 1];
	s->median = s->n % 2 ? sorted[s->n / 2] : (sorted[s->n / 2 - 1] + sorted[s->n / 2]) / 2;
}

static double metric_of(const struct bench_run *run, const char *test, enum bench_metric metric)
{
	if (!run->done)
		return NAN;
	switch (metric) {
	case METRIC_SERVER_CPU:
		return run->server_cpu_s;
	case METRIC_CLIENT_CPU:
		return run->client_cpu_s;
	case METRIC_LANE_SHARE:
		return run->net_bytes ? (double)run->lane_bytes / (double)run->net_bytes : NAN;
	default:
		break;
	}
	for (unsigned i = 0; i < run->n_tests; i++) {
		const struct bench_test *t = &run->tests[i];

		if (strcmp(t->id, test))
			continue;
		switch (metric) {
		case METRIC_RATE:
			return t->rate;
		case METRIC_AVG:
			return t->avg_ms;
		case METRIC_P50:
			return t->p50_ms;
		case METRIC_P99:
			return t->p99_ms;
		case METRIC_MAX:
			return t->max_ms;
		default:
			return NAN;
		}
	}
	return NAN;
}

struct bench_stat bench_stat(const struct bench *b, const struct bench_result *r, enum bench_side side,
			     const char *test, enum bench_metric metric)
{
	struct bench_stat s;

	for (unsigned i = 0; i < b->rounds; i++)
		s.values[i] = metric_of(&r->runs[side][i], test, metric);
	summarise(&s, b->rounds);
	return s;
}

struct bench_stat bench_ratio(const struct bench *b, const struct bench_result *r, const char *test)
{
	struct bench_stat s;

	for (unsigned i = 0; i < b->rounds; i++) {
		const struct bench_run *plain = &r->runs[SIDE_PLAIN][i], *fast = &r->runs[SIDE_ACCELERATED][i];
		double ratio = metric_of(fast, test, METRIC_RATE) / metric_of(plain, test, METRIC_RATE);

		if (isnan(ratio))
			ratio = metric_of(plain, test, METRIC_AVG) / metric_of(fast, test, METRIC_AVG);
		/* No connection, so nothing that a lane could make faster. */
		s.values[i] = r->scenario->kind == KIND_INTRINSIC ? NAN : ratio;
	}
	summarise(&s, b->rounds);
	return s;
}

struct bench_stat bench_of_limit(const struct bench *b, const struct bench_result *r, const struct bench_result *limit)
{
	struct bench_stat s;

	for (unsigned i = 0; i < b->rounds; i++)
		s.values[i] = metric_of(&r->runs[SIDE_ACCELERATED][i], "SET", METRIC_RATE) /
			      metric_of(&limit->runs[SIDE_PLAIN][i], "SET", METRIC_RATE);
	summarise(&s, b->rounds);
	return s;
}

const struct bench_run *bench_sample(const struct bench *b, const struct bench_result *r)
{
	for (unsigned i = 0; i < b->rounds; i++)
		for (int side = 0; side < SIDES; side++)
			if (r->runs[side][i].done)
				return &r->runs[side][i];
	return NULL;
}

static const struct bench_run *first_error(const struct bench *b, const struct bench_result *r,
					   enum bench_side *ret_side, unsigned *ret_round)
{
	for (unsigned i = 0; i < b->rounds; i++)
		for (int side = 0; side < SIDES; side++)
			if (r->runs[side][i].error[0]) {
				*ret_side = (enum bench_side)side;
				*ret_round = i;
				return &r->runs[side][i];
			}
	return NULL;
}

enum bench_status bench_status(const struct bench *b, const struct bench_result *r)
{
	enum bench_side side;
	unsigned round;

	if (r->skipped)
		return STATUS_SKIPPED;
	if (first_error(b, r, &side, &round))
		return STATUS_FAILED;
	if (!bench_sample(b, r))
		return STATUS_NOT_RUN;
	if (r->scenario->kind == KIND_LIMIT || r->scenario->kind == KIND_INTRINSIC)
		return STATUS_OK;
	struct bench_stat share = bench_stat(b, r, SIDE_ACCELERATED, "", METRIC_LANE_SHARE);
	/* One round over the kernel is enough to make the row false. */
	if (!share.n)
		return STATUS_NOT_RUN;
	return share.min <= 0 ? STATUS_NOT_ACCELERATED : share.min < 0.5 ? STATUS_PARTLY : STATUS_OK;
}

const char *bench_status_name(enum bench_status status)
{
	static const char *const names[] = {[STATUS_OK] = "ok",
					    [STATUS_PARTLY] = "partly_accelerated",
					    [STATUS_NOT_ACCELERATED] = "not_accelerated",
					    [STATUS_FAILED] = "failed",
					    [STATUS_SKIPPED] = "skipped",
					    [STATUS_NOT_RUN] = "not_run"};

	return names[status];
}

const char *bench_reason(const struct bench *b, const struct bench_result *r, char *buf, size_t size)
{
	enum bench_side side = SIDE_PLAIN;
	unsigned round = 0;
	const struct bench_run *run;
	struct bench_stat share;
	bool state = false;

	switch (bench_status(b, r)) {
	case STATUS_SKIPPED:
		return r->skipped;
	case STATUS_FAILED:
		run = first_error(b, r, &side, &round);
		snprintf(buf, size, "round %u, %s: %s", round + 1, side == SIDE_PLAIN ? "plain" : "accelerated",
			 run->error);
		return buf;
	case STATUS_NOT_ACCELERATED:
		for (unsigned i = 0; i < b->rounds; i++)
			state |= r->runs[SIDE_ACCELERATED][i].has_state;
		return state ? "no byte went by lane in at least one round: the numbers compare plain with plain"
			     : "the server wrote no state file, so nothing shows that a byte went by lane: the numbers "
			       "compare plain with plain";
	case STATUS_PARTLY:
		share = bench_stat(b, r, SIDE_ACCELERATED, "", METRIC_LANE_SHARE);
		snprintf(buf, size, "only %.0f %% of the bytes went by lane in one round", share.min * 100);
		return buf;
	case STATUS_NOT_RUN:
		return "stopped before its first round";
	case STATUS_OK:
		break;
	}
	return "";
}

const struct bench_result *bench_find(const struct bench *b, const char *id)
{
	for (unsigned i = 0; i < b->n_results; i++)
		if (!strcmp(b->results[i].scenario->id, id))
			return &b->results[i];
	return NULL;
}
