/* What the Redis clients print, as hasten bench reads it, and the figures made of it. */
#include "agent/cli/bench.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct bench_scenario counted = {.id = "netacc1", .kind = KIND_CSV};
static const struct bench_scenario limit = {.id = "limit", .kind = KIND_LIMIT};

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void test_csv(void **state)
{
	char text[] =
	    "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\","
	    "\"p99_latency_ms\",\"max_latency_ms\"\n"
	    "\"LPUSH\",\"10.5\",\"0.5\",\"0.1\",\"0.4\",\"1.0\",\"1.4\",\"2.9\"\n"
	    "\"LPUSH (needed to benchmark LRANGE)\",\"20.5\",\"0.5\",\"0.1\",\"0.3\",\"1.0\",\"1.2\",\"2.9\"\n"
	    "\"LRANGE_100 (first 100 elements)\",\"30\",\"0.5\",\"0.1\",\"0.2\",\"1.0\",\"1.1\",\"2.8\"\n";
	struct bench_run run = {0};

	assert_int_equal(parse_csv(text, &run), 0);
	assert_int_equal(run.n_tests, 3);
	assert_string_equal(run.tests[0].id, "LPUSH");
	assert_string_equal(run.tests[1].id, "LPUSH#2");
	assert_string_equal(run.tests[2].id, "LRANGE_100");
	assert_true(near(run.tests[0].rate, 10.5));
	assert_true(near(run.tests[1].p50_ms, 0.3));
	assert_true(near(run.tests[2].p99_ms, 1.1));
	assert_true(near(run.tests[2].max_ms, 2.8));
}

static void test_csv_without_header(void **state)
{
	char text[] = "\"SET\",\"1234.50\"\n\"GET\",\"99\"\n", cut[] = "\"SET\n", empty[] = "";
	struct bench_run run = {0};

	assert_int_equal(parse_csv(text, &run), 0);
	assert_int_equal(run.n_tests, 2);
	assert_true(near(run.tests[0].rate, 1234.5));
	assert_true(isnan(run.tests[0].p50_ms));
	run.n_tests = 0;
	assert_int_equal(parse_csv(cut, &run), -EBADMSG);
	assert_int_equal(parse_csv(empty, &run), -EBADMSG);
}

static void test_quiet(void **state)
{
	char text[] = "SET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r            \r"
		      "SET: 86206.90 requests per second, p50=0.295 msec\n"
		      "MSET (10 keys): 100 requests per second\n\n";
	struct bench_run run = {0};

	assert_int_equal(parse_quiet(text, &run), 0);
	assert_int_equal(run.n_tests, 2);
	assert_string_equal(run.tests[0].id, "SET");
	assert_true(near(run.tests[0].rate, 86206.9));
	assert_true(near(run.tests[0].p50_ms, 0.295));
	assert_string_equal(run.tests[1].id, "MSET");
	assert_true(isnan(run.tests[1].p50_ms));
}

static void test_latency(void **state)
{
	char once[] = "0 1 0.06 99\n", none[] = "Could not connect\n";
	char history[] = "\033[0G\033[2Kmin: 0, max: 1, avg: 0.50 (2 samples)\033[0G\033[2K"
			 "min: 0, max: 2, avg: 0.10 (30 samples) -- 1.00 seconds range\r\n"
			 "\033[0G\033[2Kmin: 0, max: 1, avg: 0.30 (10 samples) -- 1.01 seconds range\r\n"
			 "\033[0G\033[2Kmin: 0, max: 9, avg: 9.00 (1 samples)";
	struct bench_run run = {0};

	assert_int_equal(parse_latency(once, &run), 0);
	assert_true(near(run.tests[0].avg_ms, 0.06));
	assert_true(near(run.tests[0].max_ms, 1));
	run.n_tests = 0;
	assert_int_equal(parse_latency(history, &run), 0);
	assert_true(near(run.tests[0].avg_ms, 0.15));
	assert_true(near(run.tests[0].max_ms, 2));
	run.n_tests = 0;
	assert_int_equal(parse_latency(none, &run), -EBADMSG);
}

static void test_intrinsic(void **state)
{
	char text[] = "Max latency so far: 1 microseconds.\nMax latency so far: 61 microseconds.\n\n"
		      "22878044 total runs (avg latency: 0.0437 microseconds / 43.71 nanoseconds per run).\n";
	struct bench_run run = {0};

	assert_int_equal(parse_intrinsic(text, &run), 0);
	assert_true(near(run.tests[0].avg_ms, 43.71e-6));
	assert_true(near(run.tests[0].max_ms, 0.061));
}

