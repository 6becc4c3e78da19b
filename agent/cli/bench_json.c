#include "agent/cli/bench.h"
#include "agent/cli/json.h"
#include "config.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>

#define SCHEMA_VERSION 1

static void write_stat(struct json *j, const char *key, const struct bench_stat *s, unsigned rounds, int decimals)
{
	if (!s->n) {
		json_null(j, key);
		return;
	}
	json_object_begin(j, key);
	json_number(j, "median", s->median, decimals);
	json_number(j, "min", s->min, decimals);
	json_number(j, "max", s->max, decimals);
	json_array_begin(j, "rounds");
	for (unsigned i = 0; i < rounds; i++)
		json_number(j, NULL, s->values[i], decimals);
	json_end(j);
	json_end(j);
}

static void write_metric(struct json *j, const char *key, const struct bench *b, const struct bench_result *r,
			 enum bench_side side, const char *test, enum bench_metric metric, int decimals)
{
	struct bench_stat s = bench_stat(b, r, side, test, metric);

	write_stat(j, key, &s, b->rounds, decimals);
}

static const char *const side_names[] = {"plain", "accelerated"};

static void write_test(struct json *j, const struct bench *b, const struct bench_result *r, const char *test,
		       bool ratio_holds)
{
	char id[128];

	snprintf(id, sizeof(id), "%s.%s", r->scenario->id, test);
	json_object_begin(j, NULL);
	json_string(j, "id", id);
	json_string(j, "test", test);
	for (int side = 0; side < SIDES; side++) {
		enum bench_side s = (enum bench_side)side;

		json_object_begin(j, side_names[side]);
		write_metric(j, "requests_per_s", b, r, s, test, METRIC_RATE, 2);
		write_metric(j, "avg_ms", b, r, s, test, METRIC_AVG, 6);
		write_metric(j, "p50_ms", b, r, s, test, METRIC_P50, 3);
		write_metric(j, "p99_ms", b, r, s, test, METRIC_P99, 3);
		write_metric(j, "max_ms", b, r, s, test, METRIC_MAX, 3);
		json_end(j);
	}
	if (ratio_holds) {
		struct bench_stat ratio = bench_ratio(b, r, test);

		write_stat(j, "ratio", &ratio, b->rounds, 3);
	} else {
		json_null(j, "ratio");
	}
	json_end(j);
}

static void write_run_figures(struct json *j, const struct bench *b, const struct bench_result *r, enum bench_side side)
{
	json_object_begin(j, side_names[side]);
	write_metric(j, "server_cpu_s", b, r, side, "", METRIC_SERVER_CPU, 4);
	write_metric(j, "client_cpu_s", b, r, side, "", METRIC_CLIENT_CPU, 4);
	if (side == SIDE_ACCELERATED) {
		write_metric(j, "lane_share", b, r, side, "", METRIC_LANE_SHARE, 4);
		json_array_begin(j, "lane_bytes");
		for (unsigned i = 0; i < b->rounds; i++)
			if (r->runs[side][i].done)
				json_u64(j, NULL, r->runs[side][i].lane_bytes);
		json_end(j);
	}
	json_end(j);
}

static void write_scenario(struct json *j, const struct bench *b, const struct bench_result *r)
{
	enum bench_status status = bench_status(b, r);
	const struct bench_run *sample = bench_sample(b, r);
	const struct bench_result *limit = bench_find(b, "limit");
	char reason[400];

	json_object_begin(j, NULL);
	json_string(j, "id", r->scenario->id);
	json_string(j, "status", bench_status_name(status));
	json_string(j, "why", bench_reason(b, r, reason, sizeof(reason)));
	json_string(j, "command", r->command);
	if (kind_counts_requests(r->scenario->kind))
		json_u64(j, "requests", r->requests);
	else
		json_null(j, "requests");
	json_array_begin(j, "tests");
	for (unsigned t = 0; sample && t < sample->n_tests; t++)
		write_test(j, b, r, sample->tests[t].id, status != STATUS_NOT_ACCELERATED);
	json_end(j);
	write_run_figures(j, b, r, SIDE_PLAIN);
	write_run_figures(j, b, r, SIDE_ACCELERATED);
	if (limit && !strcmp(r->scenario->id, "netacc1") && status != STATUS_NOT_ACCELERATED) {
		struct bench_stat s = bench_of_limit(b, r, limit);

		write_stat(j, "of_limit", &s, b->rounds, 3);
	}
	json_end(j);
}

void bench_print_json(const struct bench *b, FILE *to)
{
	struct json json = {.to = to}, *j = &json;
	struct utsname host = {0};

	uname(&host);
	json_object_begin(j, NULL);
	json_u64(j, "schema_version", SCHEMA_VERSION);
	json_string(j, "id", "hasten.bench.redis");
	json_string(j, "hasten_version", PACKAGE_VERSION);
	json_string(j, "redis_version", b->server_version);
	json_string(j, "kernel", host.release);
	json_string(j, "machine", host.machine);
	json_u64(j, "cpus", b->cpus);
	json_u64(j, "rounds_wanted", b->rounds);
	json_u64(j, "rounds_done", b->rounds_done);
	json_bool(j, "interrupted", b->interrupted);
	json_array_begin(j, "scenarios");
	for (unsigned i = 0; i < b->n_results; i++)
		write_scenario(j, b, &b->results[i]);
	json_end(j);
	json_end(j);
}