static void test_memtier(void **state)
{
	char text[] = "ALL STATS\n"
		      "============\n"
		      "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency  "
		      " p99.9 Latency       KB/sec \n"
		      "------------\n"
		      "Sets         100.00          ---          ---         1.00000         0.90000         2.00000   "
		      "      3.00000        10.00 \n"
		      "Gets        1000.00         0.00      1000.00         1.00000         0.90000         2.00000   "
		      "      3.00000        10.00 \n"
		      "Waits          0.00          ---          ---             ---             ---             ---   "
		      "          ---          --- \n"
		      "Totals      1100.50         0.00      1000.00         1.25000         0.95000         2.75000   "
		      "      3.50000        20.00 \n";
	char old[] = "Type        Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec\n"
		     "Totals       500.00         0.00       450.00      2.50000        20.00\n";
	struct bench_run run = {0};

	assert_int_equal(parse_memtier(text, &run), 0);
	assert_true(near(run.tests[0].rate, 1100.5));
	assert_true(near(run.tests[0].avg_ms, 1.25));
	assert_true(near(run.tests[0].p50_ms, 0.95));
	assert_true(near(run.tests[0].p99_ms, 2.75));
	run.n_tests = 0;
	assert_int_equal(parse_memtier(old, &run), 0);
	assert_true(near(run.tests[0].avg_ms, 2.5));
	assert_true(isnan(run.tests[0].p99_ms));
}

static void set_run(struct bench_run *run, double rate, uint64_t lane)
{
	run->done = true;
	run->n_tests = 1;
	run->tests[0] = (struct bench_test){.id = "SET", .rate = rate, .avg_ms = NAN};
	run->net_bytes = 1000;
	run->lane_bytes = lane;
	run->has_state = true;
}

static int make_results(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));

	b->rounds = 3;
	b->n_results = 2;
	b->results = calloc(2, sizeof(*b->results));
	b->results[0].scenario = &counted;
	b->results[1].scenario = &limit;
	for (unsigned i = 0; i < 3; i++) {
		static const double plain[] = {100, 200, 100}, fast[] = {800, 800, 600};

		set_run(&b->results[0].runs[SIDE_PLAIN][i], plain[i], 0);
		set_run(&b->results[0].runs[SIDE_ACCELERATED][i], fast[i], 990);
		set_run(&b->results[1].runs[SIDE_PLAIN][i], 1000, 0);
	}
	*state = b;
	return 0;
}

static int free_results(void **state)
{
	struct bench *b = *state;

	free(b->results);
	free(b);
	return 0;
}

static void test_ratio_pairs_rounds(void **state)
{
	struct bench *b = *state;
	struct bench_stat s = bench_ratio(b, &b->results[0], "SET");

	assert_true(near(s.median, 6) && near(s.min, 4) && near(s.max, 8));
	s = bench_of_limit(b, &b->results[0], &b->results[1]);
	assert_true(near(s.median, 0.8) && near(s.min, 0.6) && near(s.max, 0.8));
	assert_int_equal(bench_status(b, &b->results[0]), STATUS_OK);
	assert_int_equal(bench_status(b, &b->results[1]), STATUS_OK);

	/* A round with one side only has no ratio; of two, the median is the mean. */
	b->results[0].runs[SIDE_PLAIN][2].done = false;
	s = bench_ratio(b, &b->results[0], "SET");
	assert_int_equal(s.n, 2);
	assert_true(near(s.median, 6) && near(s.min, 4) && near(s.max, 8));
}

static void test_one_plain_round_spoils_the_row(void **state)
{
	struct bench *b = *state;
	char reason[400];

	b->results[0].runs[SIDE_ACCELERATED][1].lane_bytes = 0;
	assert_int_equal(bench_status(b, &b->results[0]), STATUS_NOT_ACCELERATED);
	assert_non_null(strstr(bench_reason(b, &b->results[0], reason, sizeof(reason)), "plain with plain"));
	b->results[0].runs[SIDE_ACCELERATED][1].lane_bytes = 300;
	assert_int_equal(bench_status(b, &b->results[0]), STATUS_PARTLY);
	snprintf(b->results[0].runs[SIDE_PLAIN][2].error, 8, "gone");
	assert_int_equal(bench_status(b, &b->results[0]), STATUS_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_csv),
	    cmocka_unit_test(test_csv_without_header),
	    cmocka_unit_test(test_quiet),
	    cmocka_unit_test(test_latency),
	    cmocka_unit_test(test_intrinsic),
	    cmocka_unit_test(test_memtier),
	    cmocka_unit_test_setup_teardown(test_ratio_pairs_rounds, make_results, free_results),
	    cmocka_unit_test_setup_teardown(test_one_plain_round_spoils_the_row, make_results, free_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
